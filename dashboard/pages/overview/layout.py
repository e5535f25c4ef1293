"""The overview: what all launches lose, a table of them by kernel, and a figure that follows its
filters."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from flask import Flask, Response, request

from ncubble.analysis.account.parts import part_label
from ncubble.dashboard.data.readings import Progress
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.figure import DRAWN_AT_ONCE, draw, figure_card
from ncubble.dashboard.pages.overview.listing import head_words, headline_card, listing
from ncubble.dashboard.pages.overview.table import COLUMNS, LaunchTable, Row, TableColumn, table_of, value_of
from ncubble.dashboard.pages.overview.table_card import BLOCK, column_options, columns_of, definitions, table_card
from ncubble.dashboard.pages.page import Page, in_browser, problems
from ncubble.dashboard.ui.components import counted, note
from ncubble.text.markup import csv_cell


def layout(store: ReportStore, address: OverviewAddress) -> Component:
    """The overview of what is loaded, as its address asks; rows that come later are asked for by
    the browser."""
    table, progress = table_of(store), store.progress()
    head = [
        html.H1("Launches"),
        html.P(
            [
                html.Span(summary(progress), id="overview-summary"),
                html.Span(head_words(table, address)["order"], id="overview-order"),
            ],
            className="lead",
        ),
    ]
    cards = [table_card(table, address, progress.finished), figure_card(table, address)]
    return html.Div(
        [
            html.Div(head, className="page-head"),
            headline_card(table, address),
            dcc.Store(id="overview-first", data=_first(table, address)),
            dcc.Store(id="overview-view", data=address.query()),
            dcc.Store(id="overview-seen", data=progress.version),
            dcc.Store(id="overview-started"),
            dcc.Store(id="overview-there"),
            dcc.Store(id="overview-refreshed"),
            html.Div(problems(store), id="overview-problems"),
            html.Div(nothing_to_show(), id="overview-nothing"),
            html.Div(cards, className="overview-grid"),
        ],
        id="overview",
        className=state_class(progress),
    )


def _first(table: LaunchTable, address: OverviewAddress) -> dict[str, Any]:
    """The first rows, so that the table need not ask for them; the query they answer; the usual
    columns."""
    usual = [column.field for column in table.columns.values() if column.shown]
    rows = block(table, address)
    return {"query": address.query(), "usual": usual, "figure_later": rows["launches"] > DRAWN_AT_ONCE, **rows}


def state_class(progress: Progress) -> str:
    """Which state the page is in: ``is-empty`` shows what to do next in place of the table."""
    return "is-empty" if progress.finished and not progress.launches else ""


def summary(progress: Progress) -> str:
    """One line: what is shown, and whether more is coming."""
    launches = counted(progress.launches, "launch", "launches")
    if not progress.finished:
        return f"{launches} so far: {progress.done} of {counted(progress.total, 'report')} read"
    if not progress.total:
        return "No report was found at the given paths."
    return f"{launches} from {counted(progress.total, 'report')}"


def nothing_to_show() -> list[Component]:
    """What stands in place of the table when there is no launch at all: what to do next."""
    return [
        note("empty", "No launch to show. Record one with ", "ncubble profile tensor_core_gemm -p stages=3"),
        note("empty", "Or show reports that exist: ", "ncubble dashboard PATH"),
        note("empty", "Or look at recorded runs first: ", "ncubble demo"),
        html.P(dcc.Link("Add report files", href="/open", className="button")),
    ]


DRAWN = {"type": "drawn", "name": "scatter"}

_CHANGES: dict[str, Any] = {
    "columns": Input("columns-shown", "value"),
    "figure": Input("figure-kind", "value"),
    "time": Input("time-unit", "value"),
    "group": Input("group-by", "value"),
    "openRow": Input("launches", "cellClicked"),
    "openPoint": Input({"type": "figure", "name": "scatter"}, "clickData"),
}
"""What a user changes, by the function of ``assets/overview.js`` that follows it."""


def register(app: Dash, store: ReportStore) -> None:
    """Add callbacks and routes of the overview to ``app``."""
    add_routes(app.server, store)
    _news(app, store)
    _figure(app, store)
    _browser(app)


def _news(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("overview-summary", "children"),
        Output("overview-problems", "children"),
        Output("overview", "className"),
        Output("launches", "columnDefs"),
        Output("columns-shown", "options"),
        Output("overview-seen", "data"),
        Input("store-version", "data"),
        Input("overview-there", "data"),  # what came between building the page and showing its rows
        State("overview-seen", "data"),
        State("columns-shown", "options"),
        State("overview-view", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: Any, __: Any, seen: Any, known: list[dict[str, str]] | None, query: str | None) -> tuple[Any, ...]:
        progress, table = store.progress(), table_of(store)
        if progress.version == seen and progress.finished:
            return (no_update,) * 6
        head = summary(progress), problems(store), state_class(progress)
        options = column_options(table)
        same = {option.get("value") for option in known or []} == {option["value"] for option in options}
        columns = (no_update, no_update) if same else (definitions(table, OverviewAddress.parse(query)), options)
        return *head, *columns, progress.version


def _figure(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output(DRAWN, "data"),
        Output("scatter-hint", "children"),
        Input("overview-view", "data"),
        Input("overview-seen", "data"),
        prevent_initial_call=True,
    )
    def redraw(query: str | None, _: Any) -> tuple[Any, ...]:
        return draw(table_of(store), OverviewAddress.parse(query))


def _browser(app: Dash) -> None:
    ready, seen = Input("overview-there", "data"), Input("overview-seen", "data")
    place = (Output("scatter-place", "children"), ready, State("scatter-waiting", "data"))
    done = Output("overview-started", "data", allow_duplicate=True)
    functions = {"place": place, "refresh": (Output("overview-refreshed", "data"), seen)}
    functions |= {name: (done, given) for name, given in _CHANGES.items()}
    start = (Output("overview-started", "data"), Input("overview-first", "data"))
    in_browser(app, "ncubble_overview", {"start": start})
    in_browser(app, "ncubble_overview", functions, prevent_initial_call=True)


# --- What the browser asks for beside pages ---

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
    values stay empty, others are raw. It goes out piece by piece: a hundred thousand rows never lie
    in memory as text."""
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
    """One value as text for a spreadsheet; empty for None. What it would take for a formula gets an
    apostrophe in front: kernel names come out of reports, and reports come from anywhere."""
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


PAGE = Page("Launches", OverviewAddress, layout, register)
