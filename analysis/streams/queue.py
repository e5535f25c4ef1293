"""What was queued where and when: the look-ups behind the causes of gaps. Arrays with one place per
piece of work."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.streams.recording import BLOCKING, FOREVER, NONE, NULL, PEER, STREAM_WAIT, TRIMMED, queueing
from ncubble.analysis.streams.work import SMS, Call, Calls, Idle, ways

Lane = tuple[int, int]
"""Context and stream."""
Point = tuple[Lane, int]
"""A stream, and the time at which an event was recorded there: covers all earlier work of the
stream."""


class QueueItem(NamedTuple):
    """A piece of work: ``call`` queued it (None: not recorded), ``at`` is its place in the order of
    its stream, ``waits`` is the work it waited for through events."""

    start: int
    end: int
    device: int
    engine: str
    what: str
    lane: Lane
    pageable: bool
    correlation: int
    graph: int
    at: int
    call: Call | None
    thread: int
    waits: list[Point]

    @property
    def queued(self) -> int:
        """When the host began to queue it; its start where no call was recorded."""
        return self.call.start if self.call is not None else self.start


class Queue:
    """All work of one process, on all its devices, with its calls (``rows``)."""

    def __init__(self, work: pd.DataFrame, rows: pd.DataFrame) -> None:
        told = rows.loc[rows["kind"].isin(("stream", "context")), ["kind", "context", "stream", "flags"]]
        described = told.to_numpy(object).tolist()
        flags = {(context, stream): flag for kind, context, stream, flag in described if kind == "stream"}
        nulls = {context: flag for kind, context, _, flag in described if kind == "context"}
        self.calls = Calls(rows, work)
        self.start, self.end, self.device, correlation, graph = (
            work[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "device", "correlation", "graph")
        )
        self.engine = work["engine"].to_numpy(object)
        self._call = self.calls.queuing(correlation, self.start)
        self.queued = self.calls.started(correlation, self.start, self.start)
        pieces = zip(work["kind"].tolist(), work["name"].tolist(), self.engine.tolist(), ways(work), strict=True)
        names = [name if kind == "kernel" else f"{engine} {kind}{way}" for kind, name, engine, way in pieces]
        lanes = list(zip(work["context"].tolist(), work["stream"].tolist(), strict=True))
        numbers = [column.tolist() for column in (correlation, graph, self._order(lanes))]
        first = [column.tolist() for column in (self.start, self.end, self.device, self.engine)]
        self._pieces = list(zip(*first, names, lanes, work["pageable"].tolist(), *numbers, strict=True))
        self._made: dict[int, QueueItem] = {}
        # Legacy default streams and blocking streams by context: there may be tens of thousands.
        self._null: dict[int, list[Lane]] = defaultdict(list)
        self._blocking: dict[int, dict[Lane, None]] = defaultdict(dict)
        for lane in self.lanes:
            if flags.get(lane) == NULL or nulls.get(lane[0]) == lane[1]:
                self._null[lane[0]].append(lane)
            if flags.get(lane) == BLOCKING:
                self._blocking[lane[0]][lane] = None
        self._engines: dict[tuple[int, str], tuple[np.ndarray, list[int]]] = {}
        for device, engine in dict.fromkeys(zip(self.device.tolist(), self.engine.tolist(), strict=True)):
            if engine != SMS:
                places = np.flatnonzero((self.engine == engine) & (self.device == device))
                places = places[np.argsort(self.start[places], kind="stable")]
                self._engines[device, engine] = places, self.start[places].tolist()
        self._graphs: dict[int, list[int]] = defaultdict(list)
        for place in np.flatnonzero((graph != 0) & (self.engine != SMS)).tolist():
            self._graphs[int(correlation[place])].append(place)
        self._correlation = correlation
        allocations = [call for own in self.calls.threads.values() for call in own if call.cause == Idle.ALLOCATION]
        self._allocations = sorted(allocations)
        self._trims = np.sort(rows.loc[(rows["kind"] == "pool") & (rows["flags"] == TRIMMED), "start_ns"].to_numpy())
        self._waits = self._waits_before(rows)

    def _order(self, lanes: list[Lane]) -> np.ndarray:
        """The order in which each stream got its work, and when all up to each place has ended."""
        numbers = {lane: number for number, lane in enumerate(dict.fromkeys(lanes))}
        lane_of = np.fromiter((numbers[lane] for lane in lanes), np.int64, len(lanes))
        order = np.lexsort((self.start, self.queued, lane_of))
        edges = np.searchsorted(lane_of[order], np.arange(len(numbers) + 1))
        at = np.empty(len(order), np.int64)
        self.lanes: dict[Lane, list[int]] = {}
        self._reach: dict[Lane, list[int]] = {}
        self._asked: dict[Lane, list[int]] = {}
        for lane, low, high in zip(numbers, edges[:-1], edges[1:], strict=True):
            own = order[low:high]
            at[own] = np.arange(len(own))
            self.lanes[lane], self._asked[lane] = own.tolist(), self.queued[own].tolist()
            self._reach[lane] = np.maximum.accumulate(self.end[own]).tolist()
        return at

    def item(self, place: int) -> QueueItem:
        """The work at a place of the arrays."""
        if place not in self._made:
            number, calls = int(self._call[place]), self.calls
            call, thread = (calls.call(number), int(calls.thread[number])) if number >= 0 else (None, -1)
            self._made[place] = QueueItem._make((*self._pieces[place], call, thread, self._waits.get(place, [])))
        return self._made[place]

    def head(self, item: QueueItem, time: int) -> QueueItem:
        """What stands first in the stream of ``item`` at ``time``: the first that has not ended, at
        most ``item``."""
        place = bisect_right(self._reach[item.lane], time)
        return self.item(self.lanes[item.lane][min(place, item.at)])

    def before(self, item: QueueItem) -> QueueItem | None:
        """The work before it in its stream."""
        return self.item(self.lanes[item.lane][item.at - 1]) if item.at else None

    def ready(self, item: QueueItem) -> int:
        """When all work before ``item`` in its stream has ended; long ago where there is none."""
        return self._reach[item.lane][item.at - 1] if item.at else -FOREVER

    def until(self, lane: Lane, queued_by: int) -> tuple[int, QueueItem | None]:
        """When all that was queued in ``lane`` before ``queued_by`` has ended, and what ended
        last."""
        place = bisect_right(self._asked.get(lane, []), queued_by)
        if not place:
            return 0, None
        end = self._reach[lane][place - 1]
        return end, self.item(next(index for index in reversed(self.lanes[lane][:place]) if self.end[index] == end))

    def is_null(self, lane: Lane) -> bool:
        """Whether a stream is the legacy default stream of its context."""
        return lane in self._null.get(lane[0], ())

    def serialized_with(self, lane: Lane) -> list[Lane]:
        """Streams that wait for ``lane`` and that it waits for, by the rules of the legacy default
        stream."""
        blocking, null = self._blocking.get(lane[0], {}), self._null.get(lane[0], [])
        others = blocking if lane in null else null if lane in blocking else ()
        return [other for other in others if other != lane]

    def _on(self, engine: tuple[int, str], time: int) -> Iterable[QueueItem]:
        # Copies in one direction run one after the other; for shared engines it suffices to look a
        # few positions back.
        places, starts = self._engines.get(engine, (np.array([], int), []))
        index = bisect_right(starts, time)
        return map(self.item, places[max(0, index - 4) : index][::-1].tolist())

    def busy_with(self, copy: QueueItem, time: int) -> QueueItem | None:
        """What another stream does at ``time`` on the engine that ``copy`` needs."""
        items = self._on((copy.device, copy.engine), time)
        return next((item for item in items if item.end > time and item.lane != copy.lane), None)

    def last_on(self, item: QueueItem) -> QueueItem | None:
        """What the engine of a copy did last before it."""
        items = self._on((item.device, item.engine), item.start)
        return next((before for before in items if before.end <= item.start), None)

    def graph_busy(self, head: QueueItem, time: int) -> int | None:
        """When a node of the same launch of a graph ends that runs at ``time``."""
        # In a gap no kernel runs, so only copies and sets of the graph can.
        nodes = (self.item(place) for place in self._graphs.get(head.correlation, []) if head.graph)
        own = head.lane, head.at
        return next((node.end for node in nodes if node.start <= time < node.end and (node.lane, node.at) != own), None)

    def node_before(self, head: QueueItem) -> bool:
        """Whether other nodes of the same launch of a graph stand before ``head`` in its stream."""
        before = self.lanes[head.lane][: head.at]
        return bool(head.graph and (self._correlation[before] == head.correlation).any())

    def pageable_at(self, time: int) -> QueueItem | None:
        """A pageable copy that runs at ``time``."""
        items = (item for engine in self._engines for item in self._on(engine, time))
        return next((item for item in items if item.pageable and item.end > time), None)

    def allocation_at(self, time: int) -> Call | None:
        """An allocation that any thread is in at ``time``."""
        place = bisect_right(self._allocations, time, key=lambda call: call.start)
        return next((call for call in self._allocations[max(0, place - 4) : place][::-1] if call.end > time), None)

    def trimmed_in(self, call: Call, device: int) -> int | None:
        """From when on a waiting call gives memory of a pool back: the last work of ``device``
        before it; None if it does not.

        Within the call, as the pool is trimmed only when the GPU has nothing left to do.
        """
        place = int(np.searchsorted(self._trims, call.start))
        if place == len(self._trims) or self._trims[place] > call.end:
            return None
        before = (self.device == device) & (self.start < self._trims[place])
        return int(self.end[before].max()) if before.any() else call.start

    def _waits_before(self, rows: pd.DataFrame) -> dict[int, list[Point]]:
        """The waits of each piece of work, by its place: those that were queued in its stream
        between it and the work before it."""
        events = rows[(rows["kind"] == "event") | ((rows["kind"] == "sync") & (rows["flags"] == STREAM_WAIT))]
        home = _homes(rows, events)
        correlation, start = (events[name].to_numpy(np.int64) for name in ("correlation", "start_ns"))
        started = self.calls.started(correlation, np.full(len(events), FOREVER), start)
        columns = (events[name].to_numpy() for name in ("kind", "context", "stream", "source", "extra"))
        ordered = [column[np.argsort(started, kind="stable")].tolist() for column in (*columns, started)]
        recorded: dict[tuple[int, int], list[Point]] = {}
        pending: dict[Lane, dict[Lane, tuple[int, int]]] = defaultdict(dict)
        waits: dict[int, list[Point]] = defaultdict(list)
        for kind, context, stream, event, which, time in zip(*ordered, strict=True):
            # The number of the recording if CUPTI reports it, else the event's own, which
            # recordings share and which may belong to another context.
            keys = [(0, which)] * (which > 0) + [(context, event), (-1, event)]
            lane = home.get((context, stream), (context, stream))
            place = bisect_right(self._asked.get(lane, []), time)
            if kind == "event":
                since = self._asked[lane][place - 1] if place else -1
                handed_on = [(source, at) for source, (waited, at) in pending[lane].items() if waited > since]
                recorded.update({key: [(lane, time), *handed_on] for key in keys})
            elif stream != NONE:
                for source, at in next((recorded[key] for key in keys if key in recorded), ()):
                    if source == lane:
                        continue
                    pending[lane][source] = (time, at)
                    if place < len(self.lanes.get(lane, ())):
                        waits[self.lanes[lane][place]].append((source, at))
        return waits


def _homes(rows: pd.DataFrame, events: pd.DataFrame) -> dict[Lane, Lane]:
    """The stream that is meant where CUPTI names one in a context that has none of that number: of
    a wait it tells the context that was current, not the stream's."""
    tell = pd.concat([rows[rows["kind"].isin(("stream", "kernel"))], events[events["kind"] == "event"]])
    known, asked = (
        dict.fromkeys(zip(frame["context"].tolist(), frame["stream"].tolist(), strict=True)) for frame in (tell, events)
    )
    by_stream: dict[int, list[Lane]] = defaultdict(list)
    for lane in known:
        by_stream[lane[1]].append(lane)
    return {lane: by_stream[lane[1]][0] for lane in asked if lane not in known and len(by_stream[lane[1]]) == 1}


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
    for process, places in work.iloc[copies].groupby("process").groups.items():
        _to_own_streams(work, list(places), rows[rows["process"] == process])
    return work


