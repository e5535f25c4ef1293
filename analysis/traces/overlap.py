"""How much of the time kinds of work go on together, and where the time of lanes goes. Pure
functions over the rows of lanes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

WAIT = "wait"
MOST_KINDS = 8
"""Maximum kinds of work compared: those with most of it."""


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
    """``busy_ns``: time in which any lane does this kind of work; ``idle_ns``: time of ``span_ns``
    in which none works.

    ``overlaps`` holds every pair, then every three, in the order of ``busy_ns``.
    """

    span_ns: float
    busy_ns: dict[str, float]
    idle_ns: float
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True)
class Share:
    """Time of the lanes of ``group`` in intervals of ``tag``: how often, in ns in all, in percent
    of the lanes' time, and the median of one (None: not known)."""

    group: str
    tag: str
    count: int
    ns: float
    pct: float
    median_ns: float | None


def percent(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing."""
    return 100.0 * part / whole if whole > 0 else 0.0


def works(rows: pd.DataFrame) -> pd.Series:
    """Which intervals are work: all but those whose tag begins with ``wait``."""
    working: pd.Series = ~rows["tag"].str.lower().str.startswith(WAIT)
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


def concurrency(
    rows: pd.DataFrame,
    kind: str = "group",
    within: Sequence[str] = (),
    span_ns: float | None = None,
    most: int = MOST_KINDS,
) -> Concurrency:
    """What goes on at the same time, by the column ``kind``; nothing of no rows.

    ``within``: columns whose values keep work apart, as that of two SMs. ``span_ns``: the whole
    time, by default from the first start to the last end.
    """
    if rows.empty:
        return Concurrency(0.0, {}, 0.0, ())
    span = float(rows["end_ns"].max() - rows["start_ns"].min()) if span_ns is None else span_ns
    work = rows[works(rows)]
    stretches: dict[tuple[object, ...], dict[str, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
    busy: Counter[str] = Counter()
    for (*place, name), own in work.groupby([*within, kind], sort=False):
        starts, ends = union(own["start_ns"].to_numpy(float), own["end_ns"].to_numpy(float))
        stretches[tuple(place)][str(name)] = starts, ends
        busy[str(name)] += float((ends - starts).sum())  # type: ignore[assignment]
    chosen = {name for name, _ in busy.most_common(most)}
    names = [name for name in map(str, work[kind].unique()) if name in chosen]
    times: Counter[int] = Counter()
    for own_stretches in stretches.values():
        times += _by_mask([own_stretches.get(name, (np.empty(0), np.empty(0))) for name in names])
    overlaps = []
    for what in (*combinations(names, 2), *combinations(names, 3)):
        wanted = sum(1 << names.index(name) for name in what)
        ns = float(sum(lasting for mask, lasting in times.items() if mask & wanted == wanted))
        overlaps.append(Overlap(what, ns, percent(ns, span), percent(ns, min(busy[name] for name in what))))
    return Concurrency(span, {name: float(busy[name]) for name in names}, span - sum(times.values()), tuple(overlaps))


def _by_mask(stretches: Sequence[tuple[np.ndarray, np.ndarray]]) -> Counter[int]:
    """Time in ns by the set of kinds that go on, as a bit mask; outside of all work is not
    counted."""
    edges = np.concatenate([np.concatenate(pair) for pair in stretches] or [np.empty(0)])
    bits = [np.repeat([1 << number, -(1 << number)], len(pair[0])) for number, pair in enumerate(stretches)]
    order = np.argsort(edges, kind="stable")
    # Several events at one instant pass through states of no duration, which may not be valid
    # masks.
    lasting = np.diff(edges[order])
    states = np.cumsum(np.concatenate([*bits, np.empty(0, int)])[order])[:-1][lasting > 0]
    masks, number = np.unique(states, return_inverse=True)
    times = np.bincount(number, lasting[lasting > 0], len(masks))
    return Counter({mask: ns for mask, ns in zip(masks.tolist(), times.tolist(), strict=True) if mask})


def tag_times(rows: pd.DataFrame, low: float, high: float) -> list[Share]:
    """Time by group and tag in a window (ns), those with most first; medians are of the intervals
    that lie in it as a whole."""
    inside = rows[(rows["end_ns"] > low) & (rows["start_ns"] < high)]
    lanes = inside.groupby("group", observed=True)["lane"].nunique().to_dict()
    within = inside["end_ns"].clip(upper=high) - inside["start_ns"].clip(lower=low)
    length = inside["end_ns"] - inside["start_ns"]
    complete = length.where((inside["start_ns"] >= low) & (inside["end_ns"] <= high))
    times = []
    for (group, tag), own in inside.assign(ns=within, whole=complete).groupby(
        ["group", "tag"], observed=True, sort=False
    ):
        ns, median = float(own["ns"].sum()), own["whole"].median()
        share = percent(ns, (high - low) * float(lanes[group]))
        times.append(Share(str(group), str(tag), len(own), ns, share, None if pd.isna(median) else float(median)))
    return sorted(times, key=lambda share: -share.ns)
