"""The host's side of ``peer_pipeline``: one GPU produces chunks, an event tells the other, which
takes them over and consumes them.

Nothing waits on the CPU: a ring of ``slots`` buffers lies between the two, and events say when a
slot is full and when it is free again. With ``overlap=0`` a chunk begins when the one before it is
consumed: one GPU always waits for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.host.driver import FIRST, SECOND, GpuPair, Place
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case

COMPILED = ("work",)
"""Parameters that affect the device code."""

STEPS = ("produce", "copy", "consume")
MIB = 2**20
FLOAT = 4  # bytes
PER_CTA = 1024  # floats: 256 threads of stream_pipeline.cu, four each


class PairArrays(Mapping[str, NDArray[np.uint8]]):
    """x on the host, from where ``poison`` takes it to the first GPU, and y as the last run left it
    on the second, with a guard behind it. ``ran``: y was not fetched since."""

    def __init__(self, pair: GpuPair, y: Place, nbytes: int) -> None:
        self._pair, self._place = pair, y
        self._arrays = {"x": np.zeros(nbytes, np.uint8), "y": np.zeros(nbytes + GUARD, np.uint8)}
        self.ran = False

    def __getitem__(self, name: str) -> NDArray[np.uint8]:
        if name == "y" and self.ran:
            self._pair.count(False)
            self._pair.download(self._place, self._arrays["y"])
            self.ran = False
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class PeerPipeline:
    """One prepared pipeline of a pair of GPUs."""

    def __init__(self, case: Case, kernel: Any, pair: GpuPair) -> None:
        chosen, count = case.parameters, case.shape["n"]
        self.kernel = kernel
        self._pair, self._count = pair, count
        self._via, self._overlap = str(chosen["via"]), bool(chosen["overlap"])
        self._chunk = min(int(chosen["chunk"]) * MIB // FLOAT, count)
        self._slots = int(chosen["slots"])
        self._x, self._y = pair.reserve(FIRST, FLOAT * count), pair.reserve(SECOND, FLOAT * count + GUARD)
        nbytes = FLOAT * self._chunk
        self._sent = [pair.reserve(FIRST, nbytes) for _ in range(self._slots if self._via != "write" else 0)]
        self._got = [pair.reserve(SECOND, nbytes) for _ in range(self._slots if self._via != "read" else 0)]
        self._producer, self._copier, self._consumer = pair.lane(FIRST), pair.lane(SECOND), pair.lane(SECOND)
        self._made = [pair.event(FIRST) for _ in range(self._slots)]
        self._copied = [pair.event(SECOND) for _ in range(self._slots)]
        self._used = [pair.event(SECOND) for _ in range(self._slots)]
        self.arrays = PairArrays(pair, self._y, FLOAT * count)

    def run(self, steps: tuple[str, ...] = STEPS) -> None:
        """Queues the whole pipeline between two points of the main stream, or only some of its
        ``steps`` to time them; returns at once."""
        lanes = (self._producer, self._copier, self._consumer)
        self._pair.fork(lanes)
        for index, start in enumerate(range(0, self._count, self._chunk)):
            self._queue(index, start, min(self._chunk, self._count - start), steps)
        self._pair.join(lanes)
        self.arrays.ran = True

    def poison(self) -> None:
        """Takes x to the first GPU, and sets all that lies behind it to 0xFF: what nobody produced,
        copied or consumed is not a number. A recording counts what follows, until y is fetched."""
        self._pair.sync()
        self._pair.upload(self._x, self.arrays["x"])
        for place in (*self._sent, *self._got):
            self._pair.fill(place, POISON, FLOAT * self._chunk)
        self._pair.fill(self._y, POISON, FLOAT * self._count + GUARD)
        self._pair.count(True)

    def _queue(self, index: int, start: int, count: int, steps: tuple[str, ...]) -> None:
        slot, pair = index % self._slots, self._pair
        made, copied, used = self._made[slot], self._copied[slot], self._used[slot]
        copies = self._via == "copy"
        if not self._overlap and index:
            pair.follow(self._producer, self._used[(index - 1) % self._slots])
        if "produce" in steps:
            pair.follow(self._producer, copied if copies else used)
            target = self._got[slot] if self._via == "write" else self._sent[slot]
            self._launch(self._producer, (FIRST, self._x[1] + FLOAT * start), target, count)
        pair.record(made, self._producer)
        if "copy" in steps and copies:
            pair.follow(self._copier, made)
            pair.follow(self._copier, used)
            pair.copy(self._copier, self._got[slot], self._sent[slot], FLOAT * count)
        pair.record(copied, self._copier)
        if "consume" in steps:
            pair.follow(self._consumer, copied if copies else made)
            source = self._sent[slot] if self._via == "read" else self._got[slot]
            self._launch(self._consumer, source, (SECOND, self._y[1] + FLOAT * start), count)
        pair.record(used, self._consumer)

    def _launch(self, lane: Any, source: Place, target: Place, count: int) -> None:
        grid = -(-count // PER_CTA)
        self._pair.launch(lane, self.kernel, grid, PER_CTA // 4, source[1], target[1], np.int32(count))


def make(case: Case, gpu: Gpu, kernel: Any) -> PeerPipeline:
    """The pipeline of ``case``; what ``host_program`` calls. Raises MeasurementError where there is
    one GPU."""
    return PeerPipeline(case, kernel, GpuPair(gpu))
