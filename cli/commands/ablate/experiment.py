"""The variants of one recorded launch: which of them run, and how many cycles each takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from ncubble.analysis.ablation.code import RemovableParts, parts_of
from ncubble.analysis.ablation.lines import ranked
from ncubble.analysis.ablation.result import (
    NOISY_PCT,
    ROUTE,
    SHORTER,
    Ablation,
    MeasuredVariant,
    measured_parts,
    standard_error_pct,
    vanished,
)
from ncubble.analysis.ablation.variants import SLACK, CodeVariant, Way, delayed, without, words
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.shares import ALL, NONE, overlaps, removed
from ncubble.analysis.report.launch import Launch
from ncubble.cli.commands.ablate.profiling import AblationOrder
from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.cycles import CountedRounds, count_rounds
from ncubble.profiling.capsules.replays import (
    DIED,
    NOT_TRIED,
    ReplayOutcome,
    ReplayVariant,
    probe,
    silence_s,
    write_plan,
)
from ncubble.profiling.ncu.log import ReplayedLaunch
from ncubble.sass.opcodes import adds_in_any_order
from ncubble.sass.patching import Code
from ncubble.sass.shortening import ImmovableError

UNDER_NCU_S = 4.0
"""What ncu may take to start, beside a launch."""
RAN = ReplayOutcome("ok")
SLOWER, SLOWER_PCT = "slower than the whole kernel", -20.0
"""A variant that loses so much time waits for what does not come: it tells nothing of the part."""
BUSY = ("tensor_busy", "unit_busy")
LESS_WORK, TOLERANCE_PCT = "computes less than the kernel", 3.0
"""A variant that takes less than the tensor pipe's own time leaves MMAs out: its schedule broke."""
CHANGES_RESULTS = "changes results"
NOPS = "removed instructions are replaced by NOPs, which keep their issue slots"


