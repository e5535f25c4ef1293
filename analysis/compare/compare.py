"""Launches side by side: repeats gathered, matched across sides, and compared part by part.

Every value is the mean over the repeats of a side, and every other side is held against the first.
A difference is tested where the first side has repeats, by the rule and the noise of the gate
(``gate.noise``); where GPU, ncu or clock differ it is shown and not tested. Nothing here passes or
fails: that is the gate's part. ``words`` puts a comparison into text. Pure functions.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.parts import JOINED, PARTS, WORK, display_order, folded, merged_by_any
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.gate.check import CLOCK_TOLERANCE_PCT
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import compare as against_noise
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.report.frames import stall_shares
from ncubble.analysis.report.launch_key import MATCHES, LaunchKey
from ncubble.analysis.report.report import Launch
from ncubble.text.values import number

METRICS = (
    ("duration_ns", "ns", "lower"),
    ("cycles", "cycle", "lower"),
    ("sm_clock_hz", "Hz", "neutral"),
    ("tensor_elapsed_pct", "%", "higher"),
    ("dram_pct", "%", "neutral"),
    ("registers", "", "neutral"),
    ("smem_B", "B", "neutral"),
    ("ctas", "", "neutral"),
    ("threads", "", "neutral"),
    ("ldgsts", "", "neutral"),
    ("tma", "", "neutral"),
)
"""Name, unit and better direction of what is compared beside the account. ``registers`` are a
thread's, ``smem_B`` and ``threads`` a CTA's, ``ldgsts`` and ``tma`` executed warp instructions of
asynchronous copies."""
_OF_VERDICT = ("duration_ns", "cycles", "sm_clock_hz", "tensor_elapsed_pct", "dram_pct")
_OUTCOMES = {"improved": "better", "regressed": "worse", "pass": "same", "inconclusive": "unclear"}


@dataclass(frozen=True, kw_only=True)
class ComparedLaunch(LaunchKey):
    """One launch, by its key, with all that a comparison reads of it.

    ``values`` holds numbers by the names of ``METRICS``, NaN where not collected; ``stalls``
    percent of warp samples by reason, empty where there are none; ``measured`` the account as an
    ablation measured it, None unless it measured every set of parts.
    """

    report: str
    key: str
    launch: int
    ncu_version: str
    verdict: LaunchVerdict
    values: Mapping[str, float]
    stalls: Mapping[str, float]
    measured: Mapping[str, float] | None = None

    @property
    def account(self) -> Mapping[str, float]:
        """Parts in percent of elapsed SM cycles, by estimate; empty where the report holds no
        utilization of any unit."""
        return self.verdict.account or {}


def compared_launch(launch: Launch, verdict: LaunchVerdict, ablation: Ablation | None = None) -> ComparedLaunch:
    """One launch, its verdict and what was measured of it, as plain values."""
    row, run = launch.identity, launch.report.run
    shared = [size for size in (row.smem_static_B, row.smem_dynamic_B) if math.isfinite(size)]
    values = {name: getattr(verdict, name) for name in _OF_VERDICT} | {
        "ldgsts": verdict.async_copy["ldgsts"],
        "tma": verdict.async_copy["tma"],
        "registers": row.registers,
        "smem_B": math.fsum(shared) if shared else None,
        "ctas": _product(row.grid),
        "threads": _product(row.block),
    }
    return ComparedLaunch(
        report=str(run.path),
        key=str(launch.report.key),
        launch=launch.number,
        label=launch.label,
        kernel=verdict.kernel,
        demangled=row.demangled or row.kernel,
        shape=json.dumps(run.manifest.kernel_of(launch.number).get("shape") or {}, sort_keys=True),
        grid=row.grid,
        block=row.block,
        nvtx=row.nvtx,
        device=verdict.device or "",
        ncu_version=row.ncu_version,
        verdict=verdict,
        values={name: math.nan if (known := number(value)) is None else known for name, value in values.items()},
        stalls=dict(stall_shares(launch.source)),
        measured=ablation.account(verdict.account or {}) if ablation else None,
    )


def _product(extent: str) -> float:
    """128.0 of ``4,32,1``; NaN of what is no extent."""
    try:
        return float(math.prod(int(part) for part in extent.split(",")))
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Group:
    """Repeats: launches of one kernel in one configuration, in order of appearance; at least
    one."""

    subjects: tuple[ComparedLaunch, ...]

    @property
    def first(self) -> ComparedLaunch:
        """The launch that stands for all of them where they agree: name, geometry, GPU."""
        return self.subjects[0]

    @property
    def title(self) -> str:
        """Label of the run and name of the kernel, where the one does not begin with the other."""
        label, kernel = self.first.label, self.first.kernel
        return label if label.partition(" ")[0] == kernel else f"{label} {kernel}".strip()


def groups(subjects: Iterable[ComparedLaunch]) -> list[Group]:
    """Gather repeats, in order of appearance. The same launch of the same report content counts
    once."""
    gathered: dict[LaunchKey, dict[tuple[str, int], ComparedLaunch]] = {}
    for launch in subjects:
        gathered.setdefault(launch.of_repeats, {}).setdefault((launch.key, launch.launch), launch)
    return [Group(tuple(launches.values())) for launches in gathered.values()]


def letter(side: int) -> str:
    """``A`` for side 0, ``Z`` for 25, ``A2`` for 26."""
    again, index = divmod(side, len(ascii_uppercase))
    return ascii_uppercase[index] + (str(again + 1) if again else "")


Matches = list[tuple[Group | None, ...]]


def match(sides: Sequence[Sequence[Group]]) -> tuple[Matches, list[tuple[int, Group]]]:
    """Partners of every group of the first side on each other side (None: it has none there), and
    what is left over.

    A last group left on both sides is paired whatever it is called: two kernels for the same work.
    A group of the first side without any partner is left over, too; so are (side, group) of the
    others that no group of the first took.
    """
    first = list(sides[0])
    columns = [_partners(first, side) for side in sides[1:]]
    rows: Matches = [(group, *(column.get(index) for column in columns)) for index, group in enumerate(first)]
    left = [(0, group) for group, *others in rows if group and not any(others)]
    for place, (side, column) in enumerate(zip(sides[1:], columns, strict=True), 1):
        taken = {id(group) for group in column.values()}
        left += [(place, group) for group in side if id(group) not in taken]
    return [row for row in rows if any(row[1:])], left


def _partners(first: Sequence[Group], other: Sequence[Group]) -> dict[int, Group]:
    """The partner in ``other`` of each group of ``first`` that has one, by its index: the groups
    that share most (``MATCHES``), among equals in the order of appearance."""
    partner_of: dict[int, Group] = {}
    free = list(other)
    for parts in MATCHES.values():
        for index, group in enumerate(first):
            if index in partner_of:
                continue
            wanted = group.first.only(*parts)
            if partner := next((candidate for candidate in free if candidate.first.only(*parts) == wanted), None):
                partner_of[index] = partner
                free.remove(partner)
    alone = [index for index in range(len(first)) if index not in partner_of]
    if len(alone) == 1 and len(free) == 1:
        partner_of[alone[0]] = free[0]
    return partner_of


@dataclass(frozen=True)
class Value:
    """A metric on one side: number of launches that hold it, their mean and standard deviation (NaN
    of one)."""

    n: int
    mean: float
    sd: float


@dataclass(frozen=True)
class Change:
    """How a side differs from the first: ``difference`` in the metric's unit (points where that is
    %), ``pct`` of the first side's value (NaN where that is 0).

    ``outcome`` is ``better``, ``worse``, ``changed`` (no direction is better), ``same`` (within
    noise), ``unclear`` (the repeats scatter too much), or None where nothing was tested;
    ``decision_pct`` is the change beyond which it counts, ``p_value`` that of the gate's one-sided
    test.
    """

    difference: float
    pct: float
    outcome: str | None = None
    decision_pct: float = math.nan
    p_value: float = math.nan


@dataclass(frozen=True)
class Row:
    """One line of a comparison. ``section`` is ``launch``, ``account`` (percent of elapsed SM
    cycles), ``time`` (the account in ns; its differences sum to that of the duration) or ``stalls``
    (percent of warp samples).

    ``values`` and ``changes`` run over the sides, None where a side lacks the value; the first has
    no change.
    """

    section: str
    name: str
    unit: str
    better: str
    values: tuple[Value | None, ...]
    changes: tuple[Change | None, ...]

    @classmethod
    def of(cls, section: str, name: str, unit: str, better: str, numbers: Sequence[Sequence[float]]) -> Row:
        """The row of the ``numbers`` of each side's launches; NaN where a launch lacks the
        value."""
        known = [[number for number in side if math.isfinite(number)] for side in numbers]
        values = [Value(len(side), *mean_sd(side)) if side else None for side in known]
        return cls(section, name, unit, better, tuple(values), (None, *(_change(values[0], one) for one in values[1:])))


def _change(first: Value | None, other: Value | None) -> Change | None:
    if first is None or other is None:
        return None
    difference = other.mean - first.mean
    return Change(difference, 100.0 * difference / abs(first.mean) if first.mean else math.nan)


@dataclass(frozen=True)
class Comparison:
    """One kernel on all sides that have it (None: no partner there), with its rows and what to know
    about them. ``measured``: its accounts are measured; estimates otherwise, as both are never
    mixed."""

    sides: tuple[Group | None, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    measured: bool = False

    def section(self, name: str) -> list[Row]:
        """The rows of one section, in order."""
        return [row for row in self.rows if row.section == name]

    def row(self, section: str, name: str) -> Row | None:
        """One row, or None where no side holds its value."""
        return next((row for row in self.section(section) if row.name == name), None)


@dataclass(frozen=True)
class Unmatched:
    """A group without partner: on which side, and why."""

    side: int
    group: Group
    reason: str


@dataclass(frozen=True)
class CompareResult:
    """All comparisons of some sides, in the order of the first, and what could not be compared."""

    comparisons: tuple[Comparison, ...]
    leftovers: tuple[Unmatched, ...] = ()


def compare_sides(sides: Sequence[Sequence[Group]]) -> CompareResult:
    """Match the launches of two sides or more with those of the first, and compare them."""
    rows, left = match(sides)
    leftovers = tuple(Unmatched(side, group, _why_alone(side, group, sides)) for side, group in left)
    return CompareResult(tuple(compare_groups(row) for row in rows), leftovers)


def _why_alone(side: int, group: Group, sides: Sequence[Sequence[Group]]) -> str:
    others = range(1, len(sides)) if side == 0 else range(1)
    where = " or ".join(letter(other) for other in others)
    if any(group.first.kernel == other_group.first.kernel for other in others for other_group in sides[other]):
        return f"all launches of this kernel in {where} are matched with other launches"
    if not any(sides[other] for other in others):
        return f"no launch was read of {where}"
    return f"no launch of this kernel in {where}"


def compare_groups(sides: Sequence[Group | None]) -> Comparison:
    """Compare groups with the first, which must not be None."""
    launches = [side.subjects if side else () for side in sides]
    measured = all(launch.measured for side in launches for launch in side)
    merged = _merged([launch for side in launches for launch in side], measured)
    accounts = [
        [folded((launch.measured if measured else None) or launch.account, merged) for launch in side]
        for side in launches
    ]
    barred = [_incomparable(sides[0], side) if side else "" for side in sides]
    rows = [_metric_row(name, unit, better, sides, barred) for name, unit, better in METRICS]
    rows += _account_rows(launches, accounts)
    rows += _stall_rows(launches)
    shown = tuple(row for row in rows if any(value is not None for value in row.values))
    return Comparison(tuple(sides), shown, tuple(_notes(sides, merged, barred, measured)), measured)


def _merged(launches: Sequence[ComparedLaunch], measured: bool) -> dict[str, set[str]]:
    """Which finer parts a coarser one stands for on any side: then on all, so that parts of a name
    mean the same."""
    if measured:
        names = {name for launch in launches for name in launch.measured or ()}
        return merged_by_any({name: name.split(JOINED)} for name in names if JOINED in name)
    return merged_by_any(launch.verdict.merged for launch in launches)


def _metric_row(name: str, unit: str, better: str, sides: Sequence[Group | None], barred: Sequence[str]) -> Row:
    """A row of section ``launch``; a metric of the gate is tested where nothing forbids it."""
    numbers = [[launch.values.get(name, math.nan) for launch in side.subjects] if side else [] for side in sides]
    row = Row.of("launch", name, unit, better, numbers)
    if name not in BY_NAME:
        return row
    changes = list(row.changes)
    for index, change in enumerate(changes):
        clock = clock_change_pct(sides[0], sides[index]) if name == "duration_ns" else None
        if change and not barred[index] and not (clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT):
            changes[index] = _tested(change, name, numbers[0], numbers[index])
    return replace(row, changes=tuple(changes))


def _tested(change: Change, name: str, first: Sequence[float], other: Sequence[float]) -> Change:
    """``change`` with the outcome of the noise model, where the first side has repeats that can be
    real."""
    metric = BY_NAME[name]
    before, after = ([value for value in side if metric.plausible(value)] for side in (first, other))
    if len(before) < 2 or not after or not math.fsum(before):
        return change
    better = metric.better if metric.better != "neutral" else "higher"
    test = against_noise(before, after, better=better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct)
    outcome = _OUTCOMES[test.outcome]
    if metric.better == "neutral" and outcome in ("better", "worse"):
        outcome = "changed"
    return replace(change, outcome=outcome, decision_pct=test.decision_pct, p_value=test.p_value)


def _account_rows(
    launches: Sequence[Sequence[ComparedLaunch]], accounts: Sequence[Sequence[Mapping[str, float]]]
) -> list[Row]:
    """Shares of every part that any side has, then the same in ns. A part that an account does not
    name is 0 there; a launch without an account, or without a duration, counts in neither."""
    present = {name for side in accounts for account in side for name, share in account.items() if share}
    shares, times = [], []
    for name in display_order(sorted(present)):
        better = "higher" if name in WORK else "lower"
        known = [[account.get(name, 0.0) for account in side if account] for side in accounts]
        took = [
            [launch.values.get("duration_ns", math.nan) for launch, account in zip(*side, strict=True) if account]
            for side in zip(launches, accounts, strict=True)
        ]
        spent = [
            [time * share / 100.0 for time, share in zip(*side, strict=True)] for side in zip(took, known, strict=True)
        ]
        shares.append(Row.of("account", name, "%", better, known))
        times.append(Row.of("time", name, "ns", better, spent))
    return shares + times


def _stall_rows(launches: Sequence[Sequence[ComparedLaunch]]) -> list[Row]:
    """Shares of warp samples by reason, the largest on any side first."""
    stalls = [[launch.stalls for launch in side if launch.stalls] for side in launches]
    names = {name for side in stalls for reasons in side for name in reasons}
    rows = [
        Row.of("stalls", name, "%", "neutral", [[reasons.get(name, 0.0) for reasons in side] for side in stalls])
        for name in names
    ]
    return sorted(rows, key=lambda row: (-max(value.mean for value in row.values if value), row.name))


def clock_change_pct(first: Group | None, other: Group | None) -> float | None:
    """SM clock of ``other`` against ``first`` in percent, or None where either does not say."""
    clocks = []
    for side in (first, other):
        known = [launch.values.get("sm_clock_hz", 0.0) for launch in side.subjects] if side else []
        clocks.append([value for value in known if value > 0])
    return 100.0 * (statistics.fmean(clocks[1]) / statistics.fmean(clocks[0]) - 1.0) if all(clocks) else None


def _incomparable(first: Group | None, other: Group) -> str:
    """Why differences to ``other`` are not tested against noise, or nothing: another GPU, another
    ncu."""
    if first is None:
        return ""
    gpus = [_listed({launch.device for launch in side.subjects}) for side in (first, other)]
    if gpus[0] != gpus[1]:
        return f"different GPU, {gpus[1]} against {gpus[0]}: differences also reflect the machines"
    releases = [
        {found.group() for launch in side.subjects if (found := re.search(r"\d+", launch.ncu_version))}
        for side in (first, other)
    ]
    if all(releases) and releases[0] != releases[1]:
        return (
            f"different ncu, {_listed(releases[1])} against {_listed(releases[0])}: counters may be defined differently"
        )
    return ""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names - {""})) or "unknown"


def _notes(
    sides: Sequence[Group | None], merged: Mapping[str, set[str]], barred: Sequence[str], measured: bool
) -> Iterator[str]:
    """Sentences on one comparison: other GPU, clock, ncu, problem or kernel, and what the reports
    cannot tell; sides are named by their letters."""
    first, *others = sides
    if first is None:
        return
    for index, side in enumerate(others, 1):
        if side is None:
            yield f"{letter(index)}: no launch of this kernel"
            continue
        yield from (f"{letter(index)}: {text}" for text in _differences(first, side))
        if barred[index]:
            yield f"{letter(index)}: {barred[index]}"
    there = {letter(index): side.subjects for index, side in enumerate(sides) if side}
    for name, launches in there.items():
        yield from (f"{name}: {doubt}" for doubt in dict.fromkeys(d for one in launches for d in one.verdict.doubts))
    for coarse, finer in merged.items():
        lacking = [
            name
            for name, launches in there.items()
            if any(coarse in {*one.verdict.merged, *(one.measured or ())} for one in launches)
        ]
        if len(lacking) < len(there):
            split = ", ".join(part for part in PARTS if part in finer)
            yield f"{', '.join(lacking)} cannot split {coarse}: on all sides it includes {split}"
    if measured:
        yield "accounts are measured by ablation; the remainder is neither work nor a removed part"
    elif ablated := [name for name, launches in there.items() if any(one.measured for one in launches)]:
        yield f"accounts are estimates on all sides, because only {', '.join(ablated)} was measured by ablation"
    if without := [name for name, launches in there.items() if not any(one.account for one in launches)]:
        yield f"{', '.join(without)}: no account, because the report has no utilization of any unit"
    if len(first.subjects) < 2:
        yield f"{letter(0)} is a single launch: without repeats, differences are not tested against noise"


def _differences(first: Group, other: Group) -> Iterator[str]:
    """In what else than the measurement two groups differ."""
    before, after = first.first, other.first
    if before.kernel != after.kernel:
        yield f"another kernel, {after.kernel} against {before.kernel}"
    if before.shape != after.shape:
        yield f"another problem, {after.shape} against {before.shape}"
    elif (before.grid, before.block) != (after.grid, after.block):
        yield f"launched as {after.grid} × {after.block} against {before.grid} × {before.block}"
    units = [launch.verdict.unit for launch in (before, after)]
    if units[0] != units[1] and all(units):
        yield f"its account counts another unit as busy, {units[1]} against {units[0]}"
    clock = clock_change_pct(first, other)
    if clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
        yield (
            f"the SM clock differs by {clock:+.1f} %, so times also reflect the clocks; cycles do not, "
            "except for memory"
        )
    same = [{(launch.key, launch.launch) for launch in side.subjects} for side in (first, other)]
    if same[0] & same[1]:
        yield f"the same measurement as {letter(0)}"


@dataclass(frozen=True)
class MetricChange:
    """A metric's value ``before``, in another launch, None where that lacks it or holds another
    unit of it; ``pct`` by which it differs now, None where that is not defined."""

    before: float | None = None
    pct: float | None = None


def metric_changes(
    now: Mapping[str, tuple[float, str]], before: Mapping[str, tuple[float, str]]
) -> dict[str, MetricChange]:
    """The change of each metric of ``now``; metrics are pairs of value and unit by name."""
    changes = dict.fromkeys(now, MetricChange())
    for name, (value, unit) in now.items():
        old, old_unit = before.get(name, (math.nan, ""))
        if old_unit == unit and math.isfinite(old):
            defined = math.isfinite(value) and (old != 0.0 or value == 0.0)
            changed = 0.0 if value == old else 100.0 * (value - old) / (abs(old) or math.nan)
            changes[name] = MetricChange(old, changed if defined else None)
    return changes
