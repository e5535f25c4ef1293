"""The card of the table of launches: its tools, the grid, and what the colours of accounts mean.

Rows come in blocks (``assets/overview.js`` asks for them, so that a browser holds a few hundred of
any number); cells are drawn by ``assets/grid.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import HATCH_NAMES, text_color
from ncubble.analysis.account.parts import CAUSES, OUTCOMES, PARTS
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, NUMBER_TYPES, TEXT_TYPES, CompareAddress, OverviewAddress
from ncubble.dashboard.pages.overview.listing import head_words, listing
from ncubble.dashboard.pages.overview.table import LaunchTable, TableColumn
from ncubble.dashboard.ui.components import ag_grid, aria, search_field, segments, swatch

BLOCK = 100
"""Rows that the table asks for at once."""
AHEAD = 3
"""Rows that are drawn beyond those in sight: each has eight cells."""
_FORMATTERS = {"time": "ncTime", "percent": "ncPercent", "bytes": "ncBytes", "number": "ncPlain"}
_COMPARED = {"duration_ns", "recoverable_ns", "busy", "dram", "tensor", "cycles", "tflops", "dram_gbs", "occupancy"}
"""Fields whose difference to the pinned row is shown."""
SEARCH_HELP = "Every word must match: regular expressions, case does not count, ^ and $ are the ends of a value"
_GROUPINGS = (
    ("kernel", "kernel", "Launches of a kernel on a GPU share a row"),
    ("problem", "problem", "Launches of a kernel at one problem in one report share a row, as in ncubble report"),
    ("rank", "rank", "The same launch of all ranks of a program shares a row"),
    ("none", "launch", "Each launch has a row"),
)
_TIMES = (("auto", "auto"), ("ns", "ns"), ("us", "µs"), ("ms", "ms"))
FULL_TABLE = 1000
ROW_PX = 46
"""Of two lines: a name, and what tells it apart."""


def table_card(table: LaunchTable, address: OverviewAddress, complete: bool) -> Component:
    """The table with its tools, within the window as high as its rows need; unless ``complete``,
    more may come."""
    nothing = [
        html.P("No launch matches the search and the filters."),
        _button("Show all launches", "show-all"),
    ]
    parts = [
        toolbar(table, address),
        html.Div(
            [grid(table, address), html.Div(nothing, id="nothing-matches", className="nothing hidden", role="status")],
            className="grid-place",
        ),
        legend(table.rows if complete else None),
    ]
    place = {"--rows": str(max(len(listing(table, address)), 8) if complete else FULL_TABLE)}
    return html.Section(parts, className="card table-card", style=place, **aria(label="Table of launches"))


def toolbar(table: LaunchTable, address: OverviewAddress) -> Component:
    """The row of tools; ``assets/overview.js`` gives them life."""
    listed = listing(table, address)
    given = {"value": address.search, "maxLength": LONGEST_SEARCH, "debounce": False}
    label, field = search_field("search", "Search", "Search, regex ( / )", **given)
    parts = [
        label,
        html.Span(field, title=SEARCH_HELP),
        html.Span(head_words(table, address)["matches"], id="match-count", className="hint", **aria(live="polite")),
        html.Span(" ".join(listed.selection.notes), id="query-said", className="said", role="status"),
        dcc.Link("Compare", id="compare-selected", href=CompareAddress.PATH, className="button primary hidden"),
        _button("Pin as baseline", "pin-baseline", disabled=True),
        _grouping(table, address),
        _column_menu(table, address),
        _views(),
        _downloads(),
        _button("Reset filters", "reset-filters"),
    ]
    return html.Div(parts, className="toolbar")


def column_options(table: LaunchTable) -> list[dict[str, str]]:
    """Every column of the table, for the chooser."""
    groups = {"parameters": " (parameter)", "dims": " (dimension)"}
    return [
        {
            "label": f"{column.name}{groups.get(column.field.partition('.')[0], '')}",
            "value": column.field,
            "title": column.explained,
        }
        for column in table.columns.values()
    ]


def _column_menu(table: LaunchTable, address: OverviewAddress) -> Component:
    shown = [column.field for column in columns_of(table, address)]
    parts = [
        html.Label("Find a column", htmlFor="columns-search", className="visually-hidden"),
        dcc.Input(id="columns-search", type="search", placeholder="Find a column", className="search"),
        html.Div(
            dcc.Checklist(column_options(table), shown, id="columns-shown", className="choices"),
            role="group",
            **aria(label="Columns of the table"),
        ),
        _button("Usual columns", "usual-columns"),
        segments("time-unit", _TIMES, address.time, "Unit of time", "Time in", "small"),
    ]
    return _menu("Columns", parts, "columns-menu")


def _grouping(table: LaunchTable, address: OverviewAddress) -> Component:
    known = address.group == "rank" or not np.isnan(table.numbers("rank")).all()
    offered = [option for option in _GROUPINGS if known or option[0] != "rank"]
    return segments("group-by", offered, address.group, "Rows", "Row for each", "small")


def _views() -> Component:
    """Saved views live in the browser's storage; the list is filled there."""
    name = dcc.Input(id="view-name", type="text", placeholder="Name this view", maxLength=60, className="search")
    parts = [
        html.Label("Name of the view", htmlFor="view-name", className="visually-hidden"),
        html.Div([name, _button("Save", "save-view")], className="view-new"),
        html.Div(id="saved-views", className="saved-views"),
    ]
    return _menu("Views", parts, "views-menu")


def _downloads() -> Component:
    """Links to what the table lists, in its order and with its columns; the browser keeps their
    queries up to date."""
    said = html.P("What the table lists, in its order, with raw values.", className="hint")
    return _menu("Download", [_button("CSV", "download-csv"), _button("JSON", "download-json"), said], "download-menu")


