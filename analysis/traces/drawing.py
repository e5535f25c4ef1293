"""Lanes as a tree of tracks with slices, flows and counters: what trace viewers draw, whatever
their format. Pure functions over lanes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.traces.concurrency import WAIT
from ncubble.analysis.traces.flights import beside
from ncubble.analysis.traces.lanes import INDEX, NO_INDEX

NO_PARENT = -1
_STEPS = (("load", "compute"), ("compute", "store"))
"""Tags of a tile's path through a CTA, connected by flows."""
_ROLES = ("loader", "copies", "computer", "products", "storer")
"""Groups in the order of the work."""
_TILE = ["launch", "sm", "cta", INDEX]


@dataclass(frozen=True)
class ViewerTrack:
    """A row of a viewer, below the track of number ``parent``. Tracks of one name and parent are
    rows of one lane whose slices overlap. ``unit``: of a counter's values; None for slices."""

    name: str
    parent: int = NO_PARENT
    unit: str | None = None


@dataclass(frozen=True)
class Drawing:
    """``tracks`` by number, parents first.

    ``slices``: ``track``, ``name``, ``group``, ``start_ns``, ``end_ns``, ``index`` (-1: none);
    those of one track are in order and do not overlap. ``flows``: rows of ``slices`` in pairs, from
    and to. ``counters``: times in ns and values from each on, by track.
    """

    tracks: list[ViewerTrack]
    slices: pd.DataFrame
    flows: np.ndarray
    counters: dict[int, tuple[np.ndarray, np.ndarray]]

    def path(self, track: int) -> list[str]:
        """The names from the root to a track."""
        names = []
        while track != NO_PARENT:
            names.append(self.tracks[track].name)
            track = self.tracks[track].parent
        return names[::-1]


