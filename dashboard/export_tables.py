"""Tables of the app as plain ones, for files without a server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ncubble.dashboard.words import NOT_COLLECTED

MOST_ROWS = 5000
"""Rows beyond this many make a file that no browser scrolls well; the table says how many are left out."""


def grid_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """An ag-grid as an HTML table: columns that are shown and hold plain values, in their order."""
    shown = [one for one in _flat(columns) if one.get("field") and not one.get("hide") and _plain(one["field"], rows)]
    head = "".join(f'<th scope="col">{_text(one.get("headerName") or one["field"])}</th>' for one in shown)
    body = "".join(_row(shown, row) for row in rows[:MOST_ROWS])
    left = len(rows) - MOST_ROWS
    more = f'<p class="hint">{left} more rows are left out of this file.</p>' if left > 0 else ""
    table = f'<table class="plain filterable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="table-scroll grid-table">{table}</div>{more}'


def _flat(columns: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Columns without their groups."""
    found: list[Mapping[str, Any]] = []
    for one in columns:
        found += _flat(one["children"]) if one.get("children") else [one]
    return found


def _plain(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return not any(isinstance(row.get(name), dict | list | tuple) for row in rows[:MOST_ROWS])


def _row(columns: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> str:
    return f"<tr>{''.join(_cell(row.get(one['field'])) for one in columns)}</tr>"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return f'<td class="missing">{NOT_COLLECTED}</td>'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{_text(value)}</td>"
    return f'<td class="num">{value:,.6g}</td>' if abs(value) < 1e6 else f'<td class="num">{value:.6g}</td>'


def _text(value: Any) -> str:
    return escape(str(value), quote=True)
