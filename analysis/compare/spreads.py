"""Values of one launch over the ranks that ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from ncubble.analysis.account.parts import WORK
from ncubble.text.values import fixed

LEAST_PCT = 2.0
"""Ranks that differ less than this in time count as equally long."""
NEARLY_ALL, HARDLY_ANY = 0.8, 0.2
"""Thresholds for the share of additional cycles that is work."""


@dataclass(frozen=True)
class RankSpread:
    """A value over the ranks that have it; ``min_rank`` and ``max_rank`` are the first ones with
    the extremes."""

    n: int
    min: float
    median: float
    max: float
    min_rank: int
    max_rank: int


def spread_of(values: Mapping[int, float | None]) -> RankSpread | None:
    """How a value lies over ranks; None where no rank holds it."""
    known = {rank: value for rank, value in sorted(values.items()) if value is not None}
    if not known:
        return None
    low, high = min(known, key=lambda rank: known[rank]), max(known, key=lambda rank: known[rank])
    return RankSpread(len(known), known[low], float(median(known.values())), known[high], low, high)


def why_slower(slow: Mapping[str, float | None], fast: Mapping[str, float | None]) -> str:
    """Why one rank takes longer than another, from time, cycles, clock and account of both: a lower
    clock, more work, or more idle time. Empty where they take as long, or cycles are not known.

    Work is the cycles in which the counted unit is busy.
    """
    took, cycles, clock = (_more_pct(slow, fast, name) for name in ("duration_ns", "cycles", "sm_clock_hz"))
    if took is None or cycles is None or took < LEAST_PCT:
        return ""
    slower = f"at an SM clock {fixed(abs(clock), 1)} % {'lower' if clock < 0 else 'higher'}" if clock else ""
    if cycles < LEAST_PCT and cycles < took / 2.0:
        return f"It takes {fixed(took, 1)} % longer for the same number of cycles{', ' if slower else ''}{slower}."
    counted = f"It takes {fixed(took, 1)} % longer: {fixed(cycles, 1)} % more cycles{', ' if slower else ''}{slower}"
    return f"{counted}. {_work(slow, fast)}".rstrip()


def _work(slow: Mapping[str, float | None], fast: Mapping[str, float | None]) -> str:
    """What of the additional cycles is work."""
    busy = [_busy_cycles(values) for values in (slow, fast)]
    if busy[0] is None or busy[1] is None:
        return ""
    extra = (slow["cycles"] or 0.0) - (fast["cycles"] or 0.0)
    share = (busy[0] - busy[1]) / extra
    unit = "tensor pipe" if slow.get("tensor_busy") else "busiest unit"
    if share >= NEARLY_ALL:
        more = 100.0 * (busy[0] / busy[1] - 1.0) if busy[1] else 0.0
        return f"It has more work: its {unit} is busy for {fixed(more, 1)} % more cycles."
    if share <= HARDLY_ANY:
        return f"It has no more work: the additional cycles are idle time of the {unit}."
    return f"{fixed(100.0 * share, 0)} % of the additional cycles are work of the {unit}, the rest is idle time."


def _busy_cycles(values: Mapping[str, float | None]) -> float | None:
    known = [share for name in WORK if (share := values.get(name)) is not None]
    cycles = values.get("cycles")
    return sum(known) / 100.0 * cycles if known and cycles is not None else None


def _more_pct(slow: Mapping[str, float | None], fast: Mapping[str, float | None], name: str) -> float | None:
    above, below = slow.get(name), fast.get(name)
    return 100.0 * (above / below - 1.0) if above is not None and below else None
