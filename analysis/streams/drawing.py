"""A recording of streams as tracks: engines and streams of each GPU, ranges and calls of each
thread, flows from a call to the work that it queued, and counters of kernels and copies."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ncubble.analysis.streams.account import DeviceAccount, idle_lane
from ncubble.analysis.streams.calls import Calls
from ncubble.analysis.streams.engines import SMS, lanes_of, work_of
from ncubble.analysis.streams.marks import RANGE
from ncubble.analysis.streams.records import Recording, within_profiled
from ncubble.analysis.streams.waits import on_own_streams
from ncubble.analysis.traces.drawing import Drawing, Sketch, running

_VERSION = re.compile(r"_v\d+(?=_ptsz$|$)")
"""Version suffix of CUDA function names."""


def streams_drawing(accounts: Sequence[DeviceAccount], recording: Recording, whole: bool = False) -> Drawing:
    """What ``accounts`` were made of: the same stretch of ``recording``, which ``whole`` says."""
    rows = recording.rows if whole else within_profiled(recording.rows)
    work = on_own_streams(work_of(rows), rows)
    sketch = Sketch()
    numbers = np.full(len(work), -1)
    for account in accounts:
        own = work[(work["process"] == account.process) & (work["device"] == account.device)]
        numbers[own.index] = _device(sketch, account, own)
    for process in dict.fromkeys(account.process for account in accounts):
        own = work[work["process"] == process]
        _ranges(sketch, rows[(rows["kind"] == RANGE) & (rows["process"] == process)], process)
        calls = Calls(rows[rows["process"] == process], own)
        drawn = _threads(sketch, calls, process)
        queued = calls.queuing(own["correlation"].to_numpy(np.int64), own["start_ns"].to_numpy(np.int64))
        known = queued >= 0
        sketch.flow(drawn[queued[known]], numbers[own.index[known]])
    return sketch.done()


def _device(sketch: Sketch, account: DeviceAccount, work: pd.DataFrame) -> np.ndarray:
    """Draws a GPU; returns the slice of each row of ``work``."""
    root = account.name or f"GPU {account.device}"
    numbers = np.full(len(work), -1)
    lanes = lanes_of(work, rows=True)
    for (engine, stream), own in lanes.groupby(["group", "lane"], sort=False):
        numbers[own["row"].to_numpy(int)] = sketch.lane((root, str(engine), str(stream)), own)
    idle = idle_lane(account)
    if len(idle):
        sketch.lane((root, SMS, str(idle["lane"].iloc[0])), idle)
    start, end = work["start_ns"].to_numpy(float), work["end_ns"].to_numpy(float)
    kernels = (work["kind"] == "kernel").to_numpy()
    sketch.counter((root, "kernels running"), "", running(start[kernels], end[kernels]))
    copies = (work["kind"] == "copy").to_numpy() & (end > start)
    for engine in dict.fromkeys(work.loc[copies, "engine"].tolist()):
        own = copies & (work["engine"] == engine).to_numpy()
        rate = work["bytes"].to_numpy(float)[own] / (end[own] - start[own])  # bytes a ns are GB a s
        sketch.counter((root, f"{engine} rate"), "GB/s", running(start[own], end[own], rate))
    return numbers


def _ranges(sketch: Sketch, ranges: pd.DataFrame, process: int) -> None:
    """Draws the NVTX ranges of each thread; those within others are rows below them."""
    for thread, own in ranges.groupby("thread"):
        sketch.lane((f"process {process}", f"NVTX, thread {thread}"), own.assign(tag=own["name"], group="NVTX"))


def _threads(sketch: Sketch, calls: Calls, process: int) -> np.ndarray:
    """Draws the calls of a process, outermost only; returns for each call the slice that it lies
    in."""
    drawn = np.full(len(calls.start), -1)
    for thread in np.unique(calls.thread):
        own = np.flatnonzero(calls.thread == thread)
        order = own[np.lexsort((-calls.end[own], calls.start[own]))]
        end = calls.end[order]
        outer = np.append(True, end[1:] > np.maximum.accumulate(end)[:-1])
        shown = order[outer]
        frame = pd.DataFrame({"start_ns": calls.start[shown], "end_ns": calls.end[shown], "group": "host"})
        frame["tag"] = [_VERSION.sub("", str(name)) for name in calls.name[shown]]
        numbers = sketch.lane((f"process {process}", f"thread {thread}"), frame)
        drawn[order] = numbers[np.cumsum(outer) - 1]
    return drawn
