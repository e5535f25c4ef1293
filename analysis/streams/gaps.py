"""Why no SM works: every gap between the first and the last work of a device, split by cause. Pure
functions.

A gap ends with a kernel. ``blockers`` tells the cause of every moment of it. The parts of a gap sum
to its length, and so do the parts of all gaps to the idle time of the SMs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ncubble.analysis.streams.blockers import LATENCY_MOST, blamed_on, plain, reason, wait_at
from ncubble.analysis.streams.calls import any_in, reaching
from ncubble.analysis.streams.causes import DEPENDENCY, DRAIN, LAUNCH_GAP, UNKNOWN
from ncubble.analysis.streams.engines import SMS
from ncubble.analysis.streams.queue import Queue, QueueItem
from ncubble.analysis.traces.concurrency import union

Parts = dict[str, int]


class IdleGap:
    """Time in ns in which no SM worked; ``next``: the kernel that ends it; ``parts``: ns by
    cause."""

    __slots__ = ("_evidence", "_kernel", "end", "next", "parts", "start")

    def __init__(
        self, start: int, end: int, following: str, parts: Parts, evidence: str, kernel: tuple[Queue, int] | None = None
    ) -> None:
        self.start, self.end, self.next, self.parts = start, end, following, parts
        self._evidence, self._kernel = evidence, kernel

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.start

    @property
    def cause(self) -> str:
        """The cause with the largest part; of equal ones the first in time."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else UNKNOWN

    @property
    def evidence(self) -> str:
        """What says so for most of that part; found when it is asked for."""
        if not self._evidence and self._kernel is not None:
            queue, place = self._kernel
            self._evidence = _split(queue, queue.item(place), self.start, self.end)[1]
        return self._evidence

    def parts_within(self, begin: int, end: int) -> Parts:
        """ns by cause of the part of the gap from ``begin`` to ``end``."""
        begin, end = max(begin, self.start), min(end, self.end)
        if begin >= end:
            return {}
        if (begin, end) == (self.start, self.end):
            return self.parts
        if len(self.parts) == 1 or self._kernel is None:
            return {self.cause: end - begin}
        queue, place = self._kernel
        moments = _moments(queue, queue.item(place), self.start, self.end)
        inside: Parts = defaultdict(int)
        for first, last, cause, _ in moments:
            if last > begin and first < end:
                inside[cause] += min(last, end) - max(first, begin)
        return dict(inside)


def gaps_of(queue: Queue, device: int) -> list[IdleGap]:
    """All gaps of one device, in order of time. ``queue`` holds the work of its process on all
    devices: kernels and the host may wait for another one."""
    own = queue.device == device
    if not own.any():
        return []
    on_sms = own & (queue.engine == SMS)
    starts, ends = union(queue.start[on_sms], queue.end[on_sms])
    begins = np.concatenate([[queue.start[own].min()], ends]).astype(np.int64)
    finishes = np.concatenate([starts, [queue.end[own].max()]]).astype(np.int64)
    real = finishes > begins
    begins, finishes = begins[real], finishes[real]
    kernels = _firsts(queue, np.flatnonzero(on_sms), finishes)
    whole = of_one_cause(queue, kernels, begins, finishes)
    what = "copies after the last kernel" if on_sms.any() else "no kernel ran"
    gaps = []
    for start, end, kernel, cause in zip(
        *(column.tolist() for column in (begins, finishes, kernels, whole)), strict=True
    ):
        if kernel < 0:
            gaps.append(IdleGap(start, end, "", {DRAIN: end - start}, what))
        else:
            gaps.append(_gap(queue, start, end, kernel, cause))
    return gaps


