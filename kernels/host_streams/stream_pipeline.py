"""The host's side of ``stream_pipeline``: chunks go up, through the kernel and down again, on
several streams at once.

Every chunk is queued on the next stream in turn: copy to the device, kernel, copy back. A GPU with
two copy engines can do all three at once for different chunks, unless the host serializes them. The
parameters name the ways to do so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.device.device import Gpu
from ncubble.kernels.host_streams.streams import KEEP_ALL, Event, HostDriver, Signal, Stream
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ("work",)
"""The parameters that the kernel itself depends on."""

STEPS = ("upload", "kernel", "download")
MIB = 2**20
FLOAT = 4  # bytes
PER_CTA = 1024  # floats: 256 threads of stream_pipeline.cu, four each

Pair = tuple[int, int]  # device addresses of a chunk of x and of y
Host = NDArray[np.float32]


class Buffers:
    """Where the chunks lie on the device."""

    def take(self, lane: Stream) -> Pair:
        """Memory for a chunk of x and one of y, usable from this point of ``lane`` on."""
        raise NotImplementedError

    def give(self, lane: Stream, pair: Pair) -> None:
        """Says that nothing queued later uses ``pair``."""

    def finish(self) -> None:
        """Called when all chunks are queued."""


class Reserved(Buffers):
    """Made once, a pair per lane: the order of the lane keeps its chunks apart."""

    def __init__(self, driver: HostDriver, lanes: list[Stream], nbytes: int) -> None:
        self._pairs = [(driver.reserve(nbytes), driver.reserve(nbytes)) for _ in lanes]
        self._turn = 0

    def take(self, lane: Stream) -> Pair:
        """The lane's own pair: lanes come in turn."""
        self._turn += 1
        return self._pairs[(self._turn - 1) % len(self._pairs)]

    def finish(self) -> None:
        """The next run begins with the first lane."""
        self._turn = 0


class StreamOrdered(Buffers):
    """From a pool, in the order of the lane: ``cudaMallocAsync`` and ``cudaFreeAsync`` for every
    chunk."""

    def __init__(self, driver: HostDriver, threshold: int, nbytes: int) -> None:
        self.pool, self._nbytes = driver.pool(threshold), nbytes

    def take(self, lane: Stream) -> Pair:
        """Two entries in the lane's queue; the CPU goes on at once."""
        return self.pool.allocate(lane, self._nbytes), self.pool.allocate(lane, self._nbytes)

    def give(self, lane: Stream, pair: Pair) -> None:
        """Two more entries."""
        for pointer in pair:
            self.pool.free(lane, pointer)


class Synchronous(Buffers):
    """``cudaMalloc`` and ``cudaFree`` for every chunk.

    Memory may only be freed when its chunk is done, so the CPU waits for the chunk that the lane
    had before.
    """

    def __init__(self, driver: HostDriver, lanes: list[Stream], nbytes: int) -> None:
        self._driver, self._lanes, self._nbytes = driver, len(lanes), nbytes
        self._busy: list[tuple[Event, Pair]] = []

    def take(self, lane: Stream) -> Pair:
        """Two calls that the CPU waits for."""
        if len(self._busy) == self._lanes:
            self._free_oldest()
        return self._driver.allocate(self._nbytes), self._driver.allocate(self._nbytes)

    def give(self, lane: Stream, pair: Pair) -> None:
        """Remembers when it may be freed."""
        self._busy.append((self._driver.mark(lane), pair))

    def finish(self) -> None:
        """Frees all, as the chunks end."""
        while self._busy:
            self._free_oldest()

    def _free_oldest(self) -> None:
        event, pair = self._busy.pop(0)
        self._driver.settle(event)
        for pointer in pair:
            self._driver.free(pointer)


@dataclass
class Slot:
    """Pinned memory for one chunk of x and of y, its signal, and the place in y that its chunk
    belongs to."""

    x: Host
    y: Host
    done: Signal
    target: Host | None = None


class Staging:
    """A ring of pinned slots between pageable arrays and the device. A host callback says when a
    slot is free again."""

    def __init__(self, driver: HostDriver, slots: int, nbytes: int) -> None:
        def floats() -> Host:
            return driver.pinned(nbytes).view(np.float32)

        self._slots = [Slot(floats(), floats(), driver.signal()) for _ in range(slots)]
        self._turn = 0

    def take(self, x: Host, y: Host) -> Slot:
        """The next slot, filled with the chunk ``x``; what it held before is copied to its place
        first."""
        slot = self._slots[self._turn % len(self._slots)]
        self._turn += 1
        self._empty(slot)
        np.copyto(slot.x[: len(x)], x)
        slot.target = y
        return slot

    def finish(self) -> None:
        """Copies what the slots still hold to its place."""
        for _ in self._slots:
            self._empty(self._slots[self._turn % len(self._slots)])
            self._turn += 1

    @staticmethod
    def _empty(slot: Slot) -> None:
        if slot.target is not None:
            slot.done.wait()
            np.copyto(slot.target, slot.y[: len(slot.target)])
            slot.target = None


