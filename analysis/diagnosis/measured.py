"""What an ablation says of the first cause of a launch, in words."""

from __future__ import annotations

import math

from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, Ablation, MeasuredPart
from ncubble.analysis.account.parts import part_label
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.text.values import fixed

SURE = 2.0
"""Standard errors by which two parts differ that are told apart."""


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
    name, largest = measured_words(first), f"is the largest cost, {amount(first)} of the time"
    estimated = _estimated(verdict)
    own = ablation.part_of(estimated)
    if own is None:
        return f"of the removed parts {name} {largest}."
    if own == first:
        return f"{name} {largest}, as estimated."
    if not _apart(first, own):
        return f"{name} {largest}; {measured_words(own)}, first by estimate, is as large within the noise."
    others = [part_label(part) for part in own.names if part != estimated]
    measures = " with ".join([amount(own), *([" and ".join(others)] if others else [])])
    return f"{name} {largest}. The estimate puts {part_label(estimated)} first, which measures {measures}."


def differs(verdict: LaunchVerdict, ablation: Ablation) -> bool:
    """Whether measurement names another first cause than the estimate."""
    first, own = ablation.first_cause, ablation.part_of(_estimated(verdict))
    return first is not None and own is not None and own != first and _apart(first, own)


def measured_words(part: MeasuredPart) -> str:
    """``data wait and copy cost`` of parts that were only measured together."""
    return " and ".join(map(part_label, part.names))


def amount(part: MeasuredPart) -> str:
    """``28.3 ± 0.1 %``."""
    spread = f" ± {fixed(part.se, 1)}" if math.isfinite(part.se) else ""
    return f"{fixed(part.measured, 1)}{spread} %"


def _estimated(verdict: LaunchVerdict) -> str:
    return verdict.causes[0].cause if verdict.causes else verdict.cause


def _apart(first: MeasuredPart, other: MeasuredPart) -> bool:
    noise = math.hypot(*(part.se for part in (first, other) if math.isfinite(part.se)))
    return first.measured - other.measured > SURE * noise
