"""What keeps a kernel from running at a moment of a gap, and which cause this moment is counted
for. Pure functions.

The rule behind all of it: time counts for what would have to go for the kernel to begin that much
earlier. So the hand-over after a wait belongs to what was waited for, and what a host does late
because it waited belongs to the wait.
"""

from __future__ import annotations

from typing import NamedTuple

from ncubble.analysis.streams.calls import Call
from ncubble.analysis.streams.causes import (
    ALLOCATION,
    DEFAULT_STREAM,
    DEPENDENCY,
    HOST_SYNC,
    LAUNCH_GAP,
    OTHER_GPU,
    PAGEABLE_COPY,
    UNKNOWN,
    loads_code,
)
from ncubble.analysis.streams.engines import D2H, P2P, SMS, short_name
from ncubble.analysis.streams.queue import Queue, QueueItem

LATENCY_MOST = 50_000
"""ns: a queued kernel that is not blocked begins within this time; otherwise its blocker is
unknown."""
CHAIN_MOST = 64
"""Maximum consecutive copies that are traced back to the blocker of the first."""


class Reason(NamedTuple):
    """``cause`` until ``until`` (ns), the evidence, and the work that the kernel waits for, if
    any."""

    cause: str
    until: int
    why: str
    behind: QueueItem | None = None


class Wait(NamedTuple):
    """A call in which the host waited when the SMs ran dry: until ``blamed``, what comes after it
    is its doing.

    Had the host not waited, all that it did afterwards would have come as much earlier as the call
    took.
    """

    call: Call
    cause: str
    blamed: int


def reason(queue: Queue, kernel: QueueItem, begin: int, time: int) -> Reason:
    """What keeps ``kernel`` from running at ``time``, in a gap that began at ``begin``."""
    head = queue.head(kernel, time)
    if head.start <= time:
        if (call := _awaits(queue, head, kernel, time)) is not None:
            return Reason(HOST_SYNC, min(head.end, call.end), f"the host was in {plain(call.name)} for {_a(head)}")
        why = f"behind {_a(head)} in its stream ({head.lane[1]})"
        return _because_of(queue, head, begin, time, head.end, why)
    if head.call is None:
        if queue.node_before(head):
            return Reason(LAUNCH_GAP, head.start, "between the nodes of a graph")
        return Reason(UNKNOWN, head.start, "the call that queued it was not recorded")
    if time < head.call.start:
        return _host(queue, head, time)
    return _queued(queue, head, head.call, begin, time)


def wait_at(queue: Queue, kernel: QueueItem, begin: int) -> Wait | None:
    """The wait that the launching thread was in when the gap began, if it queued ``kernel`` after
    it."""
    thread = queue.calls.threads.get(kernel.thread)
    call = thread.at(begin)[0] if thread is not None else None
    if call is None or call.cause not in (HOST_SYNC, ALLOCATION, PAGEABLE_COPY) or kernel.queued < call.end:
        return None
    cause = call.cause
    if cause == HOST_SYNC and queue.pageable_at(begin) is not None:
        cause = PAGEABLE_COPY
    return Wait(call, cause, begin + call.end - call.start)


def blamed_on(wait: Wait, queue: Queue, moment: Reason, begin: int) -> int:
    """Until when a moment counts for ``wait`` instead; ``begin`` where it does not.

    That is so for what the host does after the wait, and for work that it queued after it, as far
    as that work could have run earlier: its stream was done with the work before it.
    """
    if moment.cause == LAUNCH_GAP:
        return wait.blamed
    item = moment.behind
    if (
        moment.cause not in (DEPENDENCY, OTHER_GPU)
        or item is None
        or item.call is None
        or item.call.start < wait.call.end
    ):
        return begin
    return min(wait.blamed, begin + item.start - min(item.start, queue.ready(item)))


def _a(item: QueueItem) -> str:
    """The work in a few words: a kernel by its function."""
    what = short_name(item.what)
    return f"an {what}" if what.startswith("H2D") else f"a {what}"


