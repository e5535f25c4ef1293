"""The application: ``create_app`` puts pages, callbacks and headers together, ``serve`` answers on one address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from dash import Dash, dcc, html
from dash.development.base_component import Component

from ncubble.dashboard import callbacks, security
from ncubble.dashboard.compare_address import PATH as COMPARE
from ncubble.dashboard.components import aria
from ncubble.dashboard.data import ReportStore
from ncubble.dashboard.pages import compare, kernel, missing, overview
from ncubble.dashboard.themes import TEMPLATES

HOST = "127.0.0.1"
_KERNEL = re.compile(r"^/kernel/([0-9a-f]{8,64})/(\d{1,9})$")
_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{%title%}</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <noscript>The dashboard needs JavaScript. The same figures: ncubble report PATH</noscript>
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>"""


def create_app(
    paths: Iterable[Path], *, host: str = HOST, trusted: Sequence[str] = (), store: ReportStore | None = None
) -> Dash:
    """The dashboard of the reports at ``paths``, which load in the background from now on. Nothing is served yet.

    ``host`` and ``trusted`` are the names under which browsers may ask for it.
    """
    loaded = (store or ReportStore(list(paths))).start()
    app = Dash(
        "ncubble",
        title="ncubble",
        update_title="",
        assets_folder=str(Path(__file__).resolve().parent / "assets"),
        assets_ignore=r".*\.py$|.*\.pyc$|__pycache__",
        index_string=_INDEX,
        serve_locally=True,
        suppress_callback_exceptions=True,
        use_pages=False,
        enable_mcp=False,
    )
    app.layout = _shell()
    callbacks.register(app, loaded, lambda pathname, search: page(loaded, pathname, search))
    policy = security.content_policy(app.csp_hashes())
    security.protect(app.server, policy, security.trusted_hosts(host, trusted), lambda path: exists(loaded, path))
    # Workers that meet a cold app can answer 500: the first request sets it up.
    app.server.test_client().get("/", headers={"Host": "localhost"})
    return app


def page(store: ReportStore, pathname: str, search: str = "") -> tuple[Component, str]:
    """The content and the title at an address: overview, comparison, a launch (which may still come), or not found."""
    if pathname in ("", "/"):
        return overview.layout(store), "Launches · ncubble"
    if pathname == COMPARE:
        return compare.layout(store, search), "Compare · ncubble"
    match = _KERNEL.match(pathname)
    if match is None:
        return missing.not_found(pathname), "Not found · ncubble"
    entry = store.find(match[1], int(match[2]))
    if entry is not None:
        return kernel.layout(store, entry), f"{entry.row['name']} · ncubble"
    progress = store.progress()
    if not progress.finished:
        return missing.still_loading(progress), "Reading · ncubble"
    return missing.not_found(pathname), "Not found · ncubble"


def exists(store: ReportStore, pathname: str) -> bool:
    """Whether an address shows something, or may do so once loading has ended."""
    if pathname in ("/", COMPARE):
        return True
    match = _KERNEL.match(pathname)
    if match is None:
        return False
    return store.find(match[1], int(match[2])) is not None or not store.progress().finished


def _shell() -> Component:
    """What every page stands in: header with the theme switch, the page's place, and the stores of the browser."""
    modes = [{"label": name, "value": name} for name in ("system", "light", "dark")]
    theme = dcc.RadioItems(modes, "system", id="theme-choice", persistence="theme", className="segments", inline=True)
    header = html.Header(
        [
            dcc.Link([html.Span(className="logo"), "ncubble"], href="/", className="brand"),
            html.Span("pipeline bubbles in GPU kernels", className="hint tagline"),
            html.Span(id="loading-state", className="loading-state", role="status"),
            html.Div(theme, role="group", **aria(label="Colour theme")),
        ],
        className="topbar",
    )
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="templates", data=TEMPLATES),
            dcc.Store(id="system-theme"),
            dcc.Store(id="theme"),
            dcc.Store(id="page-title"),
            dcc.Store(id="titled"),
            dcc.Interval(id="progress", interval=600),
            header,
            html.Main(id="page", tabIndex=-1),
        ],
        className="app",
    )
