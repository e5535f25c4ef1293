"""The tools above the table of launches: search, columns, unit of time, saved views, downloads,
baseline, compare."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.pages.overview.address import LONGEST_TEXT, OverviewAddress
from ncubble.dashboard.pages.overview.columns import TableColumn
from ncubble.dashboard.pages.overview.grid import columns_of
from ncubble.dashboard.pages.overview.query import remembered
from ncubble.dashboard.pages.overview.table import LaunchTable
from ncubble.dashboard.ui.components import aria

SEARCH_HELP = "Every word must match: regular expressions, case does not count, ^ and $ are the ends of a value"
_TIMES = {"auto": "auto", "ns": "ns", "us": "µs", "ms": "ms"}


def toolbar(table: LaunchTable, address: OverviewAddress) -> Component:
    """The row of tools; ``assets/overview.js`` gives them life."""
    found = remembered(table, address)
    parts = [
        html.Label("Search", htmlFor="search", className="visually-hidden"),
        _search(address),
        html.Span(counted(len(found), len(table)), id="match-count", className="hint", **aria(live="polite")),
        html.Span(" ".join(found.said), id="query-said", className="said", role="status"),
        dcc.Link("Compare", id="compare-selected", href=CompareAddress.PATH, className="button primary hidden"),
        html.Button("Pin as baseline", id="pin-baseline", className="button", disabled=True, n_clicks=0),
        _columns(table, address),
        _time(address),
        _views(),
        _downloads(),
        html.Button("Reset filters", id="reset-filters", className="button", n_clicks=0),
    ]
    return html.Div(parts, className="toolbar")


def counted(matches: int, total: int) -> str:
    """``2 of 8 shown``, or ``8 shown`` where nothing is left out."""
    return f"{total} shown" if matches == total else f"{matches} of {total} shown"


def _search(address: OverviewAddress) -> Component:
    field = dcc.Input(
        id="search",
        type="search",
        value=address.search,
        maxLength=LONGEST_TEXT,
        placeholder="Search, regex ( / )",
        debounce=False,
        className="search",
    )
    return html.Span(field, title=SEARCH_HELP)


def column_options(table: LaunchTable) -> list[dict[str, str]]:
    """Every column of the table, for the chooser."""
    return [_option(column) for column in table.columns.values()]


def _option(column: TableColumn) -> dict[str, str]:
    group = column.field.partition(".")[0] if "." in column.field else ""
    what = {"parameters": " (parameter)", "dims": " (dimension)"}.get(group, "")
    return {"label": f"{column.name}{what}", "value": column.field, "title": column.explained}


def _columns(table: LaunchTable, address: OverviewAddress) -> Component:
    shown = [column.field for column in columns_of(table, address)]
    parts = [
        html.Label("Find a column", htmlFor="columns-search", className="visually-hidden"),
        dcc.Input(id="columns-search", type="search", placeholder="Find a column", className="search"),
        html.Div(
            dcc.Checklist(column_options(table), shown, id="columns-shown", className="choices"),
            role="group",
            **aria(label="Columns of the table"),
        ),
        html.Button("Usual columns", id="usual-columns", className="button", n_clicks=0),
    ]
    return _menu("Columns", parts, "columns-menu")


def _time(address: OverviewAddress) -> Component:
    choice = dcc.RadioItems(
        [{"label": label, "value": value} for value, label in _TIMES.items()],
        address.time,
        id="time-unit",
        className="segments small",
        inline=True,
    )
    return html.Div([html.Span("Time in", className="hint"), choice], role="group", **aria(label="Unit of time"))


def _views() -> Component:
    """Saved views live in the browser's storage; the list is filled there."""
    parts = [
        html.Label("Name of the view", htmlFor="view-name", className="visually-hidden"),
        html.Div(
            [
                dcc.Input(id="view-name", type="text", placeholder="Name this view", maxLength=60, className="search"),
                html.Button("Save", id="save-view", className="button", n_clicks=0),
            ],
            className="view-new",
        ),
        html.Div(id="saved-views", className="saved-views"),
    ]
    return _menu("Views", parts, "views-menu")


def _downloads() -> Component:
    """Links to what the table lists, in its order and with its columns; the browser keeps their
    queries up to date."""
    links = [
        html.Button("CSV", id="download-csv", className="button", n_clicks=0),
        html.Button("JSON", id="download-json", className="button", n_clicks=0),
        html.P("What the table lists, in its order, with raw values.", className="hint"),
    ]
    return _menu("Download", links, "download-menu")


def _menu(name: str, parts: list[Component], menu_id: str) -> Component:
    inner = html.Div(parts, className="menu-body")
    return html.Details([html.Summary(name, className="button"), inner], id=menu_id, className="tool-menu")
