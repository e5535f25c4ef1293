"""Why no SM works: every gap between the first and the last work of a device, split by cause. Pure functions.

A gap ends with a kernel. Whatever kept that kernel at a moment is the cause of this moment: the host had not queued it
yet (then what the host did counts), or it stood in its stream behind other work, or it waited for an event, for the
legacy default stream, or for a copy engine that work before it needed. The parts of a gap sum to its length, and so do
the parts of all gaps to the idle time of the SMs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pandas as pd

from ncubble.analysis.concurrency import union
from ncubble.analysis.stream_causes import (
    ALLOCATION,
    DEFAULT_STREAM,
    DEPENDENCY,
    DRAIN,
    HOST_SYNC,
    LAUNCH_GAP,
    PAGEABLE_COPY,
    UNKNOWN,
    loads_code,
)
from ncubble.analysis.stream_engines import D2H, SMS, short_name
from ncubble.analysis.stream_queue import Item, Queue

LATENCY_MOST = 50_000
"""ns: a kernel that was queued and that nothing holds begins within this, else what held it is not known."""

Reason = tuple[str, int, str]
"""Cause, until when it holds, and the evidence."""


@dataclass
class Gap:
    """Time in which no SM worked. ``parts``: ns by cause; ``cause`` has most of them, and ``evidence`` says why."""

    start: int
    end: int
    next: str
    parts: dict[str, int] = field(default_factory=dict)
    evidence: str = ""

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.start

    @property
    def cause(self) -> str:
        """The cause with the largest part; of equal ones the first in time."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else UNKNOWN


def gaps_of(work: pd.DataFrame, rows: pd.DataFrame) -> list[Gap]:
    """All gaps of one device, in order of time. ``work``: its rows of ``work_of``; ``rows``: those of its process."""
    if work.empty:
        return []
    queue = Queue(work, rows)
    on_sms = work[work["engine"] == SMS]
    starts, ends = union(on_sms["start_ns"].to_numpy(), on_sms["end_ns"].to_numpy())
    begin, finish = int(work["start_ns"].min()), int(work["end_ns"].max())
    firsts = _firsts(queue)
    edges = zip([begin, *ends.tolist()], [*starts.tolist(), finish], strict=True)
    return [_gap(queue, start, end, firsts.get(end), bool(firsts)) for start, end in edges if end > start]


def _firsts(queue: Queue) -> dict[int, Item]:
    """The kernel that begins at a moment; the one queued first where several do."""
    found: dict[int, Item] = {}
    for item in queue.items:
        known = found.get(item.start)
        if item.engine == SMS and (known is None or item.queued < known.queued):
            found[item.start] = item
    return found


def _gap(queue: Queue, start: int, end: int, kernel: Item | None, firsts_known: bool) -> Gap:
    if kernel is None:
        what = "copies after the last kernel" if firsts_known else "no kernel ran"
        return Gap(start, end, "", {DRAIN: end - start}, what)
    gap = Gap(start, end, kernel.what)
    told: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    time = start
    while time < end:
        cause, until, why = _why(queue, kernel, time)
        until = min(max(until, time + 1), end)
        gap.parts[cause] = gap.parts.get(cause, 0) + until - time
        told[cause][why] += until - time
        time = until
    reasons = told[gap.cause]
    gap.evidence = max(reasons, key=lambda why: reasons[why])
    return gap


def _why(queue: Queue, kernel: Item, time: int) -> Reason:
    """What keeps ``kernel`` from running at ``time``."""
    head = queue.head(kernel, time)
    if head.start <= time:
        return _behind(queue, kernel, head)
    if head.call is None:
        if head.graph and any(item.correlation == head.correlation for item in queue.lanes[head.lane][: head.at]):
            return LAUNCH_GAP, head.start, "between the nodes of a graph"
        return UNKNOWN, head.start, "no call that queued it was recorded"
    if time < head.call.start:
        return _host(queue, head, time)
    return _queued(queue, head, time)


