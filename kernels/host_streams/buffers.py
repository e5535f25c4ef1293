"""Device memory for chunks that stream through a GPU: made once, for every chunk by the CPU, or in
the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from ncubble.kernels.host_streams.streams import KEEP_ALL, Event, HostDriver, Stream

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
