"""The result of ``ncubble validate prediction`` in tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ncubble.analysis.validation.account_tables import SETS
from ncubble.analysis.validation.prediction_score import OURS
from ncubble.analysis.validation.tables import NOTHING, Table, number, verdict

TARGETS = {
    "mae": "mean absolute error, points",
    "regret_pct": "mean regret, % of the best utilization",
    "best_baseline_mae": "mean absolute error, beside the best baseline's",
}
METHOD = ("n", "mean error", "bias", "worst", "rank", "regret %", "worst %")

Part = Mapping[str, Any]


def prediction_tables(result: Mapping[str, Any]) -> list[Table]:
    """Targets, ours beside the baselines, and ours by split and family."""
    return [_targets(result["scores"]), _methods(result["scores"]), _parts(result["scores"])]


def prediction_notes(result: Mapping[str, Any]) -> list[str]:
    """When the predictions were written, and depths that were not measured."""
    first = f"predictions were written {result['written']}, the measurement began {result['started']}"
    return [first, *(f"{name}: not scored, {why}" for name, why in result["unscored"].items())]


def _targets(scores: Mapping[str, Any]) -> Table:
    rows = [
        (TARGETS[name], number(one["value"]), number(one["limit"]), NOTHING if one["met"] is None else verdict(one))
        for name, one in scores["targets"].items()
    ]
    return Table("targets", "Targets", ("all sweeps", "value", "≤", ""), rows)


def _methods(scores: Mapping[str, Any]) -> Table:
    rows = []
    for name, part in _named(scores):
        for who, method in part["methods"].items():
            head = (name if who == OURS else "", "ours" if who == OURS else who.replace("_", " "))
            rows.append((*head, _worst(method), *_cells(method)))
    header = ("sweeps", "method", "worst in", *METHOD)
    return Table("methods", "Errors in points of utilization, where ours is identified", header, rows, texts=3)


def _named(scores: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    yield from ((SETS[name], part) for name, part in scores["splits"].items())
    if len(scores["splits"]) > 1:
        yield "all", scores["all"]


def _parts(scores: Mapping[str, Any]) -> Table:
    rows = []
    for name, part in [*scores["families"].items(), ("all", scores["all"])]:
        ours = part["methods"][OURS]
        silent = number(part["not_identified_pct"])
        more = (number(ours["mape_pct"]), number(ours["coverage_pct"]))
        rows.append((name, str(part["asked"]), silent, *_cells(ours)[1:], *more))
    header = ("family", "asked", "not identified %", *METHOD[1:], "cycles %", "in interval %")
    return Table("families", "Ours, by family", header, rows)


def _cells(method: Part) -> tuple[str, ...]:
    worst = method["worst"]["error"] if method["worst"] else None
    rank = number(method["rank"], 2)
    errors = (number(method["mae"]), number(method["bias"]), number(worst))
    return (str(method["n"]), *errors, rank, number(method["regret_pct"]), number(method["worst_regret_pct"]))


def _worst(method: Part) -> str:
    if not method["worst"]:
        return NOTHING
    one = method["worst"]
    return f"{one['family']} {one['config']}, {one['from_stages']} to {one['to_stages']} stages"
