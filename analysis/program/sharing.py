"""How kernels that run at the same time share it. Pure functions.

The rule: at each moment, everything that runs on the SMs of a device gets an equal part of it. So
the parts of all kernels sum to the time in which any runs. What each would take alone is not known
from a recording.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Window = tuple[int, int]


class Shares(NamedTuple):
    """``own_ns``: each interval's part of the windows. ``busy_ns``: time of the windows in which
    any ran, which the parts sum to; ``overlapped_ns``: time in which two or more did."""

    own_ns: np.ndarray
    busy_ns: float
    overlapped_ns: float


def shares(start: np.ndarray, end: np.ndarray, windows: tuple[Window, ...]) -> Shares:
    """The parts of intervals (ns) within ``windows``, which are disjoint and in order."""
    if not len(start) or not windows:
        return Shares(np.zeros(len(start)), 0.0, 0.0)
    bounds = np.array(windows, np.int64)
    times = np.unique(np.concatenate([start, end, bounds.ravel()]))
    lasting = np.diff(times)
    running = np.cumsum(_steps(times, start) - _steps(times, end))[:-1]
    inside = np.cumsum(_steps(times, bounds[:, 0]) - _steps(times, bounds[:, 1]))[:-1] > 0
    counted = np.where(inside & (running > 0), lasting, 0)
    part = np.concatenate([[0.0], np.cumsum(counted / np.maximum(running, 1))])
    own = part[np.searchsorted(times, end)] - part[np.searchsorted(times, start)]
    return Shares(own, float(counted.sum()), float(counted[running > 1].sum()))


def _steps(times: np.ndarray, events: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(times, events), minlength=len(times))


def inside(times: np.ndarray, windows: tuple[Window, ...]) -> np.ndarray:
    """Which moments lie in ``windows``."""
    bounds = np.array(windows, np.int64).ravel()
    lies: np.ndarray = np.searchsorted(bounds, times, side="right") % 2 == 1
    return lies


def within(start: int, end: int, windows: tuple[Window, ...]) -> int:
    """How many ns of an interval lie in ``windows``."""
    return sum(max(0, min(end, last) - max(start, first)) for first, last in windows)