def _behind(queue: Queue, kernel: Item, head: Item) -> Reason:
    """The kernel waits for work that runs before it in its stream."""
    if head.pageable:
        return PAGEABLE_COPY, head.end, f"behind a pageable {head.what} in its stream"
    if head.engine == D2H and queue.is_null(head.lane):
        # A download hands nothing to a later kernel: only the one queue for all keeps them apart.
        return DEFAULT_STREAM, head.end, f"behind a {head.what} in the legacy default stream"
    return DEPENDENCY, head.end, f"behind a {short_name(head.what)} in its stream ({head.lane[1]})"


def _host(queue: Queue, head: Item, time: int) -> Reason:
    """The host has not begun to queue ``head``: what does its thread do?"""
    asked = head.queued
    call, until = queue.threads[head.thread].at(time)
    until = min(until, asked)
    if call is None:
        return LAUNCH_GAP, until, "the host was busy outside of CUDA"
    if call.cause in (HOST_SYNC, PAGEABLE_COPY) and (copy := queue.pageable_at(time)) is not None:
        return PAGEABLE_COPY, min(until, copy.end), f"the host was in {plain(call.name)} for a pageable {copy.what}"
    if call.cause == LAUNCH_GAP:
        what = "loaded code in" if loads_code(call.name) else "was in"
        return LAUNCH_GAP, until, f"the host {what} {plain(call.name)}"
    return call.cause, until, f"the host was in {plain(call.name)}"


def _queued(queue: Queue, head: Item, time: int) -> Reason:
    """``head`` was queued, and nothing in its stream is before it."""
    call = head.call
    assert call is not None  # noqa: S101 - checked by the caller
    for lane, recorded in head.waits:
        end, last = queue.until(lane, recorded)
        if end > time and last is not None:
            if last.pageable:
                return PAGEABLE_COPY, end, f"an event behind a pageable {last.what} of stream {lane[1]}"
            return DEPENDENCY, end, f"an event behind {short_name(last.what)} of stream {lane[1]}"
    for lane in queue.serialized_with(head.lane):
        end, last = queue.until(lane, call.start)
        if end > time and last is not None:
            other = "the legacy default stream" if queue.is_null(lane) else f"the blocking stream {lane[1]}"
            return DEFAULT_STREAM, end, f"waited for {short_name(last.what)} of {other}"
    if time < call.end and call.cause != LAUNCH_GAP:
        return call.cause, min(call.end, head.start), f"the host was in {plain(call.name)}"
    if head.engine != SMS and (other_copy := queue.busy_with(head.engine, head.lane, time)) is not None:
        return DEPENDENCY, min(other_copy.end, head.start), f"a {head.what}, for which the engine was not free"
    if (found := queue.allocation_at(time)) is not None:
        return ALLOCATION, min(found[1], head.start), f"queued, while a thread was in {plain(found[0])}"
    if time < call.end:
        return LAUNCH_GAP, min(call.end, head.start), f"the host was in {plain(call.name)}"
    if (node_end := queue.graph_busy(head, time)) is not None:
        return DEPENDENCY, min(node_end, head.start), "behind a node of the same graph"
    if head.start - max(time, call.end) > LATENCY_MOST:
        return UNKNOWN, head.start, "queued, and nothing recorded holds it"
    return LAUNCH_GAP, head.start, "from the end of the launching call to its begin"


def plain(name: str) -> str:
    """A call without the version that CUPTI adds to its name."""
    return name.split("_v")[0].removesuffix("_ptsz").removesuffix("_ptds")


def by_cause(gaps: list[Gap]) -> dict[str, int]:
    """Idle ns of the SMs by cause, largest first; they sum to the lengths of all gaps."""
    total: dict[str, int] = defaultdict(int)
    for gap in gaps:
        for cause, ns in gap.parts.items():
            total[cause] += ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def counts(gaps: list[Gap]) -> dict[str, int]:
    """How many gaps each cause has the largest part of."""
    total: dict[str, int] = defaultdict(int)
    for gap in gaps:
        total[gap.cause] += 1
    return dict(total)
