"""Tables of AG Grid that follow the theme of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag

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
    "checkboxUncheckedBorderColor": "var(--control)",
    "inputBorder": "1px solid var(--control)",
    "pickerButtonBorder": "1px solid var(--control)",
}
_SIZES = "fontSize: 13, headerFontSize: 12, spacing: 6, cellHorizontalPadding: 10, wrapperBorder: false"
GRID_THEME = f"themeQuartz.withParams({{{', '.join(f'{k}: {v!r}' for k, v in _THEME.items())}, {_SIZES}}})"
"""AG Grid's theme with the page's own colour tokens, so that it follows light and dark by
itself."""


def ag_grid(
    name: str,
    columns: Sequence[dict[str, Any]],
    options: dict[str, Any],
    *,
    column: dict[str, Any] | None = None,
    **parts: Any,
) -> Any:
    """A table with the id ``name`` that fills its place.

    ``options`` are AG Grid's beside those that all tables share, ``column`` is what columns have
    beside sorting, filtering and resizing, ``parts`` are further properties of the component.
    """
    shared = {
        "theme": {"function": GRID_THEME},
        "rowHeight": 34,
        "headerHeight": 36,
        "tooltipShowDelay": 400,
        "animateRows": False,
        "enableCellTextSelection": True,
    }
    return dag.AgGrid(
        id=name,
        columnDefs=columns,
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "filter": True,
            **({"suppressHeaderMenuButton": True} if column is None else column),
        },
        dashGridOptions=shared | options,
        **({"style": {"height": "100%", "width": "100%"}} | parts),
    )
