"""What every page stands in: header with menu, link and theme, the page's place, help, and stores
of the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.app import routes
from ncubble.dashboard.pages.addresses import LaunchAddress
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
    used = route[0] if route else None
    links: list[Component] = []
    for page in PAGES:
        if not issubclass(page.address, LaunchAddress):
            current: dict[str, Any] = {"aria-current": "page"} if page is used else {}
            links.append(html.Span(dcc.Link(page.title, href=page.address.PATH), **current))
    return links


def layout(
    state: Mapping[tuple[str, str], Any],
    pathname: str | None = None,
    search: str = "",
    page: Any = None,
    title: str = "",
) -> Component:
    """The shell around the page at an address, which the address bar has to hold: Dash asks for
    other ones. ``state`` holds what follows the reading of reports."""
    address = {} if pathname is None else {"pathname": pathname, "search": search}
    shell = html.Div(
        [
            dcc.Location(id="url", refresh=False, **address),
            dcc.Store(id="templates", data=TEMPLATES),
            dcc.Store(id="system-theme"),
            dcc.Store(id="theme"),
            dcc.Store(id="page-title", data=title),
            dcc.Store(id="titled"),
            dcc.Store(id="linked"),
            dcc.Store(id="store-version"),
            dcc.Interval(id="progress"),
            _header(pathname or "/"),
            html.Main(page, id="page", tabIndex=-1),
            _help(),
        ],
        className="app",
    )
    for (name, member), value in state.items():
        setattr(shell[name], member, value)
    return shell


def _header(pathname: str) -> Component:
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
