"""The host's side of ``stream_pipeline`` and ``warp_pipeline``: chunks go up, through the kernel
and down again, on several streams at once.

Every chunk is queued on the next stream in turn: memory for it, its inputs to the device, the
kernel, its results back, the memory given back. A GPU with two copy engines can do all three at
once for different chunks, unless the host serializes them. The parameters name the ways to do so.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.host.driver import KEEP_ALL, Graph, HostDriver, Signal
from ncubble.kernels.run.device import Event, Gpu, Stream
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

Places = tuple[int, ...]
"""Device addresses of a chunk, one per array."""


class Buffers:
    """Where the chunks lie on the device."""

    def take(self, lane: Stream) -> Places:
        """Memory for a chunk of every array, usable from this point of ``lane`` on."""
        raise NotImplementedError

    def give(self, lane: Stream, places: Places) -> None:
        """Says that nothing queued later uses ``places``."""

    def finish(self) -> None:
        """Called when all chunks are queued."""


class Reserved(Buffers):
    """Made once, a set per lane: the order of the lane keeps its chunks apart."""

    def __init__(self, driver: HostDriver, lanes: Sequence[Stream], sizes: Sequence[int]) -> None:
        self._sets = [tuple(driver.reserve(nbytes) for nbytes in sizes) for _ in lanes]
        self._turn = 0

    def take(self, lane: Stream) -> Places:
        """The lane's own set: lanes come in turn."""
        self._turn += 1
        return self._sets[(self._turn - 1) % len(self._sets)]

    def finish(self) -> None:
        """The next run begins with the first lane."""
        self._turn = 0


class StreamOrdered(Buffers):
    """From a pool, in the order of the lane: ``cudaMallocAsync`` and ``cudaFreeAsync`` for every
    chunk."""

    def __init__(self, driver: HostDriver, threshold: int, sizes: Sequence[int]) -> None:
        self.pool, self._sizes = driver.pool(threshold), sizes

    def take(self, lane: Stream) -> Places:
        """An entry in the lane's queue for each array; the CPU goes on at once."""
        return tuple(self.pool.allocate(lane, nbytes) for nbytes in self._sizes)

    def give(self, lane: Stream, places: Places) -> None:
        """As many entries more."""
        for pointer in places:
            self.pool.free(lane, pointer)


class Synchronous(Buffers):
    """``cudaMalloc`` and ``cudaFree`` for every chunk.

    Memory may only be freed when its chunk is done, so the CPU waits for the chunk that the lane
    had before.
    """

    def __init__(self, driver: HostDriver, lanes: Sequence[Stream], sizes: Sequence[int]) -> None:
        self._driver, self._lanes, self._sizes = driver, len(lanes), sizes
        self._busy: list[tuple[Event, Places]] = []

    def take(self, lane: Stream) -> Places:
        """A call for each array that the CPU waits for."""
        if len(self._busy) == self._lanes:
            self._free_oldest()
        return tuple(self._driver.allocate(nbytes) for nbytes in self._sizes)

    def give(self, lane: Stream, places: Places) -> None:
        """Remembers when it may be freed."""
        self._busy.append((self._driver.mark(lane), places))

    def finish(self) -> None:
        """Frees all, as the chunks end."""
        while self._busy:
            self._free_oldest()

    def _free_oldest(self) -> None:
        event, places = self._busy.pop(0)
        self._driver.settle(event)
        for pointer in places:
            self._driver.free(pointer)


def buffers_of(
    driver: HostDriver, lanes: Sequence[Stream], alloc: str, threshold: str, sizes: Sequence[int]
) -> Buffers:
    """The buffers that ``alloc`` names (``reserved``, ``async``, ``sync``), ``sizes`` bytes for the
    arrays of a chunk; ``threshold``: ``max`` or ``zero``, of the pool."""
    if alloc == "reserved":
        return Reserved(driver, lanes, sizes)
    if alloc == "async":
        return StreamOrdered(driver, KEEP_ALL if threshold == "max" else 0, sizes)
    return Synchronous(driver, lanes, sizes)


Host = NDArray[np.float32]


