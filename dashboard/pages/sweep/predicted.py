"""Predicted against measured: what one profile says of other depths, beside the launches at these
depths."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.sweeps.model import Row, Sweep, SweepPoint, SweepSeries
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
from ncubble.dashboard.pages.sweep.address import SweepAddress
from ncubble.dashboard.pages.sweep.choice import choices
from ncubble.dashboard.pages.sweep.prediction_figure import prediction_figure
from ncubble.dashboard.ui.components import card, figure, note, table
from ncubble.text import values

TITLE = "Predicted against measured"
FLAT = 2.0
"""Points that measured depths must span for their order to mean anything."""


MOST_PREDICTED = 64
"""Predictions that are kept."""
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


def prediction_section(store: ReportStore, one: Sweep, address: SweepAddress) -> Component:
    """The section of one series: that of the launch in the address, or the first that has a
    profile."""
    start = _start(one, address.start)
    if start is None:
        text = "Depths are predicted from the warp samples of one launch, and no launch here has them. Profile with"
        return card(TITLE, [note("empty", text, "--set pipeline --set source")])
    series, point, row = start
    key, _, launch = str(row["id"]).partition("/")
    entry = store.find(key, int(launch))
    if entry is None:
        return card(TITLE, [note("error", "The launch to predict from is no longer there.")])
    parts: list[Component] = [_choices(one, address, str(row["id"]))]
    parts += _of_point(one, series, point, entry)
    return card(TITLE, parts, "the model of ncubble advise, from one launch alone")


def _start(one: Sweep, wanted: str) -> tuple[SweepSeries, SweepPoint, Row] | None:
    """Where predictions begin: (series, point, launch)."""
    for series in one.series:
        for point in series.points:
            if (row := next((row for row in point.rows if row["id"] == wanted), None)) is not None:
                return series, point, row
    found = ((series, points[0]) for series in one.series if (points := profiles(series)))
    first = next(found, None)
    return (*first, first[1].typical()) if first else None


def _choices(one: Sweep, address: SweepAddress, chosen: str) -> Component:
    """Links to the profiles that depths can be predicted from, by series."""
    lines = []
    for series, name in zip(one.series, one.names(), strict=True):
        links = []
        for point in sorted(profiles(series), key=lambda found: found.at or 0.0):
            row = point.typical()
            current = chosen in {str(other["id"]) for other in point.rows}
            links.append((f"{one.parameter} {point.value}", address.href(start=str(row["id"])), current))
        if links:
            label = f"from, {values.short_name(name, 60)}" if len(one.series) > 1 else "from"
            lines.append(choices(label, links))
    return html.Dl(lines, className=f"sweep-choices {'wide' if len(one.series) > 1 else ''}".strip())


def _of_point(one: Sweep, series: SweepSeries, point: SweepPoint, entry: Entry) -> list[Component]:
    told = predicted_by(entry, int(point.at or 0))
    if told.reason:
        return [note("empty", f"Not identified: {told.reason}.")]
    depths = depths_of(series, told)
    found = depth_choice(depths, told.present)
    said = [html.P(text, className="sweep-said") for text in sentences(one.parameter, told, found)]
    name = next(name for other, name in zip(one.series, one.names(), strict=True) if other is series)
    label = f"Predicted and measured utilization of {name} by {one.parameter}"
    utilization = figure("sweep-predicted", prediction_figure(depths, told.present, one.parameter), label)
    cycles = prediction_figure(depths, told.present, one.parameter, cycles=True)
    label = f"Predicted and measured cycles of {name} by {one.parameter}"
    figures = html.Div([utilization, figure("sweep-predicted-cycles", cycles, label)], className="columns")
    notes = [html.P(text, className="hint") for text in told.notes]
    return [*said, figures, _table(one.parameter, depths, told), *notes]


def sentences(parameter: str, told: DepthPredictions, found: DepthChoice | None) -> list[str]:
    """What the predictions are worth, in words."""
    if found is None:
        return [f"No other value of {parameter} was both measured and predicted, so nothing can be held against it."]
    points = "depth" if found.n == 1 else "depths"
    said = [
        f"Predicted from {parameter} {told.present}: {found.mean_error:.1f} points of utilization off on the mean of "
        f"{found.n} other measured {points}."
    ]
    if found.span < FLAT:
        said.append(f"The measured depths span {found.span:.1f} points: their order means little.")
    if found.chosen == found.best:
        said.append(f"Best by prediction and by measurement: {parameter} {found.best}, {found.best_pct:.1f} %.")
    else:
        lost = f"{found.best_pct - found.chosen_pct:.1f} points ({found.regret_pct:.1f} %)"
        said.append(
            f"Best by prediction: {parameter} {found.chosen}, which reaches {found.chosen_pct:.1f} %; by measurement: "
            f"{found.best}, {found.best_pct:.1f} %. Following the prediction loses {lost}."
        )
    return said


def _table(parameter: str, depths: Sequence[Depth], told: DepthPredictions) -> Component:
    head = [parameter, "measured", "predicted", "between", "error, points", "cycles measured", "predicted", "error", ""]
    rows = [_row(one, told.present) for one in depths]
    numeric = [1, 2, 3, 4, 5, 6, 7]
    return table(head, rows, "Predicted and measured utilization and cycles by depth", numeric)


def _row(one: Depth, present: int) -> list[Component | str]:
    absent = html.Span("not measured", className="missing")
    measured = [f"{one.busy.mean:.1f} %" if one.busy else absent, f"{one.cycles.mean:,.0f}" if one.cycles else absent]
    if one.depth == present:
        return [str(one.depth), measured[0], "", "", "", measured[1], "", "", "predicted from here"]
    if one.predicted is None:
        why = html.Span(f"no prediction: {one.refusal or 'not identified'}", className="hint sweep-why")
        return [str(one.depth), measured[0], "", "", "", measured[1], "", "", why]
    told = one.predicted
    error, more = one.error, one.cycles_error_pct
    return [
        str(one.depth),
        measured[0],
        f"{told.tensor_elapsed_pct:.1f} %",
        f"{told.low:.1f} to {told.high:.1f}",
        f"{error:+.1f}" if error is not None else "",
        measured[1],
        f"{told.cycles:,.0f}",
        f"{more:+.1f} %" if more is not None else "",
        "",
    ]
