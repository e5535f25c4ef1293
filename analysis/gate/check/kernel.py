"""One kernel against its baseline: every metric by the test of ``noise``, then the limits that were
asked for, and what moved. Pure functions.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ncubble.analysis.account.parts import COARSE
from ncubble.analysis.gate.accounts.moves import Move, doubtful, incomparable, moves
from ncubble.analysis.gate.baseline.baseline import TOLERATED, Baseline, BaselineMetric
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.check.kernel_rules import RulesByMetric, check_rules, cycles_of, one_gpu
from ncubble.analysis.gate.check.result import RANKS, CheckOptions, KernelVerdict, MetricVerdict
from ncubble.analysis.gate.check.rule_verdict import RuleVerdict
from ncubble.analysis.gate.check.rules import relative_pct
from ncubble.analysis.gate.noise.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise.noise import NoiseTest, Sample, compare, mean_sd

CLOCK_TOLERANCE_PCT = 5.0
MOST_MOVED = 3
LONGEST = 80
_BUILD = {"compiler": "compiler", "flags": "flags", "spilled bytes": "spill_B"}
_RESOURCES = {"registers": "registers", "static shared memory": "smem_static_B", "shared memory": "smem_dynamic_B"}
LEAST_MOVED = 0.3
"""Minimum growth of a part, in points of the baseline's time, to be named."""


def check_kernel(group: Repeats, baseline: Baseline, options: CheckOptions, differs: str = "") -> KernelVerdict:
    """The verdict on ``group``. ``differs`` says how its key differs from the baseline's, if it
    does."""
    empty = KernelVerdict.of_group(group, baseline)
    if reason := _refusal(group, baseline):
        return replace(empty, reason=reason)
    own = {report.get("key") for report in baseline.reports} - {None, ""}
    if own.issuperset(group.run_of):
        reason = "nothing new was measured: the baseline was recorded from these reports"
        return replace(empty, verdict="nothing_measured", reason=reason)
    rules = options.rules.of(group.key.label, group.key.kernel)
    metrics = tuple(_check_metric(name, group, baseline, rules, options.same_gpu) for name in baseline.metrics)
    by_rules = check_rules(rules, group, baseline, options.same_gpu)
    decisive: list[MetricVerdict | RuleVerdict] = [metric for metric in metrics if metric.verdict != "info"]
    decisive += by_rules
    verdict = next((rank for rank in RANKS if any(item.verdict == rank for item in decisive)), "nothing_measured")
    reason = "; ".join(item.reason for item in decisive if item.reason)
    notes = [*([differs] if differs else []), *_notes(group, baseline, metrics)]
    notes += [rule.note for rule in by_rules if rule.note]
    regressed = verdict == "regressed"
    return replace(
        empty,
        verdict=verdict,
        reason=reason or ("" if decisive else "the baseline gates no metric"),
        metrics=metrics,
        notes=(*notes, *(_of_cause(group, baseline) if regressed else ())),
        rules=by_rules,
        moved=_moved(group, baseline) if regressed else (),
    )


def _refusal(group: Repeats, baseline: Baseline) -> str:
    """Why the two must not be compared at all, or nothing."""
    theirs, ours = _major(baseline.ncu_version), {_major(version) for version in group.ncu_versions} - {""}
    if theirs and ours - {theirs}:
        now = ", ".join(sorted(group.ncu_versions))
        return f"different ncu: the baseline was recorded with {baseline.ncu_version}, the launches with {now}"
    before, now = baseline.device.compute_capability, group.compute_capability
    if before and now and before != now:
        return f"different compute capability: {before} in the baseline, {now} now"
    if group.builds_told > 1:
        return (
            f"the launches come from {group.builds_told} builds, so they are not repeats of each other: "
            "use a single build"
        )
    return ""


def _major(version: str) -> str:
    match = re.search(r"\d+", version)
    return match.group() if match else ""


def _clock_change_pct(group: Repeats, baseline: Baseline) -> float | None:
    before = baseline.sm_clock_hz.get("mean", 0.0)
    if before <= 0 or not group.clocks_hz:
        return None
    return float((statistics.fmean(group.clocks_hz) / before - 1) * 100)


