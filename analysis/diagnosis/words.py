"""Verdicts in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ncubble.analysis.account.parts import GOOD_CAUSES, WORK, part_label
from ncubble.analysis.diagnosis.diseases import disease_words, fix_of
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict
from ncubble.text.values import NOT_COLLECTED, duration, location, percent

ALONG_WORDS = "other idle time shrinks with it"
"""Why a cure may save more than its part of the account (``diagnose.gain_of``)."""
ALONG_POINTS = 3.0
"""Points by which it has to save more for that to be said."""


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


def saving(cause: Cause) -> str:
    """What the cure saves, with why that may be more than the cause's own part; empty where it is
    not identified."""
    gain = cause.predicted_gain_pct
    if gain is None:
        return ""
    why = f", as {ALONG_WORDS}" if gain >= cause.pct + ALONG_POINTS else ""
    return f"saves about {gain:.0f} % of the cycles{why}"


def _cost(cause: Cause) -> str:
    """``data wait (single buffer), 32.2 % of kernel time, hottest at gemm.cu:126``."""
    disease = f" ({disease_words(cause.disease)})" if cause.disease else ""
    how = "measured " if cause.measured else ""
    return f"{part_label(cause.cause)}{disease}, {how}{percent(cause.pct)} of kernel time{_hottest(cause)}"


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
    return f"{busy}; the cause to remove first is {_cost(cause) if cause else part_label(verdict.cause)}."


def _unknown(verdict: LaunchVerdict) -> str:
    largest = biggest_bubble(verdict.account)
    if largest is None:
        return "The report lacks the counters to name a cause."
    return (
        f"The largest share of idle time is {part_label(largest[0])}, {percent(largest[1])}; the "
        "report lacks the counters to name its cause."
    )
