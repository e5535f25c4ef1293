"""Callbacks of the Timelines page: a zoom goes into the address, and what is in the window is drawn
anew."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, no_update

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.timelines import layout as timelines
from ncubble.dashboard.pages.timelines.address import TimelinesAddress
from ncubble.dashboard.ui.components import bare


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``."""
    app.clientside_callback(
        ClientsideFunction("ncubble_lanes", "zoom"),  # type: ignore[no-untyped-call]
        Output("lanes-window", "data"),
        Input({"type": "figure", "name": "lanes"}, "relayoutData"),
        State("lanes-run", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ncubble_lanes", "whole"),  # type: ignore[no-untyped-call]
        Output("lanes-window", "data", allow_duplicate=True),
        Input("lanes-whole", "n_clicks"),
        State("lanes-run", "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output({"type": "drawn", "name": "lanes"}, "data"),
        Output("lanes-hint", "children"),
        Input("lanes-window", "data"),
        State("lanes-run", "data"),
        prevent_initial_call=True,
    )
    def draw(window: Any, run: Any) -> tuple[Any, Any]:
        found = timelines.drawn(store, address_of(window, run))
        return (no_update, no_update) if found is None else (bare(found.figure), timelines.hint(found))


def address_of(window: Any, run: Any) -> TimelinesAddress:
    """What the browser's state asks for, checked like an address."""
    low, high = (window.get(name) for name in ("from", "to")) if isinstance(window, dict) else (None, None)
    return TimelinesAddress.parse(f"run={run}" + (f"&from={low}&to={high}" if low is not None else ""))
