"""Tables of the app as plain ones, for files without a server."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ncubble.text.values import NOT_COLLECTED

MOST_ROWS = 5000
"""Maximum rows: browsers scroll longer tables badly. The table says how many are left out."""
_SHOWN = re.compile(r"params\.data\.(\w+)")


def grid_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """An ag-grid as an HTML table: columns that are shown and hold plain values, in order."""
    shown = [
        column
        for column in _flat(columns)
        if column.get("field") and not column.get("hide") and _plain(column["field"], rows)
    ]
    head = "".join(map(_head, shown))
    lines = ("".join(_cell(column, row) for column in shown) for row in rows[:MOST_ROWS])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    left = len(rows) - MOST_ROWS
    more = f'<p class="hint">{left} more rows are not in this file.</p>' if left > 0 else ""
    table = f'<table class="plain filterable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="table-scroll grid-table">{table}</div>{more}'


def _head(column: Mapping[str, Any]) -> str:
    named = ' class="num"' if column.get("type") in ("rightAligned", "numericColumn") else ""
    return f'<th scope="col"{named}>{_text(column.get("headerName") or column["field"])}</th>'


def _flat(columns: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Columns without their groups."""
    return [leaf for column in columns for leaf in (_flat(column["children"]) if column.get("children") else [column])]


def _plain(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return not any(isinstance(row.get(name), dict | list | tuple) for row in rows[:MOST_ROWS])


def _cell(column: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The cell of a column: what it shows, and what it says on hover where that is something
    else."""
    value = row.get(column["field"])
    kind = column.get("cellClass")
    names = [kind] if isinstance(kind, str) else []
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return f'<td class="missing">{NOT_COLLECTED}</td>'
    if isinstance(value, int | float) and not isinstance(value, bool):
        names.append("num")
    shown = _shown(column, row, value)
    hover = row.get(column.get("tooltipField") or column["field"])
    title = f' title="{_text(hover)}"' if column.get("tooltipField") and str(hover) != shown else ""
    named = f' class="{_text(" ".join(names))}"' if names else ""
    return f"<td{named}{title}>{_text(shown)}</td>"


def _shown(column: Mapping[str, Any], row: Mapping[str, Any], value: Any) -> str:
    """The value in words: another field of the row where the column says so, else digits that
    fit."""
    formatter = column.get("valueFormatter")
    other = _SHOWN.fullmatch(formatter.get("function", "")) if isinstance(formatter, Mapping) else None
    if other and row.get(other[1]) is not None:
        return str(row[other[1]])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.6g}"


def _text(value: Any) -> str:
    return escape(str(value), quote=True)