def _check_metric(name: str, group: Repeats, baseline: Baseline, rules: RulesByMetric, same_gpu: bool) -> MetricVerdict:
    before, known = baseline.metrics[name], BY_NAME.get(name)
    if (
        known is None
        or before.counter not in known.counters
        or (before.unit, before.better) != (known.unit, known.better)
    ):
        verdict = "not_comparable" if before.gated else "info"
        return MetricVerdict(
            name,
            before,
            (),
            verdict,
            0.0,
            f"{name} is defined differently here than in the baseline ({before.counter})",
        )
    wanted = relative_pct(known, rules)
    required = not known.gated and any(rule.kind == "relative" for rule in rules.get(name, ()))
    gated = wanted is not None and (before.gated or required)
    limit = known.limit_pct if wanted is None else wanted
    now = group.sample(known, before.counter)
    if not now.values:
        reason = _why_unmeasured(name, known, before, group)
        return MetricVerdict(name, before, (), "nothing_measured" if gated else "info", limit, reason)
    if gated and (lacking := _lacking(now, group)):
        reason = f"{name}: {lacking} of {group.launches} launches lack {before.counter}, while others have it"
        return MetricVerdict(name, before, now.values, "not_comparable", limit, reason)
    result = _compared(name, baseline, now, known, limit, same_gpu)
    if gated and result is None:
        reason = f"{name}: the baseline's {len(before.measured)} values do not allow a comparison; record it again"
        return MetricVerdict(name, before, now.values, "not_comparable", limit, reason)
    if not gated or result is None:
        clock = _clock_change_pct(group, baseline)
        if name == "duration_ns" and clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
            reason = f"not comparable: the SM clock differs by {clock:+.1f} %"
            return MetricVerdict(name, before, now.values, "info", limit, reason)
        return MetricVerdict(name, before, now.values, "info", limit, "", result)
    if result.outcome == "inconclusive":
        reason = _inconclusive(name, result, len(now.values), limit)
        return MetricVerdict(name, before, now.values, "not_comparable", limit, reason, result)
    return MetricVerdict(name, before, now.values, result.outcome, limit, "", result)


def _lacking(now: Sample, group: Repeats) -> int:
    """Launches without the value in reports that hold it for others: such a report is damaged.
    Reports that were profiled without it may stand beside others."""
    measured, launched = Counter(now.runs), Counter(group.run_of)
    return sum(launched[run] - number for run, number in measured.items())


def _compared(
    name: str, baseline: Baseline, now: Sample, known: GateMetric, limit: float, same_gpu: bool
) -> NoiseTest | None:
    """The test; None where the metric has no direction, or the baseline too few values for one."""
    before = baseline.sample(name)
    if known.better == "neutral" or len(before.values) < 2 or not mean_sd(before.values)[0] > 0:
        return None
    if one_gpu(before.gpus, now.gpus, same_gpu):
        before, now = replace(before, gpus=()), replace(now, gpus=())
    return compare(before, now, better=known.better, limit_pct=limit, cv_pct=known.cv_pct, shifts=known.shifts)


def _inconclusive(name: str, result: NoiseTest, launches: int, limit: float) -> str:
    changed = f"{name} changed by {result.change_pct:+.2f} %"
    if launches == 1 and result.noisy:
        return f"{changed}, but one launch of such a noisy kernel is inconclusive: profile with --repeat 5"
    why, remedy = "its repeats scatter", "profile more repeats"
    if result.clock_room_pct > result.decision_pct:
        why, remedy = "the SM clock differs, which may explain it", "compare on one GPU with --against REV"
    elif result.other_gpu and not result.noisy:
        why, remedy = "GPUs of one model differ", "record the baseline on this GPU"
    beyond = (
        f"only a loss beyond {result.threshold_pct:.1f} % would count"
        if result.threshold_pct < 100
        else "no loss could be distinguished from that"
    )
    return f"{changed}, but {why}: {beyond}. {remedy[0].upper()}{remedy[1:]}, or raise the limit of {limit:g} %"


