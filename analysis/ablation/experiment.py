"""Runs the variants of one recorded launch and measures them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.analysis.ablation.code import CodeVariant, RemovableParts, Way, delayed, parts_of, without, words
from ncubble.analysis.ablation.listing import unit_of
from ncubble.analysis.ablation.measured import MeasuredTurns, lines_of_one, measured_ablation, ranked_lines
from ncubble.analysis.ablation.result import ROUTE, SHORTER, Ablation, MeasuredVariant
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.shares import ALL, NONE, removed
from ncubble.analysis.report.report import Launch
from ncubble.errors import MeasurementError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import DIED, NOT_TRIED, MeasuredRounds, ReplayOutcome, ReplayVariant
from ncubble.sass.opcodes import adds_in_any_order
from ncubble.sass.patching import Code
from ncubble.sass.shortening import ImmovableError

if TYPE_CHECKING:
    import pandas as pd

RAN = ReplayOutcome("ok")
CHANGES_RESULTS = "changes results"
NOPS = "removed instructions are replaced by NOPs, which keep their issue slots"
FROM_CODE = "without counters, loops and the bounding unit are inferred from the code: {}"
COUNTED_ROUNDS, TIMED_ROUNDS = 5, 21
"""Times scatter more than cycles; a launch without ncu takes only milliseconds."""


@dataclass(frozen=True)
class AblationSettings:
    """How to measure a launch. ``rounds``: measurements per variant; None for the default.
    ``timed``: measure time, without ncu. ``slack``: delay instructions, too. ``short``: remove
    instructions where the code can be moved, instead of leaving NOPs. ``doing`` is called with
    progress; ``turn`` is held while the GPU is used."""

    rounds: int | None = None
    timed: bool = False
    slack: bool = True
    short: bool = True
    doing: Callable[[str], None] = lambda text: None
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)


@dataclass(frozen=True)
class LaunchFacts:
    """What is known of a launch before its code is changed. ``source``: its instructions, as in a
    launch. ``unit``: the bounding unit, or the unit its code targets. ``estimate``: its account in
    percent; empty without a profile. ``sampled``: whether warps were sampled."""

    source: pd.DataFrame
    unit: str
    estimate: Mapping[str, float] = field(default_factory=dict)
    sampled: bool = True
    notes: tuple[str, ...] = ()

    @classmethod
    def profiled(cls, launch: Launch, bubbles: BubbleAccount) -> LaunchFacts:
        """Of a launch with its account."""
        return cls(launch.source, bubbles.unit, bubbles.parts)

    @classmethod
    def of_code(cls, source: pd.DataFrame) -> LaunchFacts:
        """Of the listing of the machine code alone."""
        unit = unit_of(source)
        return cls(source, unit, sampled=False, notes=(FROM_CODE.format(unit or "no unit stands out"),))


class Experiment:
    """The variants of one launch; files go into ``folder``."""

    def __init__(self, capsule: Capsule, facts: LaunchFacts, folder: Path, settings: AblationSettings) -> None:
        self.capsule, self.facts, self.folder, self.settings = capsule, facts, folder, settings
        self.sass = [str(text) for text in facts.source["sass"]]
        self.code = Code.of(capsule.cubin.read_bytes(), capsule.function, map(int, facts.source["pc"]))
        self.code.check(self.sass)
        self.parts: RemovableParts = parts_of(facts.source, facts.unit)
        self.notes: list[str] = [*facts.notes]
        if (modules := int(capsule.facts.get("modules_of_that_name", 1))) > 1:
            self.notes.append(f"the program loaded {modules} kernels of this name: the newest was measured")
        self.movable = self.short = settings.short and self._movable()
        self.made: dict[str, CodeVariant] = {}
        self.outcomes: dict[str, ReplayOutcome] = {}
        self.counted: MeasuredTurns | None = None

    def _movable(self) -> bool:
        try:
            self.code.shortened({}, self.sass)
        except ImmovableError as error:
            self.notes.append(f"{NOPS}: {error}")
            return False
        return True

    def result(self) -> Ablation:
        """All measurements. Raises MeasurementError."""
        self._try()
        same = self.outcomes[NONE].same
        if same is False and adds_in_any_order(self.sass):
            self.notes.append("the kernel sums in no fixed order: results differ from launch to launch")
            same = None
        turns = self._turns()
        made = [MeasuredVariant(name, self._status(name), variant.rows) for name, variant in self.made.items()]
        harmless = {name for name, variant in self.made.items() if variant.harmless}
        measured = measured_ablation(turns, made, harmless, self.facts.estimate, list(self.parts.rows))
        if self.facts.sampled:
            lines = ranked_lines(self.facts.source, self.facts.unit, measured.parts)
        else:
            lines = lines_of_one(self.facts.source, self.parts.rows, measured.parts)
        return replace(
            measured,
            kernel=self.capsule.kernel,
            device=str(self.capsule.facts["device"]["name"]),
            faithful=same,
            route=SHORTER if self.movable else ROUTE,
            lines=lines,
            notes=[*self.notes, *measured.notes],
        )

    def _try(self) -> None:
        """Find out which variants run: all at once, otherwise one by one. If waits or copies cannot
        be removed, try other ways to remove them."""
        names = words(self.parts)
        if not names:
            raise MeasurementError(
                "this kernel has nothing to remove: no waits, copies, barriers or shared loads in a loop",
                "see `ncubble report` for the estimate",
            )
        self._make(names, [*delayed(self.code, self.parts)] if self.settings.slack else [])
        if self._measure_untried():
            return
        self._probe([variant for name, variant in self.made.items() if name not in self.outcomes])
        if self.short:
            self._try_with_nops([name for name in names if self.outcomes[name].status != "ok"])
        failed = {name for name in ("wait", "copy") if name in names and self.outcomes[name].status != "ok"}
        for way, what in self._ways():
            again = [name for name in names if failed & way.retried & removed(name)]
            if not again:
                continue
            before = dict(self.made), dict(self.outcomes)
            self._probe(self._make(again, way=way))
            fixed = {name for name in failed if self.outcomes[name].status == "ok"}
            if not fixed:
                self.made, self.outcomes = before
                continue
            for name in again:  # what ran as it was is not lost
                if before[1][name].status == "ok" and self.outcomes[name].status != "ok":
                    self.made[name], self.outcomes[name] = before[0][name], before[1][name]
            self.notes.append(f"without {' and '.join(sorted(fixed))}: {what}")
            failed -= fixed

    def _try_with_nops(self, names: Sequence[str]) -> None:
        """Retry sets that fail in shorter code with NOPs; later variants then also have NOPs."""
        self.short = False
        for name in names:
            del self.outcomes[name]
        self._probe(self._make(names))
        if ran := [name.replace("_", " and ") for name in names if self.outcomes[name].status == "ok"]:
            self.notes.append(f"{NOPS} in the variants without {', '.join(ran)}: shortened, their code fails")

    def _ways(self) -> Iterator[tuple[Way, str]]:
        """Alternative ways to remove waits and copies, with descriptions."""
        if self.parts.free_running[0]:
            if self.parts.bare:
                yield Way.ARRIVING, "copies transfer nothing, and waits for them pass at once"
            yield Way.FREE_RUNNING, "waits for free slots are also removed: the kernel hangs with them"
        elif self.parts.bare:
            yield Way.BARE, "only the copy instructions are removed, not their address arithmetic"

    def _make(self, names: Sequence[str], more: Sequence[CodeVariant] = (), way: Way = Way.PLAIN) -> list[CodeVariant]:
        made = [*(self._without(name, way) for name in names), *more]
        self.made |= {variant.name: variant for variant in made}
        return made

    def _without(self, name: str, way: Way) -> CodeVariant:
        try:
            return without(self.code, self.sass, self.parts, name, way, self.short)
        except ImmovableError:  # the set holds an address that a call needs
            return without(self.code, self.sass, self.parts, name, way)

    def _measure_untried(self) -> bool:
        """Measure all variants without trying them first, which saves a second if none fails;
        returns whether that succeeded."""
        self.outcomes = dict.fromkeys([NONE, *self.made], RAN)
        try:
            measured = self._measure()
        except MeasurementError:  # the first launch failed already
            measured = MeasuredTurns([], MeasuredRounds())
        ended = measured.rounds.outcomes
        self.outcomes = {name: outcome for name, outcome in ended.items() if outcome.status != DIED}
        if measured.complete:
            self.counted = measured
        return measured.complete

    def _probe(self, made: Sequence[CodeVariant]) -> None:
        whole = [ReplayVariant(NONE, self.capsule.cubin, harmless=True)] if NONE not in self.outcomes else []
        untried = {variant.name for variant in made}
        files = [
            ReplayVariant(variant.name, self._file(variant), variant.harmless, self._singles(variant.name))
            for variant in made
            if not self._give_up(variant.name, untried)
        ]
        with self.settings.turn:
            self.outcomes |= replays.probe(
                self.capsule, [*whole, *files], self.folder, lambda name: self.settings.doing(f"trying without: {name}")
            )
        if self.outcomes[NONE].status != "ok":
            raise MeasurementError(
                f"the launch cannot be replayed: {self.outcomes[NONE].status}", "see docs/ablation.md for the limits"
            )

    def _give_up(self, name: str, untried: Collection[str] = ()) -> bool:
        """Whether a part of this set is known to fail alone, so that the set is not tried."""
        known = [self.outcomes[one] for one in self._singles(name) if one in self.outcomes and one not in untried]
        if any(outcome.status != "ok" for outcome in known):
            self.outcomes[name] = ReplayOutcome(NOT_TRIED)
            return True
        return False

    def _singles(self, name: str) -> tuple[str, ...]:
        """The parts of a set, each of which is tried alone first. Copies include their waits."""
        if name == ALL:
            return tuple(part for part in self.parts.rows if not (part == "wait" and "copy" in self.parts.rows))
        return tuple(name.split("_")) if "_" in name else ()

    def _file(self, variant: CodeVariant) -> Path:
        path = self.folder / f"{variant.name.replace(' ', '-')}.cubin"
        path.write_bytes(variant.cubin)
        return path

    def _turns(self) -> MeasuredTurns:
        """Measure the whole kernel and all running variants in turns. A variant that fails here,
        although it ran alone, is dropped, and the others are measured again."""
        how = "in turns" if self.settings.timed else "under ncu"
        for _ in self.made:
            measured = self.counted or self._measure()
            if measured.complete:
                return measured
            culprit, ended = measured.culprit
            if culprit == NONE:
                break
            self.outcomes[culprit] = ended or ReplayOutcome(f"fails {how}")
            for name in self.made:
                self._give_up(name)
        raise MeasurementError(f"the launch could not be measured {how}", "see `ncubble doctor --gpu`")

    def _measure(self) -> MeasuredTurns:
        """Measure all variants that run, in each round. Raises MeasurementError if nothing is
        measured."""
        timed = self.settings.timed
        running = [variant for name, variant in self.made.items() if self._status(name) == "ok"]
        variants = [
            ReplayVariant(NONE, self.capsule.cubin, self.outcomes[NONE].same is None),
            *(
                ReplayVariant(one.name, self._file(one), one.harmless and self.outcomes[one.name].same is None)
                for one in running
            ),
        ]
        skipped = replays.WARM_UP if timed else 0
        rounds = self.settings.rounds or (TIMED_ROUNDS if timed else COUNTED_ROUNDS)
        order = replays.turns(variants, rounds + skipped, mirrored=timed)
        plan = replays.write_plan(self.folder / "rounds.json", order, timed=timed)
        measure = replays.time_rounds if timed else replays.count_rounds
        with self.settings.turn:
            taken = measure(
                self.capsule, plan, lambda number: self.settings.doing(f"measuring launch {number} of {len(order)}")
            )
        return MeasuredTurns(order, taken, timed, skipped)

    def _status(self, name: str) -> str:
        outcome = self.outcomes[name]
        # Where the kernel itself does not repeat its results, a delayed one's tell nothing.
        if outcome.status == "ok" and outcome.same is False and self.outcomes[NONE].same:
            return CHANGES_RESULTS
        return outcome.status
