"""The causes of time in which no SM works, what each means and what helps."""

from __future__ import annotations

import functools
from dataclasses import dataclass

DEPENDENCY = "dependency"
OTHER_GPU = "other_gpu"
ALLOCATION = "allocation"
PAGEABLE_COPY = "pageable_copy"
DEFAULT_STREAM = "default_stream"
HOST_SYNC = "host_sync"
LAUNCH_GAP = "launch_gap"
DRAIN = "drain"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class IdleCause:
    """``means``: when time is counted here. ``remedy``: what to try first."""

    name: str
    title: str
    means: str
    remedy: str


CAUSES = {
    cause.name: cause
    for cause in (
        IdleCause(
            DEPENDENCY,
            "dependency",
            "the next kernel was queued and waited for a copy or kernel before it in its stream, or for an event",
            "give independent chunks streams of their own, split transfers into chunks, or move less data",
        ),
        IdleCause(
            OTHER_GPU,
            "another GPU",
            "the next kernel, or the copy before it, waited for an event of another, still busy GPU",
            "balance the work of both GPUs, pass smaller chunks, and buffer more than one between them",
        ),
        IdleCause(
            ALLOCATION,
            "allocation stall",
            "the host was inside a call that allocates or frees memory when it should have queued the next kernel",
            "reserve memory once, or use cudaMallocAsync from a pool whose release threshold is not 0",
        ),
        IdleCause(
            PAGEABLE_COPY,
            "pageable copy",
            "a copy from or to pageable memory ran, or kept the host, while the next kernel waited for it",
            "use page-locked memory (cudaMallocHost, pin_memory=True) and asynchronous copies",
        ),
        IdleCause(
            DEFAULT_STREAM,
            "default-stream serialization",
            "the next kernel waited because the legacy default stream and blocking streams synchronize with each other",
            "create streams with cudaStreamNonBlocking, and queue nothing on the legacy default stream",
        ),
        IdleCause(
            HOST_SYNC,
            "host synchronization",
            "the host waited for the GPU before it queued the next kernel",
            "let streams wait for events (cudaStreamWaitEvent) instead of the host, or queue more work first",
        ),
        IdleCause(
            LAUNCH_GAP,
            "launch gap",
            "the host was busy elsewhere, or the launch itself took this long",
            "queue work earlier or from another thread, make kernels larger, or capture the sequence in a CUDA graph",
        ),
        IdleCause(
            DRAIN,
            "no further kernel",
            "copies went on after the last kernel",
            "split the last download into chunks that overlap with kernels",
        ),
        IdleCause(
            UNKNOWN,
            "unknown",
            "no record shows what the next kernel waited for",
            "look at the interval on the timeline",
        ),
    )
}

_ALLOCATING = (
    *("Malloc", "MemAlloc", "MemFree", "MemHostAlloc", "HostAlloc", "HostRegister", "HostUnregister"),
    *("MemHostRegister", "MemHostUnregister", "MemCreate", "MemRelease", "MemMap", "MemUnmap", "MemSetAccess"),
    *("MemAddress", "MemPoolCreate", "MemPoolDestroy", "MemPoolTrimTo", "Array3DCreate", "ArrayCreate", "ArrayDestroy"),
    *("MipmappedArray",),
)
_WAITING = ("Synchronize", "EventQuery", "StreamQuery")
_LOADING = (
    *("ModuleLoad", "LibraryLoad", "LinkCreate", "LinkAdd", "LinkComplete", "ModuleGetFunction", "KernelGetFunction"),
    *("PrimaryCtx", "CtxCreate", "cuInit", "FuncGetAttributes", "FuncSetAttribute"),
)


@functools.cache
def call_class(name: str) -> str:
    """What a call of the CUDA runtime or driver does to the host: one of the causes above, by its
    name alone.

    Copies are told by what they copied, which their name does not say: see ``gaps``.
    """
    bare = name.removeprefix("cuda").removeprefix("cu")
    if any(bare.startswith(part) for part in _ALLOCATING) or bare.startswith("Free"):
        return ALLOCATION
    if any(part in bare for part in _WAITING):
        return HOST_SYNC
    return LAUNCH_GAP


@functools.cache
def loads_code(name: str) -> bool:
    """Whether a call loads or compiles code, or makes a context: a gap that a second run may not
    have."""
    return any(part in name for part in _LOADING)
