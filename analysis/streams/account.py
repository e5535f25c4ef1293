"""What a recording says about each device: how busy its engines were, what overlapped, and why its
SMs were idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.streams.gaps import IdleGap, by_cause, gaps_of, plain
from ncubble.analysis.streams.queue import Queue, on_own_streams
from ncubble.analysis.streams.recording import RANGE, Recording, geometry, within_profiled
from ncubble.analysis.streams.work import CAUSES, D2H, H2D, P2P, SMS, Calls, devices, short_name, work_lanes, work_of
from ncubble.analysis.traces.drawing import PROCESS, Drawing, Gpu, KernelFacts
from ncubble.analysis.traces.lanes import MOST_ROWS, TEXTS, TIMES, Concurrency, Lanes, concurrency, percent, works


@dataclass(frozen=True)
class DeviceAccount:
    """One device of one process. ``name`` is empty where there is only one. ``work``: what it did
    (``work.work_of``); ``lanes``: the same as rows of lanes; ``gaps`` in order of time. Times in
    ns; ``zero``: the first work of any device."""

    process: int
    device: int
    name: str
    work: pd.DataFrame
    lanes: pd.DataFrame
    concurrency: Concurrency
    gaps: list[IdleGap]
    zero: int = 0

    @property
    def kernels(self) -> int:
        """How many kernels ran."""
        return int((self.work["kind"] == "kernel").sum())

    @property
    def copies(self) -> int:
        """How many copies were made."""
        return int((self.work["kind"] == "copy").sum())

    @property
    def span_ns(self) -> float:
        """From the first work to the end of the last."""
        return self.concurrency.span_ns

    @property
    def idle_ns(self) -> int:
        """Time of the span in which no SM worked; the causes sum to it."""
        return sum(gap.ns for gap in self.gaps)

    @property
    def causes(self) -> dict[str, tuple[int, int]]:
        """Idle time by cause, most first, and the number of gaps that are mostly due to it."""
        number = Counter(gap.cause for gap in self.gaps)
        return {name: (ns, number[name]) for name, ns in by_cause(self.gaps).items()}

    def pct(self, ns: float) -> float:
        """In percent of the span."""
        return percent(ns, self.span_ns)

    @property
    def idle_lane(self) -> pd.DataFrame:
        """The gaps in which no SM worked as rows of a lane: waits that name the cause."""
        rows = [("no SM works", SMS, f"wait: {CAUSES[gap.cause].title}", gap.start, gap.end) for gap in self.gaps]
        return pd.DataFrame(rows, columns=[*TEXTS, *TIMES]).astype(dict.fromkeys(TIMES, float))


def counted(recording: Recording, whole: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows that count, and the work in them. Only what a program does between
    ``cudaProfilerStart`` and ``cudaProfilerStop`` counts, if it calls them; ``whole`` takes
    everything."""
    rows = recording.rows if whole else within_profiled(recording.rows)
    return rows, on_own_streams(work_of(rows), rows)


def accounts(recording: Recording, whole: bool = False) -> list[DeviceAccount]:
    """One account per process and device that did anything (``counted``), in order."""
    rows, work = counted(recording, whole)
    pairs = devices(work)
    several = len({process for process, _ in pairs}) > 1
    queues: dict[int, Queue] = {}
    found = []
    for process, device in pairs:
        if process not in queues:
            own = work[work["process"] == process].reset_index(drop=True)
            queues[process] = Queue(own, rows[rows["process"] == process])
        own = work[(work["process"] == process) & (work["device"] == device)]
        name = (f"process {process} GPU {device}" if several else f"GPU {device}") if len(pairs) > 1 else ""
        lanes = work_lanes(own.reset_index(drop=True))
        gaps, zero = gaps_of(queues[process], device), int(work["start_ns"].min())
        found.append(DeviceAccount(process, device, name, own, lanes, concurrency(lanes), gaps, zero))
    return found


def stream_lanes(devices: Sequence[DeviceAccount]) -> tuple[Lanes, str]:
    """What the timelines draw, their gaps included, and a note where that is not all."""
    frames = []
    for device in devices:
        own = pd.concat([device.lanes, device.idle_lane], ignore_index=True)
        frames.append(own.assign(group=f"{device.name} " + own["group"]) if device.name else own)
    every = pd.concat(frames, ignore_index=True)
    rows = every.sort_values("start_ns", kind="stable").iloc[:MOST_ROWS].sort_index()[[*TEXTS, *TIMES]]
    note = f"the timeline holds the first {MOST_ROWS:,} of {len(every):,} intervals" if len(every) > MOST_ROWS else ""
    facts = {"devices": [{"name": device.name, **account_json(device, longest=0)} for device in devices]}
    return Lanes("streams", rows, facts), note


