"""Two GPUs of one process: streams, events and memory of both, each able to reach the other's."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ncubble.errors import MeasurementError
from ncubble.kernels.device.device import Gpu, call_driver
from ncubble.kernels.host_streams.streams import Event, Stream

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

    def launch(self, lane: PairLane, kernel: Any, grid: int, block: int, *arguments: Any) -> None:
        """Queues one launch on the GPU of ``lane``."""
        from cuda.core import LaunchConfig, launch

        with self.on(lane.gpu):
            launch(lane.stream, LaunchConfig(grid=grid, block=block), kernel, *arguments)

    def fill(self, place: Place, byte: int, nbytes: int) -> None:
        """Sets memory of a GPU, and waits for it."""
        with self.on(place[0]):
            call_driver("cuMemsetD8", place[1], byte, nbytes)
            call_driver("cuCtxSynchronize")

    def upload(self, place: Place, host: NDArray[Any]) -> None:
        """Copies ``host`` to a GPU, and waits for it."""
        with self.on(place[0]):
            call_driver("cuMemcpyHtoD", place[1], host.ctypes.data, host.nbytes)
            call_driver("cuCtxSynchronize")

    def download(self, place: Place, host: NDArray[Any]) -> None:
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


def _give_back(devices: list[Any], contexts: list[Any], held: list[Place], events: list[Event]) -> None:
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
