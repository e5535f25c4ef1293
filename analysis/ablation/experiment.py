"""Runs the variants of one recorded launch, and says what vanishes with each variant and what each
part of the account costs, from launches in turns.

Cycles that ncu counted are compared by their means. Times have no such scatter-free measure: a
round holds every variant once, so that each is compared with the whole kernel of its own round, and
what the GPU's clock or temperature does meanwhile meets both. Shares of time are medians over the
rounds; their intervals hold 95 % of what rounds drawn anew give (bootstrap).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

import numpy as np

from ncubble.analysis.ablation.code import CodeVariant, RemovableParts, Way, delayed, parts_of, unit_of, without, words
from ncubble.analysis.ablation.result import (
    NOISY_PCT,
    ROUTE,
    SHORTER,
    SLACK,
    TIME,
    Ablation,
    Interval,
    MeasuredLine,
    MeasuredPart,
    MeasuredVariant,
)
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.parts import JOINED
from ncubble.analysis.account.shares import ALL, NONE, PART_OF, REST, overlaps, removed, shared_out
from ncubble.analysis.account.stalls import classify
from ncubble.analysis.report.report import Launch
from ncubble.errors import MeasurementError, ReportError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import DIED, NOT_TRIED, MeasuredRounds, ReplayOutcome, ReplayVariant
from ncubble.sass.opcodes import adds_in_any_order
from ncubble.sass.patching import Code
from ncubble.sass.shortening import ImmovableError
from ncubble.text.values import string

if TYPE_CHECKING:
    import pandas as pd

SLOWER, SLOWER_PCT = "slower than the whole kernel", -20.0
"""A variant this much slower waits for something that never arrives: it does not measure the
part."""
BUSY = ("tensor_busy", "unit_busy")
LESS_WORK, TOLERANCE_PCT = "computes less than the kernel", 3.0
"""A variant faster than the tensor pipe's own time skips MMAs: its schedule broke."""
UNCHECKED = "without counters a variant that skips work of the unit goes unnoticed: compare with an ablation in cycles"
OFF_CYCLES = "shares of time were within 3.4 points of shares of cycles in 95 % of 69 measured sets of parts"
"""``python -m benchmarks.ablation.timed``, six kernels on an H100."""
CLOCK_PCT = 1.0
"""Variants whose SM clock differs from the whole kernel's by more are noted: their time does not
follow their cycles."""
OVERHEAD_PCT = 2.0
"""Share of a launch's time that the stamp kernel takes, above which it is noted."""
DRAWS = 400
BOUNDS = (2.5, 97.5)
MOST_LINES = 12
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


@dataclass(frozen=True)
class MeasuredTurns:
    """Results of launches in this ``order``, ``timed`` or counted; the first ``skipped`` of each
    variant do not count."""

    order: Sequence[ReplayVariant]
    rounds: MeasuredRounds
    timed: bool = False
    skipped: int = 0

    @property
    def complete(self) -> bool:
        """Whether every launch was measured."""
        return 0 < len(self.order) == len(self.rounds.values)

    @property
    def culprit(self) -> tuple[str, ReplayOutcome | None]:
        """The variant at which it ended, and the status; None if unknown."""
        outcomes = self.rounds.outcomes
        for variant in self.order:
            if variant.name in outcomes and outcomes[variant.name].status != "ok":
                return variant.name, outcomes[variant.name]
        return self.order[len(self.rounds.values) % len(self.order)].name, None

    def values(self, name: str) -> list[float]:
        """Cycles, or ns, of a variant in each round."""
        return self._of(name, self.rounds.values)

    def moved(self, name: str) -> float | None:
        """Mean bytes moved between L2 and DRAM per byte that the whole kernel moves; None if not
        counted."""
        own, whole = (fmean(self._of(one, self.rounds.dram_B)) for one in (name, NONE))
        return own / whole if whole > 0 and own >= 0 else None

    def clock_mhz(self, name: str) -> float | None:
        """Median SM clock during its launches; None if unknown."""
        known = [mhz for mhz in self._of(name, self.rounds.clock_mhz) if mhz == mhz]
        return median(known) if known else None

    def _of(self, name: str, column: Sequence[float]) -> list[float]:
        own = [value for variant, value in zip(self.order, column, strict=False) if variant.name == name]
        return own[self.skipped :]


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