@dataclass(frozen=True)
class Chunk:
    """A part of every array on the host: ``sources`` go up, ``targets`` come down."""

    sources: tuple[Host, ...]
    targets: tuple[Host, ...]

    @property
    def count(self) -> int:
        """Elements of each array."""
        return len(self.sources[0])


@dataclass
class Slot:
    """Pinned memory for one chunk; ``done`` is posted when its results have come down."""

    sources: tuple[Host, ...]
    targets: tuple[Host, ...]
    done: Signal
    holds: Chunk | None = None

    def turn(self, chunk: Chunk | None) -> None:
        """Copies the results that the slot holds to their place once they are there, and ``chunk``
        into it. NumPy copies without the interpreter's lock: several slots turn at one time."""
        if self.holds is not None:
            self.done.wait()
            for target, result in zip(self.holds.targets, self.targets, strict=True):
                np.copyto(target, result[: len(target)])
        self.holds = chunk
        if chunk is not None:
            for source, pinned in zip(chunk.sources, self.sources, strict=True):
                np.copyto(pinned[: len(source)], source)

    def view(self, count: int) -> Chunk:
        """Its pinned memory, for a chunk of ``count`` elements."""
        return Chunk(tuple(one[:count] for one in self.sources), tuple(one[:count] for one in self.targets))


class Staging:
    """The ring: chunks leave it in their order, ``threads`` threads copy for up to as many slots at
    a time."""

    def __init__(self, driver: HostDriver, slots: int, threads: int, nbytes: int, ups: int, downs: int) -> None:
        def floats(count: int) -> tuple[Host, ...]:
            return tuple(driver.pinned(nbytes).view(np.float32) for _ in range(count))

        self._slots = [Slot(floats(ups), floats(downs), driver.signal()) for _ in range(slots)]
        self._copying = ThreadPoolExecutor(threads, "staging")
        self._turning: deque[tuple[Slot, Future[None]]] = deque()
        self._chunks: Iterator[Chunk] = iter(())

    def begin(self, chunks: Iterable[Chunk]) -> None:
        """Starts to fill the slots with the first ``chunks``."""
        self._chunks = iter(chunks)
        for slot in self._slots:
            self._turn(slot)

    def take(self) -> Slot:
        """The slot of the next chunk, filled."""
        slot, turned = self._turning.popleft()
        turned.result()
        return slot

    def recycle(self, slot: Slot, lane: Stream) -> None:
        """Lets a host callback in ``lane`` say that the results are there; the slot turns to the
        chunk after those in the ring then."""
        slot.done.post(lane)
        self._turn(slot)

    def finish(self) -> None:
        """Waits until all results are at their places."""
        while self._turning:
            self.take()

    def _turn(self, slot: Slot) -> None:
        self._turning.append((slot, self._copying.submit(slot.turn, next(self._chunks, None))))


