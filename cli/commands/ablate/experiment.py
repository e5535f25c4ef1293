"""Runs the variants of one recorded launch and measures them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ncubble.analysis.ablation.code import RemovableParts, parts_of
from ncubble.analysis.ablation.result import ROUTE, SHORTER, Ablation, MeasuredVariant
from ncubble.analysis.ablation.variants import CodeVariant, Way, delayed, without, words
from ncubble.analysis.account.shares import ALL, NONE, removed
from ncubble.cli.commands.ablate.measured import counted_result, timed_result
from ncubble.cli.commands.ablate.profiling import AblationOrder
from ncubble.cli.commands.ablate.subject import AblationSubject
from ncubble.cli.commands.ablate.turns import MeasuredTurns, measure_turns
from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import DIED, NOT_TRIED, MeasuredRounds, ReplayOutcome, ReplayVariant, probe
from ncubble.sass.opcodes import adds_in_any_order
from ncubble.sass.patching import Code
from ncubble.sass.shortening import ImmovableError

RAN = ReplayOutcome("ok")
CHANGES_RESULTS = "changes results"
NOPS = "removed instructions are replaced by NOPs, which keep their issue slots"


class Experiment:
    """The variants of one launch."""

    def __init__(self, capsule: Capsule, subject: AblationSubject, folder: Path, wanted: AblationOrder) -> None:
        self.capsule, self.subject, self.folder, self.wanted = capsule, subject, folder, wanted
        self.sass = [str(text) for text in subject.source["sass"]]
        self.code = Code.of(capsule.cubin.read_bytes(), capsule.function, map(int, subject.source["pc"]))
        self.code.check(self.sass)
        self.parts: RemovableParts = parts_of(subject.source, subject.unit)
        self.notes: list[str] = [*subject.notes]
        if (modules := int(capsule.facts.get("modules_of_that_name", 1))) > 1:
            self.notes.append(f"the program loaded {modules} kernels of this name: the newest was measured")
        self.movable = self.short = wanted.short and self._movable()
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
        """All measurements."""
        self._try()
        faithful = self._faithful()
        turns = self._turns()
        form = timed_result if self.wanted.timed else counted_result
        made = [self._unmeasured(name) for name in self.made]
        harmless = {name for name, variant in self.made.items() if variant.harmless}
        measured = form(turns, made, harmless, self.subject.estimate, list(self.parts.rows))
        return replace(
            measured,
            kernel=self.capsule.kernel,
            device=str(self.capsule.facts["device"]["name"]),
            faithful=faithful,
            route=SHORTER if self.movable else ROUTE,
            lines=self.subject.lines(measured.parts, self.parts),
            notes=[*self.notes, *measured.notes],
        )

    def _unmeasured(self, name: str) -> MeasuredVariant:
        return MeasuredVariant(name, self._status(name), self.made[name].rows)

    def _faithful(self) -> bool | None:
        same = self.outcomes[NONE].same
        if same is False and adds_in_any_order(self.sass):
            self.notes.append("the kernel sums in no fixed order: results differ from launch to launch")
            return None
        return same

    def _try(self) -> None:
        """Find out which variants run: all at once, otherwise one by one. If waits or copies cannot
        be removed, try other ways to remove them."""
        names = words(self.parts)
        if not names:
            raise MeasurementError(
                "this kernel has nothing to remove: no waits, copies, barriers or shared loads in a loop",
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
        return self.counted is not None

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
        """Whether a part of this set is known to fail alone, so that the set is not tried."""
        if any(
            self.outcomes[one].status != "ok"
            for one in self._singles(name)
            if one in self.outcomes and one not in untried
        ):
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
        for _ in self.made:
            measured = self.counted or self._measure()
            if measured.complete:
                return measured
            culprit, ended = measured.culprit
            if culprit == NONE:
                break
            self.outcomes[culprit] = ended or ReplayOutcome(
                "fails in turns" if self.wanted.timed else "fails under ncu"
            )
            for name in self.made:
                self._give_up(name)
        how = "in turns" if self.wanted.timed else "under ncu"
        raise MeasurementError(f"the launch could not be measured {how}", "see `ncubble doctor --gpu`")

    def _measure(self) -> MeasuredTurns:
        running = [variant for name, variant in self.made.items() if self._status(name) == "ok"]
        files = [
            ReplayVariant(NONE, self.capsule.cubin, self._uncompared(NONE)),
            *(
                ReplayVariant(variant.name, self._file(variant), variant.harmless and self._uncompared(variant.name))
                for variant in running
            ),
        ]
        return measure_turns(self.capsule, files, self.folder, self.wanted)

    def _uncompared(self, name: str) -> bool:
        return self.outcomes[name].same is None

    def _status(self, name: str) -> str:
        outcome = self.outcomes[name]
        # Where the kernel itself does not repeat its results, nothing can be said of a delayed one's.
        if outcome.status == "ok" and outcome.same is False and self.outcomes[NONE].same:
            return CHANGES_RESULTS
        return outcome.status
