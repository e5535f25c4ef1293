"""Plots of ``ncubble validate prediction``: utilization over depth, and errors beside those of the
baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ncubble.analysis.validation.plots import GREY, INK, SIZE, Colour, figure, plain, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 5
TITLE = 30
"""Characters in a line of a panel's title."""
BIN = 2.5
"""Points of utilization in a bar of the histogram."""
WIDEST = 40.0

Row = Mapping[str, Any]


def prediction_plots(result: Mapping[str, Any], colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    rows = result["rows"]
    asked = [row for row in rows if row["from_stages"] != row["to_stages"]]
    return {"prediction-depths": _depths(rows, colour), "prediction-errors": _errors(asked, colour)}


def _depths(rows: Sequence[Row], colour: Colour) -> Figure:
    """A panel per configuration: what was measured, and a line per profile that was predicted
    from."""
    key = _configuration
    configurations = {name: list(found) for name, found in groupby(sorted(rows, key=key), key=key)}
    lines = -(-len(configurations) // COLUMNS)
    titles = {name: wrap(name[1], TITLE) for name in configurations}
    tall = max((len(title) for title in titles.values()), default=1)
    made = figure(9.0, 0.8 + (1.1 + 0.12 * tall) * lines)
    grid = made.subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False)
    for axes in list(grid.flat)[len(configurations) :]:
        axes.axis("off")
    for axes, (name, found) in zip(grid.flat, configurations.items(), strict=False):
        plain(axes).set_title("\n".join(titles[name]), fontsize=SIZE - 2, loc="left", color=INK)
        axes.grid(False)
        axes.locator_params(nbins=4)
        axes.label_outer(remove_inner_ticks=True)
        _panel(axes, found, colour)
    handles, names = grid.flat[0].get_legend_handles_labels()
    made.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, **words())
    made.supxlabel("stages", fontsize=SIZE + 1)
    made.supylabel("tensor pipe active, % of elapsed cycles", fontsize=SIZE + 1)
    return made


def _configuration(row: Row) -> tuple[str, str]:
    return row["family"], row["config"]


def _panel(axes: Axes, rows: Sequence[Row], colour: Colour) -> None:
    measured = {row["to_stages"]: row["measured_pct"] for row in rows}
    name = "predicted, a line per profiled depth"
    for start in sorted({row["from_stages"] for row in rows}):
        told = {
            row["to_stages"]: row["predicted"]["tensor_elapsed_pct"]
            for row in rows
            if row["from_stages"] == start and row["predicted"]
        }
        if start in measured:
            told[start] = measured[start]
        axes.plot(*_columns(told), color=colour("data_wait"), linewidth=0.8, label=name)
        name = ""
    axes.plot(*_columns(measured), color=INK, linewidth=1.0, marker="o", markersize=2.5, label="measured")


def _columns(points: Mapping[int, float]) -> tuple[list[int], list[float]]:
    depths = sorted(points)
    return depths, [points[depth] for depth in depths]


def _errors(rows: Sequence[Row], colour: Colour) -> Figure:
    """Histograms of predicted less measured utilization, ours in front of each baseline's."""
    baselines = list(dict.fromkeys(name for row in rows for name in row["baselines"]))
    made = figure(9.0, 2.6)
    grid = made.subplots(1, max(1, len(baselines)), sharex=True, sharey=True, squeeze=False)
    ours = [row["predicted"]["tensor_elapsed_pct"] - row["measured_pct"] for row in rows if row["predicted"]]
    edges = [BIN * index for index in range(int(-WIDEST / BIN), int(WIDEST / BIN) + 1)]
    for axes, name in zip(grid.flat, baselines or [""], strict=True):
        theirs = [
            row["baselines"][name] - row["measured_pct"] for row in rows if row["baselines"].get(name) is not None
        ]
        plain(axes, f"beside {name.replace('_', ' ')}" if name else "")
        axes.hist(_clipped(theirs), edges, color=GREY, alpha=0.6, label="baseline")
        axes.hist(_clipped(ours), edges, histtype="step", color=colour("data_wait"), linewidth=1.2, label="ours")
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.locator_params(nbins=4)
    grid.flat[0].legend(loc="upper left", frameon=False, **words())
    made.supxlabel(f"predicted less measured, points (beyond {WIDEST:g}: in the last bar)", fontsize=SIZE + 1)
    made.supylabel("predictions", fontsize=SIZE + 1)
    return made


def _clipped(errors: Sequence[float]) -> list[float]:
    return [max(-WIDEST, min(WIDEST, error)) for error in errors]
