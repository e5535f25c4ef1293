"""The check: repeats of now against recorded baselines, one verdict per kernel and metric. The rules of the
verdicts are in ``gate_result``, the statistics in ``noise``. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.judge.kernel import judge_kernel
from ncubble.analysis.gate.judge.kernel_limits import judge_absolutely
from ncubble.analysis.gate.judge.result import RANKS, CheckOptions, GateResult, KernelVerdict


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
            kernels.append(judge_kernel(group, baseline, options, differs))
        elif options.allow_new and not _elsewhere(group, baselines):
            unrecorded.append(group.key.label)
            kernels += _by_limits_alone(group, options)
        else:
            kernels.append(_without_baseline(group, baselines, options, bool(errors)))
    keys = [*(group.key for group in groups), *(item.key for item in baselines)]
    unused = options.limits.unused([key.label for key in keys], [key.kernel for key in keys])
    lost = [f"no kernel matches '{match}': its limits hold for none. Was it renamed?" for match in unused]
    if options.require_all:
        errors = [*errors, *(("limits", text) for text in lost)]
    else:
        notes = [*notes, *(f"warning: {text}" for text in lost)]
    devices, measured = {group.device for group in groups}, {group.key.canonical for group in groups}
    missing = [item for item in baselines if id(item) not in used and item.device in devices]
    if not options.exact:
        missing = [item for item in baselines if id(item) not in used and item.key.canonical not in measured]
    chosen = re.compile(options.kernel)
    missing = [item for item in missing if chosen.search(item.key.label) or chosen.search(item.key.kernel)]
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
    return (None, "") if taken else (target, f"compared with {target.key.label}, the one baseline of that name")


def _elsewhere(group: Repeats, baselines: Sequence[Baseline]) -> list[Baseline]:
    return [item for item in baselines if item.key.canonical == group.key.canonical]


def _by_limits_alone(group: Repeats, options: CheckOptions) -> list[KernelVerdict]:
    """The verdict on a kernel that is allowed to have no baseline, if there are limits that need none."""
    limits = judge_absolutely(options.limits.of(group.key.label, group.key.kernel), group)
    if not limits:
        return []
    verdict = next(rank for rank in RANKS if any(one.verdict == rank for one in limits))
    reason = "; ".join(one.reason for one in limits if one.reason)
    label, device = group.key.label, group.device
    return [KernelVerdict(label, device, verdict, reason, None, group.launches, repeats=group, limits=limits)]


def _without_baseline(
    group: Repeats, baselines: Sequence[Baseline], options: CheckOptions, unread: bool
) -> KernelVerdict:
    others = sorted({item.device for item in _elsewhere(group, baselines)})
    if others:
        here = group.device or "an unnamed GPU"
        reason = f"different GPU: the baseline is of {', '.join(others)}, the launches ran on {here}"
    else:
        near = [item for item in baselines if item.key.kernel == group.key.kernel and item.device == group.device]
        reason = "no baseline for this kernel; record one with `ncubble baseline record`"
        if unread:
            reason = "no baseline for this kernel among what could be read"
        if near:
            reason += (
                f", or compare with a similar one by `--baseline {near[0].path or near[0].place}` ({near[0].key.label})"
            )
    limits = judge_absolutely(options.limits.of(group.key.label, group.key.kernel), group)
    failed = [one for one in limits if one.verdict == "regressed"]
    reason = "; ".join([*(one.reason for one in failed), reason])
    verdict = "regressed" if failed else "not_comparable"
    return KernelVerdict(
        group.key.label, group.device, verdict, reason, None, group.launches, repeats=group, limits=limits
    )


def _without_launches(baseline: Baseline) -> KernelVerdict:
    reason = "no launch of this kernel in the given runs: it was not profiled, was renamed, or its parameters changed"
    return KernelVerdict(baseline.key.label, baseline.device, "nothing_measured", reason, baseline)
