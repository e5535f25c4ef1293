"""How much of the time groups of lanes work together, by union of their intervals. Pure functions
over lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

MOST_GROUPS = 8
"""Maximum groups compared: those with most work."""
WAIT = "wait"
HOST = "scopes"
"""The group of the host's scopes among lanes of streams (``proton``): no work of a GPU."""


@dataclass(frozen=True)
class Overlap:
    """Time in which all of ``what`` happen: in ns, in percent of the span, and of the least of
    them."""

    what: tuple[str, ...]
    ns: float
    pct_of_span: float
    pct_of_least: float


@dataclass(frozen=True)
class Concurrency:
    """``busy_ns``: time in which any lane of a group works; ``idle_ns``: time of ``span_ns`` in
    which no group does.

    ``overlaps`` holds every pair, then every three, in the order of the groups.
    """

    span_ns: float
    busy_ns: dict[str, float]
    idle_ns: float
    overlaps: tuple[Overlap, ...]


def works(frame: pd.DataFrame) -> pd.Series:
    """Which intervals are work: all but those whose tag begins with ``wait``."""
    working: pd.Series = ~frame["tag"].str.lower().str.startswith(WAIT)
    return working


def union(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the disjoint stretches that intervals cover, in order of time."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(starts) - 1]])
    return starts[first], reach[last]


def concurrency(frame: pd.DataFrame, host: bool = False) -> Concurrency:
    """What the groups of ``frame`` (columns of ``lanes``) do at the same time; nothing of an empty
    frame. ``host``: the group ``HOST`` takes time, but does no work."""
    if frame.empty:
        return Concurrency(0.0, {}, 0.0, ())
    begin, end = float(frame["start_ns"].min()), float(frame["end_ns"].max())
    busy = frame[works(frame) & ~(host & (frame["group"] == HOST))]
    stretches = {
        str(name): union(rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float))
        for name, rows in busy.groupby("group", sort=False)
    }
    length = {name: float((ends - starts).sum()) for name, (starts, ends) in stretches.items()}
    names = sorted(length, key=lambda name: -length[name])[:MOST_GROUPS]
    names = [name for name in stretches if name in names]
    by_mask = _by_mask([stretches[name] for name in names])
    masks = np.arange(len(by_mask))

    def shared(chosen: tuple[str, ...]) -> float:
        wanted = sum(1 << names.index(name) for name in chosen)
        return float(by_mask[(masks & wanted) == wanted].sum())

    span, any_ns = end - begin, float(by_mask[1:].sum())
    busy_ns = {name: length[name] for name in names}
    return Concurrency(span, busy_ns, span - any_ns, overlaps(busy_ns, shared, span))


def overlaps(
    alone_ns: Mapping[str, float], shared_ns: Callable[[tuple[str, ...]], float], span_ns: float
) -> tuple[Overlap, ...]:
    """Every pair, then every three of what takes ``alone_ns``, with the time in which all of them
    happen."""
    chosen = [names for size in (2, 3) for names in combinations(alone_ns, size)]
    times = [(names, shared_ns(names)) for names in chosen]
    return tuple(
        Overlap(names, ns, percent(ns, span_ns), percent(ns, min(alone_ns[name] for name in names)))
        for names, ns in times
    )


def _by_mask(stretches: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Time in ns by the set of groups that work, as a bit mask; outside of all work is not
    counted."""
    times = np.concatenate([np.concatenate(pair) for pair in stretches]) if stretches else np.array([])
    total = np.zeros(1 << len(stretches))
    if not len(times):
        return total
    bits = [np.repeat([1 << index, -(1 << index)], len(pair[0])) for index, pair in enumerate(stretches)]
    order = np.argsort(times, kind="stable")
    states = np.cumsum(np.concatenate(bits)[order])[:-1]
    # Several events at one instant pass through states of zero duration, which may not be valid
    # masks.
    lasting = np.diff(times[order])
    np.add.at(total, states[lasting > 0], lasting[lasting > 0])
    return total


def percent(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing."""
    return 100.0 * part / whole if whole > 0 else 0.0
