"""Scores predictions of depth against measured sweeps. Pure functions over rows.

A row is one depth predicted from the profile of another: ``family``, ``config`` (unique within it),
``split``, ``from_stages``, ``to_stages``, ``measured_pct`` and ``measured_cycles`` at the latter,
``predicted`` (``tensor_elapsed_pct``, ``cycles``, ``low``, ``high``, or None) and ``baselines``
(name: percent). Errors are in points of utilization. Rows with ``to_stages`` equal to
``from_stages`` say what was measured there and are not scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]
OURS = "predicted"
FITTED = "dev"
"""The split that the model may have been fitted to; targets are for the others."""
FLAT = 2.0
"""Points that a sweep must span for the order of its depths to mean anything."""
INDIFFERENT = 0.5
"""Points below the best prediction at which a shallower depth is chosen: it costs less shared
memory."""
MAE_TARGET, REGRET_TARGET = 5.0, 3.0


def score(rows: Sequence[Row]) -> dict[str, Any]:
    """``splits`` by name; by the same names ``families``, by theirs, and ``targets`` with limit,
    value and ``met``, of splits that nothing was fitted to.

    Each part has ``asked``, ``not_identified_pct``, and ``methods``: for ``predicted`` and every
    baseline what ``method_score`` gives, over the rows that were predicted. ``predicted`` also has
    ``coverage_pct`` (of intervals) and ``mape_pct`` (of cycles).
    """
    splits = _by(rows, "split")
    parts = {name: part_score(part) for name, part in splits}
    return {
        "splits": parts,
        "families": {
            name: {family: part_score(found) for family, found in _by(part, "family")} for name, part in splits
        },
        "targets": {name: targets(part) for name, part in parts.items() if name != FITTED},
    }


def targets(part: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Whether a part of the score meets what was aimed at; ``met`` is None where nothing was
    predicted."""
    ours = part["methods"][OURS]
    rivals = [method["mae"] for name, method in part["methods"].items() if name != OURS and method["mae"] is not None]
    limits = {
        "mae": (MAE_TARGET, ours["mae"]),
        "regret_pct": (REGRET_TARGET, ours["regret_pct"]),
        "best_baseline_mae": (min(rivals, default=None), ours["mae"]),
    }
    return {
        name: {"limit": limit, "value": value, "met": None if value is None or limit is None else value <= limit}
        for name, (limit, value) in limits.items()
    }


def part_score(rows: Sequence[Row]) -> dict[str, Any]:
    """The score of some rows; figures of nothing are None."""
    asked = [row for row in rows if row["to_stages"] != row["from_stages"]]
    told = [row for row in asked if row["predicted"]]
    names = sorted({name for row in asked for name in row["baselines"]})
    methods = {name: method_score(told, rows, _baseline(name)) for name in names}
    ours = method_score(told, rows, _ours)
    inside = [row["predicted"]["low"] <= row["measured_pct"] <= row["predicted"]["high"] for row in told]
    apart = [abs(row["predicted"]["cycles"] / row["measured_cycles"] - 1.0) for row in told]
    more = {"coverage_pct": _mean([100.0 * hit for hit in inside]), "mape_pct": _mean([100.0 * miss for miss in apart])}
    return {
        "asked": len(asked),
        "not_identified_pct": 100.0 * (1.0 - len(told) / len(asked)) if asked else None,
        "methods": {OURS: {**ours, **more}, **methods},
    }


def method_score(told: Sequence[Row], rows: Sequence[Row], value: Value) -> dict[str, Any]:
    """``n``, ``mae``, ``bias``, ``worst`` (config, depths and error), mean ``rank`` correlation
    over sweeps that span ``FLAT`` points, and mean and worst regret in percent of the best measured
    utilization."""
    pairs = [(row, found - row["measured_pct"]) for row in told if (found := value(row)) is not None]
    worst = max(pairs, key=lambda pair: abs(pair[1]), default=None)
    sweeps = [part for _, part in _by(told, "family", "config", "from_stages")]
    regrets = [lost for part in sweeps if (lost := regret(part, _measured(rows, part[0]), value)) is not None]
    return {
        "n": len(pairs),
        "mae": _mean([abs(error) for _, error in pairs]),
        "bias": _mean([error for _, error in pairs]),
        "worst": _named(*worst) if worst else None,
        "rank": _mean([rank for part in sweeps if (rank := rank_correlation(part, value)) is not None]),
        "regret_pct": _mean(regrets),
        "worst_regret_pct": max(regrets, default=None),
    }


def rank_correlation(sweep: Sequence[Row], value: Value) -> float | None:
    """Spearman's correlation of predicted and measured utilization over the depths of one sweep.

    None for fewer than three depths, or where the measured ones span less than ``FLAT`` points; 0
    where all predictions are the same.
    """
    pairs = [(found, row["measured_pct"]) for row in sweep if (found := value(row)) is not None]
    measured = [pair[1] for pair in pairs]
    if len(pairs) < 3 or max(measured) - min(measured) < FLAT:
        return None
    ranks = pd.DataFrame(pairs).rank()
    if ranks[0].nunique() == 1:
        return 0.0
    return float(ranks[0].corr(ranks[1]))


def regret(sweep: Sequence[Row], measured: Mapping[int, float], value: Value) -> float | None:
    """Utilization lost by the depth that predictions would choose, in percent of that of the best
    depth.

    ``measured`` is by depth and holds the present one, which may be chosen, too. None where that
    was not measured.
    """
    present = sweep[0]["from_stages"]
    told = {row["to_stages"]: found for row in sweep if (found := value(row)) is not None}
    if present not in measured or not told:
        return None
    told[present] = measured[present]
    best = max(measured[depth] for depth in told)
    return 100.0 * (best - measured[chosen_depth(told)]) / best


def chosen_depth(told: Mapping[int, float]) -> int:
    """The depth to choose by utilization: the shallowest that is within ``INDIFFERENT`` of the
    best."""
    enough = max(told.values()) - INDIFFERENT
    return min(depth for depth, found in told.items() if found >= enough)


def _measured(rows: Iterable[Row], like: Row) -> dict[int, float]:
    """What was measured by depth, in the sweep that ``like`` belongs to."""
    same = (row for row in rows if row["family"] == like["family"] and row["config"] == like["config"])
    return {row["to_stages"]: row["measured_pct"] for row in same}


def _ours(row: Row) -> float | None:
    return row["predicted"]["tensor_elapsed_pct"] if row["predicted"] else None


def _baseline(name: str) -> Value:
    return lambda row: row["baselines"].get(name)


def _by(rows: Iterable[Row], *keys: str) -> list[tuple[Any, list[Row]]]:
    """Rows with equal values of ``keys``, in the order of their first appearance."""
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys)].append(row)
    return list(groups.items())


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _named(row: Row, error: float) -> dict[str, Any]:
    return {**{key: row[key] for key in ("family", "config", "from_stages", "to_stages")}, "error": error}
