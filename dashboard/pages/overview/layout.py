"""The overview: what all launches lose, a table of them by kernel, and a figure that follows its
filters."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Progress
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.figure import DRAWN_AT_ONCE, draw, figure_card
from ncubble.dashboard.pages.overview.listing import head_words, headline_card
from ncubble.dashboard.pages.overview.routes import add_routes, block
from ncubble.dashboard.pages.overview.table import LaunchTable, table_of
from ncubble.dashboard.pages.overview.table_card import column_options, definitions, table_card
from ncubble.dashboard.pages.page import Page, in_browser, problems
from ncubble.dashboard.ui.components import counted, note


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


PAGE = Page("Launches", OverviewAddress, layout, register)
