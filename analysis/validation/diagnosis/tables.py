"""The result of ``ncubble validate diagnosis`` in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ncubble.analysis.validation.diagnosis.score import (
    ESTIMATES,
    FOREIGN,
    GAIN_POINTS,
    PLANTED,
    SECOND,
    TOP1_PCT,
    cures,
    none_expected,
)
from ncubble.analysis.validation.page import origin
from ncubble.analysis.validation.tables import NOTHING, Table, number, verdict

SETS = {PLANTED: "planted, fitted", FOREIGN: "foreign, fitted", SECOND: "foreign, unseen"}
WRONG = "✗"


def diagnosis_tables(result: Mapping[str, Any]) -> list[Table]:
    """Scores, what was said instead, errors of gains, and every launch by set."""
    launches = [_launches(result, name) for name in result["scores"]]
    return [_scores(result), _confused(result), _gains(result), *launches]


def diagnosis_notes(result: Mapping[str, Any]) -> list[str]:
    """Where each set comes from, launches that could not be scored, each with the reason, and cures
    that cured nothing."""
    idle = [row for row in result["launches"] if row["gain_pct"] is not None and not cures(row)]
    return [
        *(f"{SETS[name]}: {origin(told)}" for name, told in result["origins"].items()),
        *(f"{name}: not scored, {why}" for name, why in result["unscored"].items()),
        *(f"{row['name']}: left out of the gains, its cure gained {number(row['gain_pct'])} %" for row in idle),
    ]


def _scores(result: Mapping[str, Any]) -> Table:
    header = ("launches", "n", "cause right", "%", f"≥ {TOP1_PCT:g}", "disease right", "named without need")
    rows = [
        (
            SETS[name],
            str(found["launches"]),
            str(found["right"]),
            number(found["top1_pct"]),
            verdict(found["targets"]["top1_pct"]),
            _of(found["diseases_right"], found["diseases"]),
            _of(found["diseases_unneeded"], found["without_disease"]),
        )
        for name, found in result["scores"].items()
    ]
    return Table("scores", "The cause that is named first", header, rows)


def _of(count: int, total: int) -> str:
    return f"{count} of {total}" if total else NOTHING


def _confused(result: Mapping[str, Any]) -> Table:
    names: dict[tuple[str, str, str], list[str]] = {}
    for name, found in result["scores"].items():
        for one in found["confused"]:
            names.setdefault((SETS[name], " or ".join(one["expected"]), one["said"]), []).append(one["name"])
    rows = [(*key, ", ".join(found), str(len(found))) for key, found in sorted(names.items())]
    return Table("confused", "Said in place of the cause", ("launches", "is", "said", "of", "n"), rows, texts=4)


def _gains(result: Mapping[str, Any]) -> Table:
    header = (
        "launches",
        "estimate",
        "cures",
        "estimated",
        "median error",
        f"≤ {GAIN_POINTS:g}",
        "worst",
        "silence as 0",
        "in interval %",
    )
    rows = []
    for name, found in result["scores"].items():
        for who, errors in found["gains"].items():
            target = found["targets"]["gain"] if who == "ours" else None
            cells = (str(errors["measured"]), str(errors["told"]), number(errors["median_abs"]), verdict(target))
            head = (SETS[name] if who == "ours" else "", who)
            inside = number(found["in_interval_pct"] if who == "ours" else None)
            rows.append((*head, *cells, number(errors["worst_abs"]), number(errors["silent_abs"]), inside))
    return Table("gains", "Estimated against measured gains, in points of kernel time", header, rows, texts=2)


def _launches(result: Mapping[str, Any], name: str) -> Table:
    header = ("launch", "is", "said", "", "share", "gain", *ESTIMATES)
    rows = [
        (
            row["name"],
            _words(" or ".join(row["causes"]), row["disease"]),
            _words(row["cause"], row["said_disease"]),
            _mark(row),
            *(number(row[member]) for member in ("share_pct", "gain_pct", *ESTIMATES.values())),
        )
        for row in result["launches"]
        if row["set"] == name
    ]
    title = f"Launches, {SETS[name]}: shares and gains in percent of kernel time"
    return Table(name, title, header, rows, texts=4)


def _mark(row: Mapping[str, Any]) -> str:
    if not row["right"]:
        return WRONG
    unneeded = none_expected(row) and row["said_disease"] is not None
    return "disease" if row["disease_right"] is False or unneeded else ""


def _words(cause: str, disease: str | None) -> str:
    return f"{cause} ({disease})" if disease else cause