def account_json(account: DeviceAccount, longest: int = 10) -> dict[str, Any]:
    """The account as JSON: percents of the span, times in us; ``longest`` gaps."""
    idle, together, pct = account.idle_ns, account.concurrency, account.pct
    copied = account.work[account.work["kind"] == "copy"].groupby("engine")["bytes"].sum()
    return {
        "process": account.process,
        "device": account.device,
        "span_us": account.span_ns / 1e3,
        "kernels": account.kernels,
        "copies": account.copies,
        **{f"bytes_{way}": int(copied.get(engine, 0)) for way, engine in (("up", H2D), ("down", D2H), ("peer", P2P))},
        "engines": [
            {"engine": engine, "busy_us": ns / 1e3, "busy_pct": pct(ns)} for engine, ns in together.busy_ns.items()
        ],
        "all_idle_us": together.idle_ns / 1e3,
        "overlap": [
            {
                "engines": list(overlap.what),
                "us": overlap.ns / 1e3,
                "pct_of_span": overlap.pct_of_span,
                "pct_of_least": overlap.pct_of_least,
            }
            for overlap in together.overlaps
        ],
        "sm_idle_us": idle / 1e3,
        "sm_idle_pct": pct(idle),
        "causes": [
            {
                "cause": name,
                "us": ns / 1e3,
                "pct_of_span": pct(ns),
                "pct_of_idle": percent(ns, idle),
                "gaps": count,
                "remedy": CAUSES[name].remedy,
            }
            for name, (ns, count) in account.causes.items()
        ],
        "gaps": len(account.gaps),
        "longest": [
            {
                "start_us": (gap.start - account.zero) / 1e3,  # from where the timeline begins
                "us": gap.ns / 1e3,
                "cause": gap.cause,
                "evidence": gap.evidence,
                "next": short_name(gap.next) if gap.next else "",
                "parts_us": {name: ns / 1e3 for name, ns in gap.parts.items()},
            }
            for gap in sorted(account.gaps, key=lambda gap: (-gap.ns, gap.start))[:longest]
        ],
    }


_LAUNCH = r"^launch (\d+) "
"""Prefix of warp lanes if there are several launches."""
STRAY_NS = 3000.0
"""Maximum apparent offset of warps outside their kernel: the linear fit of SM clocks is accurate to
2.5 µs (docs/trace.md)."""


