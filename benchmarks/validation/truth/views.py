"""The result of ``python -m benchmarks.validation truth`` in tables, notes and a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.validation.account.score import WORST
from benchmarks.validation.page import NOTHING, Result, Table, number, origin
from benchmarks.validation.plots import SIZE, Colour, agreement, figure, labelled, plain
from ncubble.analysis.account.parts import JOINED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def truth_tables(result: Result) -> list[Table]:
    """What has to be reached, scores of all launches and by GPU and kind, errors by part, depth."""
    return [_targets(result), _scores(result), _parts(result), _depth(result["depth"]), _margins(result["depth"])]


def truth_notes(result: Result) -> list[str]:
    """Where each GPU's launches come from, and launches that count for nothing, with the reason."""
    by = [f"{gpu}: {origin(made)}" for gpu, made in sorted(result["origins"].items())]
    return [*by, *(f"{name}: not scored, {why}" for name, why in sorted(result["unscored"].items()))]


def truth_plots(result: Result, colour: Colour) -> dict[str, Figure]:
    """The account over what was measured, a mark for each part of each launch."""
    made = figure(5.0, 5.0)
    axes = plain(made.subplots())
    cells = [(part.split(JOINED)[0], cell) for row in result["rows"] for part, cell in row["parts"].items()]
    values = [cell[side] for _, cell in cells for side in ("measured", "account")]
    agreement(axes, min(0.0, *values) - 2, max(10.0, *values) + 2, WORST, "account = measured")
    for part in sorted({part for part, _ in cells}):
        own = [cell for name, cell in cells if name == part]
        axes.scatter(
            [cell["measured"] for cell in own],
            [cell["account"] for cell in own],
            s=16,
            color=colour(part),
            label=part.replace("_", " "),
        )
    axes.legend(frameon=False, fontsize=SIZE)
    words = "saved without the part, % of cycles", "account, %"
    return {"truth-scatter": labelled(made, *words)}


def _targets(result: Result) -> Table:
    score, depth = result["scores"]["all"], result["depth"]
    worst = depth["worst"] and abs(depth["worst"]["error"])
    predicted = 100.0 * (1.0 - depth["silent"] / depth["pairs"]) if depth["pairs"] else None
    rows = [
        _target("account: mean error of a part, points", score["account"]["mean_abs"], most=3.0),
        _target("account: worst error of a part, points", score["account"]["worst_abs"], most=12.0),
        _target("first cause gains within 3 points of the best, %", score["first_enough_pct"], least=90.0),
        _target("… and is the smallest such part, %", score["first_least_pct"]),
        _target("… if copies were always named, %", score["first_copies_pct"]),
        _target("gain of the first cause: median error, points", score["gains"]["median_abs"], most=4.0),
        _target("depth: mean error, points of the busy share", depth["mean_abs"], most=3.0),
        _target("depth: worst error, points", worst, most=12.0),
        _target("chosen depth: cycles lost, %", depth["regret_mean_pct"], most=1.5),
        _target("chosen depth: most cycles lost, %", depth["regret_worst_pct"], most=10.0),
        _target("deeper without gain, but over 2 points promised, %", depth["no_gain_promised_pct"], most=5.0),
        _target("intervals of depths (90 %) that cover the measurement, %", depth["inside_pct"], *_band(depth)),
        _target("depths predicted, %", predicted, least=80.0),
    ]
    return Table("targets", "Targets for a model of launches", ("figure", "today", "target", ""), rows, texts=1)


def _band(depth: Result) -> tuple[float, float]:
    """Most and least of as many intervals of 90 % that hold in 95 % of all draws (binomial, by its
    normal approximation)."""
    spread = 196.0 * math.sqrt(0.9 * 0.1 / max(1, depth["pairs"] - depth["silent"]))
    return min(100.0, 90.0 + spread), 90.0 - spread


def _target(
    figure: str, value: float | None, most: float = math.inf, least: float = -math.inf
) -> tuple[str, str, str, str]:
    both = math.isfinite(most) and math.isfinite(least)
    target = f"{least:.0f}–{most:.0f}" if both else f"≤ {most:g}" if math.isfinite(most) else f"≥ {least:g}"
    if most == -least == math.inf:
        return figure, number(value) if value is not None else NOTHING, NOTHING, ""
    if value is None:
        return figure, NOTHING, target, ""
    return figure, number(value), target, "met" if least <= value <= most else "missed"


def _scores(result: Result) -> Table:
    header = (
        *("launches of", "worst in", "n", "account", "95 %", "worst", "naive"),
        *("first right %", "regret", "gains", "error", "broken"),
    )
    rows = [
        (
            name,
            score["account"]["worst"],
            str(score["launches"]),
            number(score["account"]["mean_abs"]),
            _interval(score["account"]["interval"]),
            number(score["account"]["worst_abs"]),
            number(score["naive"]["mean_abs"]),
            number(score["first_right_pct"], 0),
            number(score["first_regret"]),
            str(score["gains"]["count"]),
            number(score["gains"]["mean_abs"]),
            str(score["gains"]["broken"]),
        )
        for name, score in result["scores"].items()
    ]
    return Table("scores", "Mean errors in points of kernel time, and first causes", header, rows, texts=2)


def _parts(result: Result) -> Table:
    header = ("part", "worst in", "n", "mean error", "bias", "worst", "naive")
    rows = [
        (
            part.replace("_", " ").replace("+", " + "),
            errors["worst_of"],
            str(errors["count"]),
            *(number(errors[name]) for name in ("mean_abs", "bias", "worst", "naive_mean_abs")),
        )
        for part, errors in result["parts"].items()
    ]
    return Table("parts", "By part: account minus measured, in points of kernel time", header, rows, texts=2)


def _depth(depth: Result) -> Table:
    header = (
        "sweeps",
        "pairs",
        "silent",
        "mean error",
        "95 %",
        "as now",
        "worst",
        "lost %",
        "most %",
        "as now",
        "deepest",
    )
    worst = depth["worst"]
    row = (
        str(depth["sweeps"]),
        str(depth["pairs"]),
        str(depth["silent"]),
        number(depth["mean_abs"]),
        _interval(depth["interval"]),
        number(depth["no_change_mean_abs"]),
        f"{number(worst['error'])} ({worst['family']} {worst['gpu']})" if worst else NOTHING,
        *(
            number(depth[name])
            for name in ("regret_mean_pct", "regret_worst_pct", "stay_regret_mean_pct", "deepest_regret_mean_pct")
        ),
    )
    title = "Other depths: error of the busy share in points, and cycles lost by the chosen depth"
    return Table("depth", title, header, [row] if depth["pairs"] else [])


def _margins(depth: Result) -> Table:
    rows = [
        (str(row["predictions"]), *(number(row[name]) for name in ("margin", "needed", "held_pct")))
        for row in depth["margins"]
    ]
    title = (
        "Distance in points from depth predictions to the bounds of their intervals, and distances for 90 % coverage"
    )
    return Table("margins", title, ("predictions", "margin", "needed", "family left out %"), rows, texts=0)


def _interval(bounds: Sequence[float] | None) -> str:
    return NOTHING if bounds is None else f"{number(bounds[0])} to {number(bounds[1])}"
