"""A pipelined loop of ``wgmma`` on one SM, simulated event by event.

Resident CTAs run groups of four warps. A group is a coroutine that goes through the steps of its
loop; it yields the cycle at which it goes on, or ``PARKED`` until another one wakes it. Groups take
turns at two servers, which work by themselves: the tensor pipe, and the port through which tiles
come to the SM.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

PARKED = math.inf
MOST_TILES = 16
"""Simulated tiles of a CTA; the others are extrapolated."""
WORK, WAIT, MEET, PRODUCT, DRAIN, COPY, COMMIT = "work", "wait", "meet", "product", "drain", "copy", "commit"
_Process = Generator[float, None, None]


class LoopStep(NamedTuple):
    """What a group of warps does next: ``WORK`` for ``amount`` cycles, ``WAIT`` for its tile,
    ``MEET`` the other groups of its CTA, hand a ``PRODUCT`` of ``amount`` cycles to the pipe,
    ``DRAIN`` until no more than ``amount`` products are pending, begin to ``COPY`` a later tile, or
    ``COMMIT`` its copies, the last of which is issued now."""

    kind: str
    amount: float = 0.0


@dataclass(frozen=True)
class SimulatedLoop:
    """One SM: ``ctas`` resident CTAs of ``groups`` groups, each of which goes through ``steps`` for
    ``tiles`` tiles, of which the first ``MOST_TILES`` are simulated; the others take as long as
    those from ``counted`` on.

    A copy brings the tile that is ``ahead`` of the present one: its bytes pass the port in ``fill``
    cycles, and it is there ``flight`` after these and after its last copy. ``own_shares`` says
    whether each group copies and awaits a share of the tile (cp.async), else one copies for all
    (TMA). Where steps copy nothing, another warp copies as soon as all groups have left a buffer,
    while products of its last ``pending`` tiles still read theirs. ``ends`` are cycles before and
    after the loop together.
    """

    ctas: int
    groups: int
    tiles: int
    steps: tuple[LoopStep, ...]
    ahead: int
    fill: float
    flight: float = 0.0
    ends: float = 0.0
    own_shares: bool = True
    pending: int = 0

    @property
    def simulated(self) -> int:
        """Tiles that are simulated."""
        return min(self.tiles, MOST_TILES)

    @property
    def counted(self) -> int:
        """The first tile of those that the others follow from: of whole bursts, as loops that wait
        go on in bursts of as many tiles as may be copied at one time."""
        burst = max(1, self.ahead - (0 if self.copies else self.pending))
        whole = max(1, self.simulated // 2 // burst) * burst
        return self.simulated - whole if whole < self.simulated else self.simulated // 2

    @property
    def copies(self) -> bool:
        """Whether the groups copy themselves."""
        return any(step.kind == COPY for step in self.steps)

    def scaled(self, factor: float) -> SimulatedLoop:
        """The loop with its work taking ``factor`` times as long. What is outside never takes
        longer."""
        steps = tuple(step._replace(amount=step.amount * factor) if step.kind == WORK else step for step in self.steps)
        return replace(self, steps=steps, ends=self.ends * min(1.0, factor))


class SimulatedRun(NamedTuple):
    """Cycles of a CTA for each of its tiles, and how many of them a group waits for its tile
    (mean). Both are infinite where a group would wait for ever."""

    cycle: float
    waited: float


class _Server:
    """Serves in the order in which groups come."""

    def __init__(self) -> None:
        self.free = self.used = 0.0

    def take(self, now: float, cycles: float) -> float:
        """When ``cycles`` of service end."""
        self.free = max(self.free, now) + cycles
        self.used += cycles
        return self.free


def simulate(loop: SimulatedLoop) -> SimulatedRun:
    """Runs all CTAs of one SM once."""
    sm = _Sm(loop)
    sm.run()
    groups = loop.ctas * loop.groups
    if len(sm.ended) < groups:
        return SimulatedRun(math.inf, math.inf)
    since, at_end = sm.passed[loop.counted], sm.passed[loop.simulated]
    passages = groups * (loop.simulated - loop.counted)
    demand = max(sm.port.used, sm.pipe.used) / loop.simulated
    steady = max(demand, (at_end.at - since.at) / passages)  # no server is busy for more than the whole time
    more = loop.tiles - loop.simulated
    end = max(*sm.ended, sm.port.free, sm.pipe.free)  # copies also end if nobody waits for them
    cycle = (end + more * steady) / loop.tiles
    waited = at_end.waited / groups + more * (at_end.waited - since.waited) / passages
    return SimulatedRun(cycle, waited / loop.tiles)


@dataclass
class _Passage:
    """Cycles at which groups have passed a tile, and those they have waited for until then, summed
    over groups."""

    at: float = 0.0
    waited: float = 0.0


class _Sm:
    """One SM: its servers, the present cycle, and who goes on when."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop, self.now, self.ended = loop, 0.0, list[float]()
        self.pipe, self.port = _Server(), _Server()
        self.passed = {tile: _Passage() for tile in (loop.counted, loop.simulated)}
        self._queue: list[tuple[float, int, _Process]] = []
        self._order = count()

    def wake(self, process: _Process) -> None:
        """Lets a parked process go on at the present cycle."""
        heapq.heappush(self._queue, (self.now, next(self._order), process))

    def run(self) -> None:
        """Runs until nothing is left to do."""
        for _ in range(self.loop.ctas):
            for process in _Cta(self).groups:
                self.wake(process)
        queue = self._queue
        while queue:
            self.now, _, process = queue[0]  # stays first: who is woken meanwhile comes behind it
            until = next(process, PARKED)
            if until < PARKED:
                heapq.heapreplace(queue, (max(until, self.now), next(self._order), process))
            else:
                heapq.heappop(queue)


