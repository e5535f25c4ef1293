"""Every metric of one launch in a table that is searched in the browser; sent when it is asked
for."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.kernel.address import LONGEST_FIND, KernelAddress
from ncubble.dashboard.pages.kernel.metric_table import metric_rows
from ncubble.dashboard.ui.components import aria, guarded, note
from ncubble.dashboard.ui.grid import ag_grid

MOST = 6000
"""Metrics of one launch that are sent; the largest public report holds half of that."""


def section(entry: Entry, address: KernelAddress) -> Component:
    """The folded card; where the address asks for the table, it is open and filled."""
    inside: Component = html.P("Reading the metrics of this launch.", className="hint")
    if address.metrics:
        inside = guarded("All metrics", lambda: grid(entry, address.find))
    filled: dict[str, Any] = {"data-filled": "yes" if address.metrics else ""}
    summary = html.Summary(
        [html.H2("All metrics"), html.Span("with what they mean", className="hint", id="kernel-metrics-count")],
        id="metrics-open",
        n_clicks=1 if address.metrics else 0,
        **filled,
    )
    folded = html.Details([summary, html.Div(inside, id="kernel-metrics")], open=address.metrics, id="metrics-details")
    return html.Section(folded, className="card metrics-card", **aria(label="All metrics"))


def counted(entry: Entry) -> str:
    """How many there are, for the line that opens the table."""
    return f"{len(entry.launch.scalars)} of this launch, with what they mean"


def grid(entry: Entry, find: str = "") -> Component:
    """Search field and table: name, value with its SI prefix, explanation."""
    report = entry.report
    rows = metric_rows(report.metrics[report.metrics["launch"] == entry.number])
    if not rows:
        return note("empty", "This report holds no metrics of this launch.")
    box = dcc.Input(
        id="metric-search",
        type="search",
        value=find,
        debounce=0.15,
        maxLength=LONGEST_FIND,
        className="search",
        placeholder="names, values, explanations",
    )
    table = ag_grid(
        "metrics-grid",
        _COLUMNS,
        {"rowHeight": 30, "headerHeight": 34, "tooltipShowDelay": 250, "animateRows": True, "quickFilterText": find},
        column={"wrapHeaderText": True},
        rowData=rows[:MOST],
        getRowId="params.data.metric",
        style={"height": "520px", "width": "100%"},
        className="metrics-grid",
    )
    return html.Div([html.Label([html.Span("Search"), box], className="metric-find live-only"), table])


_COLUMNS: list[dict[str, Any]] = [
    {"field": "metric", "headerName": "Metric", "width": 430, "tooltipField": "explained", "cellClass": "mono"},
    {
        "field": "raw",
        "headerName": "Value",
        "width": 170,
        "type": "rightAligned",
        "valueFormatter": {"function": "params.data.value"},
        "tooltipField": "exact",
        "filter": "agNumberColumnFilter",
    },
    {"field": "unit", "headerName": "Unit", "width": 120},
    {"field": "explained", "headerName": "Explanation", "flex": 1, "minWidth": 260, "tooltipField": "explained"},
]
