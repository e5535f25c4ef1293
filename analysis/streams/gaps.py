"""Why no SM works: every gap between the first and the last work of a device, split by cause. Pure
functions.

A gap ends with a kernel. Moment by moment, it is told what keeps this kernel from running. The rule
behind all of it: time counts for what would have to go for the kernel to begin that much earlier.
So the hand-over after a wait belongs to what was waited for, and what a host does late because it
waited belongs to the wait. The parts of a gap sum to its length, and so do the parts of all gaps to
the idle time of the SMs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ncubble.analysis.streams.queue import Queue, QueueItem
from ncubble.analysis.streams.work import D2H, P2P, SMS, Call, Idle, short_name
from ncubble.analysis.traces.lanes import union

LATENCY_MOST = 50_000
"""ns: a queued kernel that is not blocked begins within this time; otherwise its blocker is
unknown."""
CHAIN_MOST = 64
"""Maximum consecutive copies that are traced back to the blocker of the first."""
_LOADING = (
    *("ModuleLoad", "LibraryLoad", "LinkCreate", "LinkAdd", "LinkComplete", "ModuleGetFunction", "KernelGetFunction"),
    *("PrimaryCtx", "CtxCreate", "cuInit", "FuncGetAttributes", "FuncSetAttribute"),
)
"""Calls that load or compile code, or make a context: a gap that a second run may not have."""


class Reason(NamedTuple):
    """What a moment counts for until ``until`` (ns), the evidence, and the work that the kernel
    waits for, if any."""

    cause: str
    until: int
    why: str
    behind: QueueItem | None = None


class Moment(NamedTuple):
    """A part of a gap: its ns, its cause and the evidence."""

    start: int
    end: int
    cause: str
    why: str


@dataclass(frozen=True)
class IdleGap:
    """Time in ns in which no SM worked; ``next``: the kernel that ends it. ``moments`` in order,
    which fill it."""

    next: str
    moments: tuple[Moment, ...]

    @property
    def start(self) -> int:
        """Its begin."""
        return self.moments[0].start

    @property
    def end(self) -> int:
        """Its end."""
        return self.moments[-1].end

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.start

    @cached_property
    def parts(self) -> dict[str, int]:
        """ns by cause."""
        return self.parts_within(self.start, self.end)

    def parts_within(self, begin: int, end: int) -> dict[str, int]:
        """ns by cause of the part of the gap from ``begin`` to ``end``."""
        parts: dict[str, int] = {}
        for moment in self.moments:
            if moment.end > begin and moment.start < end:
                within = min(moment.end, end) - max(moment.start, begin)
                parts[moment.cause] = parts.get(moment.cause, 0) + within
        return parts

    @cached_property
    def cause(self) -> str:
        """The cause with the largest part; of equal ones the first in time."""
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def evidence(self) -> str:
        """What says so for most of that part."""
        reasons: Counter[str] = Counter()
        for moment in self.moments:
            if moment.cause == self.cause:
                reasons[moment.why] += moment.end - moment.start
        return max(reasons, key=lambda why: reasons[why])


def gaps_of(queue: Queue, device: int) -> list[IdleGap]:
    """All gaps of one device, in order of time. ``queue`` holds the work of its process on all
    devices: kernels and the host may wait for another one."""
    own = queue.device == device
    if not own.any():
        return []
    on_sms = np.flatnonzero(own & (queue.engine == SMS))
    starts, ends = union(queue.start[on_sms], queue.end[on_sms])
    begins = np.concatenate([[queue.start[own].min()], ends]).tolist()
    finishes = np.concatenate([starts, [queue.end[own].max()]]).tolist()
    # The kernel that begins when a gap ends, the one queued first where several do.
    order = on_sms[np.lexsort((queue.queued[on_sms], queue.start[on_sms]))]
    first = dict(zip(queue.start[order][::-1].tolist(), order[::-1].tolist(), strict=True))
    what = "copies after the last kernel" if len(on_sms) else "no kernel ran"
    gaps = []
    for begin, end in zip(begins, finishes, strict=True):
        if end <= begin:
            continue
        if end in first:
            kernel = queue.item(first[end])
            gaps.append(IdleGap(kernel.what, tuple(_moments(queue, kernel, int(begin), int(end)))))
        else:
            gaps.append(IdleGap("", (Moment(int(begin), int(end), Idle.DRAIN, what),)))
    return gaps


def by_cause(gaps: Iterable[IdleGap]) -> dict[str, int]:
    """Idle ns of the SMs by cause, largest first; they sum to the lengths of all gaps."""
    total: Counter[str] = Counter()
    for gap in gaps:
        for cause, ns in gap.parts.items():
            total[cause] += ns
    return dict(total.most_common())


def _moments(queue: Queue, kernel: QueueItem, begin: int, end: int) -> Iterator[Moment]:
    """A gap from moment to moment."""
    wait = _wait_at(queue, kernel, begin)
    time = begin
    while time < end:
        reason = _reason(queue, kernel, begin, time)
        cause, why, until = reason.cause, reason.why, min(max(reason.until, time + 1), end)
        if wait is not None and time >= wait.end:
            blamed = _blamed_on(wait, queue, reason, begin)
            if blamed > time:
                cause, until = wait.cause, min(until, blamed)
                why = f"the host was in {plain(wait.name)} when it should have queued ahead"
        yield Moment(time, until, cause, why)
        time = until


def _wait_at(queue: Queue, kernel: QueueItem, begin: int) -> Call | None:
    """The call in which the launching thread waited when the gap began, if it queued ``kernel``
    after it. Had the host not waited, all that it did afterwards would have come as much earlier as
    the call took."""
    call, _ = queue.calls.at(kernel.thread, begin)
    if (
        call is None
        or call.cause not in (Idle.HOST_SYNC, Idle.ALLOCATION, Idle.PAGEABLE_COPY)
        or kernel.queued < call.end
    ):
        return None
    return (
        call._replace(cause=Idle.PAGEABLE_COPY) if call.cause == Idle.HOST_SYNC and queue.pageable_at(begin) else call
    )


def _blamed_on(wait: Call, queue: Queue, reason: Reason, begin: int) -> int:
    """Until when a moment counts for ``wait`` instead; ``begin`` where it does not.

    That is so for what the host does after the wait, and for work that it queued after it, as far
    as that work could have run earlier: its stream was done with the work before it.
    """
    blamed, item = begin + wait.end - wait.start, reason.behind
    if reason.cause == Idle.LAUNCH_GAP:
        return blamed
    if reason.cause not in (Idle.DEPENDENCY, Idle.OTHER_GPU) or not item or not item.call or item.call.start < wait.end:
        return begin
    return min(blamed, begin + item.start - min(item.start, queue.ready(item)))


def _reason(queue: Queue, kernel: QueueItem, begin: int, time: int) -> Reason:
    """What keeps ``kernel`` from running at ``time``, in a gap that began at ``begin``."""
    head = queue.head(kernel, time)
    if head.start <= time:
        if (call := _awaits(queue, head, kernel, time)) is not None:
            return Reason(Idle.HOST_SYNC, min(head.end, call.end), f"the host was in {plain(call.name)} for {_a(head)}")
        why = f"behind {_a(head)} in its stream ({head.lane[1]})"
        return _because_of(queue, head, begin, time, head.end, why)
    if head.call is None:
        if queue.node_before(head):
            return Reason(Idle.LAUNCH_GAP, head.start, "between the nodes of a graph")
        return Reason(Idle.UNKNOWN, head.start, "the call that queued it was not recorded")
    if time < head.call.start:
        return _host(queue, head, time)
    return _queued(queue, head, head.call, begin, time)


def _awaits(queue: Queue, copy: QueueItem, kernel: QueueItem, time: int) -> Call | None:
    """The call in which the host waits while a download of the default stream runs, if it queues
    ``kernel`` after it: with the download in any other stream the kernel would come as late."""
    if copy.engine != D2H or not queue.is_null(copy.lane) or copy.pageable:
        return None
    call, _ = queue.calls.at(kernel.thread, time)
    return call if call is not None and call.cause == Idle.HOST_SYNC and kernel.queued >= call.end else None


def _because_of(queue: Queue, item: QueueItem, begin: int, time: int, until: int, why: str) -> Reason:
    """What it is called to stand behind ``item``."""
    if item.pageable:
        return Reason(Idle.PAGEABLE_COPY, until, f"{why}, which is pageable", item)
    if item.engine == D2H and queue.is_null(item.lane):
        # A later kernel does not need a download: only the shared queue separates them.
        return Reason(Idle.DEFAULT_STREAM, until, f"{why}, the legacy default stream", item)
    held = begin + _held_by_default(queue, item)
    if item.engine != SMS and held > time:
        return Reason(
            Idle.DEFAULT_STREAM, min(until, held), f"{why}, which was blocked by the legacy default stream", item
        )
    return Reason(Idle.DEPENDENCY, until, why, item)


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
        before = queue.before(copy)
        if copy.call is None or before is None or before.end <= copy.call.end:
            return 0
        held_ns = min(held_ns, copy.start - copy.call.end)
        if before.engine != copy.engine:
            return max(held_ns, 0)
        copy = before
    return 0


def _host(queue: Queue, head: QueueItem, time: int) -> Reason:
    """The host has not begun to queue ``head``: what does its thread do?"""
    call, until = queue.calls.at(head.thread, time)
    until = min(until, head.queued)
    if call is None:
        return Reason(Idle.LAUNCH_GAP, until, "the host was busy outside CUDA")
    where = plain(call.name)
    if call.cause in (Idle.HOST_SYNC, Idle.PAGEABLE_COPY) and (copy := queue.pageable_at(time)) is not None:
        return Reason(
            Idle.PAGEABLE_COPY, min(until, copy.end), f"the host was in {where} for {_a(copy)} that is pageable"
        )
    if call.cause == Idle.HOST_SYNC and (trim := queue.trimmed_in(call, head.device)) is not None:
        if time >= trim:
            return Reason(Idle.ALLOCATION, until, f"a pool released its memory in {where}")
        until = min(until, trim)
    loads = call.cause == Idle.LAUNCH_GAP and any(part in call.name for part in _LOADING)
    return Reason(call.cause, until, f"the host {'loaded code' if loads else 'was'} in {where}")


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
                return Reason(Idle.OTHER_GPU, min(end, max(peer.end, time + 1)), why, peer)
            where = f" of GPU {last.device}" if last.device != head.device else ""
            why = f"an event behind {_a(last)} of stream {last.lane[1]}{where}"
            return _because_of(queue, last, begin, time, end, why)
    for lane in queue.serialized_with(head.lane):
        end, last = queue.until(lane, call.start)
        if end > time and last is not None:
            other = "the legacy default stream" if queue.is_null(lane) else f"the blocking stream {lane[1]}"
            return Reason(Idle.DEFAULT_STREAM, end, f"waited for {_a(last)} of {other}")
    if time < call.end and call.cause != Idle.LAUNCH_GAP:
        return Reason(call.cause, min(call.end, head.start), f"the host was in {plain(call.name)}")
    if head.engine != SMS and (other_copy := queue.busy_with(head, time)) is not None:
        return Reason(Idle.DEPENDENCY, min(other_copy.end, head.start), f"{_a(head)}: its copy engine was busy")
    if (allocation := queue.allocation_at(time)) is not None:
        why = f"queued, while a thread was in {plain(allocation.name)}"
        return Reason(Idle.ALLOCATION, min(allocation.end, head.start), why)
    if time < call.end:
        return Reason(Idle.LAUNCH_GAP, min(call.end, head.start), f"the host was in {plain(call.name)}")
    if (node_end := queue.graph_busy(head, time)) is not None:
        return Reason(Idle.DEPENDENCY, min(node_end, head.start), "behind a node of the same graph")
    return _handed_over(queue, head, call, begin, time)


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


def _handed_over(queue: Queue, head: QueueItem, call: Call, begin: int, time: int) -> Reason:
    """Nothing holds ``head`` any more: the time until it begins belongs to what it waited for
    last."""
    lanes = [*head.waits, *((lane, call.start) for lane in queue.serialized_with(head.lane))]
    ends = [queue.until(*asked_at) for asked_at in lanes]
    before = queue.before(head)
    others = (before, queue.last_on(head) if head.engine != SMS else None)
    ends += [(item.end, item) for item in others if item is not None]
    end, last = max(ends, key=lambda pair: pair[0], default=(0, None))
    if head.start - max(time, call.end, end) > LATENCY_MOST:
        return Reason(Idle.UNKNOWN, head.start, "queued, and no recorded activity blocks it")
    if last is None or end <= call.start:
        return Reason(Idle.LAUNCH_GAP, head.start, "from the end of the launching call to its start")
    if last is before and last.engine == SMS:
        return Reason(Idle.LAUNCH_GAP, head.start, "between a kernel and the next in its stream")
    if queue.is_null(last.lane) != queue.is_null(head.lane) and last.lane in queue.serialized_with(head.lane):
        return Reason(Idle.DEFAULT_STREAM, head.start, f"the hand-over from {_a(last)} of stream {last.lane[1]}")
    if last.device != head.device and last.engine != P2P:
        return Reason(Idle.OTHER_GPU, head.start, f"the hand-over from {_a(last)} of GPU {last.device}", last)
    return _because_of(queue, last, begin, time, head.start, f"the hand-over from {_a(last)} (stream {last.lane[1]})")


def _a(item: QueueItem) -> str:
    """The work in a few words: a kernel by its function."""
    what = short_name(item.what)
    return f"an {what}" if what.startswith("H2D") else f"a {what}"


def plain(name: str) -> str:
    """A call without the version that CUPTI adds to its name."""
    return name.split("_v")[0].removesuffix("_ptsz").removesuffix("_ptds")
