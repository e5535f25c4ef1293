"""The result of ``ncubble validate prediction`` in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ncubble.analysis.validation.prediction.score import OURS
from ncubble.analysis.validation.tables import NOTHING, Table, number, verdict

TARGETS = {
    "mae": "mean absolute error, points",
    "regret_pct": "mean regret, % of the best utilization",
    "best_baseline_mae": "mean absolute error, beside the best baseline's",
}
SETS = {"test": "kept apart", "second": "kept apart again", "dev": "fitted"}
METHOD = ("n", "mean error", "bias", "worst", "rank", "regret %", "worst %")

Part = Mapping[str, Any]


def prediction_tables(result: Mapping[str, Any]) -> list[Table]:
    """Targets, ours beside the baselines, and ours by split and family."""
    return [_targets(result["scores"]), _methods(result["scores"]), _parts(result["scores"])]


def prediction_notes(result: Mapping[str, Any]) -> list[str]:
    """When the predictions were written, and sweeps that were not measured."""
    sets = [(SETS["test"], result), (SETS["second"], result.get("second"))]
    return [
        *(f"{name}: {_written(told)}" for name, told in sets if told),
        *(f"{name}: not scored, {why}" for name, why in result["unscored"].items()),
    ]


def _written(told: Mapping[str, Any]) -> str:
    sha = (told.get("git") or {}).get("sha")
    by = f" by commit {str(sha)[:12]}" if sha else ""
    return f"predictions were written {told['written']}{by}, the measurement began {told['started']}"


def _targets(scores: Mapping[str, Any]) -> Table:
    rows = [
        (
            SETS[split] if not row else "",
            TARGETS[name],
            number(one["value"]),
            number(one["limit"]),
            NOTHING if one["met"] is None else verdict(one),
        )
        for split in _known(scores["targets"])
        for row, (name, one) in enumerate(scores["targets"][split].items())
    ]
    return Table("targets", "Targets, for sweeps that were kept apart", ("sweeps", "", "value", "≤", ""), rows, texts=2)


def _methods(scores: Mapping[str, Any]) -> Table:
    rows = []
    for split in _known(scores["splits"]):
        for who, method in scores["splits"][split]["methods"].items():
            head = (SETS[split] if who == OURS else "", "ours" if who == OURS else who.replace("_", " "))
            rows.append((*head, _worst(method), *_cells(method)))
    header = ("sweeps", "method", "worst in", *METHOD)
    return Table("methods", "Errors in points of utilization, where ours is identified", header, rows, texts=3)


def _known(splits: Mapping[str, Any]) -> list[str]:
    return [name for name in SETS if name in splits]


def _parts(scores: Mapping[str, Any]) -> Table:
    rows = []
    for split in _known(scores["splits"]):
        families = {**scores["families"][split], "all": scores["splits"][split]}
        for row, (name, part) in enumerate(families.items()):
            ours = part["methods"][OURS]
            silent = number(part["not_identified_pct"])
            more = (number(ours["mape_pct"]), number(ours["coverage_pct"]))
            head = (SETS[split] if not row else "", name, str(part["asked"]), silent)
            rows.append((*head, *_cells(ours)[1:], *more))
    header = ("sweeps", "family", "asked", "not identified %", *METHOD[1:], "cycles %", "in interval %")
    return Table("families", "Ours, by family", header, rows, texts=2)


def _cells(method: Part) -> tuple[str, ...]:
    worst = method["worst"]["error"] if method["worst"] else None
    rank = number(method["rank"], 2)
    errors = (number(method["mae"]), number(method["bias"]), number(worst))
    return (str(method["n"]), *errors, rank, number(method["regret_pct"]), number(method["worst_regret_pct"]))


def _worst(method: Part) -> str:
    if not method["worst"]:
        return NOTHING
    one = method["worst"]
    return f"{one['config']}, {one['from_stages']} to {one['to_stages']} stages"
