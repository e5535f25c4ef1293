"""Predicts times of untimed configurations from timed ones.

A Gaussian process over the logarithm of the time (C. Rasmussen and C. Williams, "Gaussian Processes
for Machine Learning", 2006, algorithm 2.1) and the expected improvement (D. Jones, M. Schonlau and
W. Welch, "Efficient Global Optimization of Expensive Black-Box Functions", 1998): few
configurations are timed, and each timing is exact to a percent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NOISE = 0.005
"""Noise of a timing, as a share of the time."""
LENGTHS = (0.25, 0.5, 1.0, 2.0)
"""Length scale over which times are correlated; an axis has length 1, and so has any pair of
words."""
ADDED = 0.8
"""Share of the variance from individual axes; the rest comes from all axes together."""
SPREAD = 0.4
"""Standard deviation of the logarithm of times, until there are enough to estimate it."""
ENOUGH = 4


@dataclass(frozen=True)
class Surrogate:
    """``points`` of a grid of ``sizes``; ``ordered`` axes are those of numbers."""

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    points: Sequence[tuple[int, ...]]

    def improvements(self, times: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
        """Expected improvement of the best time by each point not in ``times``, as a share of
        it."""
        known = list(times)
        rest = [point for point in self.points if point not in times]
        if not known or not rest:
            return dict.fromkeys(rest, 0.0)
        logs = np.log(np.array([times[point] for point in known]))
        mean, spread = float(logs.mean()), max(float(logs.std()), SPREAD if len(known) < ENOUGH else 0.02)
        scaled, distances = (logs - mean) / spread, self._distances(known + rest)
        length = max(LENGTHS, key=lambda size: _evidence(_kernel(distances, size)[: len(known), : len(known)], scaled))
        covariance = _kernel(distances, length)
        inner, cross = covariance[: len(known), : len(known)], covariance[len(known) :, : len(known)]
        factor = np.linalg.cholesky(_noisy(inner))
        weights = np.linalg.solve(factor.T, np.linalg.solve(factor, scaled))
        expected = cross @ weights
        explained = np.square(np.linalg.solve(factor, cross.T)).sum(axis=0)
        sigma = np.sqrt(np.maximum(1.0 - explained, 1e-9))
        gains = _expected_gain(float(scaled.min()) - expected, sigma) * spread
        return {point: float(gain) for point, gain in zip(rest, gains, strict=True)}

    def _distances(self, points: Sequence[tuple[int, ...]]) -> Floats:
        """(axes, points, points): between 0 and 1."""
        places = np.array(points, dtype=float).T
        apart = np.abs(places[:, :, None] - places[:, None, :])
        scale = np.array([max(size - 1, 1) for size in self.sizes], dtype=float)[:, None, None]
        words = ~np.array(self.ordered, dtype=bool)[:, None, None]
        return np.asarray(np.where(words, (apart > 0).astype(float), apart / scale))


def _kernel(distances: Floats, length: float) -> Floats:
    """Covariance: sum of individual axes and of all axes jointly."""
    near = np.exp(-0.5 * np.square(distances / length))
    return np.asarray(ADDED * near.mean(axis=0) + (1.0 - ADDED) * near.prod(axis=0))


def _noisy(covariance: Floats) -> Floats:
    return np.asarray(covariance + (NOISE**2 + 1e-8) * np.eye(len(covariance)))


def _evidence(covariance: Floats, values: Floats) -> float:
    """Logarithm of the marginal likelihood, up to a constant."""
    factor = np.linalg.cholesky(_noisy(covariance))
    return float(-0.5 * np.square(np.linalg.solve(factor, values)).sum() - np.log(np.diag(factor)).sum())


def _expected_gain(better: Floats, sigma: Floats) -> Floats:
    ratio = better / sigma
    below = 0.5 * (1.0 + np.array([math.erf(value / math.sqrt(2.0)) for value in ratio]))
    return np.asarray(better * below + sigma * np.exp(-0.5 * np.square(ratio)) / math.sqrt(2.0 * math.pi))
