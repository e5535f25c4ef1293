"""What the threads of the host did: their calls of CUDA, by class, and which call queued which
work."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.streams.causes import HOST_SYNC, LAUNCH_GAP, PAGEABLE_COPY, call_class
from ncubble.analysis.streams.records import CALLS

FOREVER = 2**62
POLLED_NS = 20_000
"""Maximum time between two polls: within it the host does nothing but poll."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the host, with what its name and its copies say about it. Times in ns."""

    start: int
    end: int
    name: str
    cause: str


class Thread:
    """The calls of one thread in order, outermost only: a runtime call holds the driver calls
    within it."""

    def __init__(self, start: np.ndarray, end: np.ndarray, name: np.ndarray, cause: np.ndarray) -> None:
        order = np.lexsort((-end, start))
        start, end, name, cause = start[order], end[order], name[order], cause[order].copy()
        outer = np.ones(len(start), bool)
        outer[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
        inner = np.flatnonzero(~outer & (cause != LAUNCH_GAP))
        holder = np.flatnonzero(outer)[np.cumsum(outer)[inner] - 1]
        # The first inner call that does more than launch determines what the outer one does.
        places, first = np.unique(holder, return_index=True)
        plain = cause[places] == LAUNCH_GAP
        cause[places[plain]] = cause[inner[first[plain]]]
        self.start, self.end, self.name, self.cause = merge_polls(start[outer], end[outer], name[outer], cause[outer])
        self._starts = self.start.tolist()

    def at(self, time: int) -> tuple[Call | None, int]:
        """The call that the thread is in, and when that may change: the call's end, or the start of
        the next one."""
        place = bisect_right(self._starts, time)
        if place and time < self.end[place - 1]:
            return self.call(place - 1), int(self.end[place - 1])
        return None, self._starts[place] if place < len(self._starts) else FOREVER

    def call(self, place: int) -> Call:
        """The call at a place in the order."""
        return Call(int(self.start[place]), int(self.end[place]), str(self.name[place]), str(self.cause[place]))

    def other_than_launch(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts of the calls that wait, allocate or copy, and the latest end up to each."""
        return reaching(self.start[self.cause != LAUNCH_GAP], self.end[self.cause != LAUNCH_GAP])


def merge_polls(
    start: np.ndarray, end: np.ndarray, name: np.ndarray, cause: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Calls in order, with those that ask again and again whether work is done as one: the host
    waits by them."""
    queries = {call for call in set(name.tolist()) if "Query" in call and call_class(call) == HOST_SYNC}
    if len(start) < 2 or not queries:
        return start, end, name, cause
    asks = np.isin(name, list(queries))
    again = np.zeros(len(start), bool)
    again[1:] = asks[1:] & asks[:-1] & (start[1:] - end[:-1] <= POLLED_NS)
    first = np.flatnonzero(~again)
    last = np.append(first[1:], len(start)) - 1
    return start[first], end[last], name[first], cause[first]


def reaching(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts in order, and the latest end of all intervals up to each."""
    order = np.argsort(start, kind="stable")
    return start[order], np.maximum.accumulate(end[order]) if len(end) else end


def any_in(starts: np.ndarray, reach: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whether one of the intervals of ``reaching`` overlaps each of the stretches from ``begin`` to
    ``end``."""
    if not len(starts):
        return np.zeros(len(begin), bool)
    place = np.searchsorted(starts, end, side="left")
    overlapping: np.ndarray = (place > 0) & (reach[np.maximum(place, 1) - 1] > begin)
    return overlapping


class Calls:
    """All calls of a process. ``threads``: by thread; the arrays, one place per call, name what
    queued work."""

    def __init__(self, rows: pd.DataFrame, work: pd.DataFrame) -> None:
        calls = rows[rows["kind"].isin(CALLS)]
        self.start, self.end = calls["start_ns"].to_numpy(np.int64), calls["end_ns"].to_numpy(np.int64)
        self.thread = calls["thread"].to_numpy(np.int64)
        correlation = calls["correlation"].to_numpy(np.int64)
        codes, names = pd.factorize(calls["name"].astype(object))
        classes = np.array([call_class(str(name)) for name in names] or [LAUNCH_GAP], dtype=object)
        waits = np.array(["Async" not in str(name) for name in names] or [False])
        self.name = np.asarray(names, dtype=object)[codes] if len(names) else np.array([], dtype=object)
        self.cause = classes[codes] if len(names) else np.array([], dtype=object)
        copies, pageable = (work["kind"] == "copy").to_numpy(), work["pageable"].to_numpy(bool)
        numbers = work["correlation"].to_numpy(np.int64)
        if len(names):
            # A synchronous copy returns when it is done.
            self.cause[np.isin(correlation, numbers[copies & ~pageable]) & waits[codes]] = HOST_SYNC
            self.cause[np.isin(correlation, numbers[pageable])] = PAGEABLE_COPY
        order = np.lexsort((-self.end, self.start, correlation))
        self._numbers, first = np.unique(correlation[order], return_index=True)
        self._outermost = order[first]
        self.threads = {int(thread): self._thread(thread) for thread in np.unique(self.thread)}

    def _thread(self, thread: int) -> Thread:
        own = self.thread == thread
        return Thread(self.start[own], self.end[own], self.name[own], self.cause[own])

    def queuing(self, correlation: np.ndarray, begun: np.ndarray) -> np.ndarray:
        """The place of the outermost call of each correlation; -1 where none was recorded, or it
        came after ``begun``.

        A call after its work: the number was used twice, and this call is not what queued it.
        """
        if not len(self._numbers):
            return np.full(len(correlation), -1)
        place = np.minimum(np.searchsorted(self._numbers, correlation), len(self._numbers) - 1)
        call = self._outermost[place]
        right = (self._numbers[place] == correlation) & (correlation != 0) & (self.start[call] <= begun)
        return np.where(right, call, -1)

    def started(self, correlation: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """When the outermost call of each correlation began; ``otherwise`` where none was
        recorded."""
        place = self.queuing(correlation, np.full(len(correlation), FOREVER))
        return np.where(place >= 0, self.start[place] if len(self.start) else 0, otherwise)

    def at(self, place: int) -> Call:
        """The call at a place of the arrays."""
        return Call(int(self.start[place]), int(self.end[place]), str(self.name[place]), str(self.cause[place]))