class Sketch:
    """Collects a drawing."""

    def __init__(self) -> None:
        self._tracks: list[ViewerTrack] = []
        self._known: dict[tuple[str, ...], int] = {}
        self._slices: list[pd.DataFrame] = []
        self._flows: list[np.ndarray] = []
        self._counters: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._count = 0

    def track(self, *path: str) -> int:
        """The number of the track at a path from the root, which is made with all above it."""
        if path not in self._known:
            parent = self.track(*path[:-1]) if len(path) > 1 else NO_PARENT
            self._known[path] = self._new(ViewerTrack(path[-1], parent))
        return self._known[path]

    def lane(self, path: tuple[str, ...], rows: pd.DataFrame) -> np.ndarray:
        """Draws ``rows`` of a lane; returns the row of each among the slices."""
        order = np.lexsort((rows["end_ns"].to_numpy(float), rows["start_ns"].to_numpy(float)))
        rows = rows.iloc[order]
        place = np.array(beside(rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float)), dtype=int)
        first = self.track(*path)
        again = ViewerTrack(path[-1], self._tracks[first].parent)
        tracks = np.array([first, *(self._new(again) for _ in range(place.max(initial=0)))])
        drawn = {
            "track": tracks[place],
            "name": rows["tag"].to_numpy(object),
            "group": rows["group"].to_numpy(object),
            "start_ns": rows["start_ns"].to_numpy(float),
            "end_ns": rows["end_ns"].to_numpy(float),
            INDEX: rows[INDEX].to_numpy(int) if INDEX in rows else NO_INDEX,
        }
        self._slices.append(pd.DataFrame(drawn))
        numbers = np.empty(len(rows), dtype=int)
        numbers[order] = np.arange(self._count, self._count + len(rows))
        self._count += len(rows)
        return numbers

    def counter(self, path: tuple[str, ...], unit: str, values: tuple[np.ndarray, np.ndarray]) -> None:
        """Draws a counter, unless it has no values."""
        if len(values[0]):
            self.track(*path[:-1])
            parent = self._known.get(path[:-1], NO_PARENT)
            self._counters[self._new(ViewerTrack(path[-1], parent, unit))] = values

    def flow(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Joins slices in pairs."""
        self._flows.append(np.stack([sources, targets], axis=1))

    def done(self) -> Drawing:
        """The drawing."""
        columns = ("track", "name", "group", "start_ns", "end_ns", INDEX)
        empty = pd.DataFrame({name: [] for name in columns})
        slices = pd.concat(self._slices, ignore_index=True) if self._slices else empty
        flows = np.concatenate(self._flows) if self._flows else np.empty((0, 2), dtype=int)
        return Drawing(self._tracks, slices, flows, self._counters)

    def _new(self, track: ViewerTrack) -> int:
        self._tracks.append(track)
        return len(self._tracks) - 1


def lanes_drawing(lanes: pd.DataFrame) -> Drawing:
    """Lanes of warps: a track for each launch (where there are several), SM, CTA and warp, flows
    along a tile's load, product and store, and counters of what goes on in each SM. Lanes that do
    not tell their SM have a track below that of their group."""
    sketch = Sketch()
    # Files hold texts as categories.
    lanes = lanes.astype({"lane": str, "group": str, "tag": str}).reset_index(drop=True)
    numbers = np.empty(len(lanes), dtype=int)
    placed = {"launch", "sm", "cta", "warp"} <= set(lanes.columns)
    keys = ["launch", "sm", "cta", "group", "warp"] if placed else ["group", "lane"]
    several = placed and lanes["launch"].nunique() > 1
    rank = lanes["group"].map({group: place for place, group in enumerate(_ROLES)}).fillna(len(_ROLES))
    ordered = lanes.assign(rank=rank).sort_values([*keys[:3], "rank", "warp"], kind="stable") if placed else lanes
    for key, rows in ordered.groupby(keys, sort=False):
        path = _path(key, several) if placed else (str(key[0]), str(key[1]))
        numbers[rows.index] = sketch.lane(path, rows)
    if placed:
        if INDEX in lanes:
            for sources, targets in _tile_flows(lanes):
                sketch.flow(numbers[sources], numbers[targets])
        for path, values in _sm_counters(lanes, several):
            sketch.counter(path, "", values)
    return sketch.done()


def _path(key: tuple[Hashable, ...], several: bool) -> tuple[str, ...]:
    launch, sm, cta, group, warp = key
    lane = f"{group} in flight" if warp == -1 else f"{group} warp {warp}"
    return (*((f"launch {launch}",) if several else ()), f"SM {sm}", f"CTA {cta}", lane)


def _tile_flows(lanes: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of ``lanes`` in pairs: a tile's first step of a kind, and each next step after it."""
    tiles = lanes[lanes[INDEX] != NO_INDEX]
    for before, after in _STEPS:
        first = tiles[tiles["tag"] == before].sort_values("start_ns", kind="stable").drop_duplicates(_TILE)
        left = first[[*_TILE, "start_ns"]].assign(source=first.index)
        right = tiles[tiles["tag"] == after]
        both = right[[*_TILE, "start_ns"]].assign(target=right.index).merge(left, on=_TILE, suffixes=("", "_before"))
        both = both[both["start_ns"] >= both["start_ns_before"]]
        yield both["source"].to_numpy(int), both["target"].to_numpy(int)


def _sm_counters(lanes: pd.DataFrame, several: bool) -> Iterator[tuple[tuple[str, ...], tuple[np.ndarray, np.ndarray]]]:
    """For each SM: copies and products in flight, and warps that wait, over time."""
    waits = (lanes["warp"] >= 0) & lanes["tag"].str.lower().str.startswith(WAIT)
    flying = lanes["warp"] < 0
    counted = lanes[waits | flying]
    kind = (counted["group"] + " in flight").where(flying, "warps waiting")
    for (launch, sm, name), rows in counted.groupby(["launch", "sm", kind]):
        path = (*((f"launch {launch}",) if several else ()), f"SM {sm}", str(name))
        yield path, running(rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float))


def running(starts: np.ndarray, ends: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Times at which it changes how many intervals go on, and how many do from each on; the sum of
    their ``weights``, if any. Intervals of no duration are left out."""
    lasting = ends > starts
    starts, ends = starts[lasting], ends[lasting]
    weight = np.ones(len(starts)) if weights is None else weights[lasting]
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    total = np.cumsum(np.concatenate([weight, -weight])[order])
    last = np.append(np.diff(times[order]) > 0, True) if len(times) else np.zeros(0, bool)
    # Small remainders of the sums of fractions are rounding errors.
    values = np.where(np.abs(total[last]) < 1e-9 * weight.max(initial=1.0), 0.0, total[last])
    return times[order][last], values
