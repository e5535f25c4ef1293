"""The check: repeats of now against recorded baselines, one verdict per kernel and metric, by the
test of ``noise``; then the rules that were asked for, and what moved.

What the verdicts mean is in ``verdicts``. Pure functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ncubble.analysis.account.parts import COARSE, PARTS
from ncubble.analysis.gate.accounts import Move, doubtful, incomparable, moves
from ncubble.analysis.gate.baseline import Baseline, BaselineMetric
from ncubble.analysis.gate.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise import NoiseTest, Sample, Shifts, mean_sd
from ncubble.analysis.gate.repeats import REMEDY, Repeats, collect, listed
from ncubble.analysis.gate.rule_verdicts import (
    TOLERATED,
    RuleVerdict,
    check_absolute,
    check_growth,
    in_baseline_time,
)
from ncubble.analysis.gate.rules import GateRule, relative_pct
from ncubble.analysis.gate.verdicts import (
    FAILED,
    NO_BASELINE,
    UNREAD,
    CheckOptions,
    GateResult,
    KernelVerdict,
    MetricVerdict,
    rank_of,
)
from ncubble.analysis.report.report import Report, ReportFailure
from ncubble.text.values import cut

CLOCK_TOLERANCE_PCT = 5.0
MOST_MOVED = 3
LEAST_MOVED = 0.3
"""Minimum growth of a part, in points of the baseline's time, to be named."""
LONGEST = 80
NAMED = 8
"""Maximum kernels named in a note."""
_BUILD = {"compiler": "compiler", "flags": "flags", "spilled bytes": "spill_B"}
_RESOURCES = {"registers": "registers", "static shared memory": "smem_static_B", "shared memory": "smem_dynamic_B"}
_RUN_SD = 0.1
"""Deviation, in points, that all launches of a process share in any part; from
``benchmarks.gate.proof``, like those between launches and between GPUs, which ``Part``
holds."""
RulesByMetric = Mapping[str, tuple[GateRule, ...]]


def judge_reports(
    reports: Sequence[Report],
    failures: Sequence[ReportFailure],
    baselines: Sequence[Baseline],
    options: CheckOptions,
    *,
    errors: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    judged: bool = False,
    by_nvtx: bool = True,
) -> GateResult:
    """The verdict on all launches of ``reports`` whose kernel matches ``options.kernel``.

    ``failures`` are reports that could not be read, ``errors`` (file, message) of other inputs;
    ``judged``: other kernels have verdicts already. Without ``by_nvtx``, launches in different NVTX
    ranges are repeats of each other.
    """
    unread = [(str(failure.path), failure.error.message) for failure in failures]
    groups, own = collect(reports, by_nvtx=by_nvtx, kernel=options.kernel)
    empty = [] if groups or judged else [_nothing(reports, options.kernel)]
    return check(groups, baselines, options, [*unread, *errors], [*notes, *own, *empty])


def _nothing(reports: Sequence[Report], kernel: str) -> str:
    """Why there is nothing to judge: no launch, or none that the filter takes, with the kernels
    that there are."""
    if not kernel:
        return "no launch was found" if reports else "no report was found"
    names = list(dict.fromkeys(group.key.label for group in collect(reports)[0]))
    there = f"available: {'; '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''}" if names else "there is none"
    return f"no kernel matches --kernel '{kernel}'; {there}"


