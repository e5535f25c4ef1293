"""Which launches of a program one run of ncu profiles: one of each kernel that takes time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncubble.analysis.program.account import GRAPH, DeviceSpan, ProgramWork
from ncubble.profiling.ncu import Filters

COVERED_PCT = 95.0
"""GPU time that the profiled kernels cover, unless chosen otherwise."""
LAST_INVOCATION = 100_000
"""Launches of a kernel that are considered."""
OUTSIDE_COST = 0.25
"""A launch outside of the span counts as one whose duration differs from the median by this
share."""
LONGEST_NAMES_B = 50_000
"""Bytes of all names together: the system takes 128 KiB in one argument, and C++ regular
expressions have limits of their own."""


@dataclass(frozen=True)
class LaunchSelection:
    """``kernels``: places in ``ProgramWork.kernels``, most time first; of each its launch number
    ``invocation`` (from 1) is profiled. ``covered_pct``: of the kernels' time in the spans."""

    kernels: tuple[int, ...]
    invocation: int
    covered_pct: float
    notes: tuple[str, ...] = ()


def select(
    work: ProgramWork,
    spans: Sequence[DeviceSpan],
    covered_pct: float,
    filters: Filters,
    without: frozenset[str] = frozenset(),
) -> LaunchSelection:
    """The kernels with most time, as many as cover ``covered_pct`` of it, and one invocation number
    for all.

    ncu counts launches for each name, grid, block and shared memory, and takes one number. The one
    that is chosen exists for each selected kernel; among these it is the one whose launches are
    closest to the median duration of their kernel and lie in the span, weighed by time.
    ``filters``: which kernels may be selected. ``without``: mangled names that cannot be profiled.
    """
    time = kernel_time(work, spans)
    total = float(time.sum())
    order = [int(place) for place in np.argsort(-time, kind="stable") if time[place] > 0]
    launches = np.bincount(work.rows["kernel"][work.rows["kernel"] >= 0], minlength=len(work.kernels))
    names: dict[str, None] = {}
    unwanted = [place for place in order if not filters.chooses(work.kernels[place].name, work.kernels[place].function)]
    chosen, notes = list[int](), []
    if unwanted:
        left_out = ", ".join(dict.fromkeys(work.kernels[place].function for place in unwanted))
        share = 100.0 * float(time[unwanted].sum()) / total
        notes.append(f"left out: {left_out}, {share:.1f} % of the time of kernels (--without)")
    for place in order:
        if total <= 0 or 100.0 * float(time[chosen].sum()) >= covered_pct * total:
            break
        symbol = work.kernels[place].symbol
        if place in chosen or place in unwanted or symbol in without or work.kernels[place].name == GRAPH:
            continue
        if sum(len(name.encode()) + 1 for name in (*names, symbol)) > LONGEST_NAMES_B:
            notes.append("the names of further kernels do not fit on ncu's command line")
            break
        names[symbol] = None
        fewest = min(launches[[*chosen, place]])
        # ncu is given names: all kernels of a name that are launched that often come along.
        chosen = [one for one in order if work.kernels[one].symbol in names and launches[one] >= fewest]
    reached = float(time[chosen].sum())
    invocation = _invocation(work, spans, chosen, time) if chosen else 1
    return LaunchSelection(tuple(chosen), invocation, 100.0 * reached / total if total else 0.0, tuple(notes))


def kernel_time(work: ProgramWork, spans: Sequence[DeviceSpan]) -> np.ndarray:
    """The part (ns) that each kernel has of all spans."""
    time = np.zeros(len(work.kernels))
    for one in spans:
        kernel = one.rows["kernel"].to_numpy()
        time += np.bincount(kernel[kernel >= 0], one.shared.own_ns[kernel >= 0], len(time))
    return time


def _invocation(work: ProgramWork, spans: Sequence[DeviceSpan], chosen: Sequence[int], time: np.ndarray) -> int:
    """The number, from 1, that costs least; the first of equal ones."""
    rows = work.rows
    by_process = {process: rows[rows["process"] == process] for process in dict.fromkeys(one.process for one in spans)}
    in_span = np.zeros(len(rows), bool)
    for process, device, span, *_ in spans:
        mine = (rows["process"] == process) & (rows["device"] == device)
        bounds = np.array(span.windows, np.int64).ravel()
        in_span |= mine.to_numpy() & (np.searchsorted(bounds, rows["start_ns"].to_numpy(), side="right") % 2 == 1)
    costs: list[np.ndarray] = []
    for place in chosen:
        # Each process counts for itself. The one with most launches decides.
        own = max((rows[rows["kernel"] == place] for rows in by_process.values()), key=len)[:LAST_INVOCATION]
        length = (own["end_ns"] - own["start_ns"]).to_numpy(float)
        middle = max(float(np.median(length)), 1.0)
        cost = np.minimum(np.abs(length / middle - 1.0), 1.0) + OUTSIDE_COST * ~in_span[own.index]
        costs.append(cost * time[place])
    shortest = min(map(len, costs))
    return 1 + int(np.argmin(np.sum([cost[:shortest] for cost in costs], axis=0)))
