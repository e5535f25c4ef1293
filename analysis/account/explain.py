"""Traces every part of an account to its inputs, formula and source lines.

The terms of a part sum to the part. Those of busy time are counters, those of ramp, tail and gaps
the timeline's, and those of steady parts instructions with their warp samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import pandas as pd

from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import BubbleAccount, find_phases, steady_weights
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.parts import LAUNCH_SHAPE, WORK
from ncubble.analysis.account.phases import Phases
from ncubble.analysis.account.sm_load import SmLoad, sm_load
from ncubble.analysis.account.stalls import CLASSES, classified
from ncubble.analysis.account.units import ACTIVE, DIRECTION, DIRECTIONS, ELAPSED, busy_of, cta_share, shares_by_counter
from ncubble.analysis.report import frames as timeline
from ncubble.analysis.report.report import Launch
from ncubble.profiling.metrics.generations import load_generations

Counters = dict[str, float]
MOST = 5
"""Maximum instructions listed for a steady part; one more term sums the others."""


@dataclass(frozen=True)
class Term:
    """A share of a part, in percent of elapsed SM cycles. Terms of steady parts are instructions:
    ``samples`` of the part, weighted, and ``reasons`` with the samples of each reason, largest
    first."""

    what: str
    pct: float
    file: str | None = None
    line: int | None = None
    sass: str | None = None
    samples: float | None = None
    reasons: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PartExplained:
    """One part: ``formula`` in words over ``inputs`` (names of metrics, or words, with their
    values)."""

    part: str
    pct: float
    formula: str
    inputs: Mapping[str, float]
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Borders:
    """The timeline used for phases: its series, steady level in percent, samples within the kernel,
    and the borders in ns."""

    series: str
    with_ctas: bool
    steady_pct: float
    start_ns: int
    ramp_end_ns: int
    tail_start_ns: int
    end_ns: int
    dips: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Explanation:
    """All parts of one account in order, the timeline of its phases (or None), unweighted warp
    samples by class (empty if idle time is not split), sentences on missing data, and the load of
    an SM, by which samples are split and weighted (``sm_load``; known values only)."""

    parts: tuple[PartExplained, ...]
    timeline: Borders | None
    samples: Mapping[str, float]
    missing: tuple[str, ...]
    load: Mapping[str, float] = field(default_factory=dict)


def explain(launch: Launch) -> Explanation:
    """Trace the account of one launch to the report's values. Without an account there are no
    parts, only missing data."""
    busy, account = busy_of(launch), account_of(launch)
    if account is None or busy is None:
        return Explanation((), None, {}, (lacking.no_account(launch).text,))
    series, timed = find_phases(launch, busy)
    load = sm_load(launch, busy.pct)
    steady = _Steady.of(launch, account, load)
    parts = []
    for part, pct in account.parts.items():
        if part in WORK:
            parts.append(_busy(launch, account, part, pct))
        elif part in LAUNCH_SHAPE:
            parts.append(_outer(launch, account, part, pct, series))
        else:
            parts.append(steady.idle(pct) if part == "idle" else steady.part(part, pct))
    missing = tuple(lack.text for lack in lacking.of_account(launch, account))
    known = {name: value for name, value in asdict(load).items() if not math.isnan(value)}
    return Explanation(tuple(parts), _borders(launch, series, timed), steady.by_class(), missing, known)


def _borders(launch: Launch, series: str, timed: Phases | None) -> Borders | None:
    if timed is None:
        return None
    with_ctas = len(timeline.series(launch.timeline, "sm_active")) > 0
    borders = (timed.start_ns, timed.ramp_end_ns, timed.tail_start_ns, timed.end_ns)
    return Borders(series, with_ctas, timed.steady, *borders, timed.dips)


def _busy(launch: Launch, account: BubbleAccount, part: str, pct: float) -> PartExplained:
    if (part == "tensor_busy") != (account.unit == "tensor"):
        other = "the kernel issues no MMAs" if part == "tensor_busy" else "the tensor pipe is the unit"
        return PartExplained(part, pct, other, {}, ())
    words, counters = unit_counters(launch, account.unit)
    choice = "" if account.unit == "tensor" else f", of the busiest unit that was collected ({account.unit})"
    return PartExplained(part, pct, f"{words}{choice}", counters, (Term(f"{account.unit} busy", pct),))


def _outer(launch: Launch, account: BubbleAccount, part: str, pct: float, series: str) -> PartExplained:
    """Idle time outside the steady state: from the timeline, plus the excess seen by counters,
    which is tail."""
    counters = cta_share_counters(launch)
    if part == "no_cta" or account.phases is None:
        return PartExplained(part, pct, "100 × (1 - cycles with a CTA / elapsed)", counters, (Term("no CTA", pct),))
    timed = account.phases
    terms = {f"timeline of {series}": {"ramp": timed.ramp, "tail": timed.tail, "wave_gap": timed.wave_gap}[part]}
    if part == "tail":
        terms[_BEYOND] = max(0.0, _without_cta(launch, account) - timed.ramp - timed.tail)
    inputs = {f"loss by the {name}" if name != _BEYOND else name: lost for name, lost in terms.items()}
    inputs |= counters if part == "tail" else {}
    total = math.fsum(terms.values())
    scale = pct / total if total > 0 else 0.0
    if scale and not math.isclose(scale, 1.0, rel_tol=1e-6):
        inputs["scaled to the idle time, by"] = scale
    named = tuple(Term(name, lost * scale) for name, lost in terms.items() if lost > 0 or name != _BEYOND)
    return PartExplained(part, pct, _WORDS[part], inputs, named)


_BEYOND = "cycles without a CTA beyond ramp and tail of the timeline"
_WORDS = {
    "ramp": "loss against the steady level until the series first reaches half of it",
    "tail": "loss after SMs run out of CTAs for good, or the series was last at half its steady level; at least the "
    "cycles without a CTA that are no ramp",
    "wave_gap": "loss against the steady level in dips below 70 % of it, between ramp and tail",
}


def _without_cta(launch: Launch, account: BubbleAccount) -> float:
    """Cycles without a CTA in percent of elapsed ones, limited to idle time of the unit; 0 if not
    collected."""
    share = cta_share(launch)
    room = 100.0 - math.fsum(account.parts[part] for part in WORK)
    return 0.0 if math.isnan(share) else min(room, 100.0 * (1.0 - share))


@dataclass(frozen=True)
class _Steady:
    """Steady idle time in percent, the weight of each part in it, and the samples behind them."""

    room: float
    weights: Mapping[str, float]
    source: pd.DataFrame
    samples: pd.DataFrame

    @classmethod
    def of(cls, launch: Launch, account: BubbleAccount, load: SmLoad) -> _Steady:
        room = 100.0 - math.fsum(pct for part, pct in account.parts.items() if part in (*WORK, *LAUNCH_SHAPE))
        source = launch.source
        if account.weights is None:
            return cls(room, {}, source, pd.DataFrame())
        share, busy = cta_share(launch), math.fsum(account.parts[part] for part in WORK)
        active = busy / max(share, 0.01) if share > 0 else busy
        weights = steady_weights(account.weights.sum(), active, float(source["samples"].sum()))
        samples = classified(source, account.unit, load)
        return cls(room, weights, source, samples.assign(weight=samples["samples"] * samples["idle"]))

    def by_class(self) -> dict[str, float]:
        """Samples of every class, counted."""
        if self.samples.empty:
            return {}
        counted = self.samples.groupby("part")["samples"].sum()
        return {part: float(counted.get(part, 0.0)) for part in CLASSES}

    def idle(self, pct: float) -> PartExplained:
        """All remaining idle time, if it cannot be split."""
        return PartExplained("idle", pct, "100 less the other parts", {}, (Term("not split", pct),))

    def part(self, part: str, pct: float) -> PartExplained:
        """A steady part by its instructions; the last terms are the rest of them, and what no
        instruction holds."""
        total, weight = math.fsum(self.weights.values()), self.weights[part]
        inputs = {"steady idle time": self.room, "its warp samples": weight, "warp samples of all steady parts": total}
        words = "steady idle time × its warp samples / warp samples of all steady parts"
        if len(self.samples) and (self.samples["idle"] < 1.0).any():
            inputs["weight of samples among the MMAs"] = float(self.samples["idle"].min())
            words += ", each weighted by the idle share of the unit at that time"
        if not weight > 0:
            return PartExplained(part, pct, words, inputs, (Term("no samples", pct),) if pct > 0 else ())
        return PartExplained(part, pct, words, inputs, tuple(self._terms(part, pct / weight, weight)))

    def _terms(self, part: str, scale: float, weight: float) -> list[Term]:
        """``scale`` is percent per sample."""
        mine = self.samples[self.samples["part"] == part]
        by_row = mine.groupby("row")["weight"].sum().sort_values(ascending=False, kind="stable")
        terms = [self._instruction(row, mine[mine["row"] == row], scale) for row in by_row.index[:MOST].tolist()]
        if further := len(by_row) - len(terms):
            rest = float(by_row.iloc[MOST:].sum())
            terms.append(Term(f"{further} further instruction{'s' * (further > 1)}", rest * scale, samples=rest))
        if (beyond := weight - float(by_row.sum())) > 1e-9 * weight:
            terms.append(Term("samples at the unit beyond its busy share", beyond * scale, samples=beyond))
        return terms

    def _instruction(self, row: int, samples: pd.DataFrame, scale: float) -> Term:
        place = self.source.iloc[row]
        count = float(samples["weight"].sum())
        ranked = samples.groupby("reason")["weight"].sum().sort_values(ascending=False, kind="stable")
        reasons = {str(reason): float(number) for reason, number in ranked.items()}
        file, line = place["file"] or None, int(place["line"]) or None
        return Term("instruction", count * scale, file, line, str(place["sass"]), count, reasons)


def cta_share_counters(launch: Launch) -> Counters:
    """The pair of counters whose quotient is the share of cycles with a CTA; empty if no pair was
    collected."""
    for part, whole in load_generations().ratios["cta_share"]:
        values = {part: launch.value(part), whole: launch.value(whole)}
        if values[part] >= 0 and values[whole] > 0:
            return values
    return {}


def unit_counters(launch: Launch, name: str) -> tuple[str, Counters]:
    """How a unit's busy share was computed, in words, with its counters. ``tensor`` is the busiest
    tensor pipe."""
    units = [unit for unit in load_generations().units if (unit.kind if name == "tensor" else unit.name) == name]
    shares = {stem: pct for unit in units for stem, pct in shares_by_counter(launch, unit).items()}
    return _elapsed_counters(launch, max(shares, key=lambda stem: shares[stem])) if shares else ("", {})


def _elapsed_counters(launch: Launch, stem: str) -> tuple[str, Counters]:
    """As ``units.utilization`` finds it: the sum of both directions, of elapsed cycles, or of
    active ones."""
    if stem in DIRECTIONS:
        names = [part + DIRECTION for part in DIRECTIONS[stem]]
        return "the sum of both directions", {name: launch.value(name) for name in names}
    if not math.isnan(value := launch.value(stem + ELAPSED)):
        return "the counter", {stem + ELAPSED: value}
    value, cta = launch.value(stem + ACTIVE), cta_share_counters(launch)
    if math.isnan(value) or not cta:
        return "", {}
    return "the counter of active cycles × the share of cycles with a CTA", {stem + ACTIVE: value, **cta}
