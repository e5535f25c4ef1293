"""Launches the variants of a kernel in turns: cycles under ncu, or time without any counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from ncubble.cli.commands.ablate.profiling import AblationOrder
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import (
    WARM_UP,
    MeasuredRounds,
    ReplayOutcome,
    ReplayVariant,
    count_rounds,
    silence_s,
    time_rounds,
    turns,
    write_plan,
)
from ncubble.profiling.ncu import ReplayedLaunch

UNDER_NCU_S = 4.0
"""Time that ncu may take to start, in addition to a launch."""


@dataclass(frozen=True)
class MeasuredTurns:
    """Results of launches in this ``order``; the first ``skipped`` of each variant do not count."""

    order: Sequence[ReplayVariant]
    rounds: MeasuredRounds
    skipped: int = 0

    @property
    def complete(self) -> bool:
        """Whether every launch was measured."""
        return 0 < len(self.order) == len(self.rounds.values)

    @property
    def culprit(self) -> tuple[str, ReplayOutcome | None]:
        """The variant at which it ended, and the status; None if unknown."""
        failed = [variant.name for variant in self.order if self._ended(variant.name) not in ("ok", "")]
        if failed:
            return failed[0], self.rounds.outcomes[failed[0]]
        return self.order[len(self.rounds.values) % len(self.order)].name, None

    def _ended(self, name: str) -> str:
        outcome = self.rounds.outcomes.get(name)
        return outcome.status if outcome else ""

    def values(self, name: str) -> list[float]:
        """Cycles, or ns, of a variant in each round."""
        return self._of(name, self.rounds.values)

    def moved(self, name: str) -> float:
        """Mean bytes moved between L2 and DRAM; NaN if not counted."""
        return fmean(self._of(name, self.rounds.dram_B))

    def clock_mhz(self, name: str) -> float | None:
        """Median SM clock during its launches; None if unknown."""
        known = [mhz for mhz in self._of(name, self.rounds.clock_mhz) if mhz == mhz]
        return median(known) if known else None

    def _of(self, name: str, column: Sequence[float]) -> list[float]:
        own = [value for variant, value in zip(self.order, column, strict=False) if variant.name == name]
        return own[self.skipped :]


def measure_turns(
    capsule: Capsule, variants: Sequence[ReplayVariant], folder: Path, wanted: AblationOrder
) -> MeasuredTurns:
    """Measure all ``variants`` in each round. Raises MeasurementError if nothing is measured."""
    skipped = WARM_UP if wanted.timed else 0
    order = turns(variants, wanted.rounds + skipped, mirrored=wanted.timed)
    plan = write_plan(folder / "rounds.json", order, timed=wanted.timed)
    total = len(order)

    def said(number: int) -> None:
        wanted.say(f"measuring launch {number} of {total}")

    def heard(launch: ReplayedLaunch) -> None:
        said(launch.index)

    with wanted.turn:
        if wanted.timed:
            return MeasuredTurns(order, time_rounds(capsule, plan, said), skipped)
        return MeasuredTurns(order, count_rounds(capsule, plan, heard, UNDER_NCU_S + silence_s(capsule)))
