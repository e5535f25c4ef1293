"""Two GPUs of one process: streams, events and memory of both, each able to reach the other's."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.run.device import AFTER_A_FAULT, Device, Event, Gpu, Kernel, Stream, call_driver
from ncubble.kernels.spec.spec import HostArray

KEEP_ALL = 2**64 - 1  # bytes: a release threshold that a pool never exceeds
SEMAPHORE_WORDS = 8  # of 8 bytes: sem_t has 32 bytes in glibc, 64 are enough elsewhere, too


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

    def to_device(self, lane: Stream, pointer: int, host: HostArray) -> None:
        """Queues a copy of ``host``. From pageable memory the driver stages it, and the CPU takes
        part."""
        call_driver("cuMemcpyHtoDAsync", pointer, host.ctypes.data, host.nbytes, int(lane.handle))

    def to_host(self, lane: Stream, host: HostArray, pointer: int) -> None:
        """Queues a copy into ``host``. Into pageable memory the CPU waits until it is done."""
        call_driver("cuMemcpyDtoHAsync", host.ctypes.data, pointer, host.nbytes, int(lane.handle))

    def copy(self, lane: Stream, target: int, source: int, nbytes: int) -> None:
        """Queues a copy within device memory."""
        call_driver("cuMemcpyDtoDAsync", target, source, nbytes, int(lane.handle))

    def fill(self, lane: Stream, pointer: int, byte: int, nbytes: int) -> None:
        """Sets ``nbytes`` bytes of device memory, in the order of ``lane``."""
        call_driver("cuMemsetD8Async", pointer, byte, nbytes, int(lane.handle))

    def launch(self, lane: Stream, kernel: Kernel, grid: int, block: int, *arguments: object, smem: int = 0) -> None:
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


def _quietly(name: str, *arguments: object) -> None:
    """Calls the driver for the last time: at the end of the process it may be gone, and after a
    fault it refuses."""
    with contextlib.suppress(Exception):
        call_driver(name, *arguments)


FIRST, SECOND = 0, 1
Place = tuple[int, int]
"""A GPU and an address of its memory."""


@dataclass(frozen=True)
class PairLane:
    """A stream of one of the two GPUs, and an event of its own that says how far it got."""

    gpu: int
    stream: Stream
    reached: Event


class GpuPair:
    """The GPU that is open and a second one. ``main``, a stream of the first, is what is timed.

    Raises MeasurementError where only one GPU is visible, or one cannot reach the other's memory.
    """

    def __init__(self, gpu: Gpu) -> None:
        count = int(call_driver("cuDeviceGetCount")[0])
        if count < 2:
            message = f"two GPUs are needed; visible: {count}"
            raise MeasurementError(message, "run on a machine with two GPUs, with both in CUDA_VISIBLE_DEVICES")
        self._devices = [call_driver("cuDeviceGet", ordinal)[0] for ordinal in (FIRST, SECOND)]
        self._contexts = [call_driver("cuDevicePrimaryCtxRetain", device)[0] for device in self._devices]
        self._held: list[Place] = []
        self._events: list[Event] = []
        weakref.finalize(self, _give_back, self._devices, self._contexts, self._held, self._events)
        for ordinal in (FIRST, SECOND):
            self._reach(ordinal, SECOND - ordinal)
        self.main = PairLane(FIRST, gpu.stream, self.event(FIRST))

    @contextlib.contextmanager
    def on(self, gpu: int) -> Iterator[None]:
        """The calls of the block are for this GPU; after it, for the first one again."""
        call_driver("cuCtxSetCurrent", self._contexts[gpu])
        try:
            yield
        finally:
            call_driver("cuCtxSetCurrent", self._contexts[FIRST])

    def _reach(self, gpu: int, other: int) -> None:
        """Lets kernels of one GPU read and write the other's memory, and copies go straight."""
        from cuda.bindings import driver

        remedy = "use two GPUs joined by NVLink or by one PCIe switch (nvidia-smi topo -p2p r)"
        if not int(call_driver("cuDeviceCanAccessPeer", self._devices[gpu], self._devices[other])[0]):
            raise MeasurementError(f"GPU {gpu} cannot access the memory of GPU {other}", remedy)
        with self.on(gpu):
            (status,) = driver.cuCtxEnablePeerAccess(self._contexts[other], 0)
        known = (driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        if status not in known:
            raise MeasurementError(f"GPU {gpu} cannot access the memory of GPU {other}: {status.name}", remedy)

    def lane(self, gpu: int) -> PairLane:
        """A non-blocking stream of a GPU."""
        from cuda.core import Device, StreamOptions

        with self.on(gpu):
            device = Device(gpu)
            device.set_current()
            return PairLane(gpu, device.create_stream(options=StreamOptions(nonblocking=True)), self.event(gpu))

    def event(self, gpu: int, timed: bool = False) -> Event:
        """An event of a GPU, for its streams to record again and again; who waits for one that was
        never recorded waits for nothing."""
        from cuda.bindings import driver

        flags = driver.CUevent_flags.CU_EVENT_DEFAULT if timed else driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        with self.on(gpu):
            event = call_driver("cuEventCreate", flags)[0]
        self._events.append(event)
        return event

    def record(self, event: Event, lane: PairLane) -> None:
        """``event`` happens when ``lane``, a stream of its GPU, gets there."""
        call_driver("cuEventRecord", event, int(lane.stream.handle))

    def follow(self, lane: PairLane, event: Event) -> None:
        """What is queued on ``lane`` from now on waits for ``event``, of whichever GPU."""
        call_driver("cuStreamWaitEvent", int(lane.stream.handle), event, 0)

    def fork(self, lanes: Sequence[PairLane]) -> None:
        """Lets every lane wait for what was queued on ``main``."""
        self.record(self.main.reached, self.main)
        for lane in lanes:
            self.follow(lane, self.main.reached)

    def join(self, lanes: Sequence[PairLane]) -> None:
        """Lets ``main`` wait for what was queued on every lane."""
        for lane in lanes:
            self.record(lane.reached, lane)
            self.follow(self.main, lane.reached)

    def reserve(self, gpu: int, nbytes: int) -> Place:
        """Memory of a GPU until this object goes."""
        with self.on(gpu):
            pointer = int(call_driver("cuMemAlloc", nbytes)[0])
        self._held.append((gpu, pointer))
        return gpu, pointer

    def copy(self, lane: PairLane, target: Place, source: Place, nbytes: int) -> None:
        """Queues a copy between the memories of the two GPUs, or within one's."""
        where = (target[1], self._contexts[target[0]], source[1], self._contexts[source[0]])
        call_driver("cuMemcpyPeerAsync", *where, nbytes, int(lane.stream.handle))

    def launch(self, lane: PairLane, kernel: Kernel, grid: int, block: int, *arguments: object) -> None:
        """Queues one launch on the GPU of ``lane``."""
        from cuda.core import LaunchConfig, launch

        with self.on(lane.gpu):
            launch(lane.stream, LaunchConfig(grid=grid, block=block), kernel, *arguments)

    def fill(self, place: Place, byte: int, nbytes: int) -> None:
        """Sets memory of a GPU, and waits for it."""
        with self.on(place[0]):
            call_driver("cuMemsetD8", place[1], byte, nbytes)
            call_driver("cuCtxSynchronize")

    def upload(self, place: Place, host: HostArray) -> None:
        """Copies ``host`` to a GPU, and waits for it."""
        with self.on(place[0]):
            call_driver("cuMemcpyHtoD", place[1], host.ctypes.data, host.nbytes)
            call_driver("cuCtxSynchronize")

    def download(self, place: Place, host: HostArray) -> None:
        """Fills ``host`` from a GPU's memory, once all its work is done."""
        with self.on(place[0]):
            call_driver("cuCtxSynchronize")
            call_driver("cuMemcpyDtoH", host.ctypes.data, place[1], host.nbytes)

    def count(self, begins: bool) -> None:
        """What is queued from now on counts, or no longer, for profilers that heed it."""
        call_driver("cuProfilerStart" if begins else "cuProfilerStop")

    def sync(self) -> None:
        """Waits for all work of both GPUs."""
        for gpu in (SECOND, FIRST):
            with self.on(gpu):
                call_driver("cuCtxSynchronize")


def _give_back(devices: list[Device], contexts: list[object], held: list[Place], events: list[Event]) -> None:
    """Frees what the two GPUs hold; at the end of the process the driver may be gone, and after a
    fault it refuses."""
    with contextlib.suppress(Exception):
        for gpu, pointer in held:
            call_driver("cuCtxSetCurrent", contexts[gpu])
            call_driver("cuMemFree", pointer)
        for event in events:
            call_driver("cuEventDestroy", event)
        call_driver("cuCtxSetCurrent", contexts[FIRST])
        for device in devices:
            call_driver("cuDevicePrimaryCtxRelease", device)
