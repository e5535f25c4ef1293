"""What was queued where and when: the look-ups behind the causes of gaps. Arrays with one place per
piece of work."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ncubble.analysis.streams.calls import FOREVER, Call, Calls, reaching
from ncubble.analysis.streams.causes import ALLOCATION
from ncubble.analysis.streams.engines import SMS, ways
from ncubble.analysis.streams.records import BLOCKING, NULL, TRIMMED
from ncubble.analysis.streams.waits import Lane, Point, waits_before


@dataclass(slots=True)
class QueueItem:
    """A piece of work: ``call`` queued it (None: not recorded), ``at`` is its place in the order of
    its stream."""

    start: int
    end: int
    device: int
    engine: str
    what: str
    lane: Lane
    pageable: bool
    correlation: int
    graph: int
    call: Call | None
    thread: int
    at: int
    waits: list[Point] = field(default_factory=list)
    """Work it waited for through events."""

    @property
    def queued(self) -> int:
        """When the host began to queue it; its start where no call was recorded."""
        return self.call.start if self.call is not None else self.start


class Queue:
    """All work of one process, on all its devices, with its calls (``rows``). ``streams``: flags by
    context and stream."""

    def __init__(self, work: pd.DataFrame, rows: pd.DataFrame) -> None:
        self.streams, self._nulls = _stream_flags(rows)
        self.calls = Calls(rows, work)
        self.device = work["device"].to_numpy(np.int64)
        self.start, self.end = work["start_ns"].to_numpy(np.int64), work["end_ns"].to_numpy(np.int64)
        self.engine = work["engine"].to_numpy(object)
        self.correlation, self.graph = work["correlation"].to_numpy(np.int64), work["graph"].to_numpy(np.int64)
        self._kind, self._name = work["kind"].to_numpy(object), work["name"].to_numpy(object)
        self._ways = ways(work)
        self.pageable = work["pageable"].to_numpy(bool)
        self.call = self.calls.queuing(self.correlation, self.start)
        has = self.call >= 0
        self.queued = np.where(has, self.calls.start[self.call] if len(self.calls.start) else 0, self.start)
        self._order(work)
        self._sort_lanes()
        self._made: dict[int, QueueItem] = {}
        self._engines = self._by_engine()
        self._graphs = self._copies_of_graphs()
        self.allocations = self._allocations()
        self.trims = np.sort(rows.loc[(rows["kind"] == "pool") & (rows["flags"] == TRIMMED), "start_ns"].to_numpy())
        self._ends = {
            device: reaching(self.start[self.device == device], self.end[self.device == device])
            for device in np.unique(self.device).tolist()
        }
        self.waits = waits_before(rows, self.calls, self.lanes, self._asked)

    def _order(self, work: pd.DataFrame) -> None:
        """The order in which each stream got its work, and when all up to each place has ended."""
        pairs = list(zip(work["context"].tolist(), work["stream"].tolist(), strict=True))
        self.lane_names: list[Lane] = list(dict.fromkeys(pairs))
        numbers = {lane: number for number, lane in enumerate(self.lane_names)}
        self.lane = np.fromiter((numbers[pair] for pair in pairs), np.int64, len(pairs))
        order = np.lexsort((self.start, self.queued, self.lane))
        edges = np.searchsorted(self.lane[order], np.arange(len(numbers) + 1))
        self.at = np.empty(len(order), np.int64)
        self.before = np.full(len(order), -1)
        self.reach_before = np.full(len(order), -1)
        self.lanes: dict[Lane, np.ndarray] = {}
        self._reach: dict[Lane, list[int]] = {}
        self._asked: dict[Lane, list[int]] = {}
        for lane, low, high in zip(self.lane_names, edges[:-1], edges[1:], strict=True):
            own = order[low:high]
            reach = np.maximum.accumulate(self.end[own])
            self.at[own] = np.arange(len(own))
            self.before[own[1:]], self.reach_before[own[1:]] = own[:-1], reach[:-1]
            self.lanes[lane], self._reach[lane], self._asked[lane] = own, reach.tolist(), self.queued[own].tolist()

    def name(self, place: int) -> str:
        """What the work at a place of the arrays is: a kernel's name, or an engine and a kind."""
        kind = self._kind[place]
        return str(self._name[place]) if kind == "kernel" else f"{self.engine[place]} {kind}{self._ways[place]}"

    def item(self, place: int) -> QueueItem:
        """The work at a place of the arrays."""
        if place not in self._made:
            made = int(self.call[place])
            self._made[place] = QueueItem(
                start=int(self.start[place]),
                end=int(self.end[place]),
                device=int(self.device[place]),
                engine=str(self.engine[place]),
                what=self.name(place),
                lane=self.lane_names[self.lane[place]],
                pageable=bool(self.pageable[place]),
                correlation=int(self.correlation[place]),
                graph=int(self.graph[place]),
                call=self.calls.at(made) if made >= 0 else None,
                thread=int(self.calls.thread[made]) if made >= 0 else -1,
                at=int(self.at[place]),
                waits=self.waits.get(place, []),
            )
        return self._made[place]

    def head(self, item: QueueItem, time: int) -> QueueItem:
        """What stands first in the stream of ``item`` at ``time``: the first that has not ended, at
        most ``item``."""
        place = bisect_right(self._reach[item.lane], time)
        return self.item(int(self.lanes[item.lane][min(place, item.at)]))

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
        last = next(index for index in reversed(self.lanes[lane][:place]) if self.end[index] == end)
        return end, self.item(int(last))

    def is_null(self, lane: Lane) -> bool:
        """Whether a stream is the legacy default stream of its context."""
        return self.streams.get(lane) == NULL or self._nulls.get(lane[0]) == lane[1]

    def serialized_with(self, lane: Lane) -> list[Lane]:
        """Streams that wait for ``lane`` and that it waits for, by the rules of the legacy default
        stream."""
        if self.is_null(lane):
            return [other for other in self._blocking.get(lane[0], []) if other != lane]
        if self.streams.get(lane) != BLOCKING:
            return []
        return [other for other in self._null_lanes.get(lane[0], []) if other != lane]

    def _sort_lanes(self) -> None:
        """Blocking streams and legacy default streams by context: of streams there may be tens of
        thousands."""
        self._blocking: dict[int, list[Lane]] = defaultdict(list)
        self._null_lanes: dict[int, list[Lane]] = defaultdict(list)
        for lane in self.lane_names:
            if self.streams.get(lane) == BLOCKING:
                self._blocking[lane[0]].append(lane)
            if self.is_null(lane):
                self._null_lanes[lane[0]].append(lane)

    def _on(self, engine: tuple[int, str], time: int) -> list[QueueItem]:
        # Copies in one direction run one after the other; for shared engines it suffices to look a
        # few positions back.
        places, starts = self._engines.get(engine, (np.array([], int), []))
        index = bisect_right(starts, time)
        return [self.item(int(place)) for place in places[max(0, index - 4) : index][::-1]]

    def busy_with(self, copy: QueueItem, time: int) -> QueueItem | None:
        """What another stream does at ``time`` on the engine that ``copy`` needs."""
        items = self._on((copy.device, copy.engine), time)
        return next((item for item in items if item.end > time and item.lane != copy.lane), None)

    def last_on(self, item: QueueItem) -> QueueItem | None:
        """What the engine of a copy did last before it."""
        return next(
            (before for before in self._on((item.device, item.engine), item.start) if before.end <= item.start), None
        )

    def graph_busy(self, head: QueueItem, time: int) -> int | None:
        """When a node of the same launch of a graph ends that runs at ``time``."""
        if not head.graph:
            return None
        # In a gap no kernel runs, so only copies and sets of the graph can.
        nodes = (self.item(place) for place in self._graphs.get(head.correlation, []))
        return next(
            (
                node.end
                for node in nodes
                if node.start <= time < node.end and (node.lane, node.at) != (head.lane, head.at)
            ),
            None,
        )

    def node_before(self, head: QueueItem) -> bool:
        """Whether other nodes of the same launch of a graph stand before ``head`` in its stream."""
        before = self.lanes[head.lane][: head.at]
        return bool(head.graph and (self.correlation[before] == head.correlation).any())

    def pageable_at(self, time: int) -> QueueItem | None:
        """A pageable copy that runs at ``time``."""
        items = (item for engine in self._engines for item in self._on(engine, time))
        return next((item for item in items if item.pageable and item.end > time), None)

    def allocation_at(self, time: int) -> tuple[str, int] | None:
        """An allocation that any thread is in at ``time``: its call's name and end."""
        calls, starts = self.allocations
        place = bisect_right(starts, time)
        return next(((call.name, call.end) for call in calls[max(0, place - 4) : place][::-1] if call.end > time), None)

    def trimmed_in(self, call: Call, device: int) -> int | None:
        """From when on a waiting call gives memory of a pool back: the last work of ``device``
        before it; None if it does not.

        Within the call, as the pool is trimmed only when the GPU has nothing left to do.
        """
        place = int(np.searchsorted(self.trims, call.start))
        if place == len(self.trims) or self.trims[place] > call.end:
            return None
        starts, reach = self._ends[device]
        before = int(np.searchsorted(starts, self.trims[place]))
        return int(reach[before - 1]) if before else call.start

    def _allocations(self) -> tuple[list[Call], list[int]]:
        calls = [
            thread.call(int(place))
            for thread in self.calls.threads.values()
            for place in np.flatnonzero(thread.cause == ALLOCATION)
        ]
        calls.sort(key=lambda call: (call.start, call.end))
        return calls, [call.start for call in calls]

    def _copies_of_graphs(self) -> dict[int, list[int]]:
        places: dict[int, list[int]] = defaultdict(list)
        for place in np.flatnonzero((self.graph != 0) & (self.engine != SMS)).tolist():
            places[int(self.correlation[place])].append(place)
        return places

    def in_plain_graph(self) -> np.ndarray:
        """Work of no graph, or of a launch of a graph that holds kernels only."""
        plain: np.ndarray = ~np.isin(self.correlation, list(self._graphs)) | (self.graph == 0)
        return plain

    def _by_engine(self) -> dict[tuple[int, str], tuple[np.ndarray, list[int]]]:
        engines = {}
        for device, engine in dict.fromkeys(zip(self.device.tolist(), self.engine.tolist(), strict=True)):
            if engine != SMS:
                places = np.flatnonzero((self.engine == engine) & (self.device == device))
                places = places[np.argsort(self.start[places], kind="stable")]
                engines[device, engine] = places, self.start[places].tolist()
        return engines


def _stream_flags(rows: pd.DataFrame) -> tuple[dict[Lane, int], dict[int, int]]:
    streams = rows[rows["kind"] == "stream"]
    contexts = rows[rows["kind"] == "context"]
    flags = {
        (int(context), int(stream)): int(flag)
        for context, stream, flag in streams[["context", "stream", "flags"]].itertuples(index=False)
    }
    return flags, {int(context): int(null) for context, null in contexts[["context", "flags"]].itertuples(index=False)}