@dataclass(frozen=True)
class Levels:
    """``streams`` and ``warps`` are rows of lanes, ``warps`` with their ``launch``; ``launches``
    has one row for each: ``launch``, ``lane``, ``start_ns``, ``end_ns`` of its kernel. Time is
    since the first work of the streams. ``slack_ns``: width of the range that was left for the
    distance of the clocks; below 0 by how far some warps seem to lie outside of their kernel."""

    streams: pd.DataFrame
    warps: pd.DataFrame
    launches: pd.DataFrame
    slack_ns: float

    @property
    def middle(self) -> int:
        """The launch in the middle of the run, in which the pipeline is full."""
        return int(self.launches["launch"].iloc[len(self.launches) // 2])

    def of_launch(self, launch: int) -> tuple[pd.Series, pd.DataFrame]:
        """The kernel of a launch and the lanes of its warps; raises KeyError where there is
        none."""
        rows = self.launches[self.launches["launch"] == launch]
        if rows.empty:
            raise KeyError(launch)
        return rows.iloc[0], self.warps[self.warps["launch"] == launch].reset_index(drop=True)


def levels_of(streams: pd.DataFrame, warps: pd.DataFrame) -> Levels | None:
    """Both, as rows of lanes of one run, brought together; None where no kernel of the streams can
    be that of the warps."""
    zero = float(streams["start_ns"].min()) if len(streams) else 0.0
    streams = streams.assign(start_ns=streams["start_ns"] - zero, end_ns=streams["end_ns"] - zero)
    numbers = warps["lane"].str.extract(_LAUNCH, expand=False).fillna("0").astype(int)
    warps = warps.assign(launch=numbers, lane=warps["lane"].str.replace(_LAUNCH, "", regex=True))
    spans = warps.groupby("launch").agg(start=("start_ns", "min"), end=("end_ns", "max")).sort_values("start")
    work = streams[works(streams) & streams["group"].str.endswith(SMS)]
    found: list[Levels] = []
    for _, kernels in work.groupby("tag", sort=False):
        if len(kernels) != len(spans):
            continue
        kernels = kernels.sort_values("start_ns", kind="stable")
        least = float(np.max(kernels["start_ns"].to_numpy() - spans["start"].to_numpy()))
        most = float(np.min(kernels["end_ns"].to_numpy() - spans["end"].to_numpy()))
        shift = (least + most) / 2
        placed = warps.assign(start_ns=warps["start_ns"] + shift, end_ns=warps["end_ns"] + shift)
        launches = kernels[["lane", "start_ns", "end_ns"]].assign(launch=spans.index.to_numpy())
        found.append(Levels(streams, placed, launches.reset_index(drop=True), most - least))
    best = max(found, key=lambda levels: levels.slack_ns, default=None)
    return best if best is not None and best.slack_ns >= -STRAY_NS else None


Profiled = Callable[[Any], tuple[Mapping[str, float], Mapping[str, float]]]
"""Of the row of a kernel: what a report tells of it by Perfetto's names, and its metrics."""


def streams_drawing(
    accounts: Sequence[DeviceAccount],
    recording: Recording,
    whole: bool = False,
    profiled: Profiled = lambda row: ({}, {}),
) -> Drawing:
    """What ``accounts`` were made of: the same stretch of ``recording``, which ``whole`` says."""
    rows, work = counted(recording, whole)
    drawing = Drawing()
    numbers = np.full(len(work), -1)
    for account in accounts:
        numbers[account.work.index] = _device(drawing, account, profiled)
    for process in dict.fromkeys(account.process for account in accounts):
        own, mine = work[work["process"] == process], rows[rows["process"] == process]
        for thread, ranges in mine[mine["kind"] == RANGE].groupby("thread"):
            path = (f"{PROCESS}{process}", f"NVTX, thread {thread}")
            drawing.lane(path, ranges.assign(tag=ranges["name"], group="NVTX"))
        calls = Calls(mine, own)
        drawn = _threads(drawing, calls, process)
        queued = calls.queuing(own["correlation"].to_numpy(np.int64), own["start_ns"].to_numpy(np.int64))
        known = queued >= 0
        drawing.flow(drawn[queued[known]], numbers[own.index[known]])
    return drawing


def _device(drawing: Drawing, account: DeviceAccount, profiled: Profiled) -> np.ndarray:
    """Draws a GPU; returns the slice of each row of its work."""
    root, work = account.name or f"GPU {account.device}", account.work
    gpu, numbers = Gpu(account.device, account.process), np.full(len(work), -1)
    facts = [_facts(row, profiled) if row.kind == "kernel" else None for row in work.itertuples()]
    for (engine, stream), own in account.lanes.groupby(["group", "lane"], sort=False):
        places = own["row"].to_numpy(int)
        own = own.assign(kernel=pd.Series([facts[place] for place in places], own.index, object))
        numbers[places] = drawing.lane((root, str(engine), str(stream)), own, gpu)
    if account.gaps:
        drawing.lane((root, SMS, "no SM works"), account.idle_lane)
    start, end = work["start_ns"].to_numpy(float), work["end_ns"].to_numpy(float)
    kernels = (work["kind"] == "kernel").to_numpy()
    drawing.counter((root, "kernels running"), "", start[kernels], end[kernels])
    copies = (work["kind"] == "copy").to_numpy() & (end > start)
    for engine in dict.fromkeys(work.loc[copies, "engine"].tolist()):
        own = copies & (work["engine"] == engine).to_numpy()
        rate = work["bytes"].to_numpy(float)[own] / (end[own] - start[own])  # bytes a ns are GB a s
        drawing.counter((root, f"{engine} rate"), "GB/s", start[own], end[own], rate)
    return numbers


def _facts(row: Any, profiled: Profiled) -> KernelFacts:
    """What is told of a kernel; traces count the static shared memory, and the registers, too."""
    grid, block, shared = geometry(row.flags, row.source, row.target, row.bytes) or ("", "", 0)
    told = {"registers_per_thread": row.extra, "shared_mem": shared} if row.extra else {"shared_mem_dynamic": shared}
    more, metrics = profiled(row)
    return KernelFacts(row.name, grid, block, {"device": row.device, "stream": row.stream, **told, **more}, metrics)


def _threads(drawing: Drawing, calls: Calls, process: int) -> np.ndarray:
    """Draws the calls of a process, outermost only; returns for each call the slice that it lies
    in."""
    drawn = np.full(len(calls.start), -1)
    for thread in calls.threads:
        shown = np.flatnonzero((calls.thread == thread) & (calls.holder == np.arange(len(drawn))))
        frame = pd.DataFrame({"start_ns": calls.start[shown], "end_ns": calls.end[shown], "group": "host"})
        frame["tag"] = [plain(name) for name in calls.name[shown]]
        drawn[shown] = drawing.lane((f"{PROCESS}{process}", f"thread {thread}"), frame)
    return drawn[calls.holder]
