"""The table of launches: its columns and options. Rows come in blocks (``assets/overview.js`` asks
for them, so that a browser holds a few hundred of any number); cells are drawn by
``assets/grid.js``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import HATCH_NAMES, OUTCOMES
from ncubble.analysis.account.parts import PARTS
from ncubble.dashboard.pages.overview.address import NUMBER_TYPES, TEXT_TYPES, OverviewAddress
from ncubble.dashboard.pages.overview.columns import TableColumn
from ncubble.dashboard.pages.overview.table import LaunchTable
from ncubble.dashboard.ui.components import aria, swatch
from ncubble.dashboard.ui.grid import ag_grid

BLOCK = 100
"""Rows that the table asks for at once."""
FIRST_SORT = (("recoverable_ns", True),)
_FORMATTERS = {"time": "ncTime", "percent": "ncPercent", "bytes": "ncBytes", "number": "ncPlain"}
_COMPARED = {"duration_ns", "recoverable_ns", "busy", "dram", "tensor", "cycles", "tflops", "dram_gbs", "occupancy"}
"""Fields whose difference to the pinned row is shown."""


def columns_of(table: LaunchTable, address: OverviewAddress) -> list[TableColumn]:
    """The columns that a view shows, in its order; the usual ones where it names none that there
    is."""
    chosen = [table.columns[name] for name in address.columns if name in table.columns]
    return chosen or [column for column in table.columns.values() if column.shown]


def definitions(table: LaunchTable, address: OverviewAddress) -> list[dict[str, Any]]:
    """Column definitions in the order of a view, hidden ones behind. Numbers sort largest first."""
    shown = columns_of(table, address)
    fields = {column.field for column in shown}
    order = {name: place for place, (name, _) in enumerate(address.sort or FIRST_SORT)}
    down = dict(address.sort or FIRST_SORT)
    found = []
    for column in [*shown, *(one for one in table.columns.values() if one.field not in fields)]:
        state: dict[str, Any] = {"initialHide": column.field not in fields}
        if column.field in order:
            state |= {"initialSort": "desc" if down[column.field] else "asc", "initialSortIndex": order[column.field]}
        found.append(_definition(column) | state)
    return found


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
        "sortingOrder": ["desc", "asc"],
        "headerClass": "right",
        "valueFormatter": {"function": f"{_FORMATTERS[column.kind]}(params)"},
        "cellClass": {"function": "ncNumber(params)"},
        "tooltipValueGetter": {"function": f"ncRaw(params, {column.unit!r})"},
    }


def grid(table: LaunchTable, address: OverviewAddress) -> Any:
    """The table. A click on a row opens its kernel page; the name is a link, too, for new tabs."""
    parts = {name: [style.label, style.color, HATCH_NAMES[style.hatch]] for name, style in PARTS.items()}
    causes = {name: outcome.color for name, outcome in OUTCOMES.items() if outcome.color}
    options = {
        "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "headerCheckbox": False},
        "selectionColumnDef": {"width": 40, "pinned": "left", "headerTooltip": "Select launches to compare"},
        "suppressDragLeaveHidesColumns": True,
        "cacheBlockSize": BLOCK,
        "maxBlocksInCache": 8,
        "maxConcurrentDatasourceRequests": -1,  # a limit would count requests of replaced caches for ever
        "infiniteInitialRowCount": 1,
        "context": {"parts": parts, "causes": causes},
    }
    filters = dict(address.filters)
    columns = definitions(table, address)
    return ag_grid(
        "launches", columns, options, rowModelType="infinite", filterModel=filters, getRowId="params.data.id"
    )


def legend(rows: Sequence[Mapping[str, Any]] | None = None) -> Component:
    """What the colours of the account column stand for: those in ``rows``, or all while more may
    come (None)."""
    shown = set(PARTS) if rows is None else {name for row in rows for name, _ in row["account"]}
    items = [
        html.Span([swatch(style.color, style.hatch), style.label], title=style.meaning)
        for name, style in PARTS.items()
        if name in shown
    ]
    return html.Div(items, className="legend", role="note", **aria(label="Colours of the account"))
