"""Callbacks: few on the server (pages, progress), the rest in the browser
(``assets/ncubble.js``)."""

from __future__ import annotations

from typing import Any

from dash import MATCH, ClientsideFunction, Dash, Input, Output, State, no_update
from dash.development.base_component import Component

from ncubble.dashboard.app import shell
from ncubble.dashboard.app.questions import refuse_strange
from ncubble.dashboard.app.routes import content
from ncubble.dashboard.data.readings import Progress
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.registry import PAGES

READING_MS, WATCHING_MS = 600, 2500
"""How often the browser polls for changes: while reports are being read, and later, when only new
runs can appear."""
PROGRESS = (
    ("loading-state", "children"),
    ("progress", "disabled"),
    ("progress", "interval"),
    ("store-version", "data"),
)
"""Components and properties that follow the reading of reports."""


def first(store: ReportStore, path: str | None = None, search: str = "") -> Component:
    """The shell around the page at an address; around none where there is none, which ``show`` then
    fills."""
    state = dict(zip(PROGRESS, reading_state(store, None), strict=True))  # before the page: it may be newer
    if path is None:
        return shell.layout(state)
    return shell.layout(state, path, search, *content(store, path, search))


def register(app: Dash, store: ReportStore) -> None:
    """Add every callback to ``app``."""
    _pages(app, store)
    _progress(app, store)
    _browser(app)
    for page in PAGES:
        if page.register is not None:
            page.register(app, store)
    refuse_strange(app)


def _pages(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("page", "children"),
        Output("page-title", "data"),
        Output("menu", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
        prevent_initial_call=True,  # the layout holds the first page
    )
    def show(pathname: str | None, search: str | None) -> tuple[Component, str, list[Component]]:
        return *content(store, pathname or "/", search or ""), shell.menu(pathname or "/")

    @app.callback(
        Output("page", "children", allow_duplicate=True),
        Output("page-title", "data", allow_duplicate=True),
        Input("retry", "n_intervals"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def look_again(_: int | None, pathname: str | None, search: str | None) -> tuple[Component, str]:
        return content(store, pathname or "/", search or "")


def _progress(app: Dash, store: ReportStore) -> None:
    @app.callback(
        *(Output(*part) for part in PROGRESS),
        Input("progress", "n_intervals"),
        State("store-version", "data"),
        prevent_initial_call=True,
    )
    def advance(_: int | None, seen: Any) -> tuple[Any, ...]:
        return reading_state(store, seen)


def reading_state(store: ReportStore, seen: Any) -> tuple[Any, ...]:
    """What ``PROGRESS`` is now; ``seen`` is the last of it that the browser has."""
    progress = store.progress()
    now = {"version": progress.version, "launches": progress.launches, "finished": progress.finished}
    pause = WATCHING_MS if progress.finished else READING_MS
    ended = progress.finished and not store.watch
    return loading_words(progress), ended, pause, no_update if now == seen else now


def loading_words(progress: Progress) -> str:
    """What the header says while reports are being read; empty once that has ended."""
    if progress.finished:
        return ""
    return f"reading {progress.done} of {progress.total}" if progress.total else "looking for reports"


def _browser(app: Dash) -> None:
    def run(name: str, *parts: Any, **options: Any) -> None:
        app.clientside_callback(ClientsideFunction("ncubble", name), *parts, **options)  # type: ignore[no-untyped-call]

    run("theme", Output("theme", "data"), Input("theme-choice", "value"), Input("system-theme", "data"))
    run("copyLink", Output("linked", "data"), Input("copy-link", "n_clicks"), prevent_initial_call=True)
    run("title", Output("titled", "data"), Input("page-title", "data"))
    run(
        "draw",
        Output({"type": "figure", "name": MATCH}, "figure"),
        Input({"type": "drawn", "name": MATCH}, "data"),
        Input("theme", "data"),
        State("templates", "data"),
    )
    run(
        "copyMarkdown",
        Output("copied", "children"),
        Input("copy-markdown", "n_clicks"),
        State("markdown-text", "value"),
        prevent_initial_call=True,
    )
