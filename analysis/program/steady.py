"""The steady state of a program: the longest stretch in which its sequence of launches repeats.
Pure functions over sequences of kernel numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GRAMS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Lengths of the sequences whose recurrence proposes a period: a long one recurs once a step, also
where a step repeats the same layer."""
MOST_PERIODS = 24
"""Periods that are tried for each of them."""
LEAST_SHARE = 1 / 3
"""Of the GPU time that a repeating stretch covers; a shorter one is no steady state of the
program."""
NEARLY = 0.98
"""Of equal periods the shortest counts: one that covers this much of the best one's time."""
SLOW = 1.25
"""Repetitions at the start that take longer than this times the median are warm-up."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Steady(NamedTuple):
    """``period`` launches repeat ``repeats`` times from launch ``first`` on; ``extra`` launches
    continue the sequence behind them. ``share``: of the GPU time of all launches that this is."""

    first: int
    period: int
    repeats: int
    extra: int
    share: float


def steady_state(kernels: np.ndarray, time_ns: np.ndarray) -> Steady | None:
    """The repeating stretch with most GPU time; None where none covers ``LEAST_SHARE``.

    ``kernels``: a number for each launch, in the order of launching; ``time_ns``: its duration.
    """
    total = float(time_ns.sum())
    if len(kernels) < 2 or total <= 0:
        return None
    spent = np.concatenate([[0.0], np.cumsum(time_ns)])
    found = [run for period in _periods(kernels) if (run := _longest_run(kernels, period, spent)) is not None]
    if not found:
        return None
    best = max(time for time, *_ in found)
    time, period, first, length = min((run for run in found if run[0] >= NEARLY * best), key=lambda run: run[1])
    if time < LEAST_SHARE * total:
        return None
    return Steady(first, period, length // period, length % period, time / total)


def warm_repeats(lengths: np.ndarray) -> int:
    """How many of the first repetitions are slower than the rest, by the time that each takes; at
    most half of them."""
    if len(lengths) < 3:
        return 0
    slow = lengths > SLOW * np.median(lengths)
    leading = len(lengths) if slow.all() else int(np.argmin(slow))
    return min(leading, len(lengths) // 2)


def _periods(kernels: np.ndarray) -> list[int]:
    """Distances between recurrences of short and long sequences, those that explain most
    launches."""
    proposed: set[int] = set()
    hashes = (kernels.astype(np.uint64) + np.uint64(1)) * _FACTOR
    size = 1
    for grams in GRAMS:
        while size < grams and len(hashes) > size:
            hashes = (hashes[:-size] ^ (hashes[:-size] >> np.uint64(29))) * _FACTOR + hashes[size:]
            size *= 2
        if size != grams:
            break
        order = np.argsort(hashes, kind="stable")
        distance = np.diff(order)[hashes[order][1:] == hashes[order][:-1]]
        values, counts = np.unique(distance[distance <= len(kernels) // 2], return_counts=True)
        best = np.argsort(-values * counts, kind="stable")[:MOST_PERIODS]
        proposed.update(values[best].tolist())
    return sorted(proposed)


def _longest_run(kernels: np.ndarray, period: int, spent: np.ndarray) -> tuple[float, int, int, int] | None:
    """Time, period, first launch and length of the stretch of that period with most time; at least
    two repetitions."""
    same = np.concatenate([[False], kernels[period:] == kernels[:-period], [False]])
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    begin, end = edges[::2], edges[1::2] + period
    whole = end - begin >= 2 * period
    if not whole.any():
        return None
    begin, end = begin[whole], end[whole]
    time = spent[end] - spent[begin]
    best = int(np.argmax(time))
    return float(time[best]), period, int(begin[best]), int(end[best] - begin[best])
