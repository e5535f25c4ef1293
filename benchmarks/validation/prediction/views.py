"""The result of ``python -m benchmarks.validation prediction`` in tables, notes and plots: utilization over depth,
and errors beside those of the baselines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from benchmarks.validation.page import NOTHING, Result, Table, number, verdict
from benchmarks.validation.plots import GREY, INK, SIZE, Colour, figure, labelled, plain
from benchmarks.validation.prediction.score import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TARGETS = {
    "mae": "mean absolute error, points",
    "regret_pct": "mean regret, % of the best utilization",
    "best_baseline_mae": "mean absolute error, compared with the best baseline's",
}
SETS = {"test": "held out", "second": "second held-out set", "dev": "fitted"}
METHOD = ("n", "mean error", "bias", "worst", "rank", "regret %", "worst %")
PANELS = 5
"""Panels in a row of the plot over depth."""
TITLE = 30
"""Line length of panel titles."""
BIN = 2.5
"""Bin width of the histogram, in points of utilization."""
WIDEST = 40.0


def prediction_tables(result: Result) -> list[Table]:
    """Targets, ours beside the baselines, and ours by split and family."""
    return [_targets(result["scores"]), _methods(result["scores"]), _families(result["scores"])]


def prediction_notes(result: Result) -> list[str]:
    """When the predictions were written, and sweeps that were not measured."""
    sets = [(SETS["test"], result), (SETS["second"], result.get("second"))]
    return [
        *(f"{name}: {_written(predicted)}" for name, predicted in sets if predicted),
        *(f"{name}: not scored, {why}" for name, why in result["unscored"].items()),
    ]


def _written(predicted: Result) -> str:
    sha = (predicted.get("git") or {}).get("sha")
    by = f" by commit {str(sha)[:12]}" if sha else ""
    return f"predictions were written {predicted['written']}{by}, the measurement began {predicted['started']}"


def _known(splits: Result) -> Iterator[tuple[str, Result]]:
    """Name and score of every split that is there, in the order of ``SETS``."""
    return ((name, splits[name]) for name in SETS if name in splits)


def _targets(scores: Result) -> Table:
    rows = [
        (
            "" if place else SETS[split],
            TARGETS[name],
            number(target["value"]),
            number(target["limit"]),
            verdict(target),
        )
        for split, targets in _known(scores["targets"])
        for place, (name, target) in enumerate(targets.items())
    ]
    return Table("targets", "Targets, for held-out sweeps", ("sweeps", "", "value", "≤", ""), rows, texts=2)


def _methods(scores: Result) -> Table:
    rows = [
        (
            SETS[split] if who == OURS else "",
            "ours" if who == OURS else who.replace("_", " "),
            _worst(method["worst"]),
            *_cells(method),
        )
        for split, score in _known(scores["splits"])
        for who, method in score["methods"].items()
    ]
    header = ("sweeps", "method", "worst in", *METHOD)
    return Table("methods", "Errors in points of utilization, if ours is identified", header, rows, texts=3)


def _families(scores: Result) -> Table:
    rows = [
        (
            "" if place else SETS[split],
            name,
            str(part["asked"]),
            number(part["not_identified_pct"]),
            *_cells(part["methods"][OURS])[1:],
            number(part["methods"][OURS]["mape_pct"]),
            number(part["methods"][OURS]["coverage_pct"]),
        )
        for split, score in _known(scores["splits"])
        for place, (name, part) in enumerate({**scores["families"][split], "all": score}.items())
    ]
    header = ("sweeps", "family", "asked", "not identified %", *METHOD[1:], "cycles %", "in interval %")
    return Table("families", "Ours, by family", header, rows, texts=2)


def _cells(method: Result) -> tuple[str, ...]:
    worst = method["worst"]["error"] if method["worst"] else None
    errors = (number(value) for value in (method["mae"], method["bias"], worst))
    regrets = (number(method[name]) for name in ("regret_pct", "worst_regret_pct"))
    return (str(method["n"]), *errors, number(method["rank"], 2), *regrets)


def _worst(worst: Result | None) -> str:
    return f"{worst['config']}, {worst['from_stages']} to {worst['to_stages']} stages" if worst else NOTHING


def prediction_plots(result: Result, colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    rows = result["rows"]
    predicted = [row for row in rows if row["from_stages"] != row["to_stages"]]
    return {"prediction-depths": _depths(rows, colour), "prediction-errors": _errors(predicted, colour)}


def _depths(rows: Sequence[Result], colour: Colour) -> Figure:
    """A panel per configuration: what was measured, and a line per profile that was predicted
    from."""
    configurations = [(name, list(members)) for name, members in groupby(sorted(rows, key=_config), key=_config)]
    lines = -(-len(configurations) // PANELS)
    titles = [wrap(config, TITLE) for (_, config), _ in configurations]
    tall = max((len(title) for title in titles), default=1)
    made = figure(9.0, 0.8 + (1.1 + 0.12 * tall) * lines)
    panels = list(made.subplots(lines, PANELS, sharex=True, sharey=True, squeeze=False).flat)
    for axes in panels[len(configurations) :]:
        axes.axis("off")
    for axes, title, (_, members) in zip(panels, titles, configurations, strict=False):
        plain(axes).set_title("\n".join(title), fontsize=SIZE - 2, loc="left", color=INK)
        axes.grid(False)
        axes.locator_params(nbins=4)
        axes.label_outer(remove_inner_ticks=True)
        _panel(axes, members, colour)
    handles, names = panels[0].get_legend_handles_labels()
    made.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, fontsize=SIZE)
    return labelled(made, "stages", "tensor pipe active, % of elapsed cycles")


def _config(row: Result) -> tuple[str, str]:
    return row["family"], row["config"]


def _panel(axes: Axes, rows: Sequence[Result], colour: Colour) -> None:
    measured = {row["to_stages"]: row["measured_pct"] for row in rows}
    name = "predicted, one line per profiled depth"
    for start in sorted({row["from_stages"] for row in rows}):
        own = [row for row in rows if row["from_stages"] == start and row["predicted"]]
        line = {row["to_stages"]: row["predicted"]["tensor_elapsed_pct"] for row in own}
        if start in measured:
            line[start] = measured[start]
        axes.plot(*_columns(line), color=colour("data_wait"), linewidth=0.8, label=name)
        name = ""
    axes.plot(*_columns(measured), color=INK, linewidth=1.0, marker="o", markersize=2.5, label="measured")


def _columns(points: Mapping[int, float]) -> tuple[list[int], list[float]]:
    depths = sorted(points)
    return depths, [points[depth] for depth in depths]


def _errors(rows: Sequence[Result], colour: Colour) -> Figure:
    """Histograms of predicted less measured utilization, ours in front of each baseline's."""
    baselines = list(dict.fromkeys(name for row in rows for name in row["baselines"]))
    made = figure(9.0, 2.6)
    panels = list(made.subplots(1, max(1, len(baselines)), sharex=True, sharey=True, squeeze=False).flat)
    edges = [BIN * index for index in range(int(-WIDEST / BIN), int(WIDEST / BIN) + 1)]
    ours = _clipped((row, row["predicted"]["tensor_elapsed_pct"]) for row in rows if row["predicted"])
    for axes, name in zip(panels, baselines or [""], strict=True):
        plain(axes, f"beside {name.replace('_', ' ')}" if name else "")
        theirs = _clipped((row, row["baselines"].get(name)) for row in rows)
        axes.hist(theirs, edges, color=GREY, alpha=0.6, label="baseline")
        axes.hist(ours, edges, histtype="step", color=colour("data_wait"), linewidth=1.2, label="ours")
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.locator_params(nbins=4)
    panels[0].legend(loc="upper left", frameon=False, fontsize=SIZE)
    return labelled(made, f"predicted minus measured, points (beyond {WIDEST:g}: in the last bin)", "predictions")


def _clipped(predictions: Iterable[tuple[Result, float | None]]) -> list[float]:
    """Predicted less measured utilization of rows with a prediction, at most ``WIDEST``."""
    errors = [value - row["measured_pct"] for row, value in predictions if value is not None]
    return [max(-WIDEST, min(WIDEST, error)) for error in errors]
