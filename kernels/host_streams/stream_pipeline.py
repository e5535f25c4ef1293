"""The host's side of ``stream_pipeline`` and ``warp_pipeline``: chunks go up, through the kernel
and down again, on several streams at once.

Every chunk is queued on the next stream in turn: memory for it, its inputs to the device, the
kernel, its results back, the memory given back. A GPU with two copy engines can do all three at
once for different chunks, unless the host serializes them. The parameters name the ways to do so.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.device.device import Gpu
from ncubble.kernels.host_streams.buffers import Places, buffers_of
from ncubble.kernels.host_streams.staging import Chunk, Staging, chunks_of
from ncubble.kernels.host_streams.streams import Graph, HostDriver, Stream
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ("work",)
"""Parameters that affect the device code."""

STEPS = ("upload", "kernel", "download")
MIB = 2**20
FLOAT = 4  # bytes


class StreamPipeline:
    """One prepared pipeline over the arrays of ``case``, all float32 of one length.

    ``arrays`` holds their bytes on the host, results with a guard behind them. ``ring``: slots of
    the pinned ring (``memory=staged``).
    """

    def __init__(self, case: Case, kernel: Any, driver: HostDriver, ring: int) -> None:
        chosen, count = case.parameters, case.shape["n"]
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
        self.arrays = {array.name: host(count * FLOAT + (GUARD if array.output else 0)) for array in arrays}
        floats = [self.arrays[array.name][: count * FLOAT].view(np.float32) for array in arrays]
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
