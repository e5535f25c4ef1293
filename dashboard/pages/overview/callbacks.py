"""Callbacks of the overview: what is new in the store and the figure on the server, everything else
in the browser.

The table's rows are no callback: ``assets/overview.js`` asks ``routes`` for the blocks that are in
sight.
"""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, no_update

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.overview.address import OverviewAddress
from ncubble.dashboard.pages.overview.grid import definitions
from ncubble.dashboard.pages.overview.routes import add_routes
from ncubble.dashboard.pages.overview.table import table_of
from ncubble.dashboard.pages.overview.tools import column_options

DRAWN = {"type": "drawn", "name": "scatter"}

_CHANGES: dict[str, Any] = {
    "columns": Input("columns-shown", "value"),
    "figure": Input("figure-kind", "value"),
    "time": Input("time-unit", "value"),
    "openRow": Input("launches", "cellClicked"),
    "openPoint": Input({"type": "figure", "name": "scatter"}, "clickData"),
}
"""What a user changes, by the function of ``assets/overview.js`` that follows it."""


def register(app: Dash, store: ReportStore) -> None:
    """Add callbacks and routes of the overview to ``app``."""
    add_routes(app.server, store)
    _news(app, store)
    _figure(app, store)
    _browser(app)


def _news(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("overview-summary", "children"),
        Output("overview-problems", "children"),
        Output("overview", "className"),
        Output("launches", "columnDefs"),
        Output("columns-shown", "options"),
        Output("overview-seen", "data"),
        Input("store-version", "data"),
        Input("overview-there", "data"),  # what came between building the page and showing its rows
        State("overview-seen", "data"),
        State("columns-shown", "options"),
        State("overview-view", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: Any, __: Any, seen: Any, known: Any, query: str | None) -> tuple[Any, ...]:
        progress, table = store.progress(), table_of(store)
        if progress.version == seen and progress.finished:
            return (no_update,) * 6
        head = overview.summary(progress), overview.problems(store), overview.state_class(progress)
        options = column_options(table)
        same = {one["value"] for one in known or []} == {one["value"] for one in options}
        columns = (no_update, no_update) if same else (definitions(table, OverviewAddress.parse(query)), options)
        return *head, *columns, progress.version


def _figure(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output(DRAWN, "data"),
        Output("scatter-hint", "children"),
        Input("overview-view", "data"),
        Input("overview-seen", "data"),
        prevent_initial_call=True,
    )
    def draw(query: str | None, _: Any) -> tuple[Any, ...]:
        return overview.draw(table_of(store), OverviewAddress.parse(query))


def _browser(app: Dash) -> None:
    def run(name: str, *parts: Any, **options: Any) -> None:
        app.clientside_callback(ClientsideFunction("ncubble_overview", name), *parts, **options)  # type: ignore[no-untyped-call]

    run("start", Output("overview-started", "data"), Input("overview-first", "data"))
    run(
        "place",
        Output("scatter-place", "children"),
        Input("overview-there", "data"),
        State("scatter-waiting", "data"),
        prevent_initial_call=True,
    )
    run("refresh", Output("overview-refreshed", "data"), Input("overview-seen", "data"), prevent_initial_call=True)
    for name, given in _CHANGES.items():
        done = Output("overview-started", "data", allow_duplicate=True)
        run(name, done, given, prevent_initial_call=True)