def measured_ablation(
    turns: MeasuredTurns,
    made: Sequence[MeasuredVariant],
    harmless: Collection[str],
    estimate: Mapping[str, float],
    present: Sequence[str],
) -> Ablation:
    """What the ``made`` variants took, and the parts that follow. ``estimate``: the account in
    percent, empty without one; ``present``: parts in the code; ``harmless``: variants that keep
    results. Members that come from the launch are left empty."""
    whole = turns.values(NONE)
    tried = []
    for variant in made:
        if variant.status == "ok":
            own = turns.values(variant.name)
            if turns.timed:
                variant = replace(variant, times_ns=own, clock_mhz=turns.clock_mhz(variant.name))
                variant = vanished_time(variant, whole)
            else:
                variant = vanished(replace(variant, cycles=own, moved=turns.moved(variant.name)), whole)
            variant = _believed(variant, harmless, estimate.get("tensor_busy", 0.0))
        tried.append(variant)
    slack = [variant for variant in tried if variant.name.startswith(SLACK)]
    variants = [variant for variant in tried if not variant.name.startswith(SLACK)]
    busy_pct = math.fsum(estimate.get(part, 0.0) for part in BUSY)

    def shared(again: Sequence[MeasuredVariant]) -> list[MeasuredPart]:
        return measured_parts(again, estimate, busy_pct, present)[0]

    parts, notes = measured_parts(variants, estimate, busy_pct, present)
    alone = {variant.name: variant.gone_pct for variant in variants if variant.gone_pct is not None}
    what, se = ("time has", median_and_interval(whole)[2]) if turns.timed else ("cycles have", _se_pct(whole))
    if se > NOISY_PCT:
        notes.append(f"the launch is too short or too noisy: its {what} a standard error of {se:.1f} %")
    found = Ablation("", "", None, se, len(whole), None, parts, overlaps(alone), variants, slack, [], notes)
    if not turns.timed:
        return replace(found, cycles=fmean(whole))
    middle, interval, _ = median_and_interval(whole)
    clock, overhead = turns.clock_mhz(NONE), turns.rounds.overhead_ns
    known = overhead if math.isfinite(overhead) else None
    return replace(
        found,
        parts=with_intervals(parts, variants, whole, shared),
        notes=[*notes, UNCHECKED, *doubts(tried, clock, middle, known, turns.rounds.late)],
        measure=TIME,
        time_ns=middle,
        interval_ns=interval,
        overhead_ns=known,
        clock_mhz=clock,
    )


def _believed(variant: MeasuredVariant, harmless: Collection[str], tensor_busy: float) -> MeasuredVariant:
    """The variant, excluded from the parts by its status if it cannot be a valid one."""
    if variant.name in harmless or variant.gone_pct is None:
        return variant
    if variant.gone_pct > 100.0 - tensor_busy + TOLERANCE_PCT:
        status = LESS_WORK
    elif variant.gone_pct < SLOWER_PCT:
        status = SLOWER
    else:
        return variant
    return replace(variant, status=status, gone_pct=None, se=None, interval=None)


def _se_pct(cycles: Sequence[float], base: float = math.nan) -> float:
    """Standard error of the mean, in percent of ``base``, by default of the mean; NaN for fewer
    than two."""
    base = fmean(cycles) if math.isnan(base) else base
    return 100.0 * stdev(cycles) / math.sqrt(len(cycles)) / base if len(cycles) > 1 else math.nan


