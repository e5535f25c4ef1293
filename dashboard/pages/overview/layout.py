"""The overview: every launch in one table, ordered by recoverable idle time, and a figure that
follows its filters."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.model.roofline import worth_drawing
from ncubble.dashboard.data.readings import Failure, Progress
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.overview.address import OverviewAddress
from ncubble.dashboard.pages.overview.grid import grid, legend
from ncubble.dashboard.pages.overview.query import remembered
from ncubble.dashboard.pages.overview.roofline import roofline_data
from ncubble.dashboard.pages.overview.routes import block
from ncubble.dashboard.pages.overview.table import LaunchTable, table_of
from ncubble.dashboard.pages.overview.tools import toolbar
from ncubble.dashboard.ui.components import aria, figure, note
from ncubble.dashboard.ui.figures import utilization_data

FULL_TABLE = 1000
DRAWN_AT_ONCE = 300
"""With more launches, the table comes first, and the browser asks for the figure once it is
there."""
KINDS = {"utilization": "tensor % against DRAM %", "roofline": "roofline"}
_NEEDED = {"utilization": ("tensor", "dram"), "roofline": ("tflops", "intensity")}
_LACKS = {
    "utilization": "tensor or DRAM % not collected (--set pipeline)",
    "roofline": "FLOPs or DRAM bytes not known (FLOPs come from the run's facts, or from counters: --set full)",
}


def layout(store: ReportStore, address: OverviewAddress) -> Component:
    """The overview of what is loaded, as its address asks; rows that come later are asked for by
    the browser."""
    table, progress = table_of(store), store.progress()
    head = [html.H1("Launches"), html.P(summary(progress), id="overview-summary", className="lead")]
    cards = [_table_card(table, address, progress.finished), _figure_card(table, address)]
    return html.Div(
        [
            html.Div(head, className="page-head"),
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
    found = block(table, address)
    return {"query": address.query(), "usual": usual, "figure_later": found["count"] > DRAWN_AT_ONCE, **found}


def state_class(progress: Progress) -> str:
    """Which state the page is in: ``is-empty`` shows what to do next in place of the table."""
    return "is-empty" if progress.finished and not progress.launches else ""


def summary(progress: Progress) -> str:
    """One line: what is shown, and whether more is coming."""
    launches = _count(progress.launches, "launch", "launches")
    if not progress.finished:
        return f"{launches} so far: {progress.done} of {_count(progress.total, 'report')} read"
    if not progress.total:
        return "No report was found at the given paths."
    return f"{launches} from {_count(progress.total, 'report')}, most recoverable idle time first"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def problems(store: ReportStore) -> list[Component]:
    """What could not be shown or should not be believed, and why; nothing where all is well."""
    failures, doubtful, duplicates = store.failures(), store.doubtful(), store.duplicates()
    blocks: list[Component] = []
    if failures:
        title = f"{_count(len(failures), 'file or launch', 'files or launches')} could not be shown"
        blocks.append(_problem_list(title, failures, "error", len(failures) <= 3))
    if doubtful:
        title = f"{_count(len(doubtful), 'launch holds', 'launches hold')} values that contradict each other"
        blocks.append(_problem_list(title, doubtful, "error", len(doubtful) <= 3))
    if duplicates:
        blocks.append(_problem_list(f"{_count(len(duplicates), 'duplicate')} left out", duplicates, "empty", False))
    return blocks


MOST_PROBLEMS = 200


def _problem_list(title: str, items: list[Failure], kind: str, is_open: bool) -> Component:
    entries = [html.Li([html.Code(item.where), html.Span(_why(item)), _remedy(item)]) for item in items[:MOST_PROBLEMS]]
    if len(items) > MOST_PROBLEMS:
        entries.append(html.Li(f"and {len(items) - MOST_PROBLEMS:,} more"))
    return html.Details([html.Summary(title), html.Ul(entries)], className=f"note note-{kind}", open=is_open)


def _why(item: Failure) -> str:
    """The reason on one line, without the path that stands before it already."""
    return " ".join(item.error.removeprefix(f"{item.where}: ").split())


def _remedy(item: Failure) -> Component:
    return html.Span(f"Remedy: {item.remedy}" if item.remedy else "", className="remedy")


def _table_card(table: LaunchTable, address: OverviewAddress, complete: bool) -> Component:
    """The table with its tools, within the window as high as its rows need; unless ``complete``,
    more may come."""
    nothing = [
        html.P("No launch matches the search and the filters."),
        html.Button("Show all launches", id="show-all", className="button", n_clicks=0),
    ]
    parts = [
        toolbar(table, address),
        html.Div(
            [grid(table, address), html.Div(nothing, id="nothing-matches", className="nothing hidden", role="status")],
            className="grid-place",
        ),
        legend(table.rows if complete else None),
    ]
    place = {"--rows": str(max(len(table), 6) if complete else FULL_TABLE)}
    return html.Section(parts, className="card table-card", style=place, **aria(label="Table of launches"))


def _figure_card(table: LaunchTable, address: OverviewAddress) -> Component:
    later = len(remembered(table, address)) > DRAWN_AT_ONCE
    drawn, hint = ({"data": [], "layout": {"autosize": True}}, "Drawing.") if later else draw(table, address)
    options = [{"label": label, "value": kind} for kind, label in KINDS.items()]
    switch = dcc.RadioItems(options, address.figure, id="figure-kind", className="segments", inline=True)
    head = [
        html.H2("Where the launches stand"),
        html.Div(switch, role="group", **aria(label="Kind of figure")),
        html.Span("follows the table; click a point to open it", className="hint"),
    ]
    parts = [
        html.Div(head, className="card-head"),
        _place(drawn),
        html.P(hint, id="scatter-hint", className="hint"),
    ]
    return html.Section(parts, className="card scatter-card")


def _place(drawn: dict[str, Any]) -> Component:
    """The figure in its place, without a detour through plotly's objects.

    What draws it waits in a store until the table has its rows: plotly's code takes longer to start
    than all else.
    """
    label = "Launches of the table as points: tensor % against DRAM %, or roofline"
    place: Any = figure("scatter", go.Figure(), label, "fill", True)
    kept, graph, downloads = place.children
    kept.data = drawn
    waiting = dcc.Store(id="scatter-waiting", data=graph.to_plotly_json())
    place.children = [kept, waiting, html.Div(id="scatter-place", className="figure-place"), downloads]
    return place  # type: ignore[no-any-return]


def draw(table: LaunchTable, address: OverviewAddress) -> tuple[dict[str, Any], str]:
    """The figure of what a view lists as the page keeps it, and a line on what it leaves out."""
    rows = remembered(table, address).rows(table)
    shown, lacking = worth_drawing(rows, _NEEDED[address.figure])
    drawn = roofline_data(shown) if address.figure == "roofline" else utilization_data(shown)
    drawn["layout"]["autosize"] = True
    return drawn, left_out(address.figure, len(rows), len(shown), lacking)


def left_out(kind: str, listed: int, shown: int, lacking: int) -> str:
    """What the figure does not show, and why; empty where it shows all that the table lists."""
    said = []
    if shown + lacking < listed:
        said.append(f"Drawn: the {shown:,} of {listed - lacking:,} launches with the most recoverable time.")
    if lacking:
        said.append(f"{_count(lacking, 'launch', 'launches')} not drawn: {_LACKS[kind]}.")
    return " ".join(said)


def nothing_to_show() -> list[Component]:
    """What stands in place of the table when there is no launch at all: what to do next."""
    return [
        note("empty", "No launch to show. Record one with ", "ncubble profile tensor_core_gemm -p stages=3"),
        note("empty", "Or show reports that exist: ", "ncubble dashboard PATH"),
        note("empty", "Or look at recorded runs first: ", "ncubble demo"),
        html.P(dcc.Link("Add report files", href="/open", className="button")),
    ]
