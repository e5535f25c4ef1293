"""Streams, events, pinned memory, memory pools and host callbacks of the driver, for programs that
run on the host."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.device.device import AFTER_A_FAULT, Gpu, call_driver

KEEP_ALL = 2**64 - 1  # bytes: a release threshold that a pool never exceeds
SEMAPHORE_WORDS = 8  # of 8 bytes: sem_t has 32 bytes in glibc, 64 are enough elsewhere, too

Stream = Any  # cuda.core.Stream
Event = Any  # cuda.core.Event


class HostDriver:
    """What a host program needs of the driver, all of it on one device. ``main`` is the stream that
    is timed."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.main: Stream = gpu.stream
        self._held: set[int] = set()  # resources not released because of an error are freed with this object
        weakref.finalize(self, _free_all, self._held)

    @property
    def sms(self) -> int:
        """Streaming multiprocessors of the device."""
        return self._gpu.facts.sm_count

    def lanes(self, kind: str, count: int) -> list[Stream]:
        """``count`` streams of a ``kind``.

        ``nonblocking`` ones never wait for the legacy default stream, ``blocking`` ones do and make
        it wait; as ``default`` every lane is the legacy default stream itself.
        """
        from cuda.core import LEGACY_DEFAULT_STREAM, Device, StreamOptions

        if kind == "default":
            return [LEGACY_DEFAULT_STREAM] * count
        if kind not in ("nonblocking", "blocking"):
            raise UsageError(f"unknown kind of stream {kind!r}", "use nonblocking, blocking or default")
        device, options = Device(), StreamOptions(nonblocking=kind == "nonblocking")
        return [device.create_stream(options=options) for _ in range(count)]

    def prioritized(self, highest: bool) -> Stream:
        """A non-blocking stream of the highest priority that the device knows, or of the lowest."""
        from cuda.core import Device, StreamOptions

        lowest, greatest = call_driver("cuCtxGetStreamPriorityRange")
        return Device().create_stream(options=StreamOptions(priority=int(greatest if highest else lowest)))

    def fork(self, lanes: Sequence[Stream]) -> None:
        """Lets every lane wait for what was queued on ``main``."""
        event = self.main.record()
        for lane in lanes:
            lane.wait(event)

    def join(self, lanes: Sequence[Stream]) -> None:
        """Lets ``main`` wait for what was queued on every lane."""
        for lane in lanes:
            self.main.wait(lane.record())

    def mark(self, lane: Stream) -> Event:
        """An event that happens when ``lane`` gets there."""
        return lane.record()

    def moment(self, lane: Stream) -> Event:
        """An event with its time: ``later - earlier`` is in ms once both have happened."""
        from cuda.core import EventOptions

        return lane.record(options=EventOptions(timing_enabled=True))

    def follow(self, lane: Stream, event: Event) -> None:
        """Lets what is queued on ``lane`` from now on wait for ``event``; the CPU does not."""
        lane.wait(event)

    def settle(self, event: Event) -> None:
        """Keeps the CPU waiting until ``event`` has happened."""
        event.sync()

    def to_device(self, lane: Stream, pointer: int, host: NDArray[Any]) -> None:
        """Queues a copy of ``host``. From pageable memory the driver stages it, and the CPU takes
        part."""
        call_driver("cuMemcpyHtoDAsync", pointer, host.ctypes.data, host.nbytes, int(lane.handle))

    def to_host(self, lane: Stream, host: NDArray[Any], pointer: int) -> None:
        """Queues a copy into ``host``. Into pageable memory the CPU waits until it is done."""
        call_driver("cuMemcpyDtoHAsync", host.ctypes.data, pointer, host.nbytes, int(lane.handle))

    def copy(self, lane: Stream, target: int, source: int, nbytes: int) -> None:
        """Queues a copy within device memory."""
        call_driver("cuMemcpyDtoDAsync", target, source, nbytes, int(lane.handle))

    def fill(self, lane: Stream, pointer: int, byte: int, nbytes: int) -> None:
        """Sets ``nbytes`` bytes of device memory, in the order of ``lane``."""
        call_driver("cuMemsetD8Async", pointer, byte, nbytes, int(lane.handle))

    def launch(self, lane: Stream, kernel: Any, grid: int, block: int, *arguments: Any, smem: int = 0) -> None:
        """Queues one launch of a one-dimensional grid, with ``smem`` bytes of dynamic shared memory
        per CTA."""
        from cuda.core import LaunchConfig, launch

        launch(lane, LaunchConfig(grid=grid, block=block, shmem_size=smem), kernel, *arguments)

    def captured(self, queue: Callable[[], None]) -> Graph:
        """What ``queue`` queues between two points of ``main``, as a graph; nothing of it runs
        now."""
        return Graph(self.main, queue)

    def touch_default_stream(self, pointer: int) -> None:
        """Queues four bytes of work on the legacy default stream: the stray operation that
        serializes all others."""
        from cuda.core import LEGACY_DEFAULT_STREAM

        self.fill(LEGACY_DEFAULT_STREAM, pointer, 0, 4)

    def reserve(self, nbytes: int) -> int:
        """Device memory until the GPU is closed."""
        return self._gpu.allocate(nbytes)

    def allocate(self, nbytes: int) -> int:
        """Device memory by ``cuMemAlloc``, to be given back with ``free``."""
        pointer = int(call_driver("cuMemAlloc", nbytes)[0])
        self._held.add(pointer)
        return pointer

    def free(self, pointer: int) -> None:
        """Gives memory of ``allocate`` back; nothing may use it any more."""
        self._held.discard(pointer)
        call_driver("cuMemFree", pointer)

    def pool(self, threshold: int) -> MemoryPool:
        """A memory pool that keeps up to ``threshold`` unused bytes at a synchronization."""
        return MemoryPool(threshold)

    def signal(self) -> Signal:
        """A signal from a stream to the CPU."""
        return Signal()

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Page-locked host memory, which copy engines reach without the CPU; freed with the
        array."""
        return np.asarray(_Pinned(nbytes))


class Graph:
    """Work that is launched again and again with one call."""

    def __init__(self, stream: Stream, queue: Callable[[], None]) -> None:
        from cuda.bindings import driver

        # Relaxed: the first launch of a kernel may load its code, which other modes forbid.
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        call_driver("cuStreamBeginCapture", int(stream.handle), mode)
        try:
            queue()
        finally:
            graph = call_driver("cuStreamEndCapture", int(stream.handle))[0]
        self._graph = call_driver("cuGraphInstantiate", graph, 0)[0]
        call_driver("cuGraphDestroy", graph)
        weakref.finalize(self, _quietly, "cuGraphExecDestroy", self._graph)

    def launch(self, stream: Stream) -> None:
        """Queues all of it, behind what is queued on ``stream``."""
        call_driver("cuGraphLaunch", self._graph, int(stream.handle))


class MemoryPool:
    """Stream-ordered memory (``cuMemAllocFromPoolAsync``): an allocation is one more entry in a
    stream's queue."""

    def __init__(self, threshold: int) -> None:
        from cuda.bindings import driver
        from cuda.core import Device

        place = driver.CUmemLocation()
        place.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.id = Device().device_id
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location = place
        self._pool = call_driver("cuMemPoolCreate", properties)[0]
        weakref.finalize(self, _quietly, "cuMemPoolDestroy", self._pool)
        attribute = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call_driver("cuMemPoolSetAttribute", self._pool, attribute, driver.cuuint64_t(threshold))

    def allocate(self, lane: Stream, nbytes: int) -> int:
        """Device memory that exists from this point of ``lane`` on."""
        return int(call_driver("cuMemAllocFromPoolAsync", nbytes, self._pool, int(lane.handle))[0])

    def free(self, lane: Stream, pointer: int) -> None:
        """Gives it back at this point of ``lane``."""
        call_driver("cuMemFreeAsync", pointer, int(lane.handle))

    @property
    def reserved(self) -> int:
        """Bytes that the pool holds, used or not."""
        from cuda.bindings import driver

        attribute = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return int(call_driver("cuMemPoolGetAttribute", self._pool, attribute)[0])


