"""The overview: every launch in one table, ordered by recoverable idle time, and a scatter that follows its filters."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.compare_address import PATH
from ncubble.dashboard.components import aria, bare, card, figure, note
from ncubble.dashboard.data import Failure, Progress, ReportStore
from ncubble.dashboard.figures import utilization_scatter
from ncubble.dashboard.grid import grid, legend

FULL_TABLE = 1000


def layout(store: ReportStore, search: str = "") -> Component:
    """The overview of everything that is loaded so far; rows that come later are added by the progress callback."""
    rows, progress = store.rows(), store.progress()
    head = [html.H1("Launches"), html.P(summary(progress), id="overview-summary", className="lead")]
    parts = [
        html.Div(head, className="page-head"),
        dcc.Store(id="overview-version", data=progress.version),
        dcc.Interval(id="overview-poll", interval=600, disabled=progress.finished),
        html.Div(problems(store), id="overview-problems"),
    ]
    if progress.finished and not rows:
        return html.Div([*parts, nothing_to_show()])
    cards = [_table_card(rows, progress.finished), _scatter_card(rows)]
    return html.Div([*parts, html.Div(cards, className="overview-grid")])


def summary(progress: Progress) -> str:
    """One line: what is shown, and whether more is coming."""
    launches = _count(progress.launches, "launch", "launches")
    if not progress.finished:
        return f"{launches} so far: {progress.done} of {_count(progress.total, 'report')} read"
    if not progress.total:
        return "No report was found at the given paths."
    return f"{launches} from {_count(progress.total, 'report')}, most recoverable idle time first"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


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


def _problem_list(title: str, items: list[Failure], kind: str, is_open: bool) -> Component:
    entries = [html.Li([html.Code(item.where), html.Span(_why(item)), _remedy(item)]) for item in items]
    return html.Details([html.Summary(title), html.Ul(entries)], className=f"note note-{kind}", open=is_open)


def _why(item: Failure) -> str:
    """The reason on one line, without the path that stands before it already."""
    return " ".join(item.error.removeprefix(f"{item.where}: ").split())


def _remedy(item: Failure) -> Component:
    return html.Span(f"Remedy: {item.remedy}" if item.remedy else "", className="remedy")


def _table_card(rows: list[dict[str, Any]], complete: bool) -> Component:
    """The table with its tools, within the window as high as its rows need; unless ``complete``, more may come."""
    search = dcc.Input(
        id="search",
        type="search",
        placeholder="Search all columns ( / )",
        debounce=False,
        className="search",
        persistence="search",
        persistence_type="session",
    )
    tools = [
        html.Label("Search", htmlFor="search", className="visually-hidden"),
        search,
        html.Span(id="match-count", className="hint", **aria(live="polite")),
        dcc.Link("Compare", id="compare-selected", href=PATH, className="button primary hidden"),
        html.Button("Reset filters", id="reset-filters", className="button", n_clicks=0),
    ]
    parts = [
        html.Div(tools, className="toolbar"),
        html.Div(grid(rows), className="grid-place"),
        legend(rows if complete else None),
    ]
    place = {"--rows": str(max(len(rows), 6) if complete else FULL_TABLE)}
    return html.Section(parts, className="card table-card", style=place, **aria(label="Table of launches"))


def _scatter_card(rows: list[dict[str, Any]]) -> Component:
    plotted = utilization_scatter(rows)
    label = "Scatter of tensor pipe against DRAM utilization of the listed launches"
    parts = [
        dcc.Store(id="scatter-rows", data=bare(plotted)),
        figure("scatter", plotted, label, "fill", tools=True),
        html.P(scatter_hint(rows), id="scatter-hint", className="hint"),
    ]
    return card("Tensor against DRAM", parts, "follows the table; click a point to open it", "scatter-card")


def scatter_hint(rows: list[dict[str, Any]]) -> str:
    """How many launches the scatter cannot show, and why; empty where it shows all."""
    lacking = sum(1 for row in rows if row["tensor"] is None or row["dram"] is None)
    return f"{_count(lacking, 'launch', 'launches')} not drawn: tensor or DRAM % not collected." if lacking else ""


def nothing_to_show() -> Component:
    """The page's state when there is no launch at all."""
    return note("empty", "No launch to show. Record one with ", "ncubble profile tensor_core_gemm -p stages=3")
