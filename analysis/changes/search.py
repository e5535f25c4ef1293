"""Makes all single changes of a base, one round of them or until none gains.

A ``Bench`` makes and times them: in a Triton program, with a kernel of the catalog, or with a
program that is built anew for each. Here is decided what to try, what is left out, and what a
timing says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from ncubble.analysis.changes.tried import (
    DIFFERS,
    FAILED,
    LEFT,
    OK,
    REFUSED,
    SPILLS,
    Built,
    Settings,
    TriedChange,
    TriedRound,
    Value,
    gain,
)
from ncubble.errors import MeasurementError

ROUNDS = 15
"""Timed launches of each, unless the budget allows fewer."""
LEAST_ROUNDS = 5
WORTH_PCT = 1.0
"""A change that gains less does not become the base."""
MOST_ROUNDS = 8
TIME_UP = "the time was up"
TOLERANCE = 0.02
"""Largest difference of results, of their largest value, that counts as rounding: half precision
gives 0.004 and less, a wrong tile 1."""


@dataclass(frozen=True)
class Knob:
    """What can be changed: a parameter with the values that may be tried; ``kind`` as of
    ``Change``."""

    name: str
    kind: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Refusal:
    """Why settings cannot be launched."""

    why: str


@dataclass(frozen=True)
class Check:
    """``difference`` of the results, None where they were not compared; ``why`` they are wrong,
    empty where they are not; what was ``built``, where that is known only now."""

    difference: float | None = None
    why: str = ""
    built: Built | None = None


class Bench(Protocol):
    """What builds, checks and times settings."""

    @property
    def base(self) -> Settings:
        """The settings that the program has."""

    @property
    def knobs(self) -> Sequence[Knob]:
        """What can be changed."""

    @property
    def sm_mhz(self) -> int:
        """The SM clock while it timed last; 0 where it is not known."""

    @property
    def most_rounds(self) -> int:
        """Of timing; a round of a program that runs anew for each is dear."""

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        """Compile all."""

    def check(self, settings: Settings) -> Check | Refusal:
        """Launch once, and hold the results against those of the base."""

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        """Microseconds of each, ``rounds`` times in turns."""


@dataclass
class Search:
    """``repeat``: the best change becomes the base, until none gains. ``budget_s``: seconds after
    which nothing new begins. ``spilling``: whether changes are timed that spill more than the base.
    ``doing`` hears of progress. ``current`` is what runs now, and ``lost`` settings that ended the
    program before."""

    repeat: bool = False
    budget_s: float = 120.0
    spilling: bool = False
    doing: Callable[[str], None] = lambda text: None
    rounds: list[TriedRound] = field(default_factory=list)
    stopped: str = ""
    base: Settings | None = None
    current: Settings | None = None
    lost: list[Settings] = field(default_factory=list)
    _end: float = 0.0
    _open: Callable[[], TriedRound] | None = None

    def run(self, bench: Bench) -> None:
        """Fill ``rounds``; ``stopped`` says why it ended."""
        self.bench, self.rounds, self.stopped, self.current, self._open = bench, [], "", None, None
        self._end = self._end or time.monotonic() + self.budget_s
        base = self.base = dict(self.bench.base)
        while not self.stopped:
            self.rounds.append(self._round(base))
            best = self.rounds[-1].best
            if not self.repeat:
                self.stopped = self.stopped or "every single change was tried"
            elif best is None or (best.gain_pct or 0.0) < WORTH_PCT:
                self.stopped = self.stopped or f"no change gains {WORTH_PCT:g} %"
            elif len(self.rounds) == MOST_ROUNDS:
                self.stopped = f"{MOST_ROUNDS} rounds"
            else:
                base = {**base, best.name: best.after}

    def keep_open_round(self) -> None:
        """After ``run`` was interrupted: what it had timed by then counts as a round."""
        if self._open is not None:
            self.rounds.append(self._open())

    def _round(self, base: Settings) -> TriedRound:
        changes = list(self._changes(base))
        variants: list[Settings] = [base, *({**base, name: value} for _, name, value in changes)]
        self.doing(f"compiling {len(variants)} variants")
        built = self.bench.build(variants)
        own = built[0] if isinstance(built[0], Built) else Built()
        told: dict[int, TriedChange] = {}
        checks: dict[int, Check] = {}
        if not self.rounds:
            self._check_base(base)
        for number, (kind, name, value) in enumerate(changes, 1):
            self.doing(f"checking {number} of {len(changes)} variants")
            outcome, why = self._judged(built[number], own, checks, number, variants[number])
            if outcome != OK:
                told[number] = TriedChange(
                    kind=kind, name=name, before=base[name], after=value, outcome=outcome, why=why,
                    built=self._resources(built[number], checks.get(number)),
                    difference=checks[number].difference if number in checks else None,
                )  # fmt: skip
        times: dict[int, list[float]] = {number: [] for number in range(len(variants)) if number not in told}

        def timed() -> TriedRound:
            for number, (kind, name, value) in enumerate(changes, 1):
                if number in times:
                    resources = self._resources(built[number], checks[number])
                    middle, low, high = gain(times[0], times[number])
                    told[number] = TriedChange(
                        kind=kind, name=name, before=base[name], after=value, outcome=OK, us=median(times[number]),
                        gain_pct=middle, low=low, high=high, built=resources, difference=checks[number].difference,
                    )  # fmt: skip
            return TriedRound(
                settings=dict(base),
                us=median(times[0]),
                sm_mhz=self.bench.sm_mhz,
                built=own,
                changes=[told[number] for number in sorted(told)],
            )

        for _ in self._timing([variants[number] for number in times], list(times.values())):
            self._open = timed
        self._open = None
        return timed()

    def _check_base(self, base: Settings) -> None:
        """Raise MeasurementError where the base itself fails, or does not repeat its results."""
        first = self._checked(base)
        if isinstance(first, Refusal):
            raise MeasurementError(f"the base itself: {first.why}", "run the program without ncubble first")
        if first.why or (first.difference or 0.0) > TOLERANCE:
            why = first.why or f"they differ by {first.difference:.2g} of the largest value from launch to launch"
            raise MeasurementError(f"the base's own results are wrong: {why}", "make the kernel right first")

    @staticmethod
    def _resources(built: Built | Refusal, check: Check | None) -> Built:
        if check and check.built:
            return check.built
        return built if isinstance(built, Built) else Built()

    def _changes(self, base: Settings) -> Iterator[tuple[str, str, Value]]:
        for knob in self.bench.knobs:
            yield from ((knob.kind, knob.name, value) for value in knob.values if value != base[knob.name])

    def _judged(
        self, built: Built | Refusal, own: Built, checks: dict[int, Check], number: int, settings: Settings
    ) -> tuple[str, str]:
        """Outcome of a variant before it is timed, and why."""
        if isinstance(built, Refusal):
            return REFUSED, built.why
        more = (built.spilled_B or 0) - (own.spilled_B or 0)
        if more > 0 and not self.spilling:
            return SPILLS, f"spills {more} B more of a thread's registers"
        if time.monotonic() > self._end:
            self.stopped = TIME_UP
            return LEFT, self.stopped
        if settings in self.lost:
            return FAILED, "the program ended with it: a fault, or it hung"
        check = self._checked(settings)
        if isinstance(check, Refusal):
            return FAILED, check.why
        checks[number] = check
        if check.why or (check.difference or 0.0) > TOLERANCE:
            return DIFFERS, check.why or f"results differ by {check.difference:.2g} of the largest value"
        return OK, ""

    def _checked(self, settings: Settings) -> Check | Refusal:
        self.current = settings
        check = self.bench.check(settings)
        self.current = None
        return check

    def _timing(self, settings: list[Settings], times: list[list[float]]) -> Iterator[None]:
        """Add to the times of each, a few rounds a step, as many as the budget allows. The first
        one warms up."""
        begun = time.monotonic()
        self.doing(f"timing {len(settings)} variants")
        self.bench.time(settings, 1)
        took = time.monotonic() - begun
        most = min(ROUNDS, self.bench.most_rounds)
        left = int(min(most, max(LEAST_ROUNDS, (self._end - time.monotonic()) / max(took, 1e-3))))
        step = max(1, most // LEAST_ROUNDS)
        while left > 0:
            for own, more in zip(times, self.bench.time(settings, min(left, step)), strict=True):
                own += more
            left -= step
            yield