def vanished(variant: MeasuredVariant, whole: Sequence[float]) -> MeasuredVariant:
    """The variant with what vanishes with it."""
    base = fmean(whole)
    se = math.hypot(_se_pct(variant.cycles, base), _se_pct(whole, base))
    return replace(variant, gone_pct=100.0 * (1.0 - fmean(variant.cycles) / base), se=se)


def median_and_interval(times: Sequence[float]) -> tuple[float, Interval, float]:
    """Median of times, its interval, and its standard error in percent of it."""
    drawn = np.median(np.asarray(times)[_draws(len(times))], axis=1)
    middle = median(times)
    return middle, _interval(drawn), 100.0 * float(drawn.std()) / middle


def _gone_by_round(times: Sequence[float], whole: Sequence[float]) -> np.ndarray:
    """What vanishes in each round, in percent of the whole kernel of that round."""
    gone: np.ndarray = 100.0 * (1.0 - np.asarray(times, dtype=float) / np.asarray(whole, dtype=float))
    return gone


def vanished_time(variant: MeasuredVariant, whole: Sequence[float]) -> MeasuredVariant:
    """The variant with what vanishes with it, its standard error and its interval."""
    gone = _gone_by_round(variant.times_ns, whole)
    drawn = np.median(gone[_draws(len(gone))], axis=1)
    return replace(variant, gone_pct=float(np.median(gone)), se=float(drawn.std()), interval=_interval(drawn))


def with_intervals(
    parts: Sequence[MeasuredPart],
    variants: Sequence[MeasuredVariant],
    whole: Sequence[float],
    share: Callable[[Sequence[MeasuredVariant]], Sequence[MeasuredPart]],
) -> list[MeasuredPart]:
    """``parts``, which ``share`` makes of ``variants``, with the interval of each: that of the
    shares which rounds drawn anew give. Variants without times stay as they are."""
    timed = {variant.name: _gone_by_round(variant.times_ns, whole) for variant in variants if variant.times_ns}
    drawn: dict[str, list[float]] = {part.part: [] for part in parts}
    for rounds in _draws(len(whole)):
        medians = {name: float(np.median(gone[rounds])) for name, gone in timed.items()}
        again = [
            replace(variant, gone_pct=medians[variant.name])
            if variant.gone_pct is not None and variant.name in medians
            else variant
            for variant in variants
        ]
        for part in share(again):
            if part.part in drawn:
                drawn[part.part].append(part.measured)
    return [_with_interval(part, np.asarray(drawn[part.part])) if drawn[part.part] else part for part in parts]


def _with_interval(part: MeasuredPart, values: np.ndarray) -> MeasuredPart:
    return replace(part, se=float(values.std()), interval=_interval(values))


def _draws(rounds: int) -> np.ndarray:
    """``DRAWS`` rows of rounds, drawn with replacement; the same each time."""
    return np.random.default_rng(rounds).integers(0, rounds, (DRAWS, rounds))


def _interval(values: np.ndarray) -> Interval:
    low, high = np.percentile(values, BOUNDS)
    return float(low), float(high)


def doubts(
    variants: Sequence[MeasuredVariant], clock_mhz: float | None, time_ns: float, overhead_ns: float | None, late: int
) -> Iterator[str]:
    """What makes the times of an ablation doubtful, in sentences."""
    yield OFF_CYCLES
    if clock_mhz is None:
        yield "the SM clock is not known: savings in time may come from a change of the clock"
    else:
        off = {v.name: 100.0 * (v.clock_mhz / clock_mhz - 1.0) for v in variants if v.clock_mhz}
        named = ", ".join(f"{name} {pct:+.1f} %" for name, pct in off.items() if abs(pct) > CLOCK_PCT)
        if named:
            yield f"the SM clock, and with it the time, changes with the removed parts: {named}"
    if overhead_ns is not None and overhead_ns > time_ns * OVERHEAD_PCT / 100.0:
        share = 100.0 * overhead_ns / time_ns
        least = f"a launch of a few stores takes {overhead_ns / 1e3:.1f} µs, {share:.0f} % of this one"
        yield f"{least}: shares are underestimated by up to that"
    if late:
        yield f"{late} launches may have waited for the host, which queued them too slowly"


