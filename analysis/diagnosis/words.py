"""Verdicts in words, and what an ablation says of the causes of a launch, in words and in place of
the estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, Ablation, MeasuredPart
from ncubble.analysis.account.parts import GOOD_CAUSES, WORK, part_label
from ncubble.analysis.changes.change import MEASURED, NONE, Change
from ncubble.analysis.diagnosis.diseases import disease_words, fix_of
from ncubble.analysis.diagnosis.measured import within
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict, MeasuredCause
from ncubble.text.values import NOT_COLLECTED, duration, fixed, location, percent

SURE = 2.0
"""Standard errors by which two parts must differ to count as different."""


def named_cause(verdict: LaunchVerdict) -> Cause | None:
    """The cause that a table names: the verdict's, or the first one of a kernel without tensor
    work, whose verdict alone says nothing of it. None where no cause stands behind the verdict."""
    if verdict.cause == "no_tensor_work":
        return verdict.causes[0] if verdict.causes else None
    return next((cause for cause in verdict.causes if cause.cause == verdict.cause), None)


def biggest_bubble(account: Mapping[str, float] | None) -> tuple[str, float] | None:
    """Name and percent of the largest part that is not work, or None where nothing is accounted
    for."""
    bubbles = [(name, pct) for name, pct in (account or {}).items() if name not in WORK and 0 < pct < math.inf]
    return max(bubbles, key=lambda bubble: bubble[1], default=None)


def bubble_pct(account: Mapping[str, float] | None) -> float | None:
    """Percent of elapsed time in which the counted unit is idle (100 minus the work), or None
    without an account."""
    if not account or not all(map(math.isfinite, account.values())):
        return None
    return sum(pct for name, pct in account.items() if name not in WORK)


def recoverable_ns(verdict: LaunchVerdict) -> float | None:
    """Idle time of the counted unit in ns: duration times bubble share; 0.0 where there is nothing
    to gain, None where account or duration is not collected."""
    if verdict.cause in GOOD_CAUSES:
        return 0.0
    took, idle = verdict.duration_ns, bubble_pct(verdict.account)
    return None if took is None or idle is None else round(took * idle / 100.0, 1)


_UNITS = {
    "tensor": "tensor pipe",
    "dram": "DRAM",
    "l2": "L2",
    "lsu": "LSU",
    "fma": "FMA pipe",
    "alu": "ALU",
    "fp64": "FP64 pipe",
    "fp16": "FP16 pipe",
    "xu": "XU",
}


def unit_words(unit: str | None) -> str:
    """The unit that the account is about, in words; an unknown one as it is, ``busiest unit``
    without one."""
    return _UNITS.get(unit, unit) if unit else "busiest unit"


def unit_short(unit: str | None) -> str:
    """The unit in one word, for a table: ``FMA`` of ``FMA pipe``; empty without one."""
    return unit_words(unit).removesuffix(" pipe") if unit else ""


def _busy_words(verdict: LaunchVerdict) -> str:
    """What the counted unit does, and for how long."""
    account = verdict.account or {}
    took = duration(verdict.duration_ns)
    span = f"of {took}" if took != NOT_COLLECTED else "of the kernel's time"
    if account.get("tensor_busy"):
        return f"The tensor pipe is busy {percent(account['tensor_busy'])} {span}"
    if account.get("unit_busy"):
        article = "" if verdict.unit in ("dram", "l2") else "the "
        return f"No tensor work; {article}{unit_words(verdict.unit)} is busy {percent(account['unit_busy'])} {span}"
    return f"The utilization of its units was not collected (kernel time: {took})"


def _hottest(cause: Cause) -> str:
    """Where a cause has most of its samples: a line, and a second one that is not far behind; else
    an instruction."""
    places = cause.where[:2]
    named = [at for place in places if (at := location(place.file, place.line))]
    if not named:
        return f", hottest instruction {places[0].sass}" if places and places[0].sass else ""
    close = len(named) == 2 and places[1].pct >= 0.5 * places[0].pct
    return f", hottest at {named[0]} and {named[1]}" if close else f", hottest at {named[0]}"


def _cost(cause: Cause) -> str:
    """``data wait (single buffer), 32.2 % of kernel time, hottest at gemm.cu:126``."""
    disease = f" ({disease_words(cause.disease)})" if cause.disease else ""
    how = "measured " if cause.measured else ""
    return f"{part_label(cause.cause)}{disease}, {how}{percent(cause.pct)} of kernel time{_hottest(cause)}"


def change_words(change: Change) -> str:
    """``use num_stages=3 instead of 2: saves about 26 % of the time (3 to 34)``."""
    if change.blocked:
        return f"{change.text}: would save about {change.gain_pct or 0.0:.0f} %, but {change.blocked}"
    if change.kind == NONE or change.gain_pct is None:
        return change.text
    if change.basis == MEASURED:
        return f"{change.text}: saves {change.gain_pct:.1f} % of the time, measured"
    interval = f" ({change.low:.0f} to {change.high:.0f})" if change.low is not None and change.high is not None else ""
    return f"{change.text}: saves about {change.gain_pct:.0f} % of the time{interval}"


def sentence(verdict: LaunchVerdict) -> str:
    """The verdict of a launch in words: how busy, what is lost most and where, and on what it
    rests."""
    busy, cause = _busy_words(verdict), named_cause(verdict)
    match verdict.cause:
        case "none":
            return f"{busy}: saturated; {fix_of('none', verdict.disease) if verdict.disease else 'nothing to gain'}."
        case "memory_bound":
            roof = "" if verdict.unit == "dram" else f" (DRAM at {percent(verdict.dram_pct)} of its peak)"
            return f"{busy}: memory-bound{roof}, which is not a bubble."
        case "no_tensor_work":
            return f"{busy}. Its largest bubble is {_cost(cause)}." if cause else f"{busy}."
        case "slow_path":
            return f"{busy}, on the slow MMA path, which reaches two thirds of wgmma's rate."
        case "tiny_launch":
            return f"{busy}: the launch is so short that its latency dominates."
        case "unknown":
            return f"{busy}. {_unknown(verdict)}"
    return f"{busy}; the loss to look at first is {_cost(cause) if cause else part_label(verdict.cause)}."


def _unknown(verdict: LaunchVerdict) -> str:
    largest = biggest_bubble(verdict.account)
    if largest is None:
        return "The report lacks the counters to name a cause."
    return (
        f"The largest share of idle time is {part_label(largest[0])}, {percent(largest[1])}; the "
        "report lacks the counters to name its cause."
    )


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
    verdict = replace(verdict, changes=within(verdict.changes, ablation))
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
