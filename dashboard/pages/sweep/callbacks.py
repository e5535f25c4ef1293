"""Callbacks of the Sweep page, all of them in the browser (``assets/sweep.js``)."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output

from ncubble.dashboard.data.store import ReportStore

FIGURES = ("sweep-busy", "sweep-time")


def register(app: Dash, store: ReportStore) -> None:
    """A click on a point leads to its launch. ``store`` is not read."""
    for name in FIGURES:
        app.clientside_callback(  # type: ignore[no-untyped-call]
            ClientsideFunction("ncubble_sweep", "openPoint"),
            Output("url", "pathname", allow_duplicate=True),
            Output("url", "search", allow_duplicate=True),
            Input({"type": "figure", "name": name}, "clickData"),
            prevent_initial_call=True,
        )
