"""Callbacks of the Open page: what became of added files, a rescan, and the notice of new launches
in the header."""

from __future__ import annotations

import time
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, no_update

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.open import layout as page
from ncubble.dashboard.pages.open import routes as upload_routes
from ncubble.dashboard.pages.open.lists import added, failed, watched


def register(app: Dash, store: ReportStore) -> None:
    """Add them to ``app``."""

    @app.callback(
        Output("open-added", "children"),
        Output("open-watched", "children"),
        Output("open-failed", "children"),
        Output("open-version", "data"),
        Input("open-poll", "n_intervals"),
        Input("open-touch", "data"),
        State("open-version", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int | None, __: float | None, seen: Any) -> tuple[Any, ...]:
        uploads = upload_routes.current()
        if (now := page.version(store, uploads)) == seen:
            return (no_update,) * 4
        return added(uploads.kept() if uploads else (), store), watched(store), failed(store), now

    @app.callback(Output("open-touch", "data"), Input("open-rescan", "n_clicks"), prevent_initial_call=True)
    def rescan(clicks: int | None) -> Any:
        if not clicks:
            return no_update
        store.rescan()
        return time.time()

    news = ClientsideFunction("ncubble_open", "news")
    app.clientside_callback(  # type: ignore[no-untyped-call]
        news,
        Output("new-launches", "children"),
        Output("new-launches", "className"),
        Input("store-version", "data"),
        Input("url", "pathname"),
    )
