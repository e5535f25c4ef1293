"""What the browser asks for beside pages: blocks of the table's rows, and downloads of what it
lists.

Every request carries the query of the overview's address, which is checked there (``address``).
Downloads go out piece by piece, so that a hundred thousand rows never lie in memory as text. Their
values are raw: times in ns, shares in percent, nothing rounded. Text that a spreadsheet would take
for a formula gets an apostrophe in front: kernel names come out of reports, and reports come from
anywhere.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from flask import Flask, Response, redirect, request
from werkzeug.wrappers import Response as WerkzeugResponse

from ncubble.analysis.account.parts import part_label
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.listing import head_words, listing
from ncubble.dashboard.pages.overview.table import COLUMNS, LaunchTable, Row, TableColumn, table_of, value_of
from ncubble.dashboard.pages.overview.table_card import BLOCK, columns_of
from ncubble.text.markup import csv_cell

ROWS, CSV, JSON = "/_launches/rows", "/_launches/launches.csv", "/_launches/launches.json"
MOST_ROWS = 500
LONGEST_TEXT = 400
"""Characters of a text that the table is sent: names of templates can have thousands."""
ROWS_A_PIECE = 200
_BESIDE = ("id", "cause_key", "bubble", "bubble_key", "measured", "parameters", "dims", "at")
OF_GROUPS = ("title", "detail", "depth", "group", "open", "count", "judged", "several", "time_pct")
"""Fields that depend on what else is listed."""
_SENT = tuple(dict.fromkeys((*_BESIDE, *(column.field for column in COLUMNS))))


def add_routes(server: Flask, store: ReportStore) -> None:
    """Answer under ``ROWS``, ``CSV`` and ``JSON``."""

    @server.get(ROWS)
    def rows() -> Response:
        start = request.args.get("start", 0, int)
        end = request.args.get("end", start + BLOCK, int)
        return Response(orjson.dumps(block(table_of(store), _address(), start, end)), mimetype="application/json")

    @server.get("/ranks")  # the address of a former page, for one version
    def ranks() -> WerkzeugResponse:
        return redirect(OverviewAddress(group="rank").href())

    @server.get(CSV)
    def download_csv() -> Response:
        return _attached(as_csv(*_listed(store)), "text/csv; charset=utf-8", "launches.csv")

    @server.get(JSON)
    def download_json() -> Response:
        return _attached(as_json(*_listed(store)), "application/json", "launches.json")


def block(table: LaunchTable, address: OverviewAddress, start: int = 0, end: int = BLOCK) -> dict[str, Any]:
    """Rows ``start`` to ``end`` of what a view lists, JSON-ready, with the counts that stand beside
    the search.

    No more than ``MOST_ROWS`` rows from ``start`` on, and none where ``end`` lies before it.

    ``pinned`` is the row of the baseline, or null; ``said`` what of the request was read
    differently or ignored; ``head`` what the page says above the table.
    """
    listed = listing(table, address)
    start = max(0, min(start, len(listed)))
    end = max(start, min(end, start + MOST_ROWS))
    at = table.places.get(address.pin)
    gone = ("The pinned launch is not among those loaded.",) if address.pin and at is None and len(table) else ()
    return {
        "rows": [sent(row) for row in listed.rows(table, start, end)],
        "count": len(listed),
        "launches": len(listed.selection),
        "total": len(table),
        "head": head_words(table, address),
        "pinned": None if at is None else sent(table.rows[at]),
        "said": " ".join((*listed.selection.notes, *gone)),
    }


def sent(row: Row) -> Row:
    """What the table is sent of a row: long texts cut, and nothing that only figures need."""
    of_group = {name: row[name] for name in OF_GROUPS if row.get(name) is not None}
    return {name: _cut(row.get(name)) for name in _SENT} | of_group


def _cut(value: Any) -> Any:
    return f"{value[:LONGEST_TEXT]}…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def _address() -> OverviewAddress:
    return OverviewAddress.parse(request.query_string.decode("utf-8", "replace"))


def _listed(store: ReportStore) -> tuple[Sequence[Row], list[TableColumn]]:
    """Rows and columns of the view that a request asks for."""
    table, address = table_of(store), _address()
    return table.rows.at(listing(table, address).launches), columns_of(table, address)


def _attached(pieces: Any, mimetype: str, name: str) -> Response:
    return Response(pieces, mimetype=mimetype, headers={"Content-Disposition": f'attachment; filename="{name}"'})


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
    return str(csv_cell(str(value)))


def _title(column: TableColumn) -> str:
    return cell(f"{column.name} [{column.unit}]" if column.unit else column.name)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
