"""Callbacks of the Checks page. The browser writes the address; the server draws what was
chosen."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, no_update
from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.checks import layout as checks
from ncubble.dashboard.pages.checks.address import ChecksAddress


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``."""
    _browser(app)

    @app.callback(
        Output("checks-detail", "children"),
        Input("checks-chosen", "data"),
        prevent_initial_call=True,
    )
    def show(chosen: Any) -> Component:
        return checks.selected(store, checks.history_of(store), address_of(chosen))

    @app.callback(
        Output("checks-body", "children"),
        Output("checks-token", "data"),
        Input("checks-poll", "n_intervals"),
        State("checks-token", "data"),
        State("checks-chosen", "data"),
        State("checks-query", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int | None, seen: str | None, chosen: Any, query: Any) -> tuple[Any, Any]:
        history = checks.history_of(store)
        if history.token == seen:
            return no_update, no_update
        return checks.body(store, history, address_of(chosen, query)), history.token


def address_of(chosen: Any, query: Any = "") -> ChecksAddress:
    """What the browser's state asks for, checked like an address."""
    state = chosen if isinstance(chosen, dict) else {}
    kernel, gpu, metric = (str(state.get(name) or "") for name in ("kernel", "gpu", "metric"))
    return ChecksAddress.parse(ChecksAddress(kernel, gpu, metric, state.get("even") is True, str(query or "")).query())


def _browser(app: Dash) -> None:
    def run(name: str, *parts: Any) -> None:
        function = ClientsideFunction("ncubble_checks", name)
        app.clientside_callback(function, *parts, prevent_initial_call=True)  # type: ignore[no-untyped-call]

    state = State("checks-chosen", "data")
    run("choose", Output("checks-chosen", "data"), Input("checks-grid", "selectedRows"), state)
    run("metric", Output("checks-chosen", "data", allow_duplicate=True), Input("checks-metric", "value"), state)
    run("axis", Output("checks-chosen", "data", allow_duplicate=True), Input("checks-axis", "value"), state)
    run(
        "search",
        Output("checks-grid", "dashGridOptions"),
        Output("checks-query", "data"),
        Input("checks-search", "value"),
        State("checks-grid", "dashGridOptions"),
    )
    run(
        "matches",
        Output("checks-count", "children"),
        Input("checks-grid", "virtualRowData"),
        State("checks-grid", "rowData"),
    )
    run(
        "reset",
        Output("checks-search", "value"),
        Output("checks-grid", "filterModel"),
        Input("checks-reset", "n_clicks"),
    )
