"""The check: repeats of now against recorded baselines, one verdict per kernel and metric. The
rules of the verdicts are in ``check.result``, the statistics in ``noise``. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.baseline.suspicion import REMEDY, listed
from ncubble.analysis.gate.check.kernel import check_kernel
from ncubble.analysis.gate.check.kernel_rules import check_absolute_rules
from ncubble.analysis.gate.check.result import (
    NO_BASELINE,
    RANKS,
    UNREAD,
    CheckOptions,
    GateResult,
    KernelVerdict,
)


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
            kernels.append(_not_judged(group, baseline))
        elif baseline is not None:
            kernels.append(check_kernel(group, baseline, options, differs))
        elif options.allow_new and not _elsewhere(group, baselines):
            unrecorded.append(group.key.label)
            kernels += _by_rules_alone(group, options)
        else:
            kernels.append(_without_baseline(group, baselines, options, bool(errors)))
    keys = [*(group.key for group in groups), *(baseline.key for baseline in baselines)]
    unused = options.rules.unused([key.label for key in keys], [key.kernel for key in keys])
    lost = [f"no kernel matches '{match}', so its limits apply to none. Was the kernel renamed?" for match in unused]
    if options.require_all:
        errors = [*errors, *(("limits", text) for text in lost)]
    else:
        notes = [*notes, *(f"warning: {text}" for text in lost)]
    missing = [baseline for baseline in _missing(groups, baselines, options) if id(baseline) not in used]
    strict = options.require_all or not options.exact
    if strict:
        kernels += [_without_launches(baseline) for baseline in missing]
    unmeasured = () if strict else tuple(baseline.key.label for baseline in missing)
    kernels = [_with_suspicions(kernel, options) for kernel in kernels]
    return GateResult(tuple(kernels), tuple(errors), unmeasured, tuple(unrecorded), tuple(notes))


def _not_judged(group: Repeats, baseline: Baseline | None) -> KernelVerdict:
    """The verdict on a kernel with launches whose values contradict each other."""
    launches = f"{len(group.suspicious)} of {group.launches} launches"
    reason = (
        f"nothing is judged, because {launches} have suspicious values: {REMEDY}, or accept them "
        "with --allow-suspicious"
    )
    return replace(KernelVerdict.of_group(group, baseline), reason=reason)


def _with_suspicions(kernel: KernelVerdict, options: CheckOptions) -> KernelVerdict:
    """``kernel`` with a text for each suspicious launch."""
    what = "accepted although suspicious" if options.allow_suspicious else "suspicious"
    return replace(kernel, suspicions=tuple(f"{what}: {text}" for text in listed(kernel.suspicious)))


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


def _by_rules_alone(group: Repeats, options: CheckOptions) -> list[KernelVerdict]:
    """The verdict on a kernel that is allowed to have no baseline, if there are rules that need
    none."""
    verdicts = check_absolute_rules(options.rules.of(group.key.label, group.key.kernel), group)
    if not verdicts:
        return []
    worst = next(rank for rank in RANKS if any(rule.verdict == rank for rule in verdicts))
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
        reason = UNREAD if unread else f"{NO_BASELINE}; record one with `ncubble baseline record`"
        if near:
            place = near[0].path or near[0].place
            reason += f", or compare with a similar one by `--baseline {place}` ({near[0].key.label})"
    verdicts = check_absolute_rules(options.rules.of(group.key.label, group.key.kernel), group)
    failed = [rule.reason for rule in verdicts if rule.verdict == "regressed"]
    verdict = "regressed" if failed else "not_comparable"
    return replace(KernelVerdict.of_group(group), verdict=verdict, reason="; ".join([*failed, reason]), rules=verdicts)


def _without_launches(baseline: Baseline) -> KernelVerdict:
    reason = "no launch of this kernel in the given runs: it was not profiled, was renamed, or has other parameters"
    return KernelVerdict(baseline.key.label, baseline.device.name, "nothing_measured", reason, baseline)
