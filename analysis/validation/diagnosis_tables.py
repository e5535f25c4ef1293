"""The result of ``ncubble validate diagnosis`` in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ncubble.analysis.validation.diagnosis_score import ESTIMATES, FOREIGN, PLANTED
from ncubble.analysis.validation.tables import NOTHING, Table, number, verdict

SETS = {PLANTED: "planted", FOREIGN: "foreign, nobody tuned against them"}
WRONG = "✗"


def diagnosis_tables(result: Mapping[str, Any]) -> list[Table]:
    """Scores, errors of gains, and every launch by set."""
    launches = [_launches(result, name) for name in result["scores"]]
    return [_scores(result), _gains(result), *launches]


def diagnosis_notes(result: Mapping[str, Any]) -> list[str]:
    """Launches that could not be scored, each with the reason."""
    return [f"{name}: not scored, {why}" for name, why in result["unscored"].items()]


def _scores(result: Mapping[str, Any]) -> Table:
    header = ("launches", "what was said instead", "", "cause right", "%", "", "disease right")
    rows = []
    for name, found in result["scores"].items():
        confused = [f"{one['name']}: {one['said']}, not {' or '.join(one['expected'])}" for one in found["confused"]]
        rows.append(
            (
                SETS[name],
                "; ".join(confused) or NOTHING,
                str(found["launches"]),
                str(found["right"]),
                number(found["top1_pct"]),
                verdict(found["targets"]["top1_pct"]),
                f"{found['diseases_right']} of {found['diseases']}",
            )
        )
    return Table("scores", "The cause that is named first", header, rows, texts=2)


def _gains(result: Mapping[str, Any]) -> Table:
    header = ("launches", "estimate", "cures", "estimated", "median error", "", "worst", "median, silence as 0")
    rows = []
    for name, found in result["scores"].items():
        for who, errors in found["gains"].items():
            target = found["targets"]["gain"] if who == "ours" else None
            cells = (str(errors["measured"]), str(errors["told"]), number(errors["median_abs"]), verdict(target))
            head = (SETS[name] if who == "ours" else "", who)
            rows.append((*head, *cells, number(errors["worst_abs"]), number(errors["silent_abs"])))
    return Table("gains", "Estimated against measured gains, in points of kernel time", header, rows, texts=2)


def _launches(result: Mapping[str, Any], name: str) -> Table:
    header = ("launch", "is", "said", "", "share", "gain", *ESTIMATES)
    rows = [
        (
            row["name"],
            _words(" or ".join(row["causes"]), row["disease"]),
            _words(row["cause"], row["said_disease"]),
            "" if row["right"] and row["disease_right"] is not False else WRONG if not row["right"] else "disease",
            *(number(row[member]) for member in ("share_pct", "gain_pct", *ESTIMATES.values())),
        )
        for row in result["launches"]
        if row["set"] == name
    ]
    title = f"Launches, {SETS[name]}: shares and gains in percent of kernel time"
    return Table(name, title, header, rows, texts=4)


def _words(cause: str, disease: str | None) -> str:
    return f"{cause} ({disease})" if disease else cause
