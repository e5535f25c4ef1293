"""The search: start, follow the advice of profiles, then try the largest expected improvement; keep
the best three."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import Value
from ncubble.kernels.tuning.space import Point, Space
from ncubble.kernels.tuning.surrogate import Surrogate
from ncubble.kernels.tuning.trials import OK, Trial

ELITES = 3
NEAR = 0.01
"""Configurations within this share of the best time are timed again, in turns: single timings
cannot separate them."""
AGAIN = 5
"""The budget divided by this is reserved for retiming the best ones."""
STEP = 0.03
"""Minimum gain in time since the last profile before the next is taken."""
PROFILES = 3
"""Maximum profiles during the search."""
SHARE = 3
"""The budget is the grid's size divided by this."""


@dataclass(frozen=True)
class TuneMove:
    """A parameter with ``values`` that may fix a cause, best first."""

    parameter: str
    values: tuple[Value, ...]
    why: str


@dataclass(frozen=True)
class TuneAdvice:
    """Advice from a profile of a configuration: its first cause, and values to try, best first."""

    cause: str
    moves: tuple[TuneMove, ...] = ()


class Bench(Protocol):
    """Interface of objects that measure configurations."""

    def measure(self, case: Case) -> Trial:
        """Verify and time one."""

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Median times of several in microseconds, timed in turns."""

    def advise(self, case: Case) -> TuneAdvice | None:
        """Advice from a profile; None if it cannot be profiled."""


@dataclass(frozen=True)
class Elite:
    """One of the best: timed in ``trial``; ``p50_us`` is the median of that, or of the timing in
    turns. ``cause`` is the first of its profile, empty without."""

    point: Point
    trial: Trial
    p50_us: float
    cause: str = ""


@dataclass
class Tuner:
    """One search. ``tell(point, trial, why)`` is called for every trial."""

    space: Space
    bench: Bench
    budget: int
    tell: Callable[[Point, Trial, str], None] = lambda point, trial, why: None
    trials: dict[Point, Trial] = field(default_factory=dict)
    turns: dict[Point, float] = field(default_factory=dict)
    advice: dict[Point, TuneAdvice] = field(default_factory=dict)
    stopped: str = ""

    def run(self) -> list[Elite]:
        """The best that ``search`` finds, each with the first cause of its profile."""
        for elite in self.search():
            self._advise(elite.point)
        return self.elites

    def search(self) -> list[Elite]:
        """Searches within the budget and returns the best, fastest first; none where no
        configuration is right."""
        self._try(self.space.start, "the start")
        self._profile()
        while not self.stopped:
            point, why = self._next()
            if point is not None:
                self._try(point, why)
                self._profile()
        self._time_in_turns()
        return self.elites

    @property
    def launches(self) -> int:
        """Configurations timed, or launched in vain; again in turns counts again."""
        return sum(trial.launches for trial in self.trials.values()) + len(self.turns)

    @property
    def elites(self) -> list[Elite]:
        """The best that are right, fastest first."""
        ranked = sorted(self._times.items(), key=lambda item: (item[1], item[0]))[:ELITES]
        return [
            Elite(point, self.trials[point], time, self.advice[point].cause if point in self.advice else "")
            for point, time in ranked
        ]

    @property
    def _times(self) -> dict[Point, float]:
        """Median times of what is right, in microseconds; those in turns replace single ones."""
        single = {point: trial.p50_us for point, trial in self.trials.items() if trial.outcome == OK and trial.p50_us}
        return {**single, **self.turns}

    def _try(self, point: Point, why: str) -> None:
        self.trials[point] = self.bench.measure(self.space.cases[point])
        self.tell(point, self.trials[point], why)

    def _next(self) -> tuple[Point | None, str]:
        """The next configuration, and why; None at the end, which ``stopped`` then explains."""
        if len(self.trials) == len(self.space.cases):
            self.stopped = "all configurations are timed"
        elif self.launches + self._kept_back() >= self.budget:
            self.stopped = "the budget is used up"
        if self.stopped:
            return None, ""
        for point, why in self._advised():
            return point, why
        gains = Surrogate(self.space.sizes, self.space.ordered, list(self.space.cases)).improvements(self._costs())
        point = max(gains, key=lambda candidate: (gains[candidate], tuple(-index for index in candidate)))
        return point, f"expected to gain {100 * gains[point]:.1f} %"

    def _advised(self) -> Iterator[tuple[Point, str]]:
        """Untried values of the newest advice on the best configuration."""
        if not (self.advice and self.elites):
            return
        best, newest = self.elites[0].point, list(self.advice.values())[-1]
        for move in newest.moves:
            for value in move.values:
                point = self.space.moved(best, move.parameter, value)
                if point is not None and point not in self.trials:
                    yield point, move.why

    def _costs(self) -> dict[Point, float]:
        """Times of all that was tried: what is wrong or fails counts as slow as the slowest."""
        times = self._times
        slowest = max(times.values(), default=1.0)
        return {point: times.get(point, slowest) for point, trial in self.trials.items()}

    def _contenders(self) -> list[Point]:
        """The best configuration, and those that a single timing cannot separate from it."""
        elites = self.elites
        return [elite.point for elite in elites if elite.p50_us <= (1.0 + NEAR) * elites[0].p50_us]

    def _kept_back(self) -> int:
        """Budget for retiming the best configurations; 0 if there is only one."""
        count = min(ELITES, self.budget // AGAIN)
        return count if count > 1 else 0

    def _profile(self) -> None:
        """Profiles the best configuration if it gained enough on the last that was."""
        if len(self.advice) >= PROFILES or not self.elites:
            return
        best, times = self.elites[0], self._times
        before = min((times[point] for point in self.advice if point in times), default=math.inf)
        if best.p50_us < (1.0 - STEP) * before:
            self._advise(best.point)

    def _advise(self, point: Point) -> None:
        if point in self.advice:
            return
        advice = self.bench.advise(self.space.cases[point])
        if advice is not None:
            self.advice[point] = advice

    def _time_in_turns(self) -> None:
        """Separate the best configurations by further timings within the budget."""
        contenders = self._contenders()[: self.budget - self.launches]
        if len(contenders) > 1:
            times = self.bench.in_turns([self.space.cases[point] for point in contenders])
            self.turns = dict(zip(contenders, times, strict=True))


def usual_budget(configurations: int) -> int:
    """A third of the grid, but what a start, two others and their comparison take."""
    return max(configurations // SHARE, min(configurations, 2 * ELITES))
