"""A depth that was predicted, as other launches of the same kernel measured it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from ncubble.text.values import fixed

Row = Mapping[str, Any]
STAGES = "stages"


def measured_depth(now: Row, others: Iterable[Row], depth: int) -> str:
    """What launches with ``depth`` stages, alike in kernel, GPU, problem and all other parameters,
    took against ``now``, in cycles, in time and in clock; empty where there is none.

    Rows are those of the dashboard; of several launches the median counts.
    """
    alike = [row for row in others if _is(row, now, depth)]
    cycles, time, clock = (_change(now, alike, name) for name in ("cycles", "duration_ns", "clock_ghz"))
    if cycles is None or time is None:
        return ""
    count = f"{len(alike)} recorded launches" if len(alike) > 1 else "A recorded launch"
    reaction = "" if clock is None else f": the SM clock is {_more(clock, 'higher', 'lower')}"
    took = f"{_more(cycles, 'more', 'fewer')} cycles and {_more(time, 'more', 'less')} time"
    return f"{count} with {depth} stages took {took}{reaction}."


def time_change(now: Row, others: Iterable[Row], depth: int) -> float | None:
    """Percent more time that launches with ``depth`` stages took, alike in all else; None where
    there is none."""
    return _change(now, [row for row in others if _is(row, now, depth)], "duration_ns")


def _is(row: Row, now: Row, depth: int) -> bool:
    parameters = {**(now.get("parameters") or {}), STAGES: depth}
    same = all(row.get(name) == now.get(name) for name in ("kernel", "device", "dims"))
    return same and dict(row.get("parameters") or {}) == parameters


def _change(now: Row, rows: Iterable[Row], name: str) -> float | None:
    """Percent by which the median differs."""
    before, known = now.get(name), [row[name] for row in rows if row.get(name)]
    return 100.0 * (median(known) / before - 1.0) if before and known else None


def _more(change: float, more: str, less: str) -> str:
    """``27.1 % fewer``."""
    return f"{fixed(abs(change), 1)} % {more if change > 0.0 else less}"
