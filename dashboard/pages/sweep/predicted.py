"""Predicted and measured: what one profile says of other depths, beside the launches at these
depths."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import SIDE_STYLES
from ncubble.analysis.sweeps.model import PointSpread, Row, Sweep, SweepPoint, SweepSeries
from ncubble.analysis.sweeps.prediction import (
    Depth,
    DepthChoice,
    DepthPredictions,
    depth_choice,
    depth_predictions,
    depths_of,
    profiles,
)
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.pages.sweep.figures import launches_in_words, lines_layout, whiskers
from ncubble.dashboard.ui.components import Child, absent, card, choices, figure, note, table
from ncubble.dashboard.ui.figures import Drawn, Figure
from ncubble.text.values import short_name

TITLE = "Predicted and measured"
FLAT = 2.0
"""Minimum span of measured depths, in points, for their order to be meaningful."""
MOST_PREDICTED = 64
"""Maximum cached predictions."""
MEASURED, PREDICTED = SIDE_STYLES[1], SIDE_STYLES[2]
_HEAD = ("measured", "predicted", "between", "error, points", "cycles measured", "predicted", "error", "")
_predicted: OrderedDict[str, DepthPredictions] = OrderedDict()


def predicted_by(entry: Entry, depth: int) -> DepthPredictions:
    """What the model says of a launch whose swept parameter is ``depth``; remembered by the
    launch's address."""
    name = f"{entry.row['id']} {depth} {entry.row['path']}"
    known = _predicted.get(name)
    if known is None:
        known = _predicted[name] = depth_predictions(entry.launch, depth)
        while len(_predicted) > MOST_PREDICTED:
            _predicted.popitem(last=False)
    return known


def prediction_section(store: ReportStore, sweep: Sweep, address: SweepAddress) -> Component:
    """The section of one series: that of the launch in the address, or the first that has a
    profile."""
    start = _start(sweep, address.start)
    if start is None:
        text = "Depths are predicted from warp samples, and no launch here has them. Profile with"
        return card(TITLE, [note("empty", text, "--set pipeline --set source")])
    series, point, row = start
    entry = launch_at(store, str(row["id"]))
    if entry is None:
        return card(TITLE, [note("error", "The launch to predict from is no longer loaded.")])
    parts = [_profiles(sweep, address, str(row["id"])), *_of_point(sweep, series, point, entry)]
    return card(TITLE, parts, "with the model of ncubble advise, from a single launch")


def _start(sweep: Sweep, wanted: str) -> tuple[SweepSeries, SweepPoint, Row] | None:
    """Where predictions begin: (series, point, launch)."""
    launches = ((series, point, row) for series in sweep.series for point in series.points for row in point.rows)
    first = ((series, points[0], points[0].typical()) for series in sweep.series if (points := profiles(series)))
    return next((launch for launch in launches if launch[2]["id"] == wanted), None) or next(first, None)


def _profiles(sweep: Sweep, address: SweepAddress, chosen: str) -> Component:
    """Links to the profiles that depths can be predicted from, by series."""
    several, lines = len(sweep.series) > 1, []
    for series, name in zip(sweep.series, sweep.names(), strict=True):
        links = [
            (
                f"{sweep.parameter} {point.value}",
                address.href(start=str(point.typical()["id"])),
                chosen in {str(row["id"]) for row in point.rows},
            )
            for point in sorted(profiles(series), key=lambda point: point.at or 0.0)
        ]
        if links:
            lines.append(choices(f"from, {short_name(name, 60)}" if several else "from", links))
    return html.Dl(lines, className="sweep-choices wide" if several else "sweep-choices")


def _of_point(sweep: Sweep, series: SweepSeries, point: SweepPoint, entry: Entry) -> list[Component]:
    predictions, parameter = predicted_by(entry, int(point.at or 0)), sweep.parameter
    if predictions.reason:
        return [note("empty", f"Not identified: {predictions.reason}.")]
    present, depths = predictions.present, depths_of(series, predictions)
    texts = sentences(parameter, predictions, depth_choice(depths, present))
    name = next(name for other, name in zip(sweep.series, sweep.names(), strict=True) if other is series)
    label = f"Predicted and measured {{}} of {name} by {parameter}"
    figures = [
        figure("sweep-predicted", prediction_figure(depths, present, parameter), label.format("utilization")),
        figure(
            "sweep-predicted-cycles",
            prediction_figure(depths, present, parameter, cycles=True),
            label.format("cycles"),
        ),
    ]
    caption = "Predicted and measured utilization and cycles by depth"
    return [
        *(html.P(text, className="sweep-said") for text in texts),
        html.Div(figures, className="columns"),
        table([parameter, *_HEAD], [_row(depth, present) for depth in depths], caption, range(1, 8)),
        *(html.P(text, className="hint") for text in predictions.notes),
    ]