def chunks_of(sources: Sequence[Host], targets: Sequence[Host], size: int) -> Iterator[Chunk]:
    """The arrays in chunks, ``size`` elements of the first one and in proportion of the others, the
    last chunk with what is left."""
    whole = len(sources[0])

    def part(one: Host, start: int) -> Host:
        return one[start * len(one) // whole : (start + size) * len(one) // whole]

    for start in range(0, whole, size):
        yield Chunk(tuple(part(one, start) for one in sources), tuple(part(one, start) for one in targets))


COMPILED = ("work",)
"""Parameters that affect the device code."""

STEPS = ("upload", "kernel", "download")
MIB = 2**20
FLOAT = 4  # bytes


class StreamPipeline:
    """One prepared pipeline over the arrays of ``case``, all float32, the first one the longest.

    ``arrays`` holds their bytes on the host, results with a guard behind them. ``ring``: slots of
    the pinned ring (``memory=staged``).
    """

    def __init__(self, case: Case, kernel: Any, driver: HostDriver, ring: int) -> None:
        chosen = case.parameters
        self._case, self._kernel, self._driver = case, kernel, driver
        self._lanes = driver.lanes(str(chosen.get("stream_kind", "nonblocking")), int(chosen["streams"]))
        self._chunk = int(chosen["chunk"]) * MIB // FLOAT
        nbytes, arrays = self._chunk * FLOAT, case.spec.arrays
        sizes = [nbytes] * len(arrays)
        self.buffers = buffers_of(driver, self._lanes, str(chosen["alloc"]), str(chosen["threshold"]), sizes)
        ups, downs = (sum(array.output is output for array in arrays) for output in (False, True))
        staged = chosen["memory"] == "staged"
        self._staging = Staging(driver, ring, int(chosen["threads"]), nbytes, ups, downs) if staged else None
        host = driver.pinned if chosen["memory"] == "pinned" else _pageable
        self.arrays = {array.name: host(case.nbytes(array) + (GUARD if array.output else 0)) for array in arrays}
        floats = [self.arrays[array.name][: case.nbytes(array)].view(np.float32) for array in arrays]
        self._chunks = list(chunks_of(floats[:ups], floats[ups:], self._chunk))
        self._stray = driver.reserve(FLOAT) if chosen.get("stray") else None
        self._graphs: dict[tuple[str, ...], Graph] | None = {} if chosen.get("launch") == "graph" else None

    def run(self, steps: tuple[str, ...] = STEPS) -> None:
        """Queues the whole pipeline between two points of the main stream, or only some of its
        ``steps`` to time them; as a graph, which the first run makes.

        Returns at once with pinned memory that is reserved or from a pool; else the CPU takes part
        until the end.
        """
        if self._graphs is None:
            self._queue_all(steps)
            return
        if steps not in self._graphs:
            self._graphs[steps] = self._driver.captured(functools.partial(self._queue_all, steps))
        self._graphs[steps].launch(self._driver.main)

    def poison(self) -> None:
        """Sets what the device will send back to 0xFF, so that a chunk that no kernel wrote is not
        a number."""
        nbytes = self._chunk * FLOAT
        for lane in self._lanes:
            places = self.buffers.take(lane)
            for pointer in places[len(self._chunks[0].sources) :]:
                self._driver.fill(lane, pointer, POISON, nbytes)
            self.buffers.give(lane, places)
        self.buffers.finish()
        self._driver.join(self._lanes)

    def _queue_all(self, steps: tuple[str, ...]) -> None:
        self._driver.fork(self._lanes)
        if self._staging is not None:
            self._staging.begin(self._chunks)
        for index, chunk in enumerate(self._chunks):
            self._queue(self._lanes[index % len(self._lanes)], chunk, steps)
        self._driver.join(self._lanes)
        self.buffers.finish()
        if self._staging is not None:
            self._staging.finish()

    def _queue(self, lane: Stream, chunk: Chunk, steps: tuple[str, ...]) -> None:
        driver, slot = self._driver, None
        places = self.buffers.take(lane)
        if self._staging is not None:
            slot = self._staging.take()
            chunk = slot.view(chunk.count)
        ups = len(chunk.sources)
        if "upload" in steps:
            for pointer, source in zip(places, chunk.sources, strict=False):
                driver.to_device(lane, pointer, source)
        if "kernel" in steps:
            for _ in range(int(self._case.parameters.get("layers", 1))):
                self._launch(lane, places, chunk.count)
        if "download" in steps:
            for pointer, target in zip(places[ups:], chunk.targets, strict=True):
                driver.to_host(lane, target, pointer)
        if slot is not None and self._staging is not None:
            self._staging.recycle(slot, lane)
        self.buffers.give(lane, places)
        if self._stray is not None:
            driver.touch_default_stream(self._stray)

    def _launch(self, lane: Stream, places: Places, count: int) -> None:
        part = self._part(count)
        grid, block = part.grid_on(self._driver.sms)[0], part.block[0]
        self._driver.launch(lane, self._kernel, grid, block, *places, np.int32(count), smem=part.smem)

    @functools.cache  # noqa: B019 - two sizes of chunks at most
    def _part(self, count: int) -> Case:
        """The case of a chunk: a launch sees no other part of the arrays."""
        return Case(self._case.spec, self._case.parameters, {**self._case.shape, "n": count})


def make(case: Case, gpu: Gpu, kernel: Any) -> StreamPipeline:
    """The pipeline of ``case``; what ``host_program`` calls."""
    return StreamPipeline(case, kernel, HostDriver(gpu), int(case.parameters["slots"]))


def _pageable(nbytes: int) -> NDArray[np.uint8]:
    return np.zeros(nbytes, np.uint8)
