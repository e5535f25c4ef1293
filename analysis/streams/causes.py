"""The causes of time in which no SM works, and what helps."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Idle(StrEnum):
    """Why no SM works."""

    DEPENDENCY = "dependency"
    OTHER_GPU = "other_gpu"
    ALLOCATION = "allocation"
    PAGEABLE_COPY = "pageable_copy"
    DEFAULT_STREAM = "default_stream"
    HOST_SYNC = "host_sync"
    LAUNCH_GAP = "launch_gap"
    DRAIN = "drain"
    UNKNOWN = "unknown"


class IdleCause(NamedTuple):
    """``remedy``: what to try first."""

    title: str
    remedy: str


CAUSES: dict[str, IdleCause] = {
    # The next kernel was queued and waited for a copy or kernel before it in its stream, or for an
    # event.
    Idle.DEPENDENCY: IdleCause(
        "dependency", "give independent chunks streams of their own, split transfers into chunks, or move less data"
    ),
    # The next kernel, or the copy before it, waited for an event of another, still busy GPU.
    Idle.OTHER_GPU: IdleCause(
        "another GPU", "balance the work of both GPUs, pass smaller chunks, and buffer more than one between them"
    ),
    # The host was inside a call that allocates or frees memory when it should have queued the next
    # kernel.
    Idle.ALLOCATION: IdleCause(
        "allocation stall", "reserve memory once, or use cudaMallocAsync from a pool whose release threshold is not 0"
    ),
    # A copy from or to pageable memory ran, or kept the host, while the next kernel waited for it.
    Idle.PAGEABLE_COPY: IdleCause(
        "pageable copy", "use page-locked memory (cudaMallocHost, pin_memory=True) and asynchronous copies"
    ),
    # The next kernel waited because the legacy default stream and blocking streams synchronize with
    # each other.
    Idle.DEFAULT_STREAM: IdleCause(
        "default-stream serialization",
        "create streams with cudaStreamNonBlocking, and queue nothing on the legacy default stream",
    ),
    # The host waited for the GPU before it queued the next kernel.
    Idle.HOST_SYNC: IdleCause(
        "host synchronization",
        "let streams wait for events (cudaStreamWaitEvent) instead of the host, or queue more work first",
    ),
    # The host was busy elsewhere, or the launch itself took this long.
    Idle.LAUNCH_GAP: IdleCause(
        "launch gap",
        "queue work earlier or from another thread, make kernels larger, or capture the sequence in a CUDA graph",
    ),
    # Copies went on after the last kernel.
    Idle.DRAIN: IdleCause("no further kernel", "split the last download into chunks that overlap with kernels"),
    # No record shows what the next kernel waited for.
    Idle.UNKNOWN: IdleCause("unknown", "look at the interval on the timeline"),
}