def _firsts(queue: Queue, on_sms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The place (of ``on_sms``) of the kernel that begins at each of ``times``, the one queued
    first where several do; else -1."""
    if not len(on_sms):
        return np.full(len(times), -1)
    order = on_sms[np.lexsort((queue.queued[on_sms], queue.start[on_sms]))]
    place = np.minimum(np.searchsorted(queue.start[order], times), len(order) - 1)
    return np.where(queue.start[order][place] == times, order[place], -1)


def of_one_cause(queue: Queue, kernels: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The cause of gaps that have one from begin to end and need no look at their moments; else "".

    Of many gaps nearly all are such: the kernel waits for no event and no default stream, nobody
    allocates, and either it is first in its stream, and its thread is in no call that waits,
    allocates or copies; or it was queued, and all that it stands behind is a copy that runs.
    """
    causes = np.full(len(kernels), "", dtype=object)
    if not len(kernels) or not len(queue.calls.start):
        return causes
    causes[_plain(queue, kernels, begin, end) & _launched(queue, kernels, begin, end)] = LAUNCH_GAP
    causes[_plain(queue, kernels, begin, end) & _behind_copy(queue, kernels, begin, end)] = DEPENDENCY
    return causes


def _plain(queue: Queue, kernels: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Kernels that were queued by a plain launch, and that only their thread or stream can hold."""
    call = queue.call[kernels]
    serialized = np.array([bool(queue.serialized_with(lane)) for lane in queue.lane_names])
    allocations = reaching(
        np.array([allocation.start for allocation in queue.allocations[0]], np.int64),
        np.array([allocation.end for allocation in queue.allocations[0]], np.int64),
    )
    plain_kernels: np.ndarray = (kernels >= 0) & (call >= 0) & (queue.calls.cause[call] == LAUNCH_GAP)
    plain_kernels &= ~np.isin(kernels, list(queue.waits)) & ~serialized[queue.lane[kernels]]
    plain_kernels &= queue.in_plain_graph()[kernels] & ~any_in(*allocations, begin, end)
    return plain_kernels


def _launched(queue: Queue, kernels: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Kernels that are first in their stream all the time, and whose thread does nothing but
    launch."""
    call, before = queue.call[kernels], queue.before[kernels]
    launched, returned = queue.calls.start[call], queue.calls.end[call]
    handed = (before < 0) | (queue.engine[before] == SMS) | (queue.end[before] <= launched)
    first_in_stream: np.ndarray = handed & (queue.reach_before[kernels] <= begin)
    first_in_stream &= end - np.maximum(begin, returned) <= LATENCY_MOST
    for number, thread in queue.calls.threads.items():
        busy = any_in(*thread.other_than_launch(), begin, np.maximum(launched, begin + 1))
        first_in_stream &= ~(busy & (queue.calls.thread[call] == number))
    return first_in_stream


def _behind_copy(queue: Queue, kernels: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Kernels that were queued when the gap began, behind a copy that ran then, and all before that
    was over."""
    null = np.array([queue.is_null(lane) for lane in queue.lane_names])
    before = queue.before[kernels]
    behind: np.ndarray = (before >= 0) & (queue.engine[before] != SMS) & ~queue.pageable[before]
    behind &= ~null[queue.lane[kernels]] & (queue.calls.end[queue.call[kernels]] <= begin)
    behind &= (queue.start[before] <= begin) & (queue.end[before] > begin) & (queue.reach_before[before] <= begin)
    behind &= end - queue.end[before] <= LATENCY_MOST
    return behind


def _gap(queue: Queue, start: int, end: int, place: int, cause: str) -> IdleGap:
    name = queue.name(place)
    if cause:
        return IdleGap(start, end, name, {cause: end - start}, "", (queue, place))
    parts, evidence = _split(queue, queue.item(place), start, end)
    return IdleGap(start, end, name, parts, evidence, (queue, place))


def _split(queue: Queue, kernel: QueueItem, begin: int, end: int) -> tuple[Parts, str]:
    """The parts of a gap, and the evidence for the largest."""
    shares: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for first, last, cause, why in _moments(queue, kernel, begin, end):
        shares[cause][why] += last - first
    parts = {cause: sum(reasons.values()) for cause, reasons in shares.items()}
    reasons = shares[max(parts, key=lambda name: parts[name])]
    return parts, max(reasons, key=lambda why: reasons[why])


def _moments(queue: Queue, kernel: QueueItem, begin: int, end: int) -> Iterator[tuple[int, int, str, str]]:
    """A gap from moment to moment: start, end, cause and evidence of each."""
    wait = wait_at(queue, kernel, begin)
    time = begin
    while time < end:
        moment = reason(queue, kernel, begin, time)
        cause, why, until = moment.cause, moment.why, min(max(moment.until, time + 1), end)
        if wait is not None and time >= wait.call.end and (blamed := blamed_on(wait, queue, moment, begin)) > time:
            cause, until = wait.cause, min(until, blamed)
            why = f"the host was in {plain(wait.call.name)} when it should have queued ahead"
        yield time, until, cause, why
        time = until


def by_cause(gaps: list[IdleGap]) -> Parts:
    """Idle ns of the SMs by cause, largest first; they sum to the lengths of all gaps."""
    total: dict[str, int] = defaultdict(int)
    for gap in gaps:
        for cause, ns in gap.parts.items():
            total[cause] += ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def counts(gaps: list[IdleGap]) -> dict[str, int]:
    """How many gaps each cause has the largest part of."""
    total: dict[str, int] = defaultdict(int)
    for gap in gaps:
        total[gap.cause] += 1
    return dict(total)
