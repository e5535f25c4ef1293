"""The limits that were asked for, held against one kernel: those that its metrics are not judged by
anyway."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.gate.accounts.moves import incomparable
from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.check.rule_verdict import RuleVerdict, check_absolute, check_growth, in_baseline_time
from ncubble.analysis.gate.check.rules import GateRule
from ncubble.analysis.gate.noise.metrics import BY_NAME
from ncubble.analysis.gate.noise.noise import Sample, Shifts, mean_sd

RulesByMetric = Mapping[str, tuple[GateRule, ...]]
_RUN_SD = 0.1
"""Deviation, in points, that all launches of a process share in any part; from
``benchmarks.gate.part_noise``, like those between launches and between GPUs, which ``Part``
holds."""


def check_rules(rules: RulesByMetric, group: Repeats, baseline: Baseline, same_gpu: bool) -> tuple[RuleVerdict, ...]:
    """Verdicts by absolute limits, limits of growth, and relative ones of metrics that the baseline
    does not hold."""
    return tuple(_check_rule(rule, group, baseline, same_gpu) for rule in _all(rules) if _extra(rule, baseline))


def check_absolute_rules(rules: RulesByMetric, group: Repeats) -> tuple[RuleVerdict, ...]:
    """Verdicts by the absolute limits alone, which need no baseline."""
    return tuple(_check_absolute(rule, group, None) for rule in _all(rules) if rule.absolute)


def cycles_of(group: Repeats, baseline: Baseline) -> tuple[float, float] | None:
    """Mean cycles of now and of the baseline, of the same counter; None where one of them was not
    measured."""
    before = baseline.metrics.get("cycles")
    now = group.measured(BY_NAME["cycles"], before.counter) if before else []
    return (statistics.fmean(now), statistics.fmean(before.measured)) if before and now else None


def one_gpu(before: Iterable[str], now: Iterable[str], assumed: bool) -> bool:
    """Whether launches on these GPUs (UUIDs, empty where unknown) ran on one: all are named the
    same, or what is not named is ``said`` to be."""
    gpus = {*before, *now}
    return len(gpus - {""}) <= 1 and (assumed or "" not in gpus)


def _all(rules: RulesByMetric) -> Iterable[GateRule]:
    return (rule for of_metric in rules.values() for rule in of_metric)


def _extra(rule: GateRule, baseline: Baseline) -> bool:
    if rule.kind == "relative":
        return rule.metric not in baseline.metrics
    return rule.kind != "off"


def _check_rule(rule: GateRule, group: Repeats, baseline: Baseline, same_gpu: bool) -> RuleVerdict:
    if rule.kind == "relative":
        reason = f"{rule.metric}: the baseline does not have it, so a loss cannot be computed; record it again"
        return RuleVerdict(rule, "not_comparable", reason)
    if rule.absolute:
        return _check_absolute(rule, group, baseline)
    return _lost(rule, group) or _check_growth(rule, group, baseline, same_gpu)


def _lost(rule: GateRule, group: Repeats) -> RuleVerdict | None:
    """The verdict where suspicious launches do not tell a part, such as those that lost their
    machine code: other launches do not stand for them."""
    values = group.account.parts.get(rule.metric, ()) if group.account else ()
    if not group.suspicious or None not in values:
        return None
    reason = f"{rule.metric}: {values.count(None)} of {len(values)} launches do not have it, and some are suspicious"
    return RuleVerdict(rule, "not_comparable", reason)


def _check_absolute(rule: GateRule, group: Repeats, baseline: Baseline | None) -> RuleVerdict:
    if rule.of_part:
        if lost := _lost(rule, group):
            return lost
        account = group.account
        return check_absolute(rule, account.parts.get(rule.metric, ()) if account else (), PARTS[rule.metric].launch_sd)
    known = BY_NAME[rule.metric]
    before = baseline.metrics.get(rule.metric) if baseline else None
    counters = [before.counter] if before else list(known.counters)
    values = next((measured for name in counters if (measured := group.measured(known, name))), [])
    return check_absolute(rule, values, known.cv_pct / 100 * abs(mean_sd(values)[0]) if values else None)


def _check_growth(rule: GateRule, group: Repeats, baseline: Baseline, same_gpu: bool) -> RuleVerdict:
    before, after, cycles = baseline.account, group.account, cycles_of(group, baseline)
    if cycles is None:
        reason = f"{rule.metric}: cycles were not measured on both sides, so growth cannot be computed"
        return RuleVerdict(rule, "not_comparable", reason)
    if before and after:
        reason = incomparable(before, after)
        if not reason and set(before.merged.get(rule.metric, ())) != set(after.merged.get(rule.metric, ())):
            reason = "it covers different parts on the other side: profile both with the same sets"
        if reason:
            return RuleVerdict(rule, "not_comparable", f"{rule.metric}: {reason}")
    then = before.parts.get(rule.metric, ()) if before else ()
    now = in_baseline_time(after.parts.get(rule.metric, ()) if after else (), *cycles)
    same = one_gpu([report.get("gpu", "") for report in baseline.reports], group.gpu_of, same_gpu)
    sides = [_sample(then, len(baseline.reports), "one"), _sample(now, len(group.reports), "one" if same else "other")]
    shifts = Shifts(run_pct=_RUN_SD, gpu_pct=PARTS[rule.metric].gpu_sd)
    return check_growth(rule, sides[0], sides[1], PARTS[rule.metric].launch_sd, shifts)


def _sample(values: Sequence[float | None], runs: int, gpu: str) -> Sample:
    """Values of a part, taken in turns from ``runs`` processes, as ``Repeats.account`` does."""
    number = len(values)
    known = tuple(float("nan") if value is None else value for value in values)
    return Sample(known, (), tuple(str(index % max(runs, 1)) for index in range(number)), (gpu,) * number)
