"""The check: repeats of now against recorded baselines, one verdict per kernel and metric. The rules of the
verdicts are in ``gate_result``, the statistics in ``noise``. Pure functions.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence

from ncubble.analysis.baseline import TOLERATED, Baseline, BaselineMetric
from ncubble.analysis.gate_metrics import BY_NAME, GateMetric, limit_of
from ncubble.analysis.gate_result import RANKS, CheckOptions, GateResult, KernelVerdict, MetricVerdict
from ncubble.analysis.noise import compare, mean_sd
from ncubble.analysis.repeats import Repeats

CLOCK_TOLERANCE_PCT = 5.0


def check(
    groups: Sequence[Repeats],
    baselines: Sequence[Baseline],
    options: CheckOptions,
    errors: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> GateResult:
    """Judge ``groups`` against ``baselines``. ``errors`` are (file, message) of inputs that could not be read."""
    kernels, unrecorded, used = [], [], set()
    for group in groups:
        baseline, differs = _match(group, groups, baselines, options.exact)
        if baseline is not None:
            used.add(id(baseline))
            kernels.append(_judge(group, baseline, options.limits, differs))
        elif options.allow_new and not _elsewhere(group, baselines):
            unrecorded.append(group.key.label)
        else:
            kernels.append(_without_baseline(group, baselines))
    devices = {group.device for group in groups}
    missing = [item for item in baselines if id(item) not in used and (not options.exact or item.device in devices)]
    strict = options.require_all or not options.exact
    if strict:
        kernels += [_without_launches(item) for item in missing]
    return GateResult(
        tuple(kernels),
        tuple(errors),
        () if strict else tuple(item.key.label for item in missing),
        tuple(unrecorded),
        tuple(notes),
    )


def _match(
    group: Repeats, groups: Sequence[Repeats], baselines: Sequence[Baseline], exact: bool
) -> tuple[Baseline | None, str]:
    """The baseline for ``group`` and, if its key differs, how."""
    here = [item for item in baselines if item.device == group.device]
    for item in here:
        if item.key.canonical == group.key.canonical:
            return item, ""
    similar = [item for item in here if item.key.kernel == group.key.kernel]
    if exact or len(similar) != 1:
        return None, ""
    target = similar[0]
    taken = any(other.key.canonical == target.key.canonical and other.device == target.device for other in groups)
    return (None, "") if taken else (target, f"compared with {target.key.label}, as its baseline file was named")


def _elsewhere(group: Repeats, baselines: Sequence[Baseline]) -> list[Baseline]:
    return [item for item in baselines if item.key.canonical == group.key.canonical]


def _without_baseline(group: Repeats, baselines: Sequence[Baseline]) -> KernelVerdict:
    others = sorted({item.device for item in _elsewhere(group, baselines)})
    if others:
        here = group.device or "an unnamed GPU"
        reason = f"different GPU: the baseline is of {', '.join(others)}, the launches ran on {here}"
    else:
        near = [item for item in baselines if item.key.kernel == group.key.kernel and item.device == group.device]
        reason = "no baseline for this kernel; record one with `ncubble baseline record`"
        if near:
            reason += (
                f", or compare with a similar one by `--baseline {near[0].path or near[0].place}` ({near[0].key.label})"
            )
    return KernelVerdict(
        group.key.label, group.device, "not_comparable", reason, launches=group.launches, repeats=group
    )


def _without_launches(baseline: Baseline) -> KernelVerdict:
    reason = "no launch of this kernel in the given runs: it was not profiled, was renamed, or its parameters changed"
    return KernelVerdict(baseline.key.label, baseline.device, "nothing_measured", reason, baseline)


def _judge(group: Repeats, baseline: Baseline, limits: Mapping[str, float], differs: str) -> KernelVerdict:
    reason = _refusal(group, baseline)
    if reason:
        return KernelVerdict(
            group.key.label, group.device, "not_comparable", reason, baseline, group.launches, repeats=group
        )
    clock = _clock_change_pct(group, baseline)
    metrics = tuple(_judge_metric(name, metric, group, limits, clock) for name, metric in baseline.metrics.items())
    gated = [metric for metric in metrics if metric.verdict != "info"]
    verdict = next((rank for rank in RANKS if any(metric.verdict == rank for metric in gated)), "nothing_measured")
    reason = "; ".join(metric.reason for metric in gated if metric.reason) or (
        "" if gated else "the baseline gates no metric"
    )
    notes = _notes(group, baseline, clock, metrics)
    if differs:
        notes.insert(0, differs)
    return KernelVerdict(
        group.key.label, group.device, verdict, reason, baseline, group.launches, metrics, tuple(notes), group
    )


def _refusal(group: Repeats, baseline: Baseline) -> str:
    """Why the two must not be compared at all, or nothing."""
    theirs, ours = _major(baseline.ncu_version), {_major(version) for version in group.ncu_versions} - {""}
    if theirs and ours - {theirs}:
        now = ", ".join(sorted(group.ncu_versions))
        return f"different ncu: the baseline was recorded with {baseline.ncu_version}, the launches with {now}"
    before, now = baseline.compute_capability, group.compute_capability
    if before and now and before != now:
        return f"different compute capability: {before} in the baseline, {now} now"
    return ""


def _major(version: str) -> str:
    match = re.search(r"\d+", version)
    return match.group() if match else ""


def _clock_change_pct(group: Repeats, baseline: Baseline) -> float | None:
    before = baseline.sm_clock_hz.get("mean", 0.0)
    if before <= 0 or not group.clocks_hz:
        return None
    return float((statistics.fmean(group.clocks_hz) / before - 1) * 100)


def _judge_metric(
    name: str, before: BaselineMetric, group: Repeats, limits: Mapping[str, float], clock: float | None
) -> MetricVerdict:
    known = BY_NAME.get(name)
    if (
        known is None
        or before.counter not in known.counters
        or (before.unit, before.better) != (known.unit, known.better)
    ):
        verdict = "not_comparable" if before.gated else "info"
        return MetricVerdict(
            name, before, (), verdict, 0.0, f"{name} is defined otherwise here than in the baseline ({before.counter})"
        )
    now = tuple(group.measured(known, before.counter))
    limit = limit_of(known, limits)
    if not now:
        verdict = "nothing_measured" if before.gated else "info"
        return MetricVerdict(name, before, now, verdict, limit, _why_unmeasured(name, known, before, group))
    if not before.gated:
        return _informational(name, before, now, known, limit, clock)
    result = compare(before.values, now, better=before.better, limit_pct=limit, cv_pct=known.cv_pct)
    if result.outcome == "inconclusive":
        reason = (
            f"{name} changed by {result.change_pct:+.2f} %, but its repeats scatter: only a loss beyond "
            f"{result.decision_pct:.1f} % would count. Profile more repeats, or raise the threshold of {limit:g} %"
        )
        return MetricVerdict(name, before, now, "not_comparable", limit, reason, result)
    return MetricVerdict(name, before, now, result.outcome, limit, "", result)


def _why_unmeasured(name: str, known: GateMetric, before: BaselineMetric, group: Repeats) -> str:
    if any(value == value for value in group.values.get(before.counter, [])):
        return f"{name}: all values of {before.counter} are impossible: a damaged report?"
    others = [counter for counter in known.counters if group.measured(known, counter)]
    if others:
        return f"{name}: different definition: the baseline holds {before.counter}, the launches only {others[0]}"
    return f"{name}: {before.counter} was not collected: profile with `--set pipeline`"


def _informational(
    name: str, before: BaselineMetric, now: tuple[float, ...], known: GateMetric, limit: float, clock: float | None
) -> MetricVerdict:
    if name == "duration_ns" and clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
        return MetricVerdict(
            name, before, now, "info", limit, f"not comparable: the SM clock differs by {clock:+.1f} %"
        )
    comparable = known.better != "neutral" and len(before.values) > 1 and mean_sd(before.values)[0] > 0
    result = (
        compare(before.values, now, better=known.better, limit_pct=limit, cv_pct=known.cv_pct) if comparable else None
    )
    return MetricVerdict(name, before, now, "info", limit, "", result)


def _notes(group: Repeats, baseline: Baseline, clock: float | None, metrics: Sequence[MetricVerdict]) -> list[str]:
    notes = []
    if clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
        notes.append(
            f"the SM clock differs by {clock:+.1f} % from the baseline's: cycles spent on memory change with it"
        )
    if {report["key"] for report in group.reports} & {report.get("key") for report in baseline.reports}:
        notes.append("the baseline was recorded from these very reports")
    for metric in metrics:
        if metric.verdict == "info":
            continue
        dropped = group.launches - len(metric.now)
        if metric.now and dropped:
            notes.append(f"{metric.name}: {dropped} of {group.launches} launches lack it")
        result = metric.comparison
        if metric.verdict == "pass" and result is not None and result.detectable_pct > TOLERATED * metric.limit_pct:
            notes.append(
                f"weak: with {len(metric.baseline.values)} + {len(metric.now)} repeats a loss of {metric.name} "
                f"below {result.detectable_pct:.1f} % may go unseen"
            )
    return notes
