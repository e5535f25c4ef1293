"""Predicted against measured depths as a figure: a pure function of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ncubble.analysis.account.palette import SIDE_STYLES
from ncubble.analysis.sweeps.model import PointSpread
from ncubble.analysis.sweeps.prediction import Depth
from ncubble.dashboard.pages.sweep.figures import launches_in_words, lines_layout
from ncubble.dashboard.ui.drawn import Drawn, Figure, figure_of

MEASURED, PREDICTED = SIDE_STYLES[1], SIDE_STYLES[2]


def prediction_figure(depths: Sequence[Depth], present: int, parameter: str, cycles: bool = False) -> Figure:
    """Measured and predicted busy share in percent, or elapsed cycles, by depth.

    Measured: solid with filled symbols; predicted: dashed with open ones, with the bounds of the
    prediction. The depth that was predicted from is ``present``.
    """
    measured = [(one.depth, found) for one in depths if (found := one.cycles if cycles else one.busy)]
    told = [one for one in depths if one.predicted]
    traces = [_measured(measured, cycles), _predicted(told, cycles)]
    here = next((one.predicted for one in depths if one.depth == present and one.predicted), None)
    if here is not None:
        traces.append(_here(present, _bounds(here, cycles)[1]))
    values = [str(one.depth) for one in depths if one.busy or one.predicted]
    layout = lines_layout(values, (parameter, "elapsed cycles" if cycles else "unit busy, % of elapsed cycles"))
    layout["yaxis"] |= {"rangemode": "tozero"}
    return figure_of(traces, layout)


def _here(depth: int, value: float) -> Drawn:
    """A ring around the point that was predicted from."""
    ring = {"symbol": "circle-open", "size": 19, "color": PREDICTED.color, "line": {"width": 2}}
    name = "predicted from here"
    return {
        "type": "scatter",
        "x": [depth],
        "y": [value],
        "mode": "markers",
        "name": name,
        "marker": ring,
        "hoverinfo": "skip",
    }


def _measured(found: Sequence[tuple[int, PointSpread]], cycles: bool) -> Drawn:
    unit = "cycles" if cycles else "%"
    return {
        "type": "scatter",
        "x": [depth for depth, _ in found],
        "y": [round(spread.mean, 3) for _, spread in found],
        "name": "measured",
        "mode": "lines+markers",
        "line": {"color": MEASURED.color, "width": 2, "dash": "solid"},
        "marker": {"color": MEASURED.color, "symbol": "circle", "size": 9},
        "customdata": [launches_in_words(spread) for _, spread in found],
        "cliponaxis": False,
        "hovertemplate": f"measured at %{{x}}: <b>%{{y:,.5~g}} {unit}</b><br>%{{customdata}}<extra></extra>",
    }


def _predicted(told: Sequence[Depth], cycles: bool) -> Drawn:
    bounds = [_bounds(one.predicted, cycles) for one in told]
    unit = "cycles" if cycles else "%"
    return {
        "type": "scatter",
        "x": [one.depth for one in told],
        "y": [round(middle, 3) for _, middle, _ in bounds],
        "name": "predicted",
        "mode": "lines+markers",
        "line": {"color": PREDICTED.color, "width": 2, "dash": "dash"},
        "marker": {"color": PREDICTED.color, "symbol": "diamond-open", "size": 10, "line": {"width": 2}},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [round(high - middle, 3) for _, middle, high in bounds],
            "arrayminus": [round(middle - low, 3) for low, middle, _ in bounds],
            "color": PREDICTED.color,
            "thickness": 1.2,
            "width": 5,
        },
        "customdata": [[f"{low:,.4g}", f"{high:,.4g}"] for low, _, high in bounds],
        "cliponaxis": False,
        "hovertemplate": f"predicted at %{{x}}: <b>%{{y:,.5~g}} {unit}</b><br>%{{customdata[0]}} to %{{customdata[1]}}"
        "<extra></extra>",
    }


def _bounds(told: Any, cycles: bool) -> tuple[float, float, float]:
    """(low, expected, high) busy share, or the cycles that stand for it."""
    if not cycles:
        return told.low, told.tensor_elapsed_pct, told.high
    work = told.cycles * told.tensor_elapsed_pct
    return work / max(told.high, 1e-9), told.cycles, work / max(told.low, 1e-9)
