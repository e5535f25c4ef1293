"""Traces every part of an account to its inputs, formula and source lines.

The terms of a part sum to the part. Those of busy time are counters, those of ramp, tail and gaps
the timeline's, and those of steady parts instructions with their warp samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import LAUNCH_SHAPE, WORK
from ncubble.analysis.account.stalls import CLASSES
from ncubble.analysis.account.units import ratio_counters, unit_counters
from ncubble.analysis.report.frames import series
from ncubble.analysis.report.report import Launch

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
    an SM, by which samples are split and weighted (``SmLoad``; known values only)."""

    parts: tuple[PartExplained, ...]
    timeline: Borders | None
    samples: Mapping[str, float]
    missing: tuple[str, ...]
    load: Mapping[str, float] = field(default_factory=dict)


def explain(launch: Launch) -> Explanation:
    """Trace the account of one launch to the report's values. Without an account there are no
    parts, only missing data."""
    account = account_of(launch)
    if account is None:
        return Explanation((), None, {}, (lacking.no_account(launch).text,))
    found = evidence(launch)
    parts = tuple(_part(launch, found, account, part, pct) for part, pct in account.parts.items())
    missing = tuple(lack.text for lack in lacking.of_account(launch, account))
    load = {name: value for name, value in asdict(found.load).items() if not math.isnan(value)}
    samples: dict[str, float] = {}
    if account.weights is not None and len(found.samples):
        counted = found.samples.groupby("part")["samples"].sum()
        samples = {part: float(counted.get(part, 0.0)) for part in CLASSES}
    return Explanation(parts, _borders(found), samples, missing, load)


def _borders(found: Evidence) -> Borders | None:
    timed = found.phases
    if timed is None:
        return None
    with_ctas = len(series(found.timeline, "sm_active")) > 0
    borders = (timed.start_ns, timed.ramp_end_ns, timed.tail_start_ns, timed.end_ns)
    return Borders(found.series, with_ctas, timed.steady, *borders, timed.dips)


def _part(launch: Launch, found: Evidence, account: BubbleAccount, part: str, pct: float) -> PartExplained:
    if part in WORK:
        return _busy(launch, account, part, pct)
    if part in LAUNCH_SHAPE:
        return _outer(found, account, part, pct, ratio_counters(launch, "cta_share"))
    if part == "idle":
        return PartExplained("idle", pct, "100 less the other parts", {}, (Term("not split", pct),))
    if account.weights is None:
        words, inputs = "issue slots used - busy share of the unit", {"issue slots used": found.quantity("issue_pct")}
        return PartExplained(part, pct, words, inputs, (Term("issued while the unit is idle", pct),))
    return _steady(found, account, part, pct)


def _busy(launch: Launch, account: BubbleAccount, part: str, pct: float) -> PartExplained:
    if (part == "tensor_busy") != (account.unit == "tensor"):
        other = "the kernel issues no MMAs" if part == "tensor_busy" else "the tensor pipe is the unit"
        return PartExplained(part, pct, other, {}, ())
    words, counters = unit_counters(launch, account.unit)
    choice = "" if account.unit == "tensor" else f", of the busiest unit that was collected ({account.unit})"
    return PartExplained(part, pct, f"{words}{choice}", counters, (Term(f"{account.unit} busy", pct),))


def _outer(
    found: Evidence, account: BubbleAccount, part: str, pct: float, counters: Mapping[str, float]
) -> PartExplained:
    """Idle time outside the steady state: from the timeline, plus the excess seen by counters,
    which is tail."""
    if part == "no_cta" or (timed := found.phases) is None:
        return PartExplained(part, pct, "100 × (1 - cycles with a CTA / elapsed)", counters, (Term("no CTA", pct),))
    lost = {"ramp": timed.ramp, "tail": timed.tail, "wave_gap": timed.wave_gap}[part]
    terms, inputs = {f"timeline of {found.series}": lost}, {f"loss by the timeline of {found.series}": lost}
    if part == "tail":
        without = 0.0 if math.isnan(found.with_cta) else 100.0 * (1.0 - found.with_cta)
        beyond = max(0.0, min(100.0 - account.busy_pct, without) - timed.ramp - timed.tail)
        inputs |= {_BEYOND: beyond, **counters}
        terms |= {_BEYOND: beyond} if beyond > 0 else {}
    scale = pct / total if (total := math.fsum(terms.values())) > 0 else 0.0
    if scale and not math.isclose(scale, 1.0, rel_tol=1e-6):
        inputs["scaled to the idle time, by"] = scale
    return PartExplained(part, pct, _WORDS[part], inputs, tuple(Term(name, pct * scale) for name, pct in terms.items()))


_BEYOND = "cycles without a CTA beyond ramp and tail of the timeline"
_WORDS = {
    "ramp": "loss against the steady level until the series first reaches half of it",
    "tail": "loss after SMs run out of CTAs for good, or the series was last at half its steady level; at least the "
    "cycles without a CTA that are no ramp",
    "wave_gap": "loss against the steady level in dips below 70 % of it, between ramp and tail",
}


def _steady(found: Evidence, account: BubbleAccount, part: str, pct: float) -> PartExplained:
    """A steady part by its instructions; the last terms are the rest of them, and what no
    instruction holds."""
    weight = account.steady[part]
    inputs = {
        "steady idle time": 100.0
        - math.fsum(account.parts[name] for name in (*WORK, *LAUNCH_SHAPE) if name in account.parts),
        "its warp samples": weight,
        "warp samples of all steady parts": math.fsum(account.steady.values()),
    }
    words = "steady idle time × its warp samples / warp samples of all steady parts"
    if (found.samples["idle"] < 1.0).any():
        inputs["weight of samples among the MMAs"] = float(found.samples["idle"].min())
        words += ", each weighted by the idle share of the unit at that time"
    if not weight > 0:
        return PartExplained(part, pct, words, inputs, (Term("no samples", pct),) if pct > 0 else ())
    return PartExplained(part, pct, words, inputs, tuple(_terms(found, part, pct / weight, weight)))


def _terms(found: Evidence, part: str, scale: float, weight: float) -> list[Term]:
    """``scale`` is percent per sample."""
    mine = found.samples[found.samples["part"] == part]
    mine = mine.assign(weight=mine["samples"] * mine["idle"])
    by_row = mine.groupby("row")["weight"].sum().sort_values(ascending=False, kind="stable")
    terms = []
    for row in by_row.index[:MOST].tolist():
        held = mine[mine["row"] == row].groupby("reason")["weight"].sum().sort_values(ascending=False, kind="stable")
        reasons = {str(reason): float(count) for reason, count in held.items()}
        place, count = found.source.iloc[row], float(by_row[row])
        file, line, sass = place["file"] or None, int(place["line"]) or None, str(place["sass"])
        terms.append(Term("instruction", count * scale, file, line, sass, count, reasons))
    if further := len(by_row) - len(terms):
        rest = float(by_row.iloc[MOST:].sum())
        terms.append(Term(f"{further} further instruction{'s' * (further > 1)}", rest * scale, samples=rest))
    if (beyond := weight - float(by_row.sum())) > 1e-9 * weight:
        terms.append(Term("samples at the unit beyond its busy share", beyond * scale, samples=beyond))
    return terms