def measured_parts(
    variants: Sequence[MeasuredVariant], account: Mapping[str, float], busy_pct: float, present: Sequence[str]
) -> tuple[list[MeasuredPart], list[str]]:
    """Parts by what was measured, largest first, and notes on what could not be told.

    ``present``: the parts that the code has. Variants without ``gone_pct`` count for nothing; where
    too few are left to share the time out, each part stands for itself.
    """
    has = set(present) | ({"wait"} if "copy" in present else set())
    measured = {v.name: v for v in variants if v.gone_pct is not None and v.name != NONE}
    gone = {
        frozenset(part for part in removed(word) if part in has): float(variant.gone_pct or 0.0)
        for word, variant in measured.items()
        if word == ALL or set(word.split("_")) <= set(PART_OF)
    }
    gone.pop(frozenset(), None)
    if not gone:
        return [], ["no variant could be measured"]
    notes: list[str] = []
    try:
        shares = shared_out(gone, None, busy_pct)
    except ReportError as error:
        notes.append(f"not every combination was measured, so parts are taken individually: {error.message}")
        shares = {PART_OF[word]: measured[word].gone_pct or 0.0 for word in PART_OF if word in measured}
    rows = []
    for name, pct in shares.items():
        known = [account[part] for part in name.split(JOINED) if part in account]
        word = next((word for word, part in PART_OF.items() if part == name.split(JOINED)[-1]), "")
        own = measured.get(word)
        estimated = math.fsum(known) if known else None
        rows.append(MeasuredPart(name, estimated, pct, own.se if own else None, own.gone_pct if own else None))
    rest = [row for row in rows if row.part == REST]
    return [*sorted((row for row in rows if row.part != REST), key=lambda row: -row.measured), *rest], notes


def ranked_lines(source: pd.DataFrame, unit: str, parts: Sequence[MeasuredPart]) -> list[MeasuredLine]:
    """The lines that cost most. The cost of a part is split by the stall samples that the account
    puts down to it."""
    weights = classify(source, unit)
    costs: defaultdict[tuple[str, int, str, str], float] = defaultdict(float)
    for part in parts:
        samples = weights[[name for name in part.names if name in weights]].sum(axis=1)
        if part.measured > 0 and samples.sum() > 0:
            for row in samples.index[samples > 0]:
                costs[(*_place(source, row), part.part)] += float(part.measured * samples[row] / samples.sum())
    return _largest(costs)


def lines_of_one(
    source: pd.DataFrame, rows: Mapping[str, Sequence[int]], parts: Sequence[MeasuredPart]
) -> list[MeasuredLine]:
    """The lines of parts all of whose instructions stand on one: without samples nothing splits the
    cost of the others. ``rows``: the instructions of each part that was taken away."""
    costs: dict[tuple[str, int, str, str], float] = {}
    for part in parts:
        own = [row for word, name in PART_OF.items() if name in part.names for row in rows.get(word, ())]
        places = {_place(source, row) for row in own}
        if part.measured > 0 and len(places) == 1:
            costs[(*places.pop(), part.part)] = part.measured
    return _largest(costs)


def _place(source: pd.DataFrame, row: int) -> tuple[str, int, str]:
    """File, line and text of a row; rows of one line count together."""
    cells = source.loc[row].to_dict()
    file, line = string(cells.get("file")), cells.get("line")
    if file and isinstance(line, (int, float)) and line == line and line > 0:
        return file, int(line), ""
    return "", 0, str(cells.get("sass"))


def _largest(costs: Mapping[tuple[str, int, str, str], float]) -> list[MeasuredLine]:
    ordered = sorted(costs.items(), key=lambda item: -item[1])[:MOST_LINES]
    return [MeasuredLine(file or None, line or None, sass, part, pct) for (file, line, sass, part), pct in ordered]