class Signal:
    """A semaphore that a stream posts when it gets there, by ``cuLaunchHostFunc``.

    The callback is the C library's ``sem_post`` itself: no Python runs in the driver's thread,
    which must not wait for the interpreter's lock while the interpreter waits for the driver. The
    binding would run it under that lock, so the driver is called directly.
    """

    def __init__(self) -> None:
        self._c = ctypes.CDLL(None, use_errno=True)
        self._post = ctypes.cast(self._c.sem_post, ctypes.c_void_p)
        self._semaphore = (ctypes.c_uint64 * SEMAPHORE_WORDS)()
        self._c.sem_init(self._semaphore, 0, 0)

    def post(self, lane: Stream) -> None:
        """Queues the callback."""
        address = ctypes.c_void_p(ctypes.addressof(self._semaphore))
        status = _libcuda().cuLaunchHostFunc(ctypes.c_void_p(int(lane.handle)), self._post, address)
        if status:
            raise MeasurementError(f"cuLaunchHostFunc failed with {status}", AFTER_A_FAULT)

    def wait(self, seconds: float = 30.0) -> None:
        """Keeps the CPU waiting for one post; raises MeasurementError after ``seconds``: after a
        fault none comes."""
        until = time.time() + seconds
        limit = _TimeSpec(int(until), int(until % 1 * 1e9))
        while self._c.sem_timedwait(self._semaphore, ctypes.byref(limit)):
            if ctypes.get_errno() == errno.EINTR:
                continue  # a signal such as Ctrl-C: Python's handler has run before the next call
            message = f"a stream did not reach its callback within {seconds:g} s"
            raise MeasurementError(message, "run the kernel under compute-sanitizer: a fault prevents all callbacks")


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Pinned:
    """Owner of page-locked memory that NumPy sees as bytes."""

    def __init__(self, nbytes: int) -> None:
        pointer = int(call_driver("cuMemHostAlloc", nbytes, 0)[0])
        weakref.finalize(self, _quietly, "cuMemFreeHost", pointer)
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (pointer, False), "version": 3}


def _free_all(pointers: set[int]) -> None:
    while pointers:
        _quietly("cuMemFree", pointers.pop())


def _quietly(name: str, *arguments: Any) -> None:
    """Calls the driver for the last time: at the end of the process it may be gone, and after a
    fault it refuses."""
    with contextlib.suppress(Exception):
        call_driver(name, *arguments)
