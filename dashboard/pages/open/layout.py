"""The page that adds reports: files from the browser, what became of them, which folders are
watched, what failed."""

from __future__ import annotations

import time
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OpenAddress
from ncubble.dashboard.pages.open import routes as upload_routes
from ncubble.dashboard.pages.open.limits import megabytes
from ncubble.dashboard.pages.open.lists import added, failed, watched
from ncubble.dashboard.pages.open.uploads import Uploads
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.ui.components import aria, card, note, page_head

_POLL_MS = 1000


def layout(store: ReportStore, address: OpenAddress) -> Component:
    """The page. What changes while reports are read is replaced by the callbacks of
    ``register``."""
    uploads = upload_routes.current()
    lead = "Add report files here, or pass files and folders on the command line."
    rescan: Any = html.Button("Rescan now", id="open-rescan", className="button", n_clicks=0)
    again = html.P([rescan, html.Span(" looks for new runs and retries failed ones", className="hint")])
    parts = [
        page_head("Open reports", lead),
        _adding(uploads),
        html.Div(added(uploads.kept() if uploads else (), store), id="open-added"),
        html.Div(watched(store), id="open-watched"),
        again,
        html.Div(failed(store), id="open-failed"),
        dcc.Store(id="open-version", data=version(store, uploads)),
        dcc.Store(id="open-touch"),
        dcc.Interval(id="open-poll", interval=_POLL_MS),
    ]
    return html.Div(parts, className="open-page")


def version(store: ReportStore, uploads: Uploads | None) -> list[int]:
    """Changes with everything that this page shows."""
    return [store.progress().version, uploads.version if uploads else 0]


def _adding(uploads: Uploads | None) -> Component:
    """The card to drop files on, or why there is none."""
    if uploads is None or not uploads.allowed:
        text = (
            "This server does not accept files from the browser (others may reach it, or uploads are "
            "disabled). Open files with "
        )
        return card("Add files", [note("empty", text, "ncubble dashboard FILE_OR_FOLDER …")])
    limits = uploads.limits
    choose: Any = html.Button("Choose files", id="open-choose", className="button primary", n_clicks=0)
    kinds = (
        f"Reports of Nsight Compute (.ncu-rep, .ncu-repz), up to {megabytes(limits.file_bytes)} "
        f"each. The server keeps at most {limits.files} files and {megabytes(limits.total_bytes)}, "
        "until it stops. For folders of runs and larger files: "
    )
    hint = html.P([kinds, html.Code("ncubble dashboard FILE_OR_FOLDER …")], className="hint")
    title = html.P("Drop report files here, or on any page", className="drop-title")
    zone = html.Div([title, choose, hint], id="open-drop", className="drop-zone")
    return card("Add files", [zone, html.Ul(id="open-sending", className="uploads", **aria(label="Files to add"))])


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
        if (now := version(store, uploads)) == seen:
            return (no_update,) * 4
        return added(uploads.kept() if uploads else (), store), watched(store), failed(store), now

    @app.callback(Output("open-touch", "data"), Input("open-rescan", "n_clicks"), prevent_initial_call=True)
    def rescan(clicks: int | None) -> Any:
        if not clicks:
            return no_update
        store.rescan()
        return time.time()

    notice = (Output("new-launches", "children"), Output("new-launches", "className"))
    in_browser(app, "ncubble_open", {"news": (*notice, Input("store-version", "data"), Input("url", "pathname"))})


PAGE = Page("Open", OpenAddress, layout, register)
