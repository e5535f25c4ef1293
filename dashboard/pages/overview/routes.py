"""What the browser asks for beside pages: blocks of the table's rows, and downloads of what it
lists.

Every request carries the query of the overview's address, which is checked there (``address``).
"""

from __future__ import annotations

from typing import Any

import orjson
from flask import Flask, Response, request

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.overview.address import OverviewAddress
from ncubble.dashboard.pages.overview.columns import COLUMNS
from ncubble.dashboard.pages.overview.csv_export import as_csv, as_json
from ncubble.dashboard.pages.overview.grid import columns_of
from ncubble.dashboard.pages.overview.query import Selection, remembered
from ncubble.dashboard.pages.overview.table import LaunchTable, Row, table_of

ROWS, CSV, JSON = "/_launches/rows", "/_launches/launches.csv", "/_launches/launches.json"
BLOCK = 100
MOST_ROWS = 500
LONGEST_TEXT = 400
"""Characters of a text that the table is sent: names of templates can have thousands."""
_SENT = tuple(
    dict.fromkeys(("id", "cause_key", "bubble", "bubble_key", "parameters", "dims", *(one.field for one in COLUMNS)))
)


def add_routes(server: Flask, store: ReportStore) -> None:
    """Answer under ``ROWS``, ``CSV`` and ``JSON``."""

    @server.get(ROWS)
    def rows() -> Response:
        table, address = table_of(store), _address()
        start = request.args.get("start", 0, int)
        end = request.args.get("end", start + BLOCK, int)
        return Response(orjson.dumps(block(table, address, start, end)), mimetype="application/json")

    @server.get(CSV)
    def download_csv() -> Response:
        table, address = table_of(store), _address()
        pieces = as_csv(remembered(table, address).rows(table), columns_of(table, address))
        return _attached(pieces, "text/csv; charset=utf-8", "launches.csv")

    @server.get(JSON)
    def download_json() -> Response:
        table, address = table_of(store), _address()
        pieces = as_json(remembered(table, address).rows(table), columns_of(table, address))
        return _attached(pieces, "application/json", "launches.json")


def block(table: LaunchTable, address: OverviewAddress, start: int = 0, end: int = BLOCK) -> dict[str, Any]:
    """Rows ``start`` to ``end`` of what a view lists, JSON-ready, with the counts that stand beside
    the search.

    No more than ``MOST_ROWS`` rows from ``start`` on, and none where ``end`` lies before it.

    ``pinned`` is the row of the baseline, or null; ``said`` what of the request was read
    differently or ignored.
    """
    found: Selection = remembered(table, address)
    start = max(0, min(start, len(found)))
    end = max(start, min(end, start + MOST_ROWS))
    at = table.place(address.pin) if address.pin else None
    gone = ("The pinned launch is not among those loaded.",) if address.pin and at is None and len(table) else ()
    return {
        "rows": [sent(row) for row in found.rows(table, start, end)],
        "count": len(found),
        "total": len(table),
        "version": table.version,
        "pinned": None if at is None else sent(table.rows[at]),
        "said": " ".join((*found.said, *gone)),
    }


def sent(row: Row) -> Row:
    """What the table is sent of a row: long texts cut, and nothing that only figures need."""
    return {name: _cut(row.get(name)) for name in _SENT}


def _cut(value: Any) -> Any:
    return f"{value[:LONGEST_TEXT]}…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def _address() -> OverviewAddress:
    return OverviewAddress.parse(request.query_string.decode("utf-8", "replace"))


def _attached(pieces: Any, mimetype: str, name: str) -> Response:
    return Response(pieces, mimetype=mimetype, headers={"Content-Disposition": f'attachment; filename="{name}"'})
