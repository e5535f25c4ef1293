"""What was queued where and when, and what the host did meanwhile: the look-ups behind the causes of gaps."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pandas as pd

from ncubble.analysis.stream_causes import ALLOCATION, HOST_SYNC, LAUNCH_GAP, PAGEABLE_COPY, call_class
from ncubble.analysis.stream_engines import SMS
from ncubble.analysis.stream_records import BLOCKING, CALLS, NONE, NULL, STREAM_WAIT

Lane = tuple[int, int]
"""Context and stream."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the host, with what its name and its copies say about it."""

    start: int
    end: int
    name: str
    cause: str


@dataclass(slots=True)
class Item:
    """A piece of work: ``call`` queued it (None: not recorded), ``at`` is its place in the order of queueing."""

    start: int
    end: int
    engine: str
    what: str
    lane: Lane
    pageable: bool
    correlation: int
    graph: int
    call: Call | None
    thread: int
    at: int = 0
    waits: list[tuple[Lane, int]] = field(default_factory=list)
    """Streams that it waited for by events, each with the time at which the event was recorded there."""

    @property
    def queued(self) -> int:
        """When the host began to queue it; its start where no call was recorded."""
        return self.call.start if self.call is not None else self.start


class Thread:
    """The calls of one thread, outermost only: a runtime call holds the driver calls within it."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls: list[Call] = []
        for call in sorted(calls, key=lambda one: (one.start, -one.end)):
            if self.calls and call.end <= self.calls[-1].end:
                outer = self.calls[-1]
                if outer.cause == LAUNCH_GAP and call.cause != LAUNCH_GAP:  # the inner call says why
                    self.calls[-1] = Call(outer.start, outer.end, outer.name, call.cause)
            else:
                self.calls.append(call)
        self._starts = [call.start for call in self.calls]

    def at(self, time: int) -> tuple[Call | None, int]:
        """The call that the thread is in, and when that may change: the call's end, or the start of the next one."""
        place = bisect_right(self._starts, time)
        if place and time < self.calls[place - 1].end:
            return self.calls[place - 1], self.calls[place - 1].end
        return None, self._starts[place] if place < len(self._starts) else 2**62


class Queue:
    """All work of one device with the calls of its process. ``streams``: flags by context and stream."""

    def __init__(self, work: pd.DataFrame, rows: pd.DataFrame) -> None:
        self.streams, self._nulls = _stream_flags(rows)
        calls, by_correlation = _calls(rows, work)
        self.threads = {thread: Thread(found) for thread, found in calls.items()}
        self.items = _items(work, by_correlation)
        self.lanes: dict[Lane, list[Item]] = defaultdict(list)
        for item in sorted(self.items, key=lambda one: (one.queued, one.start)):
            item.at = len(self.lanes[item.lane])
            self.lanes[item.lane].append(item)
        self._reach = {lane: list(accumulate((item.end for item in items), max)) for lane, items in self.lanes.items()}
        self._asked = {lane: [item.queued for item in items] for lane, items in self.lanes.items()}
        self._engines = _by_engine(self.items)
        self._graphs: dict[int, list[Item]] = defaultdict(list)
        for item in self.items:
            if item.graph:
                self._graphs[item.correlation].append(item)
        self._allocations = sorted(
            (call.start, call.end, call.name)
            for thread in self.threads.values()
            for call in thread.calls
            if call.cause == ALLOCATION
        )
        _add_waits(self, rows)

    def head(self, item: Item, time: int) -> Item:
        """What stands first in the stream of ``item`` at ``time``: the first that has not ended, at most ``item``."""
        place = bisect_right(self._reach[item.lane], time)
        return self.lanes[item.lane][min(place, item.at)]

    def until(self, lane: Lane, asked: int) -> tuple[int, Item | None]:
        """When all that was queued in ``lane`` before ``asked`` has ended, and what ended last."""
        place = bisect_right(self._asked.get(lane, []), asked)
        if not place:
            return 0, None
        end = self._reach[lane][place - 1]
        last = next(item for item in reversed(self.lanes[lane][:place]) if item.end == end)
        return end, last

    def is_null(self, lane: Lane) -> bool:
        """Whether a stream is the legacy default stream of its context."""
        return self.streams.get(lane) == NULL or self._nulls.get(lane[0]) == lane[1]

    def serialized_with(self, lane: Lane) -> list[Lane]:
        """Streams that wait for ``lane`` and that it waits for, by the rules of the legacy default stream."""
        if self.is_null(lane):
            return [other for other in self.lanes if other != lane and other[0] == lane[0] and self._blocks(other)]
        if not self._blocks(lane):
            return []
        return [other for other in self.lanes if other != lane and other[0] == lane[0] and self.is_null(other)]

    def _blocks(self, lane: Lane) -> bool:
        return self.streams.get(lane) == BLOCKING

    def busy_with(self, engine: str, lane: Lane, time: int) -> Item | None:
        """What another stream does on a copy engine at ``time``."""
        items, starts = self._engines.get(engine, ([], []))
        place = bisect_right(starts, time)
        # Copies of one direction run one after the other; a few places back suffice for engines that share.
        for item in reversed(items[max(0, place - 4) : place]):
            if item.end > time and item.lane != lane:
                return item
        return None

    def graph_busy(self, head: Item, time: int) -> int | None:
        """When a node of the same launch of a graph ends that runs at ``time``."""
        if not head.graph:
            return None
        nodes = self._graphs.get(head.correlation, [])
        return next((node.end for node in nodes if node is not head and node.start <= time < node.end), None)

    def pageable_at(self, time: int) -> Item | None:
        """A pageable copy that runs at ``time``."""
        for engine, (items, starts) in self._engines.items():
            place = bisect_right(starts, time)
            for item in reversed(items[max(0, place - 4) : place]):
                if item.pageable and item.end > time and engine != SMS:
                    return item
        return None

    def allocation_at(self, time: int) -> tuple[str, int] | None:
        """An allocation that any thread is in at ``time``: its call's name and end."""
        place = bisect_right(self._allocations, (time, 2**62, ""))
        for _, end, name in reversed(self._allocations[max(0, place - 4) : place]):
            if end > time:
                return name, end
        return None


