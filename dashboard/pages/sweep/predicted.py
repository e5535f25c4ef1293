"""Predicted and measured: what one profile says of other depths, beside the launches at these
depths."""

from __future__ import annotations

from collections import OrderedDict

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.sweeps.depths import Depth, DepthPredictions, depth_predictions, depths_of, judged, profiles
from ncubble.analysis.sweeps.sweeps import Row, Sweep, SweepPoint, SweepSeries
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.pages.sweep.figures import prediction_figure
from ncubble.dashboard.ui.components import Child, absent, card, choices, figure, note, table
from ncubble.text.values import short_name

TITLE = "Predicted and measured"
MOST_PREDICTED = 64
"""Maximum cached predictions."""
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


def section(store: ReportStore, sweep: Sweep, address: SweepAddress) -> Component:
    """The section of one series: that of the launch in the address, or the first that has a
    profile."""
    launches = ((series, point, row) for series in sweep.series for point in series.points for row in point.rows)
    first = ((series, points[0], points[0].typical()) for series in sweep.series if (points := profiles(series)))
    start = next((launch for launch in launches if launch[2]["id"] == address.start), None) or next(first, None)
    if start is None:
        text = "Depths are predicted from warp samples, and no launch here has them. Profile with"
        return card(TITLE, [note("empty", text, "--set pipeline --set source")])
    series, point, row = start
    entry = launch_at(store, str(row["id"]))
    if entry is None:
        return card(TITLE, [note("error", "The launch to predict from is no longer loaded.")])
    parts = [_profiles(sweep, address, row), *_of_point(sweep, series, point, entry)]
    return card(TITLE, parts, "with the model of ncubble advise, from a single launch")


def _profiles(sweep: Sweep, address: SweepAddress, chosen: Row) -> Component:
    """Links to the profiles that depths can be predicted from, by series."""
    several, lines = len(sweep.series) > 1, []
    for series, name in zip(sweep.series, sweep.names(), strict=True):
        links = [
            (f"{sweep.parameter} {point.value}", address.href(start=str(point.typical()["id"])), chosen in point.rows)
            for point in sorted(profiles(series), key=lambda point: point.at or 0.0)
        ]
        if links:
            lines.append(choices(f"from, {short_name(name, 60)}" if several else "from", links))
    return html.Dl(lines, className="sweep-choices wide" if several else "sweep-choices")


def _of_point(sweep: Sweep, series: SweepSeries, point: SweepPoint, entry: Entry) -> list[Component]:
    told, parameter = predicted_by(entry, int(point.at or 0)), sweep.parameter
    if told.reason:
        return [note("empty", f"Not identified: {told.reason}.")]
    present, depths = told.present, depths_of(series, told)
    label = f"Predicted and measured utilization of {sweep.names()[sweep.series.index(series)]} by {parameter}"
    caption = "Predicted and measured utilization and cycles by depth"
    return [
        *(html.P(text, className="sweep-said") for text in judged(parameter, depths, present)),
        figure("sweep-predicted", prediction_figure(depths, present, parameter), label),
        table([parameter, *_HEAD], [_row(depth, present) for depth in depths], caption, range(1, 8)),
        *([html.P(told.note, className="hint")] if told.note else []),
    ]


def _row(depth: Depth, present: int) -> list[Child]:
    busy: Child = f"{depth.busy.mean:.1f} %" if depth.busy else absent("not measured")
    cycles: Child = f"{depth.cycles.mean:,.0f}" if depth.cycles else absent("not measured")
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
