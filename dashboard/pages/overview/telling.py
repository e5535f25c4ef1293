"""The second line of a row: what tells it apart from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.report.launch_key import telling_dims
from ncubble.dashboard.ui.components import counted
from ncubble.text.values import duration, fixed

Row = Mapping[str, Any]
MOST_VALUES, MOST_NAMES = 3, 5
"""Values that are named of a parameter, and parameters of a group."""


def launch_words(row: Row) -> str:
    """Parameters or geometry of a launch, and its run where that says more."""
    label, run, shape = (str(row.get(name) or "") for name in ("label", "report", "shape"))
    known = {row.get("name"), row.get("kernel"), *label.split(), *shape.split()}
    return " · ".join(part for part in (label, run if set(run.split()) - known else "") if part)


def member_words(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Two lines for each launch of a group: parameters and problem as far as not all have them, or
    its number; and its run and number."""
    details = telling_dims([0] * len(rows), [_pairs(row) for row in rows])
    numbers = [f"launch {row['launch']}" for row in rows]
    return [
        (words or number, f"{row['report']} · {number}" if words else str(row["report"]))
        for row, words, number in zip(rows, details, numbers, strict=True)
    ]


def group_words(rows: Sequence[Row], kinds: Sequence[Row], runs: int) -> str:
    """How many runs the launches of a group are of, and in which parameters they differ; ``kinds``
    and ``runs`` as ``kinds_of`` gives them."""
    seen: dict[tuple[str, Any], None] = {}
    for row in kinds:
        for group in ("parameters", "dims"):
            seen |= dict.fromkeys(_hashable(row.get(group) or {}))
    values: dict[str, dict[Any, None]] = {}
    for name, value in seen:
        values.setdefault(name, {})[value] = None
    if not values:
        grids = LaunchRows.of(rows).distinct("grid")
        values = {"grid": dict.fromkeys(str(grid) for grid in grids if grid)}
    differ = [_values(name, list(found)) for name, found in values.items() if len(found) > 1]
    more = [f"and {len(differ) - MOST_NAMES} more"] if len(differ) > MOST_NAMES else []
    parts = [counted(runs, "run")] if runs > 1 else []
    return " · ".join([*([] if differ else [str(rows[0]["label"] or "")]), *parts, *differ[:MOST_NAMES], *more])


def rank_words(rows: LaunchRows) -> str:
    """Which ranks have a launch, the times that they took, and which is slowest; empty where fewer
    than two are known."""
    first = rows[0]
    took = [(row["duration_ns"], row["rank"]) for row in rows if None not in (row["duration_ns"], row["rank"])]
    if len(took) < 2:
        return ""
    (short, _), (long, slowest) = min(took), max(took)
    apart = f"{fixed(first['rank_spread_pct'])} % apart, slowest rank {slowest}"
    return f"{apart} · {duration(short)} to {duration(long)} · {counted(len(took), 'rank')} · #{first['rank_order']}"


def rank_member_words(rows: LaunchRows) -> list[tuple[str, str]]:
    """Two lines for each launch of a group of ranks: its rank; its run and number."""
    return [(f"rank {row['rank']}", f"{row['report']} · launch {row['launch']}") for row in rows]


def small_words(launches: int) -> str:
    """How many launches small groups have together."""
    return f"{counted(launches, 'launch', 'launches')}, less than 1 % of the time each kernel"


def _hashable(named: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Names with values, lists and what else cannot be counted as text."""
    plain = all(isinstance(value, int | float | str) for value in named.values())
    return named.items() if plain else [(name, str(value)) for name, value in named.items()]


def _pairs(row: Row) -> list[str]:
    named = [f"{name}={value}" for group in ("parameters", "dims") for name, value in (row.get(group) or {}).items()]
    geometry = [f"grid {row['grid']}", f"block {row['block']}"] if row.get("grid") else []
    nvtx = [str(row["nvtx"])] if row.get("nvtx") else []
    return [*(named or geometry), *nvtx]


def _values(name: str, values: Sequence[Any]) -> str:
    """``stages 1 to 6``, ``copy async, plain``, or how many values there are."""
    if len(values) <= MOST_VALUES:
        return f"{name} {', '.join(map(str, values))}"
    if all(isinstance(value, int) for value in values):
        return f"{name} {min(values)} to {max(values)}"
    return f"{len(values)} values of {name}"
