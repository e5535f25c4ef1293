"""What an ablation says of the causes of a launch, in words and in place of the estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, Ablation, MeasuredPart
from ncubble.analysis.account.parts import part_label
from ncubble.analysis.diagnosis.diseases import fix_of
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict, MeasuredCause
from ncubble.analysis.diagnosis.words import biggest_bubble
from ncubble.text.values import fixed

SURE = 2.0
"""Standard errors by which two parts must differ to count as different."""


def measured_sentence(verdict: LaunchVerdict, ablation: Ablation) -> str:
    """How it was measured, and the ``finding``."""
    doubt = "; the replay's results differ from the program's" if ablation.faithful is False else ""
    how = f"Measured by ablation ({ablation.route}, {ablation.rounds} rounds{doubt})"
    return f"{how}: {finding(verdict, ablation)}"


def finding(verdict: LaunchVerdict, ablation: Ablation) -> str:
    """Which removed part costs most, and whether that is the first cause of the estimate."""
    first = ablation.first_cause
    if first is None:
        return f"no removed part costs {LEAST_CAUSE_PCT:.0f} % of the time."
    name, largest = part_label(first.part), f"is the largest cost, {amount(first)} of the time"
    estimated = _estimated(verdict)
    own = ablation.part_of(estimated)
    if own is None:
        return f"of the removed parts {name} {largest}."
    if own == first:
        return f"{name} {largest}, as estimated."
    if not _apart(first, own):
        return f"{name} {largest}; {part_label(own.part)}, first by estimate, is equally large within the noise."
    others = [part_label(part) for part in own.names if part != estimated]
    measures = " with ".join([amount(own), *([" and ".join(others)] if others else [])])
    return f"{name} {largest}. The estimate puts {part_label(estimated)} first, which measures {measures}."


def differs(verdict: LaunchVerdict, ablation: Ablation) -> bool:
    """Whether measurement names another first cause than the estimate."""
    first, own = ablation.first_cause, ablation.part_of(_estimated(verdict))
    return first is not None and own is not None and own != first and _apart(first, own)


def as_measured(verdict: LaunchVerdict, ablation: Ablation | None) -> LaunchVerdict:
    """The verdict with measured shares of its causes where they were measured, and first the cause
    that measurement puts there. Its account stays the estimate."""
    if ablation is None:
        return verdict
    causes = [_measured(cause, ablation) for cause in verdict.causes]
    if (first := ablation.first_cause) and _leads(first, verdict, ablation):
        known = next((cause for cause in causes if cause.cause == first.part), None)
        causes.insert(0, replace(known or _cause(first, verdict), predicted_gain_pct=None))
    ranked: dict[str, Cause] = {}
    for cause in causes:
        ranked.setdefault(cause.cause, cause)  # joined parts, and the old position of the first
    causes = list(ranked.values())
    if not verdict.causes or verdict.cause != verdict.causes[0].cause:
        return replace(verdict, causes=causes)
    return replace(verdict, causes=causes, cause=causes[0].cause, disease=causes[0].disease)


def _leads(first: MeasuredPart, verdict: LaunchVerdict, ablation: Ablation) -> bool:
    """Whether this part comes before the first cause of the estimate: as it ``differs``, or, where
    that cause was not removed, as it costs more than that is estimated to."""
    if ablation.part_of(_estimated(verdict)) is not None:
        return differs(verdict, ablation)
    return all(first.measured > cause.pct for cause in verdict.causes[:1])


def _measured(cause: Cause, ablation: Ablation) -> Cause:
    part = ablation.part_of(cause.cause)
    if part is None:
        return cause
    return MeasuredCause(part.part, cause.disease, part.measured, cause.where, cause.fix, cause.predicted_gain_pct)


def _cause(part: MeasuredPart, verdict: LaunchVerdict) -> Cause:
    tiled = verdict.unit == "tensor" or verdict.cause == "no_tensor_work"
    return MeasuredCause(part.part, None, part.measured, fix=fix_of(part.names[0], tiled=tiled))


def largest_part(account: Mapping[str, float] | None, ablation: Ablation | None) -> tuple[str, float, bool] | None:
    """Name and percent of the part that costs most beside the work, and whether it was measured:
    parts count as measured where they were, as estimated elsewhere."""
    removed = {part.part: part.measured for part in ablation.removed_parts} if ablation else {}
    names = {name for part in ablation.removed_parts for name in part.names} if ablation else set()
    largest = biggest_bubble({name: pct for name, pct in (account or {}).items() if name not in names} | removed)
    return (*largest, largest[0] in removed) if largest else None


def amount(part: MeasuredPart) -> str:
    """``28.3 ± 0.1 %``."""
    spread = f" ± {fixed(part.se, 1)}" if part.se is not None else ""
    return f"{fixed(part.measured, 1)}{spread} %"


def _estimated(verdict: LaunchVerdict) -> str:
    return verdict.causes[0].cause if verdict.causes else verdict.cause


def _apart(first: MeasuredPart, other: MeasuredPart) -> bool:
    noise = math.hypot(*(part.se for part in (first, other) if part.se is not None))
    return first.measured - other.measured > SURE * noise
