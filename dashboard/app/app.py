"""The application: what stands at an address, the shell around every page, and the callbacks of
both. ``create_app`` puts them together with pages and defences (``serving``)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dash import MATCH, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.gate.history import default_checks
from ncubble.dashboard.app import serving
from ncubble.dashboard.app.document import EARLY, Document
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages import uploads
from ncubble.dashboard.pages.addresses import LaunchAddress, OverviewAddress
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.overview.table import table_of
from ncubble.dashboard.pages.page import Page, in_browser, still_loading
from ncubble.dashboard.pages.registry import PAGES
from ncubble.dashboard.ui.components import aria, note, page_head
from ncubble.dashboard.ui.figures import TEMPLATES
from ncubble.dashboard.ui.plotly_js import plotly_js
from ncubble.errors import NcubbleError

LONGEST_WAIT_S = 120.0
"""Reports that take longer to read than this appear one by one, by requests that rebuild the
table."""
READING_MS, WATCHING_MS = 600, 2500
"""How often the browser polls for changes: while reports are being read, and later, when only new
runs can appear."""
KEYS = (
    ("/", "search"),
    ("j  k", "next, previous row of a table"),
    ("Enter", "open the row"),
    ("Space", "select the row for a comparison"),
    ("c", "compare the selected rows"),
    ("[  ]", "previous, next launch of the report"),
    ("s", "source of this launch"),
    ("n  p", "next, previous hot instruction"),
    ("u  U", "next, previous instruction of the line"),
    ("w  s  a  d", "zoom in, zoom out, earlier, later in Timelines; also Ctrl and wheel"),
    ("?", "this list"),
)
"""Keyboard shortcuts; ``assets`` implements them."""


def create_app(
    paths: Iterable[Path],
    *,
    host: str = serving.HOST,
    trusted: Sequence[str] = (),
    store: ReportStore | None = None,
    upload_mb: int = uploads.LARGEST_MB,
    token: str | None = None,
) -> Dash:
    """The dashboard of the reports at ``paths``, which load in the background from now on. Nothing
    is served yet.

    ``host`` and ``trusted`` are the names under which browsers may ask for it, ``upload_mb`` limits
    an added file (0: none is taken). With a ``token``, only who knows it is answered.
    """
    loaded = (store or ReportStore(list(paths))).start()
    threading.Thread(target=_prepare, args=(loaded,), name="ncubble-prepare", daemon=True).start()
    app = Document(
        loaded,
        lambda path, search: shell(loaded, path, search),
        title="ncubble",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        use_pages=False,
        enable_mcp=False,
    )
    uploads.register(app.server, uploads.Uploads(loaded, upload_mb))
    _register(app, loaded)
    for page in PAGES:
        if page.register is not None:
            page.register(app, loaded)
    serving.refuse_strange(app)
    policy = serving.content_policy(app.csp_hashes(), EARLY)
    hosts = serving.trusted_hosts(host, trusted)
    serving.protect(app.server, policy, hosts, lambda path: exists(loaded, path), token)
    # Workers that meet a cold app can answer 500: the first request sets it up.
    cookie = f"{serving.cookie_name('localhost')}={token}"
    app.server.test_client().get("/", headers={"Host": "localhost", "Cookie": cookie})
    return app


def open_server(
    paths: Sequence[Path],
    host: str = serving.HOST,
    port: int = 0,
    *,
    trusted: Sequence[str] = (),
    upload_mb: int = 0,
    checks: Path | None = None,
    token: str | None = None,
) -> tuple[serving.Server, ReportStore]:
    """A server of the dashboard that listens, so that a taken port is reported at once, and its
    store, which follows the reports at ``paths`` and the history of checks. Raises UsageError."""
    uploads.clear_leftovers()
    history = (checks or default_checks(paths, Path.cwd())).absolute()  # now: the working directory may vanish later
    store = ReportStore(list(paths), watch=True, checks=history)
    app = create_app(paths, host=host, trusted=trusted, store=store, upload_mb=upload_mb, token=token)
    return serving.Server(app, host, port), store


def _prepare(store: ReportStore) -> None:
    """Build the first page, and the code of figures, before a request needs them: both are
    remembered."""
    if store.wait(LONGEST_WAIT_S):
        overview.layout(store, OverviewAddress())
        table_of(store).texts.prepare()
    plotly_js()


# --- What stands at an address ---


def find(pathname: str) -> tuple[Page, re.Match[str]] | None:
    """The page at a path and the parts of the path, or None."""
    matches = ((page, page.address.match(pathname or "/")) for page in PAGES)
    return next(((page, match) for page, match in matches if match), None)


def content(store: ReportStore, pathname: str, search: str = "") -> tuple[Component, str]:
    """The content and the title at an address: a page, one whose launch may still come, or not
    found."""
    route = find(pathname)
    if route is None:
        return _not_found(pathname), "Not found · ncubble"
    page, match = route
    address = page.address.parse(search)
    if not issubclass(page.address, LaunchAddress):
        return page.layout(store, address), f"{page.title} · ncubble"
    launch = store.find(match["key"], int(match["launch"]))
    if launch is not None:
        try:
            _ = launch.report
            return page.layout(store, launch, address), f"{launch.row['name']} · ncubble"
        except NcubbleError as error:  # its file was moved or damaged after it was listed
            what = note("error", f"{error.message}. Remedy: {error.remedy or 'open the file again'}.")
            head = html.Div(html.H1("No longer readable"), className="page-head")
            return _dead_end(head, what), "Not readable · ncubble"
    progress = store.progress()
    if not progress.finished:
        return still_loading(progress), "Reading · ncubble"
    return _not_found(pathname), "Not found · ncubble"


def exists(store: ReportStore, pathname: str) -> bool:
    """Whether an address shows something, or may do so once loading has ended."""
    route = find(pathname)
    if route is None or not issubclass(route[0].address, LaunchAddress):
        return route is not None
    match = route[1]
    return store.find(match["key"], int(match["launch"])) is not None or not store.progress().finished


def _not_found(pathname: str) -> Component:
    why = "Addresses identify reports by content: a report that was recorded again has a new address. Requested: "
    return _dead_end(page_head("Not found", "No page or launch has this address."), note("empty", why, pathname))


def _dead_end(head: Component, what: Component) -> Component:
    return html.Div([head, what, html.P(dcc.Link("All launches", href="/", className="button"))])


# --- The shell ---


def shell(store: ReportStore, pathname: str | None = None, search: str = "") -> Component:
    """What every page stands in: header, help and stores of the browser; around no page where there
    is no address, which the browser then asks for."""
    words, ended, pause, version = reading_state(store)  # before the page: it may be newer
    page, title = (None, "") if pathname is None else content(store, pathname, search)
    address = {} if pathname is None else {"pathname": pathname, "search": search}
    return html.Div(
        [
            dcc.Location(id="url", refresh=False, **address),
            dcc.Store(id="templates", data=TEMPLATES),
            dcc.Store(id="page-title", data=title),
            dcc.Store(id="store-version", data=version),
            *(dcc.Store(id=name) for name in ("system-theme", "theme", "titled", "linked")),
            dcc.Interval(id="progress", disabled=ended, interval=pause),
            _header(pathname or "/", words),
            html.Main(page, id="page", tabIndex=-1),
            _help(),
        ],
        className="app",
    )


def menu(pathname: str) -> list[Component]:
    """Links to the pages; the one in use says so."""
    route = find(pathname)
    links: list[Component] = []
    for page in PAGES:
        if not issubclass(page.address, LaunchAddress):
            used: dict[str, Any] = {"aria-current": "page"} if route and page is route[0] else {}
            links.append(html.Span(dcc.Link(page.title, href=page.address.PATH), **used))
    return links


def _header(pathname: str, words: str) -> Component:
    modes = [{"label": name, "value": name} for name in ("system", "light", "dark")]
    theme = dcc.RadioItems(modes, "system", id="theme-choice", persistence="theme", className="segments", inline=True)
    copy: Any = html.Button("Copy link", id="copy-link", className="button small", n_clicks=0)
    keys = html.Button(
        "?", id="show-help", className="button small", title="Keys", **aria(label="Keys", haspopup="dialog")
    )
    return html.Header(
        [
            dcc.Link([html.Span(className="logo"), "ncubble"], href="/", className="brand"),
            html.Nav(menu(pathname), id="menu", className="menu", **aria(label="Pages")),
            html.Span(words, id="loading-state", className="loading-state", role="status"),
            html.Span(dcc.Link("", id="new-launches", href="/", className="new-launches hidden"), role="status"),
            copy,
            keys,
            html.Div(theme, role="group", **aria(label="Colour theme")),
        ],
        className="topbar",
    )


def _help() -> Component:
    """The list of keys, hidden until it is asked for. Shown and hidden by ``assets/ncubble.js``."""
    rows = [html.Div([html.Dt(html.Kbd(key)), html.Dd(what)]) for key, what in KEYS]
    close = html.Button("Close", id="hide-help", className="button", n_clicks=0)
    parts = [html.H2("Keys"), html.Dl(rows, className="keys"), close]
    return html.Dialog(parts, id="help", **aria(label="Keys"))


def reading_state(store: ReportStore) -> tuple[str, bool, int, dict[str, Any]]:
    """What the header says while reports are being read, whether the browser can stop to ask, the
    pause between its questions in ms, and what it has then seen."""
    progress, words = store.progress(), ""
    if not progress.finished:
        words = f"reading {progress.done} of {progress.total}" if progress.total else "looking for reports"
    seen = {"version": progress.version, "launches": progress.launches, "finished": progress.finished}
    pause = WATCHING_MS if progress.finished else READING_MS
    return words, progress.finished and not store.watch, pause, seen


# --- Callbacks: few on the server (pages, progress), the rest in the browser ---


def _register(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("page", "children"),
        Output("page-title", "data"),
        Output("menu", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
        prevent_initial_call=True,  # the layout holds the first page
    )
    def show(pathname: str | None, search: str | None) -> tuple[Component, str, list[Component]]:
        return *content(store, pathname or "/", search or ""), menu(pathname or "/")

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

    @app.callback(
        Output("loading-state", "children"),
        Output("progress", "disabled"),
        Output("progress", "interval"),
        Output("store-version", "data"),
        Input("progress", "n_intervals"),
        State("store-version", "data"),
        prevent_initial_call=True,
    )
    def advance(_: int | None, seen: Any) -> tuple[Any, ...]:
        *state, now = reading_state(store)
        return *state, no_update if now == seen else now

    figure, drawn = ({"type": kind, "name": MATCH} for kind in ("figure", "drawn"))
    theme, templates = Input("theme", "data"), State("templates", "data")
    in_browser(
        app,
        "ncubble",
        {
            "theme": (Output("theme", "data"), Input("theme-choice", "value"), Input("system-theme", "data")),
            "title": (Output("titled", "data"), Input("page-title", "data")),
            "draw": (Output(figure, "figure"), Input(drawn, "data"), theme, templates),
        },
    )
    copied = Output("copied", "children"), Input("copy-markdown", "n_clicks"), State("markdown-text", "value")
    linked = Output("linked", "data"), Input("copy-link", "n_clicks")
    in_browser(app, "ncubble", {"copyLink": linked, "copyMarkdown": copied}, prevent_initial_call=True)
