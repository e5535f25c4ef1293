"""A recording of streams as tracks: engines and streams of each GPU, ranges and calls of each
thread, flows from a call to the work that it queued, and counters of kernels and copies."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ncubble.analysis.streams.account import DeviceAccount, counted
from ncubble.analysis.streams.recording import RANGE, Recording
from ncubble.analysis.streams.work import SMS, Calls
from ncubble.analysis.traces.drawing import Drawing

_VERSION = re.compile(r"_v\d+(?=_ptsz$|$)")
"""Version suffix of CUDA function names."""


def streams_drawing(accounts: Sequence[DeviceAccount], recording: Recording, whole: bool = False) -> Drawing:
    """What ``accounts`` were made of: the same stretch of ``recording``, which ``whole`` says."""
    rows, work = counted(recording, whole)
    drawing = Drawing()
    numbers = np.full(len(work), -1)
    for account in accounts:
        numbers[account.work.index] = _device(drawing, account)
    for process in dict.fromkeys(account.process for account in accounts):
        own, mine = work[work["process"] == process], rows[rows["process"] == process]
        for thread, ranges in mine[mine["kind"] == RANGE].groupby("thread"):
            path = (f"process {process}", f"NVTX, thread {thread}")
            drawing.lane(path, ranges.assign(tag=ranges["name"], group="NVTX"))
        calls = Calls(mine, own)
        drawn = _threads(drawing, calls, process)
        queued = calls.queuing(own["correlation"].to_numpy(np.int64), own["start_ns"].to_numpy(np.int64))
        known = queued >= 0
        drawing.flow(drawn[queued[known]], numbers[own.index[known]])
    return drawing


def _device(drawing: Drawing, account: DeviceAccount) -> np.ndarray:
    """Draws a GPU; returns the slice of each row of its work."""
    root, work = account.name or f"GPU {account.device}", account.work
    numbers = np.full(len(work), -1)
    for (group, stream), own in account.lanes.groupby(["group", "lane"], sort=False):
        numbers[own["row"].to_numpy(int)] = drawing.lane((root, account.engine(str(group)), str(stream)), own)
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


def _threads(drawing: Drawing, calls: Calls, process: int) -> np.ndarray:
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
        frame["tag"] = [_VERSION.sub("", name) for name in calls.name[shown]]
        numbers = drawing.lane((f"process {process}", f"thread {thread}"), frame)
        drawn[order] = numbers[np.cumsum(outer) - 1]
    return drawn
