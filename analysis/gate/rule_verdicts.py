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
from dataclasses import dataclass, replace
from statistics import fmean

from scipy.special import stdtrit

from ncubble.analysis.account.parts import COARSE
from ncubble.analysis.gate.noise import NO_SHIFTS, NoiseTest, Sample, Shifts, compare, mean_sd, moderated
from ncubble.analysis.gate.rules import GateRule
from ncubble.text.values import significant

CONFIDENCE = 0.95
FEWEST_BEFORE = 2
TOLERATED = 1.25
"""A pass is weak, and a baseline noisy, if the reliably detectable loss exceeds the limit by more
than this factor."""
_WHOLE = 100.0
Values = Iterable[float | None] | Sample
"""One per launch; None and NaN are launches that lack it."""


@dataclass(frozen=True)
class RuleVerdict:
    """What one rule says. ``verdict`` is ``pass``, ``regressed`` (of a growth), ``limit_broken``
    (of an absolute limit), ``not_comparable`` or ``nothing_measured``, with a ``reason`` unless it
    is ``pass``.

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


def check_absolute(rule: GateRule, values: Values, sd_prior: float | None = None) -> RuleVerdict:
    """Hold the mean of ``values`` to an absolute limit. A note counts launches that lack the value.

    ``sd_prior``: the deviation, in the unit of ``values``, that is expected before any repeat is
    seen.
    """
    sample, launches = _known(values)
    known = sample.values
    if not known:
        return RuleVerdict(rule, "nothing_measured", f"{rule.metric}: {_absent(rule)}")
    mean = fmean(known)
    notes = [*_near(rule, mean, _half_width(known, sd_prior)), *_lacking(rule.metric, len(known), launches)]
    kept = mean >= rule.value if rule.kind == "at_least" else mean <= rule.value
    reason = "" if kept else _missed(rule, mean, known)
    return RuleVerdict(rule, "pass" if kept else "limit_broken", reason, mean, "; ".join(notes))


def check_growth(
    rule: GateRule, before: Values, now: Values, sd_prior: float, shifts: Shifts = NO_SHIFTS
) -> RuleVerdict:
    """Hold the growth of a part of the account to a limit.

    Both sides are in percent of the baseline's time. ``sd_prior`` and ``shifts`` are in points: the
    noise that is expected before any repeat is seen.
    """
    (old, of_before), (new, of_now) = _known(before), _known(now)
    if not new.values:
        return RuleVerdict(rule, "not_comparable", f"{rule.metric}: {_absent(rule)}")
    if len(old.values) < FEWEST_BEFORE:
        lacking = "only one launch" if old.values else "no launch"
        remedy = "record the baseline again, profiled with the default sets"
        return RuleVerdict(rule, "not_comparable", f"{rule.metric}: {lacking} of the baseline has it: {remedy}")
    base = fmean(old.values)
    # In a whole of 100 % in which only this part moves, percent equal points.
    whole = [replace(side, values=tuple(_WHOLE + value - base for value in side.values)) for side in (old, new)]
    test = compare(*whole, better="lower", limit_pct=rule.value, cv_pct=sd_prior, shifts=shifts)
    verdict = {"regressed": "regressed", "inconclusive": "not_comparable"}.get(test.outcome, "pass")
    notes = [
        *_lacking(f"{rule.metric} of the baseline", len(old.values), of_before),
        *_lacking(rule.metric, len(new.values), of_now),
    ]
    if verdict == "pass" and test.detectable_pct > TOLERATED * rule.value:
        notes.append(
            f"weak: with {len(old.values)} + {len(new.values)} repeats a growth of {rule.metric} "
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


def _known(values: Values) -> tuple[Sample, int]:
    """The launches that have the value, and the number of all."""
    whole = values if isinstance(values, Sample) else Sample(tuple(math.nan if x is None else x for x in values))
    kept = [index for index, value in enumerate(whole.values) if math.isfinite(value)]
    chosen = {name: tuple(items[index] for index in kept) for name, items in vars(whole).items() if items}
    return Sample(**{"values": (), **chosen}), len(whole.values)


def _lacking(metric: str, known: int, launches: int) -> list[str]:
    return [f"{metric}: {launches - known} of {launches} launches lack it"] if known < launches else []
