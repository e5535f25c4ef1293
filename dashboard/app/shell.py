"""What every page stands in: header with menu, link and theme, the page's place, help, and stores
of the browser."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.app import routes
from ncubble.dashboard.pages.registry import PAGES
from ncubble.dashboard.ui.components import aria
from ncubble.dashboard.ui.themes import TEMPLATES

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


def menu(pathname: str) -> list[Component]:
    """Links to the pages; the one in use says so."""
    route = routes.find(pathname)
    used = route[0].path if route else ""
    links: list[Component] = []
    for page in PAGES:
        if page.in_menu:
            current: dict[str, Any] = {"aria-current": "page"} if page.path == used else {}
            links.append(html.Span(dcc.Link(page.title, href=page.path), **current))
    return links


def layout() -> Component:
    """The shell around an empty page, which the first callback fills."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="templates", data=TEMPLATES),
            dcc.Store(id="system-theme"),
            dcc.Store(id="theme"),
            dcc.Store(id="page-title"),
            dcc.Store(id="titled"),
            dcc.Store(id="linked"),
            dcc.Store(id="store-version"),
            dcc.Interval(id="progress", interval=600),
            _header(),
            html.Main(id="page", tabIndex=-1),
            _help(),
        ],
        className="app",
    )


def _header() -> Component:
    modes = [{"label": name, "value": name} for name in ("system", "light", "dark")]
    theme = dcc.RadioItems(modes, "system", id="theme-choice", persistence="theme", className="segments", inline=True)
    copy: Any = html.Button("Copy link", id="copy-link", className="button small", n_clicks=0)
    keys = html.Button(
        "?", id="show-help", className="button small", title="Keys", **aria(label="Keys", haspopup="dialog")
    )
    return html.Header(
        [
            dcc.Link([html.Span(className="logo"), "ncubble"], href="/", className="brand"),
            html.Nav(menu("/"), id="menu", className="menu", **aria(label="Pages")),
            html.Span(id="loading-state", className="loading-state", role="status"),
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