class Experiment:
    """The variants of one launch."""

    def __init__(
        self, capsule: Capsule, launch: Launch, bubbles: BubbleAccount, folder: Path, wanted: AblationOrder
    ) -> None:
        self.capsule, self.launch, self.bubbles, self.folder, self.wanted = capsule, launch, bubbles, folder, wanted
        self.sass = [str(text) for text in launch.source["sass"]]
        self.code = Code.of(capsule.cubin.read_bytes(), capsule.function, map(int, launch.source["pc"]))
        self.code.check(self.sass)
        self.parts: RemovableParts = parts_of(launch, bubbles.unit)
        self.notes: list[str] = []
        if (modules := int(capsule.facts.get("modules_of_that_name", 1))) > 1:
            self.notes.append(f"the program loaded {modules} kernels of this name: the newest was measured")
        self.movable = self.short = wanted.short and self._movable()
        self.made: dict[str, CodeVariant] = {}
        self.outcomes: dict[str, ReplayOutcome] = {}
        self.counted: tuple[list[ReplayVariant], CountedRounds] | None = None

    def _movable(self) -> bool:
        try:
            self.code.shortened({}, self.sass)
        except ImmovableError as error:
            self.notes.append(f"{NOPS}: {error}")
            return False
        return True

    def result(self) -> Ablation:
        """Everything that was measured."""
        self._try()
        faithful = self._faithful()
        whole, cycles, moved = self._cycles()
        base = fmean(whole)
        tried = [replace(self._measured(name, whole, cycles), moved=moved.get(name)) for name in self.made]
        variants = [variant for variant in tried if not variant.name.startswith(SLACK)]
        slack = [variant for variant in tried if variant.name.startswith(SLACK)]
        busy = math.fsum(self.bubbles.parts.get(part, 0.0) for part in BUSY)
        parts, notes = measured_parts(variants, self.bubbles.parts, busy, list(self.parts.rows))
        if (se := standard_error_pct(whole, base)) > NOISY_PCT:
            notes.append(f"the launch is too short or too noisy: its cycles have a standard error of {se:.1f} %")
        alone = {variant.name: variant.gone_pct for variant in variants if variant.gone_pct is not None}
        return Ablation(
            kernel=self.capsule.kernel,
            device=str(self.capsule.facts["device"]["name"]),
            cycles=base,
            se_pct=se,
            rounds=len(whole),
            faithful=faithful,
            parts=parts,
            interactions=overlaps(alone),
            variants=variants,
            slack=slack,
            route=SHORTER if self.movable else ROUTE,
            lines=ranked(self.launch, self.bubbles.unit, parts),
            notes=[*self.notes, *notes],
        )

    def _faithful(self) -> bool | None:
        same = self.outcomes[NONE].same
        if same is False and adds_in_any_order(self.sass):
            self.notes.append("the kernel adds up results in any order: they differ from launch to launch")
            return None
        return same

    def _try(self) -> None:
        """Find out which variants run: all of them at once, else one by one. Where waits or copies cannot
        go, other ways to take them away are tried."""
        names = words(self.parts)
        if not names:
            raise MeasurementError(
                "nothing in this kernel can be taken away: no waits, copies, barriers or shared loads in a loop",
                "see `ncubble report` for the estimate",
            )
        self._make(names, [*delayed(self.code, self.parts)] if self.wanted.slack else [])
        if self._measure_untried():
            return
        self._probe([variant for name, variant in self.made.items() if name not in self.outcomes])
        if self.short:
            self._try_with_nops([name for name in names if self.outcomes[name].status != "ok"])
        failed = {name for name in ("wait", "copy") if name in names and self.outcomes[name].status != "ok"}
        for way, what in self._ways():
            if not failed:
                return
            again = [name for name in names if failed & way.retried & removed(name)]
            if not again:
                continue
            before = dict(self.made), dict(self.outcomes)
            self._probe(self._make(again, way=way))
            mended = {name for name in failed if self.outcomes[name].status == "ok"}
            if not mended:
                self.made, self.outcomes = before
                continue
            for name in again:  # what ran as it was is not lost
                if before[1][name].status == "ok" and self.outcomes[name].status != "ok":
                    self.made[name], self.outcomes[name] = before[0][name], before[1][name]
            self.notes.append(f"without {' and '.join(sorted(mended))}: {what}")
            failed -= mended

    def _try_with_nops(self, names: Sequence[str]) -> None:
        """Try sets that fail in shorter code with NOPs; whatever is tried after that has NOPs."""
        self.short = False
        for name in names:
            del self.outcomes[name]
        self._probe(self._make(names))
        if ran := [name.replace("_", " and ") for name in names if self.outcomes[name].status == "ok"]:
            self.notes.append(f"{NOPS} in the variants without {', '.join(ran)}: they fail in shorter code")

    def _ways(self) -> Iterator[tuple[Way, str]]:
        """Other ways to take waits and copies away, and what they do."""
        if self.parts.free_running[0]:
            if self.parts.bare:
                yield Way.ARRIVING, "copies bring nothing, and waits for them pass as soon as they would begin"
            yield Way.FREE_RUNNING, "waits for free slots are gone, too, as the kernel does not go on with them"
        elif self.parts.bare:
            yield Way.BARE, "only the copying instructions are gone, not the arithmetic that serves them"

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
        """Measure all variants without trying them first, which saves a second where none fails;
        whether that is so."""
        self.outcomes = dict.fromkeys([NONE, *self.made], RAN)
        try:
            files, counted = self._rounds()
        except MeasurementError:  # the first launch failed already
            files, counted = [], CountedRounds()
        self.outcomes = {name: outcome for name, outcome in counted.outcomes.items() if outcome.status != DIED}
        if self._is_whole(files, counted):
            self.counted = files, counted
        return self.counted is not None

    def _is_whole(self, files: Sequence[ReplayVariant], counted: CountedRounds) -> bool:
        return 0 < len(files) * self.wanted.rounds == len(counted.cycles)

    def _probe(self, made: Sequence[CodeVariant]) -> None:
        whole = [ReplayVariant(NONE, self.capsule.cubin, harmless=True)] if NONE not in self.outcomes else []
        files = [
            ReplayVariant(variant.name, self._file(variant), variant.harmless, self._singles(variant.name))
            for variant in made
            if not self._give_up(variant.name, {other.name for other in made})
        ]
        say = self.wanted.say
        with self.wanted.turn:
            ends = probe(self.capsule, [*whole, *files], self.folder, lambda name: say(f"trying without: {name}"))
        self.outcomes |= ends
        if self.outcomes[NONE].status != "ok":
            raise MeasurementError(
                f"the launch cannot be replayed: {self.outcomes[NONE].status}", "see docs/ablation.md for the limits"
            )

    def _give_up(self, name: str, untried: Collection[str] = ()) -> bool:
        """Whether a part of this set is known to fail alone: then the set is not tried."""
        if any(
            self.outcomes[one].status != "ok"
            for one in self._singles(name)
            if one in self.outcomes and one not in untried
        ):
            self.outcomes[name] = ReplayOutcome(NOT_TRIED)
            return True
        return False

    def _singles(self, name: str) -> tuple[str, ...]:
        """The parts of a set, each of which is tried alone before. Copies stand for their waits."""
        if name == ALL:
            return tuple(part for part in self.parts.rows if not (part == "wait" and "copy" in self.parts.rows))
        return tuple(name.split("_")) if "_" in name else ()

    def _file(self, variant: CodeVariant) -> Path:
        path = self.folder / f"{variant.name.replace(' ', '-')}.cubin"
        path.write_bytes(variant.cubin)
        return path

    def _cycles(self) -> tuple[list[float], dict[str, list[float]], dict[str, float]]:
        """Cycles of the whole kernel and of each variant that runs, in turns, and what each variant
        moves between L2 and DRAM per byte of the whole kernel. A variant that fails under ncu,
        though it ran by itself, is left out, and the others are measured again."""
        for _ in self.made:
            files, counted = self.counted or self._rounds()
            if self._is_whole(files, counted):
                ran = {variant.name: at for at, variant in enumerate(files) if self._status(variant.name) == "ok"}
                cycles = {name: counted.cycles[at :: len(files)] for name, at in ran.items()}
                moved = {name: fmean(counted.dram_B[at :: len(files)]) for name, at in ran.items()}
                whole = moved.pop(NONE)
                return (
                    cycles.pop(NONE),
                    cycles,
                    {name: count / whole for name, count in moved.items() if whole > 0 and count >= 0},
                )
            failed = [file.name for file in files if counted.outcomes.get(file.name, RAN).status != "ok"]
            culprit = failed[0] if failed else files[len(counted.cycles) % len(files)].name
            if culprit == NONE:
                break
            self.outcomes[culprit] = counted.outcomes[culprit] if failed else ReplayOutcome("fails under ncu")
            for name in self.made:
                self._give_up(name)
        raise MeasurementError("the launch could not be measured under ncu", "see `ncubble doctor --gpu`")

    def _rounds(self) -> tuple[list[ReplayVariant], CountedRounds]:
        """What is launched in each round, and what came of it."""
        running = [variant for name, variant in self.made.items() if self._status(name) == "ok"]
        files = [
            ReplayVariant(NONE, self.capsule.cubin, self._uncompared(NONE)),
            *(
                ReplayVariant(variant.name, self._file(variant), variant.harmless and self._uncompared(variant.name))
                for variant in running
            ),
        ]
        plan = write_plan(self.folder / "rounds.json", files, self.wanted.rounds)
        total = len(files) * self.wanted.rounds

        def heard(launch: ReplayedLaunch) -> None:
            self.wanted.say(f"measuring launch {launch.index} of {total}")

        with self.wanted.turn:
            return files, count_rounds(self.capsule, plan, heard, UNDER_NCU_S + silence_s(self.capsule))

    def _uncompared(self, name: str) -> bool:
        return self.outcomes[name].same is None

    def _status(self, name: str) -> str:
        outcome = self.outcomes[name]
        # Where the kernel itself does not repeat its results, nothing can be said of a delayed one's.
        if outcome.status == "ok" and outcome.same is False and self.outcomes[NONE].same:
            return CHANGES_RESULTS
        return outcome.status

    def _measured(self, name: str, whole: Sequence[float], cycles: dict[str, list[float]]) -> MeasuredVariant:
        variant = MeasuredVariant(name, self._status(name), self.made[name].rows, cycles.get(name, []))
        result = vanished(variant, whole) if variant.cycles else variant
        if self.made[name].harmless or result.gone_pct is None:
            return result
        most = 100.0 - self.bubbles.parts.get("tensor_busy", 0.0) + TOLERANCE_PCT
        if result.gone_pct > most:
            return replace(variant, status=LESS_WORK)
        return replace(variant, status=SLOWER) if result.gone_pct < SLOWER_PCT else result