class _Cta:
    """One CTA: its groups, the arrivals of their tiles, and who stands at its barrier."""

    def __init__(self, sm: _Sm) -> None:
        self.sm, self.loop, self._copies = sm, sm.loop, sm.loop.copies
        self._arrivals: list[dict[int, float]] = [{} for _ in range(self.loop.groups if self.loop.own_shares else 1)]
        self._passed: list[float] = [0.0] * len(self._arrivals)
        self._left: dict[int, int] = {}
        self._at_barrier, self._waiting = list[_Process](), list[_Process]()
        self.groups = [self._group(number) for number in range(self.loop.groups)]
        for number in range(len(self._arrivals)):
            for tile in range(self.loop.ahead):
                self._begin(number, tile)
                self._commit(number, tile)

    def _group(self, number: int) -> _Process:
        sm, loop, pending, waited = self.sm, self.loop, deque[float](), 0.0
        yield sm.now + loop.ends / 2
        for tile in range(loop.simulated):
            self._passes(tile, waited)
            for kind, amount in loop.steps:
                if kind == WORK:
                    yield sm.now + amount
                elif kind == PRODUCT:
                    pending.append(sm.pipe.take(sm.now, amount))
                elif kind == DRAIN:
                    while len(pending) > amount:
                        yield pending.popleft()
                elif kind == COPY:
                    self._begin(number, tile + loop.ahead)
                elif kind == COMMIT:
                    self._commit(number, tile + loop.ahead)
                elif kind == MEET:
                    yield from self._meets(number)
                else:
                    since = sm.now
                    yield from self._awaits(number, tile)
                    waited += sm.now - since
            self._leave(tile - loop.pending)
        self._passes(loop.simulated, waited)
        yield max([sm.now, *pending]) + loop.ends / 2
        sm.ended.append(sm.now)

    def _passes(self, tile: int, waited: float) -> None:
        """A group is about to take a tile, or done with all."""
        if (passage := self.sm.passed.get(tile)) is not None:
            passage.at += self.sm.now
            passage.waited += waited

    def _begin(self, number: int, tile: int) -> None:
        """Bytes of a tile, or of a group's share of it, go to the port."""
        if tile < self.loop.simulated and number < len(self._arrivals):
            self._passed[number] = self.sm.port.take(self.sm.now, self.loop.fill / len(self._arrivals))

    def _commit(self, number: int, tile: int) -> None:
        """All copies of that tile are issued."""
        if tile < self.loop.simulated and number < len(self._arrivals):
            self._arrivals[number][tile] = max(self._passed[number], self.sm.now) + self.loop.flight
            self._wake(self._waiting)

    def _leave(self, tile: int) -> None:
        """One group more is done with a tile."""
        if self._copies or tile < 0:
            return
        self._left[tile] = self._left.get(tile, 0) + 1
        if self._left[tile] == self.loop.groups:
            self._begin(0, tile + self.loop.ahead)
            self._commit(0, tile + self.loop.ahead)

    def _awaits(self, number: int, tile: int) -> _Process:
        arrivals = self._arrivals[number if self.loop.own_shares else 0]
        while tile not in arrivals:
            self._waiting.append(self.groups[number])
            yield PARKED
        if arrivals[tile] > self.sm.now:
            yield arrivals[tile]

    def _meets(self, number: int) -> _Process:
        if len(self._at_barrier) + 1 == self.loop.groups:
            self._wake(self._at_barrier)
        else:
            self._at_barrier.append(self.groups[number])
            yield PARKED

    def _wake(self, parked: list[_Process]) -> None:
        for process in parked:
            self.sm.wake(process)
        parked.clear()