def _to_own_streams(work: pd.DataFrame, places: list[int], rows: pd.DataFrame) -> None:
    own = rows[rows["kind"].isin(("kernel", "event")) | ((rows["kind"] == "sync") & (rows["flags"] == STREAM_WAIT))]
    home = _homes(rows, own)
    told = zip(own["context"].tolist(), own["stream"].tolist(), strict=True)
    lanes_of = [home.get(lane, lane) for lane in told]
    orders: dict[float, list[tuple[float, str, Lane]]] = defaultdict(list)
    calls = queueing(rows, own)
    for start, thread, kind, lane in zip(calls["start_ns"], calls["thread"], own["kind"], lanes_of, strict=True):
        orders[thread].append((start, kind, lane))
    for queued in orders.values():
        queued.sort()
    used, copies = set(lanes_of), work.loc[places]
    calls = queueing(rows, copies).assign(context=copies["context"], stream=copies["stream"]).dropna()
    for place, start, thread, *shown in calls[["start_ns", "thread", "context", "stream"]].itertuples():
        if tuple(shown) in used:
            continue
        queued = orders[thread]
        after = bisect_left(queued, (start, "", (0, 0)))
        lanes = {lane for _, kind, lane in queued[max(after - 1, 0) : after] if kind == "sync"}
        lanes |= {lane for _, kind, lane in queued[after : after + 1] if kind == "event"}
        if len(lanes) == 1:
            work.loc[place, ["context", "stream"]] = lanes.pop()
