"""Verdicts in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ncubble.analysis.account.parts import WORK, part_label
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.text.values import NOT_COLLECTED, duration, location, number, percent


def doubts(verdict: Mapping[str, Any]) -> list[str]:
    """What contradicts itself in a launch, in sentences; empty where nothing does."""
    return [str(text) for text in verdict.get("warnings") or [] if str(text).startswith("suspicious:")]


def biggest_bubble(account: Mapping[str, Any] | None) -> tuple[str, float] | None:
    """Name and percent of the largest part that is not work, or None where nothing is accounted
    for."""
    bubbles = [(name, number(value)) for name, value in (account or {}).items() if name not in WORK]
    known = [(name, value) for name, value in bubbles if value is not None and value > 0]
    return max(known, key=lambda item: item[1], default=None)


def bubble_pct(account: Mapping[str, Any] | None) -> float | None:
    """Percent of elapsed time in which the counted unit is idle (100 minus the work), or None
    without an account."""
    values = {name: number(value) for name, value in (account or {}).items()}
    if not values or any(value is None for value in values.values()):
        return None
    return sum(value for name, value in values.items() if value is not None and name not in WORK)


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


def unit_words(unit: Any) -> str:
    """The unit that the account is about, in words; an unknown one as it is, ``busiest unit``
    without one."""
    return _UNITS.get(str(unit), str(unit)) if unit else "busiest unit"


def unit_short(unit: Any) -> str:
    """The unit in one word, for a table: ``FMA`` of ``FMA pipe``; empty without one."""
    return unit_words(unit).removesuffix(" pipe") if unit else ""


def _busy_words(verdict: Mapping[str, Any]) -> str:
    """What the counted unit does, and for how long."""
    account = verdict.get("account") or {}
    took = duration(verdict.get("duration_ns"))
    span = f"of {took}" if took != NOT_COLLECTED else "of the kernel's time"
    if number(account.get("tensor_busy")):
        return f"The tensor pipe is busy {percent(account['tensor_busy'])} {span}"
    if number(account.get("unit_busy")):
        share = percent(account["unit_busy"])
        article = "" if verdict.get("unit") in ("dram", "l2") else "the "
        return f"No tensor work; {article}{unit_words(verdict.get('unit'))} is busy {share} {span}"
    return f"How busy its units were was not collected (kernel time: {took})"


def _hottest(cause: Mapping[str, Any]) -> str:
    """Where a cause has most of its samples: a line, and a second one that is not far behind; else
    an instruction."""
    places = list(cause.get("where") or [])[:2]
    if not places:
        return ""
    named = [at for place in places if (at := location(place.get("file"), place.get("line")))]
    if not named:
        return f", hottest instruction {places[0]['sass']}" if places[0].get("sass") else ""
    shares = [number(place.get("pct")) or 0.0 for place in places]
    close = len(named) == 2 and shares[1] >= 0.5 * shares[0]
    return f", hottest at {named[0]} and {named[1]}" if close else f", hottest at {named[0]}"


def _cost(cause: Mapping[str, Any]) -> str:
    """``data wait (single buffer), 32.2 % of kernel time, hottest at gemm.cu:126``."""
    name, disease, share = part_label(str(cause.get("cause"))), cause.get("disease"), number(cause.get("pct"))
    tail = f" ({disease_words(disease)})" if disease else ""
    return f"{name}{tail}{f', {percent(share)} of kernel time' if share is not None else ''}{_hottest(cause)}"


def sentence(verdict: Mapping[str, Any]) -> str:
    """The verdict of a launch in words: how busy, what is lost most and where, and on what it
    rests."""
    cause, busy = str(verdict.get("cause") or "unknown"), _busy_words(verdict)
    causes = list(verdict.get("causes") or [])
    if cause == "none":
        return f"{busy}: saturated, nothing to gain here."
    if cause == "memory_bound":
        roof = "" if verdict.get("unit") == "dram" else f" (DRAM at {percent(verdict.get('dram_pct'))} of its peak)"
        return f"{busy}: memory-bound{roof}, which is not a bubble."
    if cause == "no_tensor_work":
        return f"{busy}. Its largest bubble is {_cost(causes[0])}." if causes else f"{busy}."
    if cause == "slow_path":
        return f"{busy}, on the slow MMA path, which reaches two thirds of what wgmma does."
    if cause == "tiny_launch":
        return f"{busy}: so short a launch that its latency dominates."
    if cause == "unknown":
        return f"{busy}. {_unknown(verdict)}"
    found = next((one for one in causes if one.get("cause") == cause), {"cause": cause, **_disease(verdict)})
    return f"{busy}; the cause to remove first is {_cost(found)}."


def _disease(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {"disease": verdict.get("disease")}


def _unknown(verdict: Mapping[str, Any]) -> str:
    largest = biggest_bubble(verdict.get("account"))
    if largest is None:
        return "The report lacks the counters that would name a cause."
    return (
        f"The largest share of idle time is {part_label(largest[0])}, {percent(largest[1])}; "
        "the report lacks the counters that would name its cause."
    )
