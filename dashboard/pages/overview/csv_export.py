"""Launches as CSV and JSON, piece by piece, so that a hundred thousand rows never lie in memory as
text.

Values are raw: times in ns, shares in percent, nothing rounded. Text that a spreadsheet would take
for a formula gets an apostrophe in front (kernel names come out of reports, and reports come from
anywhere).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ncubble.analysis.account.parts import part_label
from ncubble.dashboard.pages.overview.columns import TableColumn, value_of

ROWS_A_PIECE = 200
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn]) -> Iterator[str]:
    """The table in RFC 4180 with a line of names; the last column is the launch's id. Missing
    values stay empty."""
    yield _lines([[*(_title(column) for column in columns), "id"]])
    for start in range(0, len(rows), ROWS_A_PIECE):
        piece = rows[start : start + ROWS_A_PIECE]
        yield _lines([[*(cell(value_of(row, column.field)) for column in columns), str(row["id"])] for row in piece])


def as_json(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn]) -> Iterator[bytes]:
    """``{"launches": [...]}``: per launch its id and the fields of ``columns``, null where not
    collected."""
    yield b'{"launches":['
    for start in range(0, len(rows), ROWS_A_PIECE):
        piece = [
            {"id": row["id"]} | {column.field: value_of(row, column.field) for column in columns}
            for row in rows[start : start + ROWS_A_PIECE]
        ]
        yield (b"," if start else b"") + orjson.dumps(piece)[1:-1]
    yield b"]}\n"


def cell(value: Any) -> str:
    """One value as text for a spreadsheet; empty for None."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(f"{part_label(str(name))} {share}" for name, share in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    text = str(value).replace("\0", "")
    return f"'{text}" if text.startswith(FORMULA) else text


def _title(column: TableColumn) -> str:
    return cell(f"{column.name} [{column.unit}]" if column.unit else column.name)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
