"""Verdicts in words, and what an ablation says beside them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ncubble.analysis.ablation.result import LEAST_CAUSE_PCT, Ablation, MeasuredPart
from ncubble.analysis.account.parts import OUTCOMES, PARTS, WORK, part_label
from ncubble.analysis.changes.change import BYTES, KINDS, MEASURED, NONE, TOLD_WHOLE, Change
from ncubble.analysis.diagnosis.verdict import MERGE, UNKNOWN, LaunchVerdict, Place
from ncubble.text.values import NOT_COLLECTED, duration, fixed, location, percent

NEGLIGIBLE_PCT = 1.0
"""A part of less is not named as the loss."""
SURE = 2.0
"""Standard errors by which two parts must differ to count as different."""
CATALOG = "ncubble.kernels"
"""Module that launches kernels of the catalog and your own."""
SATURATED_PCT = 90.0
"""Busy share from which on a unit counts as saturated."""


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
    """Idle time of the counted unit in ns: duration times bubble share; 0.0 where DRAM or the unit
    is full and no change gains, None where account or duration is not collected."""
    took, idle = verdict.duration_ns, bubble_pct(verdict.account)
    if verdict.cause == BYTES or (verdict.cause == NONE and _saturated(verdict)):
        return 0.0
    return None if took is None or idle is None else round(took * idle / 100.0, 1)


_UNITS = {
    "tensor": "tensor pipe",
    "dram": "DRAM",
    "l2": "L2",
    "lsu": "LSU",
    "l1tex": "L1TEX",
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
        article = "" if verdict.unit in ("dram", "l2", "l1tex") else "the "
        return f"No tensor work; {article}{unit_words(verdict.unit)} is busy {percent(account['unit_busy'])} {span}"
    return f"The utilization of its units was not collected (kernel time: {took})"


def _saturated(verdict: LaunchVerdict) -> bool:
    return 100.0 - (100.0 if (idle := bubble_pct(verdict.account)) is None else idle) >= SATURATED_PCT


def _hottest(places: Sequence[Place]) -> str:
    """Where a cause has most of its samples: a line, and a second one that is not far behind; else
    an instruction."""
    places = places[:2]
    named = [at for place in places if (at := location(place.file, place.line))]
    if not named:
        return f", hottest instruction {places[0].sass}" if places and places[0].sass else ""
    close = len(named) == 2 and places[1].pct >= 0.5 * places[0].pct
    return f", hottest at {named[0]} and {named[1]}" if close else f", hottest at {named[0]}"


def cause_words(verdict: LaunchVerdict) -> str:
    """``data wait``; where no change is known, ``saturated`` if the unit is full, and ``launch
    latency`` of a launch that is too short for one."""
    if verdict.cause == NONE and _saturated(verdict):
        return "saturated"
    if verdict.cause == NONE and verdict.changes and verdict.changes[0].text == MERGE:
        return "launch latency"
    return part_label(verdict.cause, unit_words(verdict.unit))


def kind_words(verdict: LaunchVerdict) -> str:
    """The kind of the first change in words; empty where that is none, or the cause says it."""
    return "" if verdict.change in (NONE, BYTES, UNKNOWN, "path") else KINDS.get(verdict.change, verdict.change)


def change_words(change: Change) -> str:
    """``use num_stages=3 instead of 2: saves about 26 % of the time (3 to 34)``."""
    if change.blocked:
        return f"{change.text}: would save about {change.gain_pct or 0.0:.0f} %, but {change.blocked}"
    if change.kind == NONE or change.gain_pct is None:
        return change.text
    if change.basis == MEASURED:
        return f"{change.text}: saves {change.gain_pct:.1f} % of the time, measured"
    known = change.low is not None and change.high is not None
    interval = f" ({round(change.low or 0)} to {round(change.high or 0)})" if known else ""
    return f"{change.text}: saves about {change.gain_pct:.0f} % of the time{interval}"


def try_command(verdict: LaunchVerdict, argv: Sequence[str]) -> str:
    """The command that makes changes of a launch, which the program ``argv`` made, and times them;
    empty for other programs than of the catalog and in Triton: what varies and builds them is not
    known."""
    if CATALOG in argv[:4]:
        name, *rest = argv[argv.index(CATALOG) + 1 :]
        given = [word for flag, value in pairwise(rest) if flag == "-p" for word in (flag, value)]
        return shlex.join(["ncubble", "try", name, *given])
    triton = verdict.kernel.isidentifier() and any(
        (place.file or "").endswith(".py") for some in verdict.where.values() for place in some
    )
    # A manifest has ~ for the home directory, which no shell expands within quotes.
    words = [f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word) for word in argv]
    return f"ncubble try --kernel '^{verdict.kernel}$' -- {' '.join(words) or 'CMD'}" if triton else ""


def sentence(verdict: LaunchVerdict) -> str:
    """The verdict of a launch in words: how busy, and what the first change acts on and where."""
    busy, largest = _busy_words(verdict), biggest_bubble(verdict.account)
    if verdict.first and _acts_on_work(verdict):
        return f"{busy}; {verdict.first.text}."
    match verdict.cause:
        case "none":
            known = "saturated" if _saturated(verdict) else verdict.changes[0].text
            return f"{busy}{':' if known == 'saturated' else ';'} {known}."
        case "bytes":
            roof = "" if verdict.unit == "dram" else f" (DRAM at {percent(verdict.dram_pct)} of its peak)"
            return f"{busy}: memory-bound{roof}, which is not a bubble."
        case "no_tensor_work":
            return f"{busy}. Its largest bubble is {_cost(largest[0], verdict)}." if largest else f"{busy}."
        case "slow_path":
            return f"{busy}, on the slow MMA path."
        case "unknown":
            return f"{busy}. {_unknown(largest)}"
    return f"{busy}; the loss to look at first is {_cost(verdict.cause, verdict)}."


def _acts_on_work(verdict: LaunchVerdict) -> bool:
    """Whether the first change acts on what a unit does, or on the whole kernel, rather than on
    idle time."""
    if verdict.cause in WORK or verdict.change in TOLD_WHOLE:
        return True
    pct = verdict.pct_of(verdict.cause)
    return verdict.cause in PARTS and pct is not None and pct < NEGLIGIBLE_PCT


def _cost(part: str, verdict: LaunchVerdict) -> str:
    """``data wait, 32.2 % of kernel time, hottest at gemm.cu:126``."""
    own = part == verdict.cause
    pct, places = (
        (verdict.cause_pct, verdict.places) if own else ((verdict.account or {}).get(part), verdict.where.get(part, []))
    )
    how = "measured " if own and part in verdict.measured else ""
    costs = "" if pct is None else f", {how}{percent(pct)} of kernel time"
    return f"{part_label(part)}{costs}{_hottest(places)}"


def _unknown(largest: tuple[str, float] | None) -> str:
    lacks = "report lacks the counters to say what to change."
    if largest is None:
        return f"The {lacks}"
    if largest[0] == "idle":
        return f"{percent(largest[1])} of the time is idle; the {lacks}"
    share = f"The largest share of idle time is {part_label(largest[0])}, {percent(largest[1])}"
    return f"{share}; nothing in the report says what would shorten it."


def without_change(verdict: LaunchVerdict) -> str:
    """What to do where no change is known: collect what is lacking, or measure what parts cost."""
    largest, _ = biggest_bubble(verdict.account) or ("idle", 0.0)
    return OUTCOMES[UNKNOWN].fix if largest == "idle" else "measure what its parts cost: ncubble ablate"


def measured_sentence(verdict: LaunchVerdict, ablation: Ablation) -> str:
    """How it was measured, and the ``finding``."""
    doubt = "; the replay's results differ from the program's" if ablation.faithful is False else ""
    how = f"Measured by ablation ({ablation.route}, {ablation.rounds} rounds{doubt})"
    return f"{how}: {finding(verdict, ablation)}"


def finding(verdict: LaunchVerdict, ablation: Ablation) -> str:
    """Which removed part costs most, and whether the estimate says so, too."""
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
    """Whether another part costs most by measurement than by the estimate."""
    first, own = ablation.first_cause, ablation.part_of(_estimated(verdict))
    return first is not None and own is not None and own != first and _apart(first, own)


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
    """The largest part of the account that can be removed; empty without one."""
    removable = {name: pct for name, pct in (verdict.account or {}).items() if name in PARTS and PARTS[name].fix}
    return max(removable, key=lambda name: removable[name], default="")


def _apart(first: MeasuredPart, other: MeasuredPart) -> bool:
    noise = math.hypot(*(part.se for part in (first, other) if part.se is not None))
    return first.measured - other.measured > SURE * noise
