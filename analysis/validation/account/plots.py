"""Plots of ``ncubble validate account``: truth against account by part, and all sides of every case
as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ncubble.analysis.validation.account.score import SIDES, WORST
from ncubble.analysis.validation.account.tables import COLUMNS, label
from ncubble.analysis.validation.account.truth import JOINED
from ncubble.analysis.validation.plots import GREY, INK, SIZE, Colour, bars, figure, plain, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BUSY = "tensor_busy"
STACKED = (BUSY, *COLUMNS)
ROW = 0.46
"""Inches of a case in the bars."""
MARKS = {"dev": ("o", "rules fitted"), "test": ("D", "kept apart, first"), "second": ("s", "kept apart, second")}


def account_plots(result: Mapping[str, Any], colour: Colour) -> dict[str, Figure]:
    """Figures by name of their file."""
    return {"account-scatter": _scatter(result, colour), "account-bars": _bars(result, colour)}


def _column(part: str) -> str:
    """The panel and colour of a part; joined ones go with their first."""
    return part.split(JOINED)[0]


def _scatter(result: Mapping[str, Any], colour: Colour) -> Figure:
    made = figure(9.0, 5.0)
    grid = made.subplots(2, 4)
    panels = dict(zip(COLUMNS, grid.flat, strict=False))
    for part, axes in panels.items():
        _panel(plain(axes, label(part)), part, result, colour(part))
    spare = grid.flat[len(COLUMNS)]
    spare.axis("off")
    handles, names = panels[COLUMNS[0]].get_legend_handles_labels()
    spare.legend(handles, names, loc="center", frameon=False, **words())
    made.supxlabel("what vanishes without the part, % of kernel time", fontsize=SIZE + 1)
    made.supylabel("what the account says, % of kernel time", fontsize=SIZE + 1)
    return made


def _panel(axes: Axes, part: str, result: Mapping[str, Any], colour: str) -> None:
    points = [
        (case["split"], case["truth"][one], case["account"][one], case["naive"][one])
        for case in result["cases"]
        for one in case["truth"]
        if _column(one) == part
    ]
    values = [value for point in points for value in point[1:]] or [0.0]
    low, high = min(0.0, *values) - 2, max(10.0, *values) + 2
    axes.plot([low, high], [low, high], color=INK, linewidth=0.8, label="account = truth")
    band = ([low - WORST, high - WORST], [low + WORST, high + WORST])
    axes.fill_between([low, high], *band, color=GREY, alpha=0.15, linewidth=0, label=f"within {WORST:g} points")
    axes.scatter(
        [x for _, x, _, _ in points],
        [y for *_, y in points],
        marker="x",
        s=16,
        linewidths=0.8,
        color=GREY,
        label="naive account",
    )
    for split, (marker, told) in MARKS.items():
        found = [(x, y) for one, x, y, _ in points if one == split]
        fill = colour if split == "dev" else "white"
        axes.scatter(
            [x for x, _ in found],
            [y for _, y in found],
            marker=marker,
            s=18,
            facecolors=fill,
            edgecolors=colour,
            linewidths=1.0,
            label=f"account, {told}",
        )
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.locator_params(nbins=4)


def _bars(result: Mapping[str, Any], colour: Colour) -> Figure:
    cases = result["cases"]
    made = figure(9.0, 1.0 + ROW * len(cases))
    axes = plain(made.subplots())
    for part in STACKED:
        _stack(axes, part, cases, colour(part))
    axes.set_yticks(range(len(cases)), [case["case"] for case in cases], fontsize=SIZE - 1)
    axes.autoscale_view()
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("% of kernel time; in each group: truth, account, naive account", **words())
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(False, axis="y")
    made.legend(loc="outside upper center", ncols=8, frameon=False, **words())
    return made


def _stack(axes: Axes, part: str, cases: Sequence[Mapping[str, Any]], colour: str) -> None:
    """One part in every bar. What is below 0 goes to the left of 0, and takes nothing from the
    others."""
    boxes = []
    for index, case in enumerate(cases):
        for place, side in enumerate(SIDES):
            parts = {BUSY: case["busy_pct"], **{_column(one): value for one, value in case[side].items()}}
            before = [parts.get(one, 0.0) for one in STACKED[: STACKED.index(part)]]
            width = parts.get(part, 0.0)
            left = sum(one for one in before if (one < 0) == (width < 0))
            boxes.append((left, index + 0.27 * (place - 1) - 0.12, width, 0.24))
    bars(axes, boxes, colour, "busy" if part == BUSY else label(part))
