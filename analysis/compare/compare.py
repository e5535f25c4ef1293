"""Launches side by side: how the others differ from the first, part by part, and which differences
noise explains.

Every value is the mean over the repeats of a side. A difference is tested where the first side has
repeats, by the rule and the noise of the gate (``gate.noise``); where GPU, ncu or clock differ it
is shown and not tested. Nothing here passes or fails: that is the gate's part. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncubble.analysis.account.folding import folded, merged_by_any
from ncubble.analysis.account.parts import JOINED, WORK, display_order
from ncubble.analysis.compare.notes import clock_change_pct, incomparable, notes_on
from ncubble.analysis.compare.sides import Group, letter, match
from ncubble.analysis.gate.check.kernel import CLOCK_TOLERANCE_PCT
from ncubble.analysis.gate.noise.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise.noise import compare as against_noise
from ncubble.analysis.gate.noise.noise import mean_sd

_OUTCOMES = {"improved": "better", "regressed": "worse", "pass": "same", "inconclusive": "unclear"}
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
    noise), ``unclear`` (the repeats scatter too much), or empty where nothing was tested;
    ``decision_pct`` is the change beyond which it counts, ``p_value`` that of the gate's one-sided
    test.
    """

    difference: float
    pct: float
    outcome: str = ""
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
    leftovers: tuple[Unmatched, ...]


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
    measured = all(launch.measured for side in sides if side for launch in side.subjects)
    merged = _merged(sides, measured)
    barred = [incomparable(sides[0], side) if side else "" for side in sides]
    accounts = [
        [folded((launch.measured if measured else None) or launch.account, merged) for launch in side.subjects]
        if side
        else []
        for side in sides
    ]
    rows = [_metric_row(name, unit, better, sides, barred) for name, unit, better in METRICS]
    rows += _account_rows(sides, accounts)
    rows += _stall_rows(sides)
    shown = [row for row in rows if any(value is not None for value in row.values)]
    return Comparison(tuple(sides), tuple(shown), tuple(notes_on(sides, merged, barred, measured)), measured)


def _merged(sides: Sequence[Group | None], measured: bool) -> dict[str, set[str]]:
    """Which finer parts a coarser one stands for on any side: then on all, so that parts of a name
    mean the same."""
    subjects = [subject for side in sides if side for subject in side.subjects]
    if measured:
        names = {name for launch in subjects for name in launch.measured or ()}
        return merged_by_any({name: name.split(JOINED)} for name in names if JOINED in name)
    return merged_by_any(launch.verdict.merged for launch in subjects)


def _value(numbers: Sequence[float]) -> Value | None:
    known = [number for number in numbers if math.isfinite(number)]
    return Value(len(known), *mean_sd(known)) if known else None


def _change(first: Value | None, other: Value | None) -> Change | None:
    if first is None or other is None:
        return None
    difference = other.mean - first.mean
    return Change(difference, 100.0 * difference / abs(first.mean) if first.mean else math.nan)


def _row(section: str, name: str, unit: str, better: str, numbers: Sequence[Sequence[float]]) -> Row:
    values = tuple(_value(side) for side in numbers)
    return Row(section, name, unit, better, values, (None, *(_change(values[0], value) for value in values[1:])))


def _metric_row(name: str, unit: str, better: str, sides: Sequence[Group | None], barred: Sequence[str]) -> Row:
    numbers = [[launch.values.get(name, math.nan) for launch in side.subjects] if side else [] for side in sides]
    row = _row("launch", name, unit, better, numbers)
    metric = BY_NAME.get(name)
    if metric is None:
        return row
    changes = list(row.changes)
    for index, change in enumerate(changes):
        if change is None or barred[index] or _clock_bound(metric, sides[0], sides[index]):
            continue
        changes[index] = _tested(change, metric, numbers[0], numbers[index])
    return Row(row.section, name, unit, better, row.values, tuple(changes))


def _clock_bound(metric: GateMetric, first: Group | None, other: Group | None) -> bool:
    """Whether the clocks differ so much that the metric says more about them than about the
    kernel."""
    change = clock_change_pct(first, other)
    return metric.name == "duration_ns" and change is not None and abs(change) > CLOCK_TOLERANCE_PCT


def _tested(change: Change, metric: GateMetric, first: Sequence[float], other: Sequence[float]) -> Change:
    """``change`` with the outcome of the noise model, where the first side has repeats that can be
    real."""
    before, after = ([value for value in side if metric.plausible(value)] for side in (first, other))
    if len(before) < 2 or not after or not math.fsum(before):
        return change
    better = metric.better if metric.better != "neutral" else "higher"
    test = against_noise(before, after, better=better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct)
    outcome = _OUTCOMES[test.outcome]
    if metric.better == "neutral" and outcome in ("better", "worse"):
        outcome = "changed"
    return Change(change.difference, change.pct, outcome, test.decision_pct, test.p_value)


def _account_rows(sides: Sequence[Group | None], accounts: Sequence[Sequence[Mapping[str, float]]]) -> list[Row]:
    """Shares of every part that any side has, then the same in ns."""
    present = {name for side in accounts for account in side for name, share in account.items() if share}
    names = display_order(sorted(present))
    shares = [_row("account", name, "%", _better(name), _shares(accounts, name)) for name in names]
    times = [_row("time", name, "ns", _better(name), _times(sides, accounts, name)) for name in names]
    return shares + times


def _better(part: str) -> str:
    return "higher" if part in WORK else "lower"


def _shares(accounts: Sequence[Sequence[Mapping[str, float]]], part: str) -> list[list[float]]:
    """Percent of ``part`` in every launch that has an account: a part that it does not name is 0
    there."""
    return [[account.get(part, 0.0) for account in side if account] for side in accounts]


def _times(
    sides: Sequence[Group | None], accounts: Sequence[Sequence[Mapping[str, float]]], part: str
) -> list[list[float]]:
    """Time of ``part`` in ns: its share of the launch's duration, NaN where that is not known."""
    durations = [
        [launch.values.get("duration_ns", math.nan) for launch in side.subjects] if side else [] for side in sides
    ]
    return [
        [time * account.get(part, 0.0) / 100.0 for time, account in zip(times, side, strict=True) if account]
        for times, side in zip(durations, accounts, strict=True)
    ]


def _stall_rows(sides: Sequence[Group | None]) -> list[Row]:
    """Shares of warp samples by reason, the largest on any side first."""
    stalls = [[stall.stalls for stall in side.subjects if stall.stalls] if side else [] for side in sides]
    rows = []
    for name in {name for side in stalls for stall in side for name in stall}:
        shares = [[stall.get(name, 0.0) for stall in side] for side in stalls]
        rows.append(_row("stalls", name, "%", "neutral", shares))
    return sorted(rows, key=lambda row: (-max(value.mean for value in row.values if value), row.name))
