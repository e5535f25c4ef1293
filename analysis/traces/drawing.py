"""Drawings: tracks with slices, flows and counters, and their file: trace events, the JSON that
ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" of the Chromium project, JSON object form. A process for the first name
of each track, a thread for each track with slices (phase ``X``), flows (``s``, ``f``), counters
(``C``); times in µs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.traces.lanes import INDEX, NO_INDEX, WAIT
from ncubble.analysis.traces.probe import beside
from ncubble.errors import UsageError
from ncubble.store import draft_of

WAIT_COLOR = "grey"
_STEPS = (("load", "compute"), ("compute", "store"))
"""Tags of a tile's path through a CTA, connected by flows."""
_ROLES = {role: place for place, role in enumerate(("loader", "copies", "computer", "products", "storer"))}
"""Groups in the order of the work."""
_TILE = ["launch", "sm", "cta", INDEX]
TrackPath = tuple[str, ...]


class Drawing:
    """Collects what a viewer draws. ``tracks``: their names from the root, by number; those of one
    path are rows of one lane whose slices overlap.

    ``slices``: frames of ``track``, ``name``, ``group``, ``start_ns``, ``end_ns``, ``index`` (-1:
    none); those of one track are in order and do not overlap. ``flows``: numbers of slices in
    pairs, from and to. ``counters``: path, unit, times in ns and values from each on.
    """

    def __init__(self) -> None:
        self.tracks: list[TrackPath] = []
        self.flows: list[np.ndarray] = []
        self.counters: list[tuple[TrackPath, str, np.ndarray, np.ndarray]] = []
        self._slices: list[pd.DataFrame] = []
        self._count = 0

    @property
    def slices(self) -> pd.DataFrame:
        """All slices, by number."""
        columns = ("track", "name", "group", "start_ns", "end_ns", INDEX)
        return pd.concat(self._slices, ignore_index=True) if self._slices else pd.DataFrame(columns=columns)

    def lane(self, path: TrackPath, rows: pd.DataFrame) -> np.ndarray:
        """Draws ``rows`` of a lane; returns the slice of each."""
        start, end = rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float)
        order = np.lexsort((end, start))
        place = np.array(beside(start[order], end[order]), dtype=int)
        drawn = {
            "track": len(self.tracks) + place,
            "name": rows["tag"].to_numpy(object)[order],
            "group": rows["group"].to_numpy(object)[order],
            "start_ns": start[order],
            "end_ns": end[order],
            INDEX: rows[INDEX].to_numpy(int)[order] if INDEX in rows else NO_INDEX,
        }
        self._slices.append(pd.DataFrame(drawn))
        self.tracks += [path] * (1 + int(place.max(initial=0)))
        numbers = np.empty(len(rows), dtype=int)
        numbers[order] = np.arange(self._count, self._count + len(rows))
        self._count += len(rows)
        return numbers

    def counter(
        self, path: TrackPath, unit: str, starts: np.ndarray, ends: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Draws how many intervals go on, or the sum of their ``weights``, unless there are
        none."""
        times, values = running(starts, ends, weights)
        if len(times):
            self.counters.append((path, unit, times, values))

    def flow(self, sources: np.ndarray, targets: np.ndarray) -> None:
        """Joins slices in pairs."""
        self.flows.append(np.stack([sources, targets], axis=1))

    def write(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Write the trace to ``path``; ``facts`` goes beside the events. Raises UsageError where
        that is not possible."""
        try:
            with draft_of(path, shared=True) as draft, draft.open("w", encoding="utf-8") as file:
                file.write('{"displayTimeUnit":"ns","otherData":' + json.dumps(facts) + ',"traceEvents":[\n')
                for number, event in enumerate(self.events()):
                    file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
                file.write("\n]}\n")
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error

    def events(self) -> Iterator[dict[str, Any]]:
        """Names of processes and threads first, then slices, flows and counters."""
        paths = [*self.tracks, *(path for path, *_ in self.counters)]
        roots = {name: number for number, name in enumerate(dict.fromkeys(path[0] for path in paths), 1)}
        for name, number in roots.items():
            yield {**_event("M", number, 0, "process_name"), "args": {"name": name}}
        seen: Counter[TrackPath] = Counter()
        for track, path in enumerate(self.tracks, 1):
            seen[path] += 1
            name = " ".join(path[1:] or path) + (f" ({seen[path]})" if seen[path] > 1 else "")
            yield {**_event("M", roots[path[0]], track, "thread_name"), "args": {"name": name}}
            yield {**_event("M", roots[path[0]], track, "thread_sort_index"), "args": {"sort_index": track}}
        slices = self.slices
        for track, name, group, start, end, index in slices.itertuples(index=False):
            event = _event("X", roots[self.tracks[track][0]], track + 1, name)
            event |= {"cat": group, "ts": start / 1e3, "dur": (end - start) / 1e3}
            event |= {"args": {"index": index} if index != NO_INDEX else {}}
            yield {**event, "cname": WAIT_COLOR} if name.lower().startswith(WAIT) else event
        tracks, starts = slices["track"].to_numpy(), slices["start_ns"].to_numpy()
        for number, ends in enumerate(np.concatenate([np.empty((0, 2), int), *self.flows]).tolist()):
            for phase, row in zip("sf", ends, strict=True):
                event = _event(phase, roots[self.tracks[tracks[row]][0]], int(tracks[row]) + 1, "flow")
                event |= {"cat": "flow", "id": number, "ts": starts[row] / 1e3}
                yield event | ({"bp": "e"} if phase == "f" else {})
        for path, unit, times, values in self.counters:
            for time, value in zip(times.tolist(), values.tolist(), strict=True):
                event = _event("C", roots[path[0]], 0, " ".join(path[1:]))
                yield {**event, "ts": time / 1e3, "args": {unit or "value": value}}


def _event(phase: str, process: int, thread: int, name: str) -> dict[str, Any]:
    # Numbers start at 1: viewers treat process 0 as idle.
    return {"ph": phase, "name": name, "pid": process, "tid": thread}


def lanes_drawing(lanes: pd.DataFrame) -> Drawing:
    """Lanes of warps: a track for each launch (where there are several), SM, CTA and warp, flows
    along a tile's load, product and store, and counters of what goes on in each SM."""
    drawing = Drawing()
    several = lanes["launch"].nunique() > 1
    numbers = np.empty(len(lanes), dtype=int)
    ordered = lanes.assign(rank=lanes["group"].map(_ROLES).fillna(len(_ROLES)))
    ordered = ordered.sort_values(["launch", "sm", "cta", "rank", "warp"], kind="stable")
    for (launch, sm, cta, group, warp), rows in ordered.groupby(["launch", "sm", "cta", "group", "warp"], sort=False):
        lane = f"{group} in flight" if warp == -1 else f"{group} warp {warp}"
        numbers[rows.index] = drawing.lane((*_sm(launch, sm, several), f"CTA {cta}", lane), rows)
    for sources, targets in _tile_flows(lanes):
        drawing.flow(numbers[sources], numbers[targets])
    flying = lanes["warp"] < 0
    counted = lanes[flying | lanes["tag"].str.lower().str.startswith(WAIT)]
    kind = (counted["group"] + " in flight").where(flying, "warps waiting")
    for (launch, sm, name), rows in counted.groupby(["launch", "sm", kind]):
        times = rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float)
        drawing.counter((*_sm(launch, sm, several), str(name)), "", *times)
    return drawing


def _sm(launch: Hashable, sm: Hashable, several: bool) -> TrackPath:
    return (f"launch {launch}", f"SM {sm}") if several else (f"SM {sm}",)


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


def running(starts: np.ndarray, ends: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Times at which intervals begin or end, and how many go on from each on; the sum of their
    ``weights``, if any, which may be rows. Intervals of no duration are left out."""
    lasting = ends > starts
    starts, ends = starts[lasting], ends[lasting]
    weight = np.ones(len(starts)) if weights is None else weights[lasting]
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    total = np.cumsum(np.concatenate([weight, -weight])[order], axis=0)
    last = np.append(np.diff(times[order]) > 0, True) if len(times) else np.zeros(0, bool)
    # Small remainders of the sums of fractions are rounding errors.
    values = np.where(np.abs(total[last]) < 1e-9 * weight.max(initial=1.0), 0.0, total[last])
    return times[order][last], values