class StreamPipeline:
    """One prepared pipeline. ``arrays`` holds the bytes of x and of y on the host, y with a guard
    behind it."""

    def __init__(self, case: Case, kernel: Any, driver: HostDriver) -> None:
        chosen, count = case.parameters, case.shape["n"]
        self._kernel, self._driver = kernel, driver
        self._lanes = driver.lanes(str(chosen["stream_kind"]), int(chosen["streams"]))
        self._chunk = int(chosen["chunk"]) * MIB // FLOAT
        nbytes = self._chunk * FLOAT
        self.buffers = _buffers(driver, self._lanes, str(chosen["alloc"]), str(chosen["threshold"]), nbytes)
        self._staging = Staging(driver, int(chosen["slots"]), nbytes) if chosen["memory"] == "staged" else None
        host = driver.pinned if chosen["memory"] == "pinned" else _pageable
        self.arrays = {"x": host(count * FLOAT), "y": host(count * FLOAT + GUARD)}
        self._x = self.arrays["x"].view(np.float32)
        self._y = self.arrays["y"][:-GUARD].view(np.float32)
        self._stray = driver.reserve(FLOAT) if chosen["stray"] else None

    def run(self, steps: tuple[str, ...] = STEPS) -> None:
        """Queues the whole pipeline between two points of the main stream, or only some of its
        ``steps`` to time them.

        Returns at once with pinned memory that is reserved or from a pool; else the CPU takes part
        until the end.
        """
        self._driver.fork(self._lanes)
        for index, (x, y) in enumerate(self._chunks()):
            self._queue(self._lanes[index % len(self._lanes)], x, y, steps)
        self._driver.join(self._lanes)
        self.buffers.finish()
        if self._staging is not None:
            self._staging.finish()

    def poison(self) -> None:
        """Sets what the device will send back to 0xFF, so that a chunk that no kernel wrote is not
        a number."""
        nbytes = self._chunk * FLOAT
        for lane in self._lanes:
            pair = self.buffers.take(lane)
            self._driver.fill(lane, pair[1], POISON, nbytes)
            self.buffers.give(lane, pair)
        self.buffers.finish()
        self._driver.join(self._lanes)

    def _chunks(self) -> Iterator[tuple[Host, Host]]:
        for start in range(0, len(self._x), self._chunk):
            yield self._x[start : start + self._chunk], self._y[start : start + self._chunk]

    def _queue(self, lane: Stream, x: Host, y: Host, steps: tuple[str, ...]) -> None:
        driver, slot = self._driver, None
        pair = self.buffers.take(lane)
        source, target = x, y
        if self._staging is not None:
            slot = self._staging.take(x, y)
            source, target = slot.x[: len(x)], slot.y[: len(y)]
        if "upload" in steps:
            driver.to_device(lane, pair[0], source)
        if "kernel" in steps:
            driver.launch(lane, self._kernel, -(-len(x) // PER_CTA), PER_CTA // 4, *pair, np.int32(len(x)))
        if "download" in steps:
            driver.to_host(lane, target, pair[1])
        if slot is not None:
            slot.done.post(lane)
        self.buffers.give(lane, pair)
        if self._stray is not None:
            driver.touch_default_stream(self._stray)


def make(case: Case, gpu: Gpu, kernel: Any) -> StreamPipeline:
    """The pipeline of ``case``; what ``host_program`` calls."""
    return StreamPipeline(case, kernel, HostDriver(gpu))


def _buffers(driver: HostDriver, lanes: list[Stream], alloc: str, threshold: str, nbytes: int) -> Buffers:
    if alloc == "reserved":
        return Reserved(driver, lanes, nbytes)
    if alloc == "async":
        return StreamOrdered(driver, KEEP_ALL if threshold == "max" else 0, nbytes)
    return Synchronous(driver, lanes, nbytes)


def _pageable(nbytes: int) -> NDArray[np.uint8]:
    return np.zeros(nbytes, np.uint8)
