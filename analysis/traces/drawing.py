"""Drawings: tracks with slices, flows and counters, and their file: a trace of Perfetto, which
ui.perfetto.dev opens.

Format: packets of protobuf (``perfetto.toml``). What a GPU does is render stages, with the geometry
and metrics of kernels, which Perfetto's pages on GPUs show; all else is track events. Times in ns.
"""

from __future__ import annotations

import json
import struct
import tomllib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.traces.lanes import INDEX, NO_INDEX, WAIT
from ncubble.analysis.traces.probe import beside
from ncubble.errors import UsageError
from ncubble.store import draft_of

_STEPS = (("load", "compute"), ("compute", "store"))
"""Tags of a tile's path through a CTA, connected by flows."""
_ROLES = {role: place for place, role in enumerate(("loader", "copies", "math", "products", "storer"))}
"""Groups in the order of the work."""
_TILE = ["launch", "sm", "cta", INDEX]
TrackPath = tuple[str, ...]
PROCESS = "process "
"""Begins the names of tracks of a process, before its number."""
_FIELDS = {
    kind: {name: (int(told.split()[0]), told.partition(" ")[2]) for name, told in fields.items()}
    for kind, fields in tomllib.loads((files("ncubble.analysis.traces") / "perfetto.toml").read_text("utf-8")).items()
}
"""Number and type of each field by message."""
_SLICE_BEGIN, _SLICE_END, _COUNTER = 1, 2, 4
_STATE_CLEARED, _NEEDS_STATE, _EXPLICIT_ORDER, _CUDA, _FORWARDS, _COMPUTING, _COMPUTE_GROUP = 1, 2, 3, 4, 2, 2, 6
_KERNEL, _COPY, _FIRST_QUEUE = 1, 2, 3
"""Numbers of render stages, and of the queues that they run in: one for each track."""
Packet = dict[str, Any]


class Gpu(NamedTuple):
    """Whose work a track shows: a GPU, by its number, and the process that it works for."""

    number: int
    process: int


class KernelFacts(NamedTuple):
    """What is told of a kernel, by its whole name. ``grid`` and ``block``: ``x,y,z``, empty where
    they are not known. ``told``: by the names that Perfetto uses; ``metrics``: by NVIDIA's."""

    name: str
    grid: str
    block: str
    told: Mapping[str, float]
    metrics: Mapping[str, float]

    @property
    def launch(self) -> Packet:
        """Its geometry and what else is told."""
        sizes = {"grid_size": self.grid, "workgroup_size": self.block}
        launch: Packet = {
            name: dict(zip("xyz", map(int, size.split(",")), strict=True)) for name, size in sizes.items() if size
        }
        kinds = {int: "int_value", float: "double_value"}
        return {**launch, "args": [{"name": name, kinds[type(one)]: one} for name, one in self.told.items()]}


