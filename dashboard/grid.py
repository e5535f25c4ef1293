"""The table of launches: its columns and options. Cells are drawn by ``assets/grid.js``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_ag_grid as dag
from dash import html
from dash.development.base_component import Component

from ncubble.dashboard.components import aria, swatch
from ncubble.dashboard.palette import CAUSE_COLORS, PART_STYLES

_THEME = {
    "backgroundColor": "var(--surface)",
    "foregroundColor": "var(--text)",
    "accentColor": "var(--accent)",
    "borderColor": "var(--border)",
    "headerBackgroundColor": "var(--surface-2)",
    "chromeBackgroundColor": "var(--surface-2)",
    "oddRowBackgroundColor": "var(--surface)",
    "fontFamily": "inherit",
    "browserColorScheme": "inherit",
}
_SIZES = "fontSize: 13, headerFontSize: 12, spacing: 6, cellHorizontalPadding: 10, wrapperBorder: false"
GRID_THEME = f"themeQuartz.withParams({{{', '.join(f'{k}: {v!r}' for k, v in _THEME.items())}, {_SIZES}}})"
"""AG Grid's theme with the page's own colour tokens, so that it follows light and dark by itself."""


def _text(field: str, name: str, tip: str, **extra: Any) -> dict[str, Any]:
    shown = {"valueFormatter": {"function": "ncText(params.value)"}, "cellClass": {"function": "ncClass(params)"}}
    return {"field": field, "headerName": name, "headerTooltip": tip, **{"tooltipField": field, **shown, **extra}}


def _number(field: str, name: str, tip: str, formatter: str, **extra: Any) -> dict[str, Any]:
    shown = {
        "valueFormatter": {"function": f"{formatter}(params.value)"},
        "cellClass": {"function": "ncNumber(params)"},
    }
    order = {
        "comparator": {"function": "ncNullsLast"},
        "filter": "agNumberColumnFilter",
        "sortingOrder": ["desc", "asc"],
    }
    return {"field": field, "headerName": name, "headerTooltip": tip, "headerClass": "right", **shown, **order, **extra}


_GAIN = "Idle time of the counted unit: the most that removing every bubble can give back; 0 where nothing is to gain"
_BUSY = "Busy share of elapsed time of the counted unit: the tensor pipe, or without tensor work the busiest unit"
_ACCOUNT = "Elapsed time: green is work, the rest bubbles"
_CAUSE = "The cause to remove first, and what it costs in % of kernel time"
_BUBBLE = "Largest part that is not work, % of elapsed time"


def columns() -> list[dict[str, Any]]:
    """Column definitions. Numbers sort largest first, ``not collected`` always last."""
    first = {"sort": "desc", "sortIndex": 0}
    bar = {"sortable": False, "filter": False, "cellDataType": False}
    return [
        _text("name", "Kernel", "Kernel name", cellRenderer="NcKernel", minWidth=168, flex=2, tooltipField="demangled"),
        _text("label", "Parameters", "Parameters of the run, or grid × block of the launch", minWidth=236, flex=3),
        _number("duration_ns", "Duration", "gpu__time_duration.sum", "ncDuration", width=86),
        _number("recoverable_ns", "Recoverable ≤", _GAIN, "ncDuration", width=140, **first),
        _number("busy", "Busy %", _BUSY, "ncPercent", cellRenderer="NcBusy", width=112),
        _number("dram", "DRAM %", "DRAM throughput, % of peak", "ncPercent", width=92),
        _text("account", "Account", _ACCOUNT, cellRenderer="NcAccount", width=94, **bar),
        _text("cause", "Cause", _CAUSE, cellRenderer="NcCause", minWidth=230, flex=3),
        _number("tensor", "Tensor %", "Tensor pipe active, % of peak over elapsed time", "ncPercent", width=94),
        _text("gpu", "GPU", "GPU that ran it", width=92, tooltipField="device"),
        _number("bubble_pct", "Biggest bubble", _BUBBLE, "ncPercent", cellRenderer="NcBubble", width=144),
        _text("shape", "Shape", "Problem shape of the run, or grid × block of the launch", minWidth=190, flex=2),
        _text("report", "Report", "Run or report file", minWidth=240, flex=2, tooltipField="path"),
    ]


def grid(rows: list[dict[str, Any]]) -> Any:
    """The table. A click on a row opens its kernel page; the name is a link, too, for new tabs."""
    parts = {name: [style.label, style.color] for name, style in PART_STYLES.items()}
    return dag.AgGrid(
        id="launches",
        rowData=rows,
        columnDefs=columns(),
        defaultColDef={"sortable": True, "resizable": True, "filter": True, "suppressHeaderMenuButton": True},
        getRowId="params.data.id",
        persistence="launches",
        persistence_type="session",
        persisted_props=["filterModel", "selectedRows"],
        dashGridOptions={
            "theme": {"function": GRID_THEME},
            "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "headerCheckbox": False},
            "selectionColumnDef": {"width": 40, "pinned": "left", "headerTooltip": "Select launches to compare"},
            "rowHeight": 34,
            "headerHeight": 36,
            "tooltipShowDelay": 400,
            "animateRows": False,
            "enableCellTextSelection": True,
            "context": {"parts": parts, "causes": CAUSE_COLORS},
        },
        style={"height": "100%", "width": "100%"},
    )


def legend(rows: Sequence[Mapping[str, Any]] | None = None) -> Component:
    """What the colours of the account column stand for: those in ``rows``, or all while more may come (None)."""
    shown = set(PART_STYLES) if rows is None else {name for row in rows for name, _ in row["account"]}
    items = [
        html.Span([swatch(style.color), style.label], title=style.meaning)
        for name, style in PART_STYLES.items()
        if name in shown
    ]
    return html.Div(items, className="legend", role="note", **aria(label="Colours of the account"))
