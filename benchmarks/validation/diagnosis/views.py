"""The result of ``python -m benchmarks.validation diagnosis`` in tables, notes and a plot: estimated against
measured gains, ours and Nsight's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.validation.diagnosis.score import (
    ESTIMATES,
    FOREIGN,
    GAIN_POINTS,
    PLANTED,
    SECOND,
    TOP1_PCT,
    cures,
    none_expected,
)
from benchmarks.validation.page import NOTHING, Result, Table, number, origin, verdict
from benchmarks.validation.plots import GREY, SIZE, Colour, agreement, figure, labelled, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETS = {PLANTED: "planted, fitted", FOREIGN: "foreign, fitted", SECOND: "foreign, unseen"}
WRONG = "✗"
PANELS = 2
"""Panels in a row of the plot."""
MARKS = {"nsight global": ("x", 18), "nsight any": ("+", 24)}


def diagnosis_tables(result: Result) -> list[Table]:
    """Scores, what was said instead, errors of gains, and every launch by set."""
    launches = [_launches(result, name) for name in result["scores"]]
    return [_scores(result), _confused(result), _gains(result), *launches]


def diagnosis_notes(result: Result) -> list[str]:
    """Where each set comes from, launches that could not be scored, each with the reason, and cures
    that cured nothing."""
    idle = [row for row in result["launches"] if row["gain_pct"] is not None and not cures(row)]
    return [
        *(f"{SETS[name]}: {origin(measured)}" for name, measured in result["origins"].items()),
        *(f"{name}: not scored, {why}" for name, why in result["unscored"].items()),
        *(
            f"{row['name']}: excluded from the gains, because its fix gained {number(row['gain_pct'])} %"
            for row in idle
        ),
    ]


def _scores(result: Result) -> Table:
    header = ("launches", "n", "cause right", "%", f"≥ {TOP1_PCT:g}", "disease right", "named unnecessarily")
    rows = [
        (
            SETS[name],
            str(score["launches"]),
            str(score["right"]),
            number(score["top1_pct"]),
            verdict(score["targets"]["top1_pct"]),
            _of(score["diseases_right"], score["diseases"]),
            _of(score["diseases_unneeded"], score["without_disease"]),
        )
        for name, score in result["scores"].items()
    ]
    return Table("scores", "First named cause", header, rows)


def _of(count: int, total: int) -> str:
    return f"{count} of {total}" if total else NOTHING


def _confused(result: Result) -> Table:
    launches: dict[tuple[str, str, str], list[str]] = {}
    for name, score in result["scores"].items():
        for mistake in score["confused"]:
            key = (SETS[name], " or ".join(mistake["expected"]), mistake["said"])
            launches.setdefault(key, []).append(mistake["name"])
    rows = [(*key, ", ".join(names), str(len(names))) for key, names in sorted(launches.items())]
    return Table("confused", "Named instead of the cause", ("launches", "is", "said", "of", "n"), rows, texts=4)


def _gains(result: Result) -> Table:
    header = (
        *("launches", "estimate", "cures", "estimated", "median error", f"≤ {GAIN_POINTS:g}", "worst"),
        *("missing as 0", "in interval %"),
    )
    rows = [
        (
            SETS[name] if who == "ours" else "",
            who,
            str(errors["measured"]),
            str(errors["told"]),
            number(errors["median_abs"]),
            verdict(score["targets"]["gain"] if who == "ours" else None),
            number(errors["worst_abs"]),
            number(errors["silent_abs"]),
            number(score["in_interval_pct"] if who == "ours" else None),
        )
        for name, score in result["scores"].items()
        for who, errors in score["gains"].items()
    ]
    return Table("gains", "Estimated against measured gains, in points of kernel time", header, rows, texts=2)


def _launches(result: Result, name: str) -> Table:
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
    return Table(name, title, ("launch", "is", "said", "", "share", "gain", *ESTIMATES), rows, texts=4)


def _mark(row: Result) -> str:
    if not row["right"]:
        return WRONG
    unneeded = none_expected(row) and row["said_disease"] is not None
    return "disease" if row["disease_right"] is False or unneeded else ""


def _words(cause: str, disease: str | None) -> str:
    return f"{cause} ({disease})" if disease else cause


def diagnosis_plots(result: Result, colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    sets = list(result["scores"])
    lines = -(-len(sets) // PANELS)
    made = figure(10.0, 3.4 * lines)
    panels = list(made.subplots(lines, PANELS, squeeze=False).flat)
    for unused in panels[len(sets) :]:
        unused.remove()
    for name, axes in zip(sets, panels, strict=False):
        rows = [row for row in result["launches"] if row["set"] == name and cures(row)]
        _panel(plain(axes, SETS[name]), rows, colour)
    x, y = "measured gain of the fix, % of kernel time", "estimated gain, % of kernel time"
    return {"diagnosis-gains": labelled(made, x, y)}


def _panel(axes: Axes, rows: Sequence[Result], colour: Colour) -> None:
    agreement(axes, min([0.0, *(row["gain_pct"] for row in rows)]) - 3, 100, GAIN_POINTS)
    for who, (marker, size) in MARKS.items():
        x, y = _points(rows, ESTIMATES[who])
        name = f"Nsight, {who.split()[1]} ({len(x)})"
        axes.scatter(x, y, marker=marker, s=size, linewidths=0.8, color=GREY, label=name)
    for cause in dict.fromkeys(row["cause"] for row in rows if row[ESTIMATES["ours"]] is not None):
        x, y = _points([row for row in rows if row["cause"] == cause], ESTIMATES["ours"])
        axes.scatter(x, y, s=20, color=colour(cause), label=f"{cause.replace('_', ' ')} ({len(x)})")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=SIZE)


def _points(rows: Sequence[Result], member: str) -> tuple[list[float], list[float]]:
    estimated = [row for row in rows if row[member] is not None]
    return [row["gain_pct"] for row in estimated], [row[member] for row in estimated]
