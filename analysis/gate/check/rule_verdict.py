"""Repeats held to a limit of the gate that is absolute or a growth in points; ``noise`` holds them
to relative ones.

Absolute limits. The mean of the repeats decides, and nothing else: below ``>= 50`` is below 50. It
is a demand on this kernel now, not a comparison, so noise excuses nothing. Where the limit lies
within the 95 % interval of the mean, a note says so: the verdict may turn with the next run.

Growth. ``data_wait +2`` means that the part may not take 2 points more of the baseline's time. Both
sides are in percent of the *baseline's* cycles (``in_baseline_time``): a kernel that got faster
elsewhere spends a larger share of less time in the part, and nothing grew. The rule is that of
``noise``: a regression is a growth of more than half of the limit that chance does not explain, so
that a growth of the whole limit is found. A part that shrank is no improvement: its time may have
gone to another part. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from ncubble.analysis.account.parts import COARSE
from ncubble.analysis.gate.baseline.baseline import TOLERATED
from ncubble.analysis.gate.check.rules import GateRule
from ncubble.analysis.gate.noise.noise import NO_SHIFTS, NoiseTest, Sample, Shifts, compare, mean_sd, moderated
from ncubble.text.values import significant

CONFIDENCE = 0.95
FEWEST_BEFORE = 2
_WHOLE = 100.0


@dataclass(frozen=True)
class RuleVerdict:
    """What one limit says. ``verdict`` is ``pass``, ``regressed``, ``not_comparable`` or
    ``nothing_measured``, with a ``reason`` unless it is ``pass``.

    ``value`` is the mean of the repeats, or the growth in points; None where nothing was judged.
    ``note`` is for the reader and decides nothing. ``comparison`` is the test of a growth: its
    percentages are points of the baseline's time.
    """

    rule: GateRule
    verdict: str
    reason: str = ""
    value: float | None = None
    note: str = ""
    comparison: NoiseTest | None = None


def check_absolute(rule: GateRule, values: Iterable[float | None], sd_prior: float | None = None) -> RuleVerdict:
    """Hold the mean of ``values``, one per launch, to an absolute limit.

    None and NaN are launches that lack the value; they are left out, and a note counts them.
    ``sd_prior``: the deviation, in the unit of ``values``, that is expected before any repeat is
    seen. Raises ValueError for a limit of another kind.
    """
    if not rule.absolute:
        raise ValueError(f"{rule.text} is not an absolute limit")
    launches = list(values)
    known = [value for value in launches if value is not None and math.isfinite(value)]
    if not known:
        return RuleVerdict(rule, "nothing_measured", f"{rule.metric}: {_absent(rule)}")
    mean = math.fsum(known) / len(known)
    notes = [*_near(rule, mean, _half_width(known, sd_prior)), *_lacking(rule.metric, len(known), len(launches))]
    kept = mean >= rule.value if rule.kind == "at_least" else mean <= rule.value
    reason = "" if kept else _missed(rule, mean, known)
    return RuleVerdict(rule, "pass" if kept else "regressed", reason, mean, "; ".join(notes))


def check_growth(
    rule: GateRule,
    before: Sequence[float | None] | Sample,
    now: Sequence[float | None] | Sample,
    sd_prior: float,
    shifts: Shifts = NO_SHIFTS,
) -> RuleVerdict:
    """Hold the growth of a part of the account to a limit.

    Both sides have one value per launch in percent of the baseline's time; None and NaN are
    launches without it. ``sd_prior`` and ``shifts`` are in points: the noise that is expected
    before any repeat is seen. Raises ValueError for a limit of another kind.
    """
    if rule.kind != "growth":
        raise ValueError(f"{rule.text} is not a limit of growth")
    sides = [_known(side) for side in (before, now)]
    if refusal := _refusal(rule, *sides):
        return RuleVerdict(rule, "not_comparable", refusal)
    base = math.fsum(sides[0].values) / len(sides[0].values)
    # In a whole of 100 % in which only this part moves, percent equal points.
    whole = [_with(side, [_WHOLE + value - base for value in side.values]) for side in sides]
    test = compare(*whole, better="lower", limit_pct=rule.value, cv_pct=sd_prior, shifts=shifts)
    verdict = {"regressed": "regressed", "inconclusive": "not_comparable"}.get(test.outcome, "pass")
    notes = [
        *_lacking(f"{rule.metric} of the baseline", len(sides[0].values), _length(before)),
        *_lacking(rule.metric, len(sides[1].values), _length(now)),
    ]
    if verdict == "pass" and test.detectable_pct > TOLERATED * rule.value:
        notes.append(
            f"weak: with {len(sides[0].values)} + {len(sides[1].values)} repeats a growth of {rule.metric} "
            f"below {test.detectable_pct:.1f} points may go undetected"
        )
    return RuleVerdict(rule, verdict, _growth(rule, test, base), test.loss_pct, "; ".join(notes), test)


def _growth(rule: GateRule, test: NoiseTest, base: float) -> str:
    """Why a growth did not pass, or nothing."""
    verb = "grew" if test.loss_pct >= 0 else "fell"
    moved = f"{rule.metric} {verb} by {abs(test.loss_pct):.2f} points of the baseline's time, from {base:.2f}"
    if test.outcome == "regressed":
        return f"{moved}: the limit is '{rule.text}', and a growth of more than {test.decision_pct:.2f} counts"
    if test.outcome == "inconclusive":
        return (
            f"{moved}, but its repeats scatter: only a growth beyond {test.decision_pct:.1f} points would count. "
            f"Profile more repeats, or raise the limit '{rule.text}'"
        )
    return ""


def in_baseline_time(values: Iterable[float | None], cycles: float, baseline_cycles: float) -> tuple[float | None, ...]:
    """Shares of the launches' own time, in percent, as percent of the baseline's time.

    ``cycles`` and ``baseline_cycles`` are the means of both sides. All None where either is no
    positive number.
    """
    ratio = cycles / baseline_cycles if baseline_cycles > 0 else math.nan
    if not 0 < ratio < math.inf:
        return tuple(None for _ in values)
    return tuple(None if value is None else value * ratio for value in values)


def _half_width(known: Sequence[float], sd_prior: float | None) -> float:
    """Half of the confidence interval of the mean; NaN for one value of which no noise is known."""
    mean, sd = mean_sd(known)
    df = len(known) - 1
    if sd_prior is not None:
        sd, df, _ = moderated(math.fsum((value - mean) ** 2 for value in known), df, sd_prior)
    if df < 1:
        return math.nan
    return float(stdtrit(df, (1 + CONFIDENCE) / 2) * sd / math.sqrt(len(known)))


def _near(rule: GateRule, mean: float, half: float) -> list[str]:
    if not abs(mean - rule.value) <= half:
        return []
    return [f"{rule.metric} is within noise of its limit '{rule.text}': ±{half:.2g} (95 %) around {significant(mean)}"]


def _missed(rule: GateRule, mean: float, known: Sequence[float]) -> str:
    side = "below" if rule.kind == "at_least" else "above"
    number = significant(mean)
    shown = number if float(number) != rule.value else repr(mean)
    launches = (
        f"{len(known)} launches, {significant(min(known))} to {significant(max(known))}"
        if len(known) > 1
        else "1 launch"
    )
    return f"{rule.metric} is {shown}, {side} the limit '{rule.text}' ({launches})"


def _absent(rule: GateRule) -> str:
    """Why no launch has the limited value, and what to do."""
    finer = COARSE.get(rule.metric)
    if finer:
        return f"only in accounts that cannot separate {', '.join(finer)}; limit those"
    if rule.of_part:
        return "no account of these launches has it: profile with the default sets"
    return "not collected: profile with the default sets"


def _refusal(rule: GateRule, before: Sample, now: Sample) -> str:
    """Why the growth cannot be told, or nothing."""
    if not now.values:
        return f"{rule.metric}: {_absent(rule)}"
    if len(before.values) < FEWEST_BEFORE:
        lacking = "no launch" if not before.values else "only one launch"
        remedy = "record the baseline again, profiled with the default sets"
        return f"{rule.metric}: {lacking} of the baseline has it: {remedy}"
    return ""


def _known(side: Sequence[float | None] | Sample) -> Sample:
    """The launches that have the value."""
    sample = (
        side if isinstance(side, Sample) else Sample(tuple(math.nan if number is None else number for number in side))
    )
    kept = [index for index, value in enumerate(sample.values) if math.isfinite(value)]
    if len(kept) == len(sample.values):
        return sample

    def of(items: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(items[index] for index in kept) if items else ()

    clocks = tuple(sample.clocks[index] for index in kept) if sample.clocks else ()
    return Sample(tuple(sample.values[index] for index in kept), clocks, of(sample.runs), of(sample.gpus))


def _with(side: Sample, values: Sequence[float]) -> Sample:
    return Sample(tuple(values), side.clocks, side.runs, side.gpus)


def _length(side: Sequence[float | None] | Sample) -> int:
    return len(side.values if isinstance(side, Sample) else side)


def _lacking(metric: str, known: int, launches: int) -> list[str]:
    return [f"{metric}: {launches - known} of {launches} launches lack it"] if known < launches else []