def _why_unmeasured(name: str, known: GateMetric, before: BaselineMetric, group: Repeats) -> str:
    if any(value == value for value in group.values.get(before.counter, [])):
        return f"{name}: all values of {before.counter} are impossible: a damaged report?"
    others = [counter for counter in known.counters if group.measured(known, counter)]
    if others:
        return f"{name}: different definition: the baseline has {before.counter}, the launches only {others[0]}"
    return f"{name}: {before.counter} was not collected: profile with `--set pipeline`"


def _moved(group: Repeats, baseline: Baseline) -> tuple[Move, ...]:
    """The parts that grew most; none where an account is missing or tells no idle time apart."""
    cycles = cycles_of(group, baseline)
    if cycles is None or baseline.account is None or group.account is None:
        return ()
    grown = moves(baseline.account, group.account, cycles[0] / cycles[1])
    if any(move.part in COARSE for move in grown):
        return ()
    return tuple(move for move in grown if move.points >= LEAST_MOVED)[:MOST_MOVED]


def _of_cause(group: Repeats, baseline: Baseline) -> list[str]:
    """Why no cause of a regression is named, or why it is doubtful; nothing where it is neither."""
    if baseline.account is None:
        return ["no cause is named: the baseline has no bubble account; record it from runs with the default sets"]
    if group.account is None:
        return ["no cause is named: these launches have no bubble account; profile with the default sets"]
    why = incomparable(baseline.account, group.account)
    if why:
        return [f"no cause is named: {why}"]
    if set(COARSE) & (set(baseline.account.parts) | set(group.account.parts)):
        return ["no cause is named: the sets of one side do not split idle time; profile both with the default sets"]
    doubt = doubtful(baseline.account, group.account)
    return [doubt] if doubt else []


def _notes(group: Repeats, baseline: Baseline, metrics: Sequence[MetricVerdict]) -> list[str]:
    notes = []
    clock = _clock_change_pct(group, baseline)
    if clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
        notes.append(
            f"the SM clock differs by {clock:+.1f} % from the baseline's: cycles spent on memory change with it"
        )
    notes += _setup_notes(group, baseline)
    if baseline.sass_sha256 and group.code == baseline.sass_sha256:
        notes.append("the machine code is the same as the baseline's: the machine or the data differs")
    if {report["key"] for report in group.reports} & {report.get("key") for report in baseline.reports}:
        notes.append("the baseline was recorded from some of these same reports")
    gated = (metric for metric in metrics if metric.verdict != "info")
    return [*notes, *(note for metric in gated for note in _metric_notes(metric, group, baseline))]


def _setup_notes(group: Repeats, baseline: Baseline) -> list[str]:
    """What of driver, compiler and resources is another one than the baseline's."""
    build = group.builds[0] if group.builds else {}
    geometry = group.geometry[0] if group.geometry else {}
    pairs: list[tuple[str, object, object]] = [("driver", baseline.device.driver, ", ".join(sorted(group.drivers)))]
    pairs += [(what, baseline.build.get(key), build.get(key)) for what, key in _BUILD.items()]
    pairs += [(what, baseline.geometry.get(key), geometry.get(key)) for what, key in _RESOURCES.items()]
    changed = [f"{what} {_short(then)} -> {_short(now)}" for what, then, now in pairs if then and now and then != now]
    return [f"changed since the baseline: {'; '.join(changed)}"] if changed else []


def _short(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _metric_notes(metric: MetricVerdict, group: Repeats, baseline: Baseline) -> list[str]:
    notes = []
    dropped = group.launches - len(metric.now)
    if metric.now and dropped:
        notes.append(f"{metric.name}: {dropped} of {group.launches} launches lack it")
    result = metric.comparison
    if metric.verdict == "pass" and result is not None and result.detectable_pct > TOLERATED * metric.limit_pct:
        other = ""
        if result.other_gpu:
            unknown = not baseline.gpus or not all(group.gpu_of)
            other = " (GPU not named: --same-gpu?)" if unknown else " on another GPU of this model"
        notes.append(
            f"weak: with {len(metric.baseline.measured)} + {len(metric.now)} repeats{other} a loss of {metric.name} "
            f"below {result.detectable_pct:.1f} % may go undetected"
        )
    return notes
