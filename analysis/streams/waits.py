"""Which streams each piece of work waits for by events, and up to where: over streams in which no
work lies between, and over contexts, of which each GPU has its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from ncubble.analysis.streams.calls import Calls
from ncubble.analysis.streams.records import CALLS, NONE, PEER, STREAM_WAIT

Lane = tuple[int, int]
"""Context and stream."""
Point = tuple[Lane, int]
"""A stream, and the time at which an event was recorded there: covers all earlier work of the
stream."""


def waits_before(
    rows: pd.DataFrame, calls: Calls, places: Mapping[Lane, np.ndarray], asked: Mapping[Lane, list[int]]
) -> dict[int, list[Point]]:
    """The waits of each piece of work, by its place: those that were queued in its stream between
    it and the work before it. ``places`` and ``asked``: work by stream, and when it was queued."""
    events = rows[(rows["kind"] == "event") | ((rows["kind"] == "sync") & (rows["flags"] == STREAM_WAIT))]
    home = _homes(rows, events)
    started = calls.started(events["correlation"].to_numpy(np.int64), events["start_ns"].to_numpy(np.int64))
    columns = (events[name].to_numpy() for name in ("kind", "context", "stream", "source", "extra"))
    ordered = [column[np.argsort(started, kind="stable")].tolist() for column in (*columns, started)]
    recorded: dict[tuple[int, int], list[Point]] = {}
    pending: dict[Lane, dict[Lane, tuple[int, int]]] = defaultdict(dict)
    found: dict[int, list[Point]] = defaultdict(list)
    for kind, context, stream, event, which, time in zip(*ordered, strict=True):
        # The number of the recording if CUPTI reports it, else the event's own, which recordings
        # share and which may belong to another context.
        keys = [(0, which)] * (which > 0) + [(context, event), (-1, event)]
        lane = home.get((context, stream), (context, stream))
        place = bisect_right(asked.get(lane, []), time)
        if kind == "event":
            since = asked[lane][place - 1] if place else -1
            handed_on = [(source, at) for source, (waited, at) in pending[lane].items() if waited > since]
            recorded.update({key: [(lane, time), *handed_on] for key in keys})
        elif stream != NONE:
            for source, at in next((recorded[key] for key in keys if key in recorded), ()):
                if source == lane:
                    continue
                pending[lane][source] = (time, at)
                if place < len(places.get(lane, ())):
                    found[int(places[lane][place])].append((source, at))
    return found


def _homes(rows: pd.DataFrame, events: pd.DataFrame) -> dict[Lane, Lane]:
    """The stream that is meant where CUPTI names one in a context that has none of that number: of
    a wait it tells the context that was current, not the stream's."""
    tell = pd.concat([rows[rows["kind"].isin(("stream", "kernel"))], events[events["kind"] == "event"]])
    known = set(map(tuple, tell[["context", "stream"]].drop_duplicates().to_numpy().tolist()))
    by_stream: dict[int, set[int]] = defaultdict(set)
    for context, stream in known:
        by_stream[stream].add(context)
    asked: Iterable[list[int]] = events[["context", "stream"]].drop_duplicates().to_numpy().tolist()
    return {
        (context, stream): (next(iter(by_stream[stream])), stream)
        for context, stream in asked
        if (context, stream) not in known and len(by_stream[stream]) == 1
    }


def on_own_streams(work: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """``work`` with copies between GPUs on the streams that they were queued on.

    CUPTI shows those of ``cudaMemcpyPeerAsync`` on a stream of the driver's own. The stream that
    was meant is that of the wait before the call and of the event after it, in the same thread;
    where these do not name one, the copy stays where CUPTI shows it.
    """
    copies = np.flatnonzero((work["kind"] == "copy") & (work["flags"] == PEER))
    if not len(copies):
        return work
    work = work.copy()
    queued = work[["process", "correlation", "context", "stream"]].to_numpy(np.int64).tolist()
    for process in np.unique(work["process"].to_numpy()[copies]).tolist():
        orders = _Orders(rows[rows["process"] == process])
        for place in copies.tolist():
            own, correlation, context, stream = queued[place]
            lane = orders.around(correlation) if own == process and (context, stream) not in orders.used else None
            if lane is not None:
                work.loc[place, ["context", "stream"]] = lane
    return work


class _Orders:
    """What the threads of a process queued, other than copies: ``used`` are the streams that
    kernels, events and waits name."""

    def __init__(self, rows: pd.DataFrame) -> None:
        calls = rows[rows["kind"].isin(CALLS)].sort_values("start_ns", ascending=False)
        columns = (calls[name].tolist() for name in ("correlation", "start_ns", "thread"))
        self._calls = {number: (start, thread) for number, start, thread in zip(*columns, strict=True)}
        own = rows[rows["kind"].isin(("kernel", "event")) | ((rows["kind"] == "sync") & (rows["flags"] == STREAM_WAIT))]
        home = _homes(rows, own)
        columns = (own[name].tolist() for name in ("kind", "correlation", "context", "stream"))
        self.used: set[Lane] = set()
        self._queued: dict[int, list[tuple[int, str, Lane]]] = defaultdict(list)
        for kind, number, context, stream in zip(*columns, strict=True):
            lane = home.get((context, stream), (context, stream))
            self.used.add(lane)
            if number in self._calls:
                start, thread = self._calls[number]
                self._queued[thread].append((start, kind, lane))
        for queued in self._queued.values():
            queued.sort()

    def around(self, correlation: int) -> Lane | None:
        """The one stream of the wait before a call and the event after it, in the call's thread."""
        if correlation not in self._calls:
            return None
        start, thread = self._calls[correlation]
        queued = self._queued[thread]
        after = bisect_left(queued, (start, "", (0, 0)))
        lanes = {lane for _, kind, lane in queued[max(after - 1, 0) : after] if kind == "sync"}
        lanes |= {lane for _, kind, lane in queued[after : after + 1] if kind == "event"}
        return lanes.pop() if len(lanes) == 1 else None