def _awaits(queue: Queue, copy: QueueItem, kernel: QueueItem, time: int) -> Call | None:
    """The call in which the host waits while a download of the default stream runs, if it queues
    ``kernel`` after it: with the download in any other stream the kernel would come as late."""
    if copy.engine != D2H or not queue.is_null(copy.lane) or copy.pageable:
        return None
    thread = queue.calls.threads.get(kernel.thread)
    call = thread.at(time)[0] if thread is not None else None
    return call if call is not None and call.cause == HOST_SYNC and kernel.queued >= call.end else None


def _because_of(queue: Queue, item: QueueItem, begin: int, time: int, until: int, why: str) -> Reason:
    """What it is called to stand behind ``item``."""
    if item.pageable:
        return Reason(PAGEABLE_COPY, until, f"{why}, which is pageable", item)
    if item.engine == D2H and queue.is_null(item.lane):
        # A later kernel does not need a download: only the shared queue separates them.
        return Reason(DEFAULT_STREAM, until, f"{why}, the legacy default stream", item)
    held_ns = _held_by_default(queue, item)
    if item.engine != SMS and begin + held_ns > time:
        return Reason(
            DEFAULT_STREAM,
            min(until, begin + held_ns),
            f"{why}, which was blocked by the legacy default stream",
            item,
        )
    return Reason(DEPENDENCY, until, why, item)


def _held_by_default(queue: Queue, item: QueueItem) -> int:
    """How many ns work that was queued stood still because of the legacy default stream."""
    if item.call is None or item.engine == SMS:
        return 0
    queued = max(item.call.end, 0 if queue.is_null(item.lane) else queue.ready(item))
    ends = [queue.until(lane, item.call.start)[0] for lane in queue.serialized_with(item.lane)]
    held_ns = item.start - queued if any(end > queued for end in ends) else 0
    return max(held_ns, _held_in_line(queue, item)) if queue.is_null(item.lane) else held_ns


def _held_in_line(queue: Queue, copy: QueueItem) -> int:
    """How long a copy stood in the legacy default stream behind work of another engine, itself or
    in a row of them."""
    held_ns = copy.start
    for _ in range(CHAIN_MOST):
        if copy.call is None or not copy.at:
            return 0
        before = queue.item(int(queue.lanes[copy.lane][copy.at - 1]))
        if before.end <= copy.call.end:
            return 0
        held_ns = min(held_ns, copy.start - copy.call.end)
        if before.engine != copy.engine:
            return max(held_ns, 0)
        copy = before
    return 0


def _host(queue: Queue, head: QueueItem, time: int) -> Reason:
    """The host has not begun to queue ``head``: what does its thread do?"""
    call, until = queue.calls.threads[head.thread].at(time)
    until = min(until, head.queued)
    if call is None:
        return Reason(LAUNCH_GAP, until, "the host was busy outside CUDA")
    where = plain(call.name)
    if call.cause in (HOST_SYNC, PAGEABLE_COPY) and (copy := queue.pageable_at(time)) is not None:
        return Reason(PAGEABLE_COPY, min(until, copy.end), f"the host was in {where} for {_a(copy)} that is pageable")
    if call.cause == HOST_SYNC and (trim := queue.trimmed_in(call, head.device)) is not None:
        if time >= trim:
            return Reason(ALLOCATION, until, f"a pool released its memory in {where}")
        until = min(until, trim)
    if call.cause == LAUNCH_GAP and loads_code(call.name):
        return Reason(LAUNCH_GAP, until, f"the host loaded code in {where}")
    return Reason(call.cause, until, f"the host was in {where}")


def _kept_by(queue: Queue, item: QueueItem, time: int) -> QueueItem | None:
    """The work that keeps ``item`` from its end at ``time``: itself, or what it waits for by
    events; None where that chain is too long."""
    for _ in range(CHAIN_MOST):
        first = queue.head(item, time)
        if first.start <= time:
            return first
        waits = (queue.until(lane, recorded) for lane, recorded in first.waits)
        following = next((last for end, last in waits if end > time and last is not None), None)
        if following is None:
            return first
        item = following
    return None