def _button(text: str, name: str, **more: Any) -> Component:
    return html.Button(text, id=name, className="button", n_clicks=0, **more)


def _menu(name: str, parts: list[Component], menu_id: str) -> Component:
    inner = html.Div(parts, className="menu-body")
    return html.Details([html.Summary(name, className="button"), inner], id=menu_id, className="tool-menu")


def columns_of(table: LaunchTable, address: OverviewAddress) -> list[TableColumn]:
    """The columns that a view shows, in its order; the usual ones where it names none that there
    is."""
    chosen = [table.columns[name] for name in address.columns if name in table.columns]
    return chosen or [column for column in table.columns.values() if column.shown]


def definitions(table: LaunchTable, address: OverviewAddress) -> list[dict[str, Any]]:
    """Column definitions in the order of a view, hidden ones behind. Numbers sort largest first."""
    shown = columns_of(table, address)
    fields = {column.field for column in shown}
    order = {name: place for place, (name, _) in enumerate(address.sort)}
    down = dict(address.sort)
    drawn = []
    for column in [*shown, *(column for column in table.columns.values() if column.field not in fields)]:
        state: dict[str, Any] = {"initialHide": column.field not in fields}
        if column.field in order:
            state |= {"initialSort": "desc" if down[column.field] else "asc", "initialSortIndex": order[column.field]}
        drawn.append(_definition(column) | state)
    return drawn


def _definition(column: TableColumn) -> dict[str, Any]:
    base: dict[str, Any] = {
        "colId": column.field,
        "field": column.field,
        "headerName": column.name,
        "headerTooltip": column.explained,
        "minWidth" if column.flex else "width": column.width or 100,
    }
    if column.flex:
        base["flex"] = column.flex
    if renderer := column.renderer or ("NcCompared" if column.field in _COMPARED else ""):
        base["cellRenderer"] = renderer
    return base | (_number(column) if column.numeric else _text(column))


def _text(column: TableColumn) -> dict[str, Any]:
    if column.kind == "account":
        return {"sortable": False, "filter": False, "cellDataType": False}
    return {
        "cellDataType": "text",
        "filter": "agTextColumnFilter",
        "filterParams": {"filterOptions": list(TEXT_TYPES), "maxNumConditions": 4, "debounceMs": 250},
        "valueFormatter": {"function": "ncText(params)"},
        "cellClass": {"function": "ncClass(params)"},
        "tooltipField": column.hover or ("demangled" if column.field == "name" else column.field),
    }


def _number(column: TableColumn) -> dict[str, Any]:
    options: dict[str, Any] = {"filterOptions": list(NUMBER_TYPES), "maxNumConditions": 4, "debounceMs": 250}
    if column.kind == "time":
        options |= {
            "allowedCharPattern": "\\d\\-\\.,e nuµmsNUMS",
            "numberParser": {"function": "ncReadTime(params)"},
            "numberFormatter": {"function": "ncWriteTime(params)"},
        }
    return {
        "cellDataType": "number",
        "filter": "agNumberColumnFilter",
        "filterParams": options,
        "sortingOrder": ["desc", "asc", None],
        "headerClass": "right",
        "valueFormatter": {"function": f"{_FORMATTERS[column.kind]}(params)"},
        "cellClass": {"function": "ncNumber(params)"},
        "tooltipValueGetter": {"function": f"ncRaw(params, {column.unit!r})"},
    }


def grid(table: LaunchTable, address: OverviewAddress) -> Any:
    """The table. A click on a row opens its kernel page; the name is a link, too, for new tabs."""
    parts = {name: [style.label, style.color, HATCH_NAMES[style.hatch]] for name, style in PARTS.items()}
    causes = {name: outcome.color for name, outcome in OUTCOMES.items() if outcome.color}
    meanings = {name: cause.meaning or cause.fix for name, cause in CAUSES.items()}
    inks = {name: text_color(style.color) for name, style in PARTS.items()}
    options = {
        "rowHeight": ROW_PX,
        "rowSelection": {
            "mode": "multiRow",
            "enableClickSelection": False,
            "headerCheckbox": False,
            "isRowSelectable": {"function": "ncIsLaunch(params)"},
            "hideDisabledCheckboxes": True,
        },
        "selectionColumnDef": {"width": 40, "pinned": "left", "headerTooltip": "Select launches to compare"},
        "suppressDragLeaveHidesColumns": True,
        "rowBuffer": AHEAD,
        "cacheBlockSize": BLOCK,
        "maxBlocksInCache": 8,
        "maxConcurrentDatasourceRequests": -1,  # a limit would count requests of replaced caches for ever
        "infiniteInitialRowCount": 1,
        "context": {"parts": parts, "causes": causes, "meanings": meanings, "inks": inks},
    }
    filters = dict(address.filters)
    columns = definitions(table, address)
    return ag_grid(
        "launches", columns, options, rowModelType="infinite", filterModel=filters, getRowId="params.data.id"
    )


def legend(rows: Sequence[Mapping[str, Any]] | None = None) -> Component:
    """What the colours of the account column stand for: those in ``rows``, or all while more may
    come (None)."""
    shown = set(PARTS)
    if rows is not None:
        shown = {name for account in LaunchRows.of(rows).distinct("account") for name, _ in account}
    items = [
        html.Span([swatch(style.color, style.hatch), style.label], title=style.meaning)
        for name, style in PARTS.items()
        if name in shown
    ]
    return html.Div(items, className="legend", role="note", **aria(label="Colours of the account"))
