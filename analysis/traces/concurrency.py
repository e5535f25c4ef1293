"""How much of the time groups of lanes work together, by union of their intervals. Pure functions over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

MOST_GROUPS = 8
"""Groups that are compared, those with most work."""
WAIT = "wait"


@dataclass(frozen=True)
class Together:
    """Time in which all of ``groups`` work: in ns, in percent of the span, and of the group that works least."""

    groups: tuple[str, ...]
    ns: float
    pct_of_span: float
    pct_of_least: float


@dataclass(frozen=True)
class Concurrency:
    """``busy_ns``: time in which any lane of a group works; ``idle_ns``: time of ``span_ns`` in which no group does.

    ``together`` holds every pair, then every three, in the order of the groups.
    """

    span_ns: float
    busy_ns: dict[str, float]
    idle_ns: float
    together: tuple[Together, ...]


def works(frame: pd.DataFrame) -> pd.Series:
    """Which intervals are work: all but those whose tag begins with ``wait``."""
    found: pd.Series = ~frame["tag"].str.lower().str.startswith(WAIT)
    return found


def union(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the disjoint stretches that intervals cover, in order of time."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(starts) - 1]])
    return starts[first], reach[last]


def concurrency(frame: pd.DataFrame) -> Concurrency:
    """What the groups of ``frame`` (columns of ``lanes``) do at the same time; nothing of an empty frame."""
    if frame.empty:
        return Concurrency(0.0, {}, 0.0, ())
    begin, end = float(frame["start_ns"].min()), float(frame["end_ns"].max())
    busy = frame[works(frame)]
    stretches = {
        str(name): union(rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float))
        for name, rows in busy.groupby("group", sort=False)
    }
    length = {name: float((ends - starts).sum()) for name, (starts, ends) in stretches.items()}
    names = sorted(length, key=lambda name: -length[name])[:MOST_GROUPS]
    names = [name for name in stretches if name in names]
    by_mask = _by_mask([stretches[name] for name in names])
    masks = np.arange(len(by_mask))
    found = []
    for size in (2, 3):
        for chosen in combinations(range(len(names)), size):
            wanted = sum(1 << one for one in chosen)
            ns = float(by_mask[(masks & wanted) == wanted].sum())
            least = min(length[names[one]] for one in chosen)
            found.append(Together(tuple(names[one] for one in chosen), ns, _pct(ns, end - begin), _pct(ns, least)))
    any_ns = float(by_mask[1:].sum())
    return Concurrency(end - begin, {name: length[name] for name in names}, end - begin - any_ns, tuple(found))


def _by_mask(stretches: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Time in ns by the set of groups that work, as a bit mask; outside of all work is not counted."""
    times = np.concatenate([np.concatenate(pair) for pair in stretches]) if stretches else np.array([])
    total = np.zeros(1 << len(stretches))
    if not len(times):
        return total
    bits = [np.repeat([1 << index, -(1 << index)], len(pair[0])) for index, pair in enumerate(stretches)]
    order = np.argsort(times, kind="stable")
    states = np.cumsum(np.concatenate(bits)[order])[:-1]
    # Several events at one instant pass through states of no duration, which may be no mask.
    lasting = np.diff(times[order])
    np.add.at(total, states[lasting > 0], lasting[lasting > 0])
    return total


def _pct(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole > 0 else 0.0