def sentences(parameter: str, predictions: DepthPredictions, choice: DepthChoice | None) -> list[str]:
    """What the predictions are worth, in words."""
    if choice is None:
        return [f"No other value of {parameter} was both measured and predicted, so predictions cannot be checked."]
    texts = [
        f"Predicted from {parameter} {predictions.present}: {choice.mean_error:.1f} points of "
        f"utilization off on average over {choice.n} other measured {'depth' if choice.n == 1 else 'depths'}."
    ]
    if choice.span < FLAT:
        texts.append(f"The measured depths span {choice.span:.1f} points: their order is not significant.")
    if choice.chosen == choice.best:
        texts.append(f"Best by prediction and by measurement: {parameter} {choice.best}, {choice.best_pct:.1f} %.")
    else:
        lost = f"{choice.best_pct - choice.chosen_pct:.1f} points ({choice.regret_pct:.1f} %)"
        texts.append(
            f"Best by prediction: {parameter} {choice.chosen}, which reaches {choice.chosen_pct:.1f} %; by "
            f"measurement: {choice.best}, {choice.best_pct:.1f} %. Following the prediction loses {lost}."
        )
    return texts


def _row(depth: Depth, present: int) -> list[Child]:
    unmeasured = absent("not measured")
    busy: Child = f"{depth.busy.mean:.1f} %" if depth.busy else unmeasured
    cycles: Child = f"{depth.cycles.mean:,.0f}" if depth.cycles else unmeasured
    predicted, error, more = depth.predicted, depth.error, depth.cycles_error_pct
    if depth.depth == present or predicted is None:
        why: Child = "predicted from here"
        if depth.depth != present:
            why = html.Span(f"no prediction: {depth.refusal or 'not identified'}", className="hint sweep-why")
        return [str(depth.depth), busy, "", "", "", cycles, "", "", why]
    return [
        str(depth.depth),
        busy,
        f"{predicted.tensor_elapsed_pct:.1f} %",
        f"{predicted.low:.1f} to {predicted.high:.1f}",
        f"{error:+.1f}" if error is not None else "",
        cycles,
        f"{predicted.cycles:,.0f}",
        f"{more:+.1f} %" if more is not None else "",
        "",
    ]


def prediction_figure(depths: Sequence[Depth], present: int, parameter: str, cycles: bool = False) -> Figure:
    """Measured and predicted busy share in percent, or elapsed cycles, by depth.

    Measured: solid with filled symbols; predicted: dashed with open ones, with the bounds of the
    prediction. A ring stands around the depth that was predicted from, ``present``.
    """
    measured = {depth.depth: spread for depth in depths if (spread := depth.cycles if cycles else depth.busy)}
    predicted = {depth.depth: _bounds(depth.predicted, cycles) for depth in depths if depth.predicted}
    unit = "cycles" if cycles else "%"
    traces: list[Drawn] = [
        {
            "type": "scatter",
            "x": list(measured),
            "y": [round(spread.mean, 3) for spread in measured.values()],
            "name": "measured",
            "mode": "lines+markers",
            "line": {"color": MEASURED.color, "width": 2, "dash": "solid"},
            "marker": {"color": MEASURED.color, "symbol": "circle", "size": 9},
            "customdata": [launches_in_words(spread) for spread in measured.values()],
            "cliponaxis": False,
            "hovertemplate": f"measured at %{{x}}: <b>%{{y:,.5~g}} {unit}</b><br>%{{customdata}}<extra></extra>",
        },
        {
            "type": "scatter",
            "x": list(predicted),
            "y": [round(bounds.mean, 3) for bounds in predicted.values()],
            "name": "predicted",
            "mode": "lines+markers",
            "line": {"color": PREDICTED.color, "width": 2, "dash": "dash"},
            "marker": {"color": PREDICTED.color, "symbol": "diamond-open", "size": 10, "line": {"width": 2}},
            "error_y": {**whiskers(predicted.values(), 3), "color": PREDICTED.color, "thickness": 1.2, "width": 5},
            "customdata": [[f"{bounds.low:,.4g}", f"{bounds.high:,.4g}"] for bounds in predicted.values()],
            "cliponaxis": False,
            "hovertemplate": f"predicted at %{{x}}: <b>%{{y:,.5~g}} {unit}</b><br>%{{customdata[0]}} to "
            "%{customdata[1]}<extra></extra>",
        },
    ]
    if present in predicted:
        traces.append(
            {
                "type": "scatter",
                "x": [present],
                "y": [predicted[present].mean],
                "mode": "markers",
                "name": "predicted from here",
                "marker": {"symbol": "circle-open", "size": 19, "color": PREDICTED.color, "line": {"width": 2}},
                "hoverinfo": "skip",
            }
        )
    values = [str(depth.depth) for depth in depths if depth.busy or depth.predicted]
    layout = lines_layout(values, (parameter, "elapsed cycles" if cycles else "unit busy, % of elapsed cycles"))
    layout["yaxis"] |= {"rangemode": "tozero"}
    return Figure(traces, layout)


def _bounds(predicted: Any, cycles: bool) -> PointSpread:
    """Expected busy share with its bounds, or the cycles that stand for it."""
    if not cycles:
        return PointSpread(predicted.tensor_elapsed_pct, predicted.low, predicted.high, 1)
    work = predicted.cycles * predicted.tensor_elapsed_pct
    return PointSpread(predicted.cycles, work / max(predicted.high, 1e-9), work / max(predicted.low, 1e-9), 1)
