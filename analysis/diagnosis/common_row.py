"""Rows of launches as one row: what is summed, what is averaged by time, and whose cause it has.

Rows are those of the dashboard's table; the rules are those of ``groups``, which ``ncubble report``
follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ncubble.analysis.account.parts import display_order, part_label
from ncubble.analysis.diagnosis.groups import UNJUDGED, common_account, main_cause, weighted_mean
from ncubble.analysis.diagnosis.words import biggest_bubble

Row = Mapping[str, Any]
SUMS = ("duration_ns", "recoverable_ns", "cycles")
MEANS = ("busy", "tensor", "dram", "occupancy", "clock_ghz", "tflops", "dram_gbs")
"""Averaged by time: rates and shares of time."""
TYPICAL = ("cause", "cause_key", "disease", "at")
"""Taken from the typical launch: the longest one with the main cause."""
MEASURED = " (measured)"


def common_row(rows: Sequence[Row]) -> dict[str, Any]:
    """All of ``rows``, at least two, as one, with ``count``, and ``judged``, the launches whose
    cause is known.

    ``several`` names the fields whose values differ and are neither summed nor averaged: they are
    None. ``cause_pct`` is the mean of the launches with that cause.
    """
    times = [row["duration_ns"] or 0.0 for row in rows]
    causes = [_cause(row) for row in rows]
    cause = main_cause(causes, times)
    alike = [row for row, its in zip(rows, causes, strict=True) if its == cause]
    typical = max(alike, key=lambda row: row["duration_ns"] or 0.0)
    account = common_account([dict(row["measured"] or row["account"]) for row in rows], times)
    bubble = biggest_bubble(account)
    shares = [(name, round((account or {})[name], 4)) for name in display_order(account or {})]
    known: dict[str, Any] = {name: _sum([row.get(name) for row in rows]) for name in SUMS}
    known |= {name: _rounded(weighted_mean([row.get(name) for row in rows], times)) for name in MEANS}
    known |= {name: typical.get(name) for name in TYPICAL}
    known |= {
        "cause_pct": _rounded(
            weighted_mean([row["cause_pct"] for row in alike], [row["duration_ns"] or 0.0 for row in alike])
        ),
        "account": shares,
        "measured": shares if all(row["measured"] for row in rows) else None,
        "bubble": part_label(bubble[0]) if bubble else None,
        "bubble_key": bubble[0] if bubble else None,
        "bubble_pct": _rounded(bubble[1]) if bubble else None,
        "count": len(rows),
        "judged": sum(its != UNJUDGED for its in causes),
        "parameters": _shared([row.get("parameters") or {} for row in rows]),
        "dims": _shared([row.get("dims") or {} for row in rows]),
    }
    first = rows[0]
    beside = [name for name in first if name not in known and name != "id"]
    several = [name for name in beside if any(row.get(name) != first[name] for row in rows)]
    return {**{name: None if name in several else first[name] for name in beside}, **known, "several": several}


def _cause(row: Row) -> str:
    return str(row["cause"]).removesuffix(MEASURED)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _shared(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all have, with the same value."""
    first = given[0]
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in given)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