class Drawing:
    """Collects what a viewer draws. ``tracks``: their names from the root, and the GPU whose work
    they show, by number; those of one path are rows of one lane whose slices overlap.

    ``slices``: frames of ``track``, ``name``, ``group``, ``start_ns``, ``end_ns``, ``index`` (-1:
    none), ``kernel`` (``KernelFacts``, None: none); those of one track are in order and do not
    overlap. ``flows``: numbers of slices in pairs, from and to. ``counters``: path, unit, times in
    ns and values from each on.
    """

    def __init__(self) -> None:
        self.tracks: list[tuple[TrackPath, Gpu | None]] = []
        self.flows: list[np.ndarray] = []
        self.counters: list[tuple[TrackPath, str, np.ndarray, np.ndarray]] = []
        self._slices: list[pd.DataFrame] = []
        self._count = 0

    @property
    def slices(self) -> pd.DataFrame:
        """All slices, by number."""
        columns = ("track", "name", "group", "start_ns", "end_ns", INDEX, "kernel")
        return pd.concat(self._slices, ignore_index=True) if self._slices else pd.DataFrame(columns=columns)

    def lane(self, path: TrackPath, rows: pd.DataFrame, gpu: Gpu | None = None) -> np.ndarray:
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
            "kernel": rows["kernel"].to_numpy(object)[order] if "kernel" in rows else None,
        }
        self._slices.append(pd.DataFrame(drawn))
        self.tracks += [(path, gpu)] * (1 + int(place.max(initial=0)))
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
        """Joins slices in pairs; no source is work of a GPU."""
        self.flows.append(np.stack([sources, targets], axis=1))

    def write(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Write the trace to ``path``; ``facts`` describe the tracks that hold others. Raises
        UsageError where that is not possible."""
        try:
            with draft_of(path, shared=True) as draft, draft.open("wb") as file:
                for packet in self.packets(json.dumps(facts)):
                    file.write(_encoded("Trace", {"packet": {**packet, "trusted_packet_sequence_id": 1}}))
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error

    def packets(self, about: str) -> Iterator[Packet]:
        """What others refer to by number, tracks, slices with their flows, and counters."""
        slices = self.slices
        samples = list(self._metrics(slices))
        kernels = _numbered(kernel.name for kernel in slices["kernel"].dropna())
        metrics = _numbered(name for *_, values in samples for name in values)
        on_gpu = {number: (path, gpu) for number, (path, gpu) in enumerate(self.tracks) if gpu}
        shown = {"groups": _COMPUTE_GROUP, "value_direction": _FORWARDS}
        counters = {"specs": [{"counter_id": number, "name": name, **shown} for name, number in metrics.items()]}
        interned = {
            "compute_kernels": [{"iid": iid, "name": name, "demangled_name": name} for name, iid in kernels.items()],
            "graphics_contexts": [
                {"iid": pid, "pid": pid, "api": _CUDA}
                for pid in dict.fromkeys(gpu.process for _, gpu in on_gpu.values())
            ],
            "gpu_specifications": [
                {"iid": _KERNEL, "name": "kernel", "category": _COMPUTING},
                {"iid": _COPY, "name": "copy"},
                *({"iid": _FIRST_QUEUE + number, "name": " ".join(path[1:])} for number, (path, _) in on_gpu.items()),
            ],
            "gpu_counter_descriptors": [
                {"iid": gpu + 1, "gpu_id": gpu, "counter_descriptor": counters} for gpu in {gpu for gpu, *_ in samples}
            ],
        }
        yield {"interned_data": interned, "sequence_flags": _STATE_CLEARED}
        yield from ({"track_descriptor": track} for track in self._descriptors(about))
        for time, event in self._events(slices, kernels):
            yield {"timestamp": time, "sequence_flags": _NEEDS_STATE, **event}
        for gpu, time, values in samples:
            told = [{"counter_id": metrics[name], "double_value": value} for name, value in values.items()]
            measured = {"counter_descriptor_iid": gpu + 1, "counters": told}
            yield {"timestamp": time, "sequence_flags": _NEEDS_STATE, "gpu_counter_event": measured}

    def _descriptors(self, about: str) -> Iterator[Packet]:
        """The tree of tracks: leaves have the numbers from 1 on, of tracks and then of counters."""
        leaves: list[tuple[TrackPath, Packet]] = [(path, {}) for path, _ in self.tracks]
        leaves += [(path, {"counter": {"unit_name": unit}}) for path, unit, *_ in self.counters]
        nodes: dict[TrackPath, int] = {(): 0}
        for number, (path, told) in enumerate(leaves, 1):
            if number <= len(self.tracks) and self.tracks[number - 1][1]:
                continue
            for above in (path[:depth] for depth in range(1, len(path))):
                if above not in nodes:
                    nodes[above] = len(leaves) + len(nodes)
                    node = {"uuid": nodes[above], "parent_uuid": nodes[above[:-1]], "name": above[-1]}
                    node |= {
                        "child_ordering": _EXPLICIT_ORDER,
                        "sibling_order_rank": nodes[above],
                        "description": about,
                    }
                    if (pid := above[-1].removeprefix(PROCESS)).isdigit():
                        node["process"] = {"pid": int(pid), "process_name": above[-1]}
                    yield node
            place = {"uuid": number, "parent_uuid": nodes[path[:-1]], "sibling_order_rank": number}
            yield {"name": path[-1], **place, **told}

    def _events(self, slices: pd.DataFrame, kernels: Mapping[str, int]) -> Iterator[tuple[int, Packet]]:
        """Slices, and counters of tracks, with their times."""
        queued: defaultdict[int, list[int]] = defaultdict(list)
        flows: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        tracks = slices["track"].to_numpy(int)
        for number, (source, target) in enumerate(np.concatenate([np.empty((0, 2), int), *self.flows]).tolist(), 1):
            if self.tracks[tracks[target]][1]:
                queued[source].append(target)
            else:
                flows[source]["flow_ids"].append(number)
                flows[target]["terminating_flow_ids"].append(number)
        for number, (track, name, group, start, end, index, kernel) in enumerate(slices.itertuples(index=False)):
            begin, finish, gpu = round(start), round(end), self.tracks[track][1]
            if gpu:
                stage = {"event_id": number, "duration": finish - begin, "name": name, "stage_iid": _COPY}
                stage |= {"context": gpu.process, "gpu_id": gpu.number, "hw_queue_iid": _FIRST_QUEUE + track}
                if kernel is not None:
                    stage |= {"stage_iid": _KERNEL, "kernel_iid": kernels[kernel.name], "launch": kernel.launch}
                yield begin, {"gpu_render_stage_event": stage}
                continue
            event = {"track_uuid": track + 1, "type": _SLICE_BEGIN, "name": name, "categories": group, **flows[number]}
            if index != NO_INDEX:
                event["debug_annotations"] = {"name": INDEX, "int_value": index}
            if number in queued:
                event["gpu_correlation"] = {"render_stage_submission_event_ids": queued[number]}
            yield begin, {"track_event": event}
            yield finish, {"track_event": {"track_uuid": track + 1, "type": _SLICE_END}}
        for track, (*_, times, values) in enumerate(self.counters, len(self.tracks) + 1):
            for time, value in zip(times.tolist(), values.tolist(), strict=True):
                event = {"track_uuid": track, "type": _COUNTER, "double_counter_value": float(value)}
                yield round(time), {"track_event": event}

    def _metrics(self, slices: pd.DataFrame) -> Iterator[tuple[int, int, Mapping[str, float]]]:
        """The number of a GPU, a time, and metrics from then on. Only of kernels that run alone, as
        Perfetto takes all that stands between start and end of a kernel for its own."""
        kernels = slices[slices["kernel"].notna()].sort_values("start_ns", kind="stable")
        numbers = np.array([gpu.number if gpu else -1 for _, gpu in self.tracks], int)[kernels["track"].to_numpy(int)]
        for gpu in np.unique(numbers).tolist():
            own = kernels[numbers == gpu]
            start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
            before = np.append(-np.inf, np.maximum.accumulate(end)[:-1])
            after = np.append(start[1:], np.inf)
            for row in np.flatnonzero((before <= start) & (end <= after)):
                if metrics := own["kernel"].iat[row].metrics:
                    yield gpu, round(start[row]), metrics
                    if end[row] < after[row]:
                        yield gpu, round(end[row]), dict.fromkeys(metrics, 0.0)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _encoded(kind: str, fields: Packet) -> bytes:
    """A message of protobuf, of texts, whole numbers, floats (``double``), messages, and lists of
    them."""
    data = bytearray()
    for name, values in fields.items():
        number, of_type = _FIELDS[kind][name]
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float) or of_type == "fixed64":
                data += _varint(number << 3 | 1) + struct.pack("<d" if isinstance(value, float) else "<Q", value)
            elif isinstance(value, int):
                data += _varint(number << 3) + _varint(value)
            else:
                inner = value.encode() if isinstance(value, str) else _encoded(of_type, value)
                data += _varint(number << 3 | 2) + _varint(len(inner)) + inner
    return bytes(data)


def _varint(value: int) -> bytes:
    digits = bytearray()
    value &= 0xFFFF_FFFF_FFFF_FFFF
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


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