def check(
    groups: Sequence[Repeats],
    baselines: Sequence[Baseline],
    options: CheckOptions,
    errors: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> GateResult:
    """Check ``groups`` against ``baselines``. ``errors`` are (file, message) of inputs that could
    not be read."""
    kernels, unrecorded, used = [], [], set()
    for group in groups:
        baseline, differs = _match(group, groups, baselines, options.exact)
        if baseline is not None:
            used.add(id(baseline))
        if group.suspicious and not options.allow_suspicious:
            launches = f"{len(group.suspicious)} of {group.launches} launches"
            reason = (
                f"nothing is judged, because {launches} have suspicious values: {REMEDY}, or accept them "
                "with --setting allow_suspicious=true"
            )
            kernels.append(replace(KernelVerdict.of_group(group, baseline), reason=reason))
        elif baseline is not None:
            kernels.append(check_kernel(group, baseline, options, differs))
        elif options.allow_new and not _elsewhere(group, baselines):
            unrecorded.append(group.key.label)
            kernels += _by_rules_alone(group, options)
        else:
            kernels.append(_without_baseline(group, baselines, options, bool(errors)))
    keys = [*(group.key for group in groups), *(baseline.key for baseline in baselines)]
    unused = options.rules.unused([name for key in keys for name in (key.label, key.kernel)])
    lost = [f"no kernel matches '{match}', so its limits apply to none. Was the kernel renamed?" for match in unused]
    if options.require_all:
        errors = [*errors, *(("limits", text) for text in lost)]
    else:
        notes = [*notes, *(f"warning: {text}" for text in lost)]
    missing = [baseline for baseline in _missing(groups, baselines, options) if id(baseline) not in used]
    unmeasured: tuple[str, ...] = ()
    if options.require_all or not options.exact:
        reason = "no launch of this kernel in the given runs: it was not profiled, was renamed, or has other parameters"
        kernels += [
            KernelVerdict(item.key.label, item.device.name, "nothing_measured", reason, item) for item in missing
        ]
    else:
        unmeasured = tuple(baseline.key.label for baseline in missing)
    what = "accepted although suspicious" if options.allow_suspicious else "suspicious"
    judged = tuple(
        replace(kernel, suspicions=tuple(f"{what}: {text}" for text in listed(kernel.suspicious))) for kernel in kernels
    )
    return GateResult(judged, tuple(errors), unmeasured, tuple(unrecorded), tuple(notes))


def _missing(groups: Sequence[Repeats], baselines: Sequence[Baseline], options: CheckOptions) -> list[Baseline]:
    """Baselines of the GPUs that ran (of one file: of any) whose kernels were to be measured."""
    devices, measured = {group.device for group in groups}, {group.key.canonical for group in groups}
    chosen = re.compile(options.kernel)
    return [
        baseline
        for baseline in baselines
        if (baseline.device.name in devices if options.exact else baseline.key.canonical not in measured)
        and (chosen.search(baseline.key.label) or chosen.search(baseline.key.kernel))
    ]


def _match(
    group: Repeats, groups: Sequence[Repeats], baselines: Sequence[Baseline], exact: bool
) -> tuple[Baseline | None, str]:
    """The baseline for ``group`` and, if its key differs, how."""
    here = [baseline for baseline in baselines if baseline.device.name == group.device]
    for baseline in here:
        if baseline.key.canonical == group.key.canonical:
            return baseline, ""
    similar = [baseline for baseline in here if baseline.key.kernel == group.key.kernel]
    if exact or len(similar) != 1:
        return None, ""
    target = similar[0]
    taken = any(other.key.canonical == target.key.canonical and other.device == target.device.name for other in groups)
    return (None, "") if taken else (target, f"compared with {target.key.label}, the only baseline with that name")


def _elsewhere(group: Repeats, baselines: Sequence[Baseline]) -> list[Baseline]:
    return [baseline for baseline in baselines if baseline.key.canonical == group.key.canonical]


def _absolute_rules(group: Repeats, options: CheckOptions) -> tuple[RuleVerdict, ...]:
    """Verdicts by the rules that need no baseline."""
    rules = _all(options.rules.of(group.key.label, group.key.kernel))
    return tuple(_check_absolute(rule, group, None) for rule in rules if rule.absolute)


def _by_rules_alone(group: Repeats, options: CheckOptions) -> list[KernelVerdict]:
    """The verdict on a kernel that is allowed to have no baseline, if there are rules that need
    none."""
    verdicts = _absolute_rules(group, options)
    if not verdicts:
        return []
    worst = min((rule.verdict for rule in verdicts), key=rank_of)
    reason = "; ".join(rule.reason for rule in verdicts if rule.reason)
    return [replace(KernelVerdict.of_group(group), verdict=worst, reason=reason, rules=verdicts)]


def _without_baseline(
    group: Repeats, baselines: Sequence[Baseline], options: CheckOptions, unread: bool
) -> KernelVerdict:
    others = sorted({baseline.device.name for baseline in _elsewhere(group, baselines)})
    if others:
        here = group.device or "an unnamed GPU"
        reason = f"different GPU: the baseline is from {', '.join(others)}, the launches ran on {here}"
    else:
        near = [item for item in baselines if item.key.kernel == group.key.kernel and item.device.name == group.device]
        reason = UNREAD if unread else f"{NO_BASELINE}; record one with `ncubble baseline`"
        if near:
            place = near[0].path or near[0].place
            reason += f", or compare with a similar one by `--baseline {place}` ({near[0].key.label})"
    verdicts = _absolute_rules(group, options)
    failed = [rule.reason for rule in verdicts if rule.verdict == "limit_broken"]
    verdict = "limit_broken" if failed else "not_comparable"
    return replace(KernelVerdict.of_group(group), verdict=verdict, reason="; ".join([*failed, reason]), rules=verdicts)


def check_kernel(group: Repeats, baseline: Baseline, options: CheckOptions, differs: str = "") -> KernelVerdict:
    """The verdict on ``group``. ``differs`` says how its key differs from the baseline's, if it
    does."""
    if reason := _refusal(group, baseline):
        return replace(KernelVerdict.of_group(group, baseline), reason=reason)
    own = {report.get("key") for report in baseline.reports} - {None, ""}
    known = {index for index, run in enumerate(group.run_of) if run in own or baseline.holds(group, index)}
    if len(known) == group.launches:
        reason = "nothing new was measured: the baseline was recorded from these launches"
        return replace(KernelVerdict.of_group(group, baseline), verdict="nothing_measured", reason=reason)
    if known:
        group = group.only([index for index in range(group.launches) if index not in known])
        launches = "1 launch is" if len(known) == 1 else f"{len(known)} launches are"
        left = f"{launches} left out, because the baseline was recorded from them"
        differs = f"{differs}; {left}" if differs else left
    empty = KernelVerdict.of_group(group, baseline)
    rules = options.rules.of(group.key.label, group.key.kernel)
    metrics = tuple(_check_metric(name, group, baseline, rules, options.same_gpu) for name in baseline.metrics)
    beside = (rule for rule in _all(rules) if rule.kind != "off")
    by_rules = tuple(
        _check_rule(rule, group, baseline, options.same_gpu)
        for rule in beside
        if rule.kind != "relative" or rule.metric not in baseline.metrics
    )
    decisive: list[MetricVerdict | RuleVerdict] = [metric for metric in metrics if metric.verdict != "info"]
    decisive += by_rules
    verdict = min((item.verdict for item in decisive), key=rank_of, default="nothing_measured")
    reason = "; ".join(item.reason for item in decisive if item.reason)
    notes = [*([differs] if differs else []), *_notes(group, baseline, metrics)]
    notes += [rule.note for rule in by_rules if rule.note]
    failed = verdict in FAILED
    return replace(
        empty,
        verdict=verdict,
        reason=reason or ("" if decisive else "the baseline gates no metric"),
        metrics=metrics,
        notes=(*notes, *(_of_cause(group, baseline) if failed else ())),
        rules=by_rules,
        moved=_moved(group, baseline) if failed else (),
    )


def _refusal(group: Repeats, baseline: Baseline) -> str:
    """Why the two must not be compared at all, or nothing."""
    theirs, *ours = (re.findall(r"\d+", version)[:1] for version in (baseline.ncu_version, *group.ncu_versions))
    if theirs and any(major and major != theirs for major in ours):
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


def _clock_change_pct(group: Repeats, baseline: Baseline) -> float | None:
    before = baseline.sm_clock_hz.get("mean", 0.0)
    if before <= 0 or not group.clocks_hz:
        return None
    return float((fmean(group.clocks_hz) / before - 1) * 100)


def _check_metric(name: str, group: Repeats, baseline: Baseline, rules: RulesByMetric, same_gpu: bool) -> MetricVerdict:
    before, known = baseline.metrics[name], BY_NAME.get(name)
    defined = (before.unit, before.better)
    if known is None or before.counter not in known.counters or defined != (known.unit, known.better):
        reason = f"{name} is defined differently here than in the baseline ({before.counter})"
        return MetricVerdict(name, before, (), "not_comparable" if before.gated else "info", 0.0, reason)
    wanted = relative_pct(known, rules)
    required = not known.gated and any(rule.kind == "relative" for rule in rules.get(name, ()))
    gated = wanted is not None and (before.gated or required)
    limit = known.limit_pct if wanted is None else wanted
    now = group.sample(known, before.counter)

    def verdict(decided: str, reason: str = "", test: NoiseTest | None = None) -> MetricVerdict:
        return MetricVerdict(name, before, now.values, decided if gated else "info", limit, reason, test)

    if not now.values:
        return verdict("nothing_measured", _why_unmeasured(name, known, before, group))
    if gated and (lacking := _lacking(name, before.counter, now, group)):
        return verdict("not_comparable", lacking)
    result = _compared(name, baseline, now, known, limit, same_gpu)
    if gated and result is None:
        reason = f"{name}: the baseline's {len(before.measured)} values do not allow a comparison; record it again"
        return verdict("not_comparable", reason)
    if not gated or result is None:
        clock = _clock_change_pct(group, baseline)
        if name == "duration_ns" and clock is not None and abs(clock) > CLOCK_TOLERANCE_PCT:
            return verdict("info", f"not comparable: the SM clock differs by {clock:+.1f} %")
        return verdict("info", "", result)
    if result.outcome == "inconclusive":
        return verdict("not_comparable", _inconclusive(name, result, len(now.values), limit), result)
    return verdict(result.outcome, "", result)


def _lacking(name: str, counter: str, now: Sample, group: Repeats) -> str:
    """What is wrong where a report holds a metric for some of its launches alone: it is damaged.
    Reports that were profiled without the metric may stand beside others."""
    measured, launched = Counter(now.runs), Counter(group.run_of)
    lacking = sum(launched[run] - number for run, number in measured.items())
    return f"{name}: {lacking} of {group.launches} launches lack {counter}, while others have it" if lacking else ""


def _compared(
    name: str, baseline: Baseline, now: Sample, known: GateMetric, limit: float, same_gpu: bool
) -> NoiseTest | None:
    """The test; None where the metric has no direction, or the baseline too few values for one."""
    before = baseline.sample(name)
    if known.better == "neutral" or len(before.values) < 2 or not mean_sd(before.values)[0] > 0:
        return None
    if one_gpu(before.gpus, now.gpus, same_gpu):
        before, now = replace(before, gpus=()), replace(now, gpus=())
    return known.compare(before, now, limit)


def _inconclusive(name: str, result: NoiseTest, launches: int, limit: float) -> str:
    changed = f"{name} changed by {result.change_pct:+.2f} %"
    if launches == 1 and result.noisy:
        return f"{changed}, but one launch of such a noisy kernel is inconclusive: profile with --count 5"
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
    if other := group.counter(known):
        return f"{name}: different definition: the baseline has {before.counter}, the launches only {other}"
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
        notes.append("the machine code is the same as the baseline's: only noise, machine and data can differ")
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
    return cut(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value), LONGEST)


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
            other = " (GPU not named: same_gpu = true?)" if unknown else " on another GPU of this model"
        notes.append(
            f"weak: with {len(metric.baseline.measured)} + {len(metric.now)} repeats{other} a loss of {metric.name} "
            f"below {result.detectable_pct:.1f} % may go undetected"
        )
    return notes


def cycles_of(group: Repeats, baseline: Baseline) -> tuple[float, float] | None:
    """Mean cycles of now and of the baseline, of the same counter; None where one of them was not
    measured."""
    before = baseline.metrics.get("cycles")
    now = group.measured(BY_NAME["cycles"], before.counter) if before else []
    return (fmean(now), fmean(before.measured)) if before and now else None


def one_gpu(before: Iterable[str], now: Iterable[str], assumed: bool) -> bool:
    """Whether launches on these GPUs (UUIDs, empty where unknown) ran on one: all are named the
    same, or what is not named is ``said`` to be."""
    gpus = {*before, *now}
    return len(gpus - {""}) <= 1 and (assumed or "" not in gpus)


def _all(rules: RulesByMetric) -> Iterable[GateRule]:
    return (rule for of_metric in rules.values() for rule in of_metric)


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
    counter = before.counter if before else group.counter(known)
    now = group.sample(known, counter)
    if lacking := _lacking(rule.metric, counter, now, group):
        return RuleVerdict(rule, "not_comparable", lacking)
    return check_absolute(rule, now, known.cv_pct / 100 * abs(fmean(now.values)) if now.values else None)


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