def _queued(queue: Queue, head: QueueItem, call: Call, begin: int, time: int) -> Reason:
    """``head`` was queued, and nothing in its stream is before it."""
    for lane, recorded in head.waits:
        end, last = queue.until(lane, recorded)
        if end > time and last is not None:
            peer = _kept_by(queue, last, time)
            if peer is not None and peer.engine == P2P:  # the way: its successor is looked up again
                last, end = peer, min(end, max(peer.end, time + 1))
            elif peer is not None and peer.device != head.device:
                why = f"an event of GPU {peer.device}, which had not finished {_a(peer)}"
                return Reason(OTHER_GPU, min(end, max(peer.end, time + 1)), why, peer)
            where = f" of GPU {last.device}" if last.device != head.device else ""
            why = f"an event behind {_a(last)} of stream {last.lane[1]}{where}"
            return _because_of(queue, last, begin, time, end, why)
    for lane in queue.serialized_with(head.lane):
        end, last = queue.until(lane, call.start)
        if end > time and last is not None:
            other = "the legacy default stream" if queue.is_null(lane) else f"the blocking stream {lane[1]}"
            return Reason(DEFAULT_STREAM, end, f"waited for {_a(last)} of {other}")
    if time < call.end and call.cause != LAUNCH_GAP:
        return Reason(call.cause, min(call.end, head.start), f"the host was in {plain(call.name)}")
    if head.engine != SMS and (other_copy := queue.busy_with(head, time)) is not None:
        why = f"{_a(head)}: its copy engine was busy"
        return Reason(DEPENDENCY, min(other_copy.end, head.start), why)
    if (allocation := queue.allocation_at(time)) is not None:
        return Reason(
            ALLOCATION, min(allocation[1], head.start), f"queued, while a thread was in {plain(allocation[0])}"
        )
    if time < call.end:
        return Reason(LAUNCH_GAP, min(call.end, head.start), f"the host was in {plain(call.name)}")
    if (node_end := queue.graph_busy(head, time)) is not None:
        return Reason(DEPENDENCY, min(node_end, head.start), "behind a node of the same graph")
    return _handed_over(queue, head, call, begin, time)


def _handed_over(queue: Queue, head: QueueItem, call: Call, begin: int, time: int) -> Reason:
    """Nothing holds ``head`` any more: the time until it begins belongs to what it waited for
    last."""
    lanes = [*head.waits, *((lane, call.start) for lane in queue.serialized_with(head.lane))]
    ends = [(*queue.until(*asked_at), False) for asked_at in lanes]
    if head.at:
        before = queue.item(int(queue.lanes[head.lane][head.at - 1]))
        ends.append((before.end, before, True))
    if head.engine != SMS and (engine := queue.last_on(head)) is not None:
        ends.append((engine.end, engine, False))
    end, last, own = max(ends, key=lambda asked_at: asked_at[0], default=(0, None, False))
    if head.start - max(time, call.end, end) > LATENCY_MOST:
        return Reason(UNKNOWN, head.start, "queued, and no recorded activity blocks it")
    if last is None or end <= call.start:
        return Reason(LAUNCH_GAP, head.start, "from the end of the launching call to its start")
    if own and last.engine == SMS:
        return Reason(LAUNCH_GAP, head.start, "between a kernel and the next in its stream")
    if queue.is_null(last.lane) != queue.is_null(head.lane) and last.lane in queue.serialized_with(head.lane):
        return Reason(DEFAULT_STREAM, head.start, f"the hand-over from {_a(last)} of stream {last.lane[1]}")
    if last.device != head.device and last.engine != P2P:
        return Reason(OTHER_GPU, head.start, f"the hand-over from {_a(last)} of GPU {last.device}", last)
    return _because_of(queue, last, begin, time, head.start, f"the hand-over from {_a(last)} (stream {last.lane[1]})")


def plain(name: str) -> str:
    """A call without the version that CUPTI adds to its name."""
    return name.split("_v")[0].removesuffix("_ptsz").removesuffix("_ptds")