def _stream_flags(rows: pd.DataFrame) -> tuple[dict[Lane, int], dict[int, int]]:
    streams = rows[rows["kind"] == "stream"]
    contexts = rows[rows["kind"] == "context"]
    flags = {
        (int(context), int(stream)): int(flag)
        for context, stream, flag in streams[["context", "stream", "flags"]].itertuples(index=False)
    }
    return flags, {int(context): int(null) for context, null in contexts[["context", "flags"]].itertuples(index=False)}


def _calls(rows: pd.DataFrame, work: pd.DataFrame) -> tuple[dict[int, list[Call]], dict[int, tuple[Call, int]]]:
    """Calls by thread, and by the correlation of what they queued: the outermost one that has it."""
    pageable = set(work.loc[work["pageable"], "correlation"].tolist())
    copies = set(work.loc[(work["kind"] == "copy") & ~work["pageable"], "correlation"].tolist())
    threads: dict[int, list[Call]] = defaultdict(list)
    found: dict[int, tuple[Call, int]] = {}
    calls = rows[rows["kind"].isin(CALLS)]
    columns = calls[["start_ns", "end_ns", "name", "correlation", "thread"]]
    for start, end, name, correlation, thread in _tuples(columns):
        cause = call_class(name)
        if correlation in pageable:
            cause = PAGEABLE_COPY
        elif correlation in copies and "Async" not in name:  # returns when the copy is done
            cause = HOST_SYNC
        call = Call(start, end, name, cause)
        threads[thread].append(call)
        known = found.get(correlation)
        if known is None or (call.start, -call.end) < (known[0].start, -known[0].end):
            found[correlation] = call, thread
    return threads, found


def _items(work: pd.DataFrame, calls: dict[int, tuple[Call, int]]) -> list[Item]:
    columns = ("start_ns", "end_ns", "engine", "kind", "name", "context", "stream", "pageable", "correlation", "graph")
    items = []
    for start, end, engine, kind, name, context, stream, pageable, correlation, graph in _tuples(work[[*columns]]):
        call, thread = calls.get(correlation, (None, -1)) if correlation else (None, -1)
        if call is not None and call.start > start:  # a number that was used twice: not what queued it
            call, thread = None, -1
        what = name if kind == "kernel" else f"{engine} {kind}"
        lane = (context, stream)
        items.append(Item(start, end, engine, what, lane, pageable, correlation, graph, call, thread))
    return items


def _tuples(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows, as plain Python values: several times as fast as ``itertuples`` on text columns."""
    return zip(*(frame[name].tolist() for name in frame.columns), strict=True)


def _by_engine(items: list[Item]) -> dict[str, tuple[list[Item], list[int]]]:
    found: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.engine != SMS:
            found[item.engine].append(item)
    return {engine: (them, [item.start for item in them]) for engine, them in found.items()}


def _add_waits(queue: Queue, rows: pd.DataFrame) -> None:
    """Gives every item the waits for events that were queued in its stream between it and the item before it."""
    times: dict[int, int] = {}
    calls = rows[rows["kind"].isin(CALLS)]
    for correlation, start in calls[["correlation", "start_ns"]].itertuples(index=False):
        times.setdefault(correlation, start)
    recorded: dict[tuple[int, int], tuple[Lane, int]] = {}
    events = rows[rows["kind"].isin(("event", "sync"))]
    columns = ("kind", "flags", "context", "stream", "source", "extra", "correlation", "start_ns")
    told = [(times.get(row[6], row[7]), row) for row in events[[*columns]].itertuples(index=False)]
    for time, (kind, flags, context, stream, event, which, *_) in sorted(told, key=lambda one: one[0]):
        # The number of the recording where CUPTI tells it, else the event's own, which recordings share.
        keys = [(0, int(which))] * (which > 0) + [(int(context), int(event))]
        if kind == "event":
            for key in keys:
                recorded[key] = (int(context), int(stream)), time
        elif flags == STREAM_WAIT and stream != NONE:
            source = next((recorded[key] for key in keys if key in recorded), None)
            if source is not None:
                _wait_before(queue, (int(context), int(stream)), time, source)


def _wait_before(queue: Queue, lane: Lane, time: int, source: tuple[Lane, int]) -> None:
    asked = queue._asked.get(lane, [])
    place = bisect_right(asked, time)
    if place < len(asked) and source[0] != lane:
        queue.lanes[lane][place].waits.append(source)
