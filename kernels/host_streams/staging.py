"""A ring of pinned slots between pageable arrays and the device, filled and emptied by threads of
the host and recycled by host callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.host_streams.streams import HostDriver, Signal, Stream

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
    """The arrays in chunks of ``size`` elements, the last one with what is left."""
    for start in range(0, len(sources[0]), size):
        part = slice(start, start + size)
        yield Chunk(tuple(one[part] for one in sources), tuple(one[part] for one in targets))
