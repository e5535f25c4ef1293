"""The Checks page: how every kernel did in the gate, and one of them over time. Its whole state is
its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.account.palette import VERDICT_STYLES
from ncubble.analysis.gate.verdicts import RANKS
from ncubble.analysis.history.checked import NO_KERNEL, CheckedKernel, find, reader, subjects
from ncubble.analysis.history.file import History
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, ChecksAddress
from ncubble.dashboard.pages.checks.detail import detail
from ncubble.dashboard.pages.checks.words import change, metric_words, short_sha, style_of, when
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.ui.components import ag_grid, aria, counted, note, page_head, problem_list, search_field, sign

POLL_MS = 3000
_MOST_PROBLEMS = 20


def history_of(store: ReportStore) -> History:
    """What the folder of results holds now; a store that names none has them in the working one."""
    return reader(store.checks or Path("checks")).read()


def layout(store: ReportStore, address: ChecksAddress) -> Component:
    """The page at an address."""
    history = history_of(store)
    # The browser's copy of the state: it writes the address and requests changes.
    chosen = {"kernel": address.kernel, "gpu": address.gpu, "metric": address.metric, "even": address.even}
    return html.Div(
        [
            html.Div(body(store, history, address), id="checks-body"),
            dcc.Store(id="checks-chosen", data=chosen),
            dcc.Store(id="checks-query", data=address.search),
            dcc.Store(id="checks-token", data=history.token),
            dcc.Interval(id="checks-poll", interval=POLL_MS),
        ],
        className="checks-page",
    )


def body(store: ReportStore, history: History, address: ChecksAddress) -> list[Component]:
    """Everything that follows from the history and the address."""
    kernels = subjects(history)
    parts = [_head(history, kernels), *_problems(history)]
    if not kernels:
        return [*parts, _nothing(history.folder)]
    subject = find(history, address.kernel, address.gpu)
    table = _table(kernels, replace(address, gpu=subject.gpu) if subject else address)
    return [*parts, table, html.Div(selected(store, history, address), id="checks-detail")]


def selected(store: ReportStore, history: History, address: ChecksAddress) -> Component:
    """The card of the chosen kernel, or how to choose one."""
    subject = find(history, address.kernel, address.gpu)
    if subject is not None:
        return detail(store, history, subject, address)
    if address.kernel:
        return note("error", "The history has no check of this kernel on this GPU model. Choose a row of the table.")
    return note("empty", "Choose a row to see its checks over time with baseline and threshold.")


def _head(history: History, kernels: list[CheckedKernel]) -> Component:
    if not kernels:
        return html.Div([html.H1("Checks")], className="page-head")
    verdicts = Counter(kernel.verdict for kernel in kernels)
    counts = ", ".join(f"{verdicts[verdict]} {style_of(verdict).label}" for verdict in sorted(verdicts, key=rank_of))
    gpus = counted(len({kernel.device for kernel in kernels if kernel.device}), "GPU model")
    named = counted(sum(kernel.label != NO_KERNEL for kernel in kernels), "kernel")
    where = html.Span(["History: ", html.Code(str(history.folder))], className="hint")
    return page_head("Checks", f"{named} on {gpus}; at the last check {counts}", where)


def _problems(history: History) -> list[Component]:
    blocks: list[Component] = []
    if history.problems:
        count = len(history.problems)
        entries = [(file.name, file.error, file.remedy) for file in history.problems]
        title = f"{counted(count, 'file')} of the history could not be read"
        blocks.append(problem_list(title, entries, is_open=count <= 3, most=_MOST_PROBLEMS))
    if history.left_out:
        text = f"The newest {len(history.table):,} rows are shown; {history.left_out:,} older ones are left out."
        blocks.append(note("info", text))
    return blocks


def _table(kernels: list[CheckedKernel], address: ChecksAddress) -> Component:
    placeholder = "Search kernels, GPUs, verdicts ( / )"
    tools = [
        *search_field("checks-search", "Search", placeholder, value=address.search, maxLength=LONGEST_SEARCH),
        html.Span(id="checks-count", className="hint", **aria(live="polite")),
        html.Button("Reset", id="checks-reset", className="button", n_clicks=0),
    ]
    key = [html.Span([sign(style), style.label]) for verdict, style in VERDICT_STYLES.items() if verdict in RANKS]
    parts = [
        html.Div(tools, className="toolbar"),
        html.Div(grid(kernels, address), className="grid-place"),
        html.Div(key, className="legend", role="note", **aria(label="Verdict symbols")),
    ]
    style = {"--rows": str(max(min(len(kernels), 14), 3))}
    return html.Section(parts, className="card checks-table", style=style, **aria(label="Table of checked kernels"))


def _nothing(folder: Path) -> Component:
    """The page's state without any check: what records one, and where it was looked for."""
    steps = {
        "Record a baseline of at least five repeats:": "ncubble baseline record RUN…",
        "Later, compare new repeats with the baseline. Every check is added to the history:": "ncubble check RUN…",
        "The history is the folder `checks` beside `baselines`. Use another with": "ncubble dashboard --checks DIR",
    }
    parts = [
        html.P(["No check has been recorded. Searched in ", html.Code(str(folder)), "."]),
        html.Ol([html.Li([text, " ", html.Code(command)]) for text, command in steps.items()]),
        html.P("The first check will appear here automatically."),
    ]
    return html.Div(parts, className="note note-empty checks-empty", role="note")


def grid_rows(kernels: Sequence[CheckedKernel]) -> list[dict[str, Any]]:
    """JSON-ready rows in the order of the subjects; texts from reports stay texts."""
    return [_row(place, kernel) for place, kernel in enumerate(kernels)]


def _row(place: int, kernel: CheckedKernel) -> dict[str, Any]:
    decided = f"{change(kernel.change_pct)} {metric_words(kernel.metric)}" if kernel.metric else kernel.reason
    counts = [f"{kernel.counts[verdict]} {style_of(verdict).label}" for verdict in sorted(kernel.counts, key=rank_of)]
    return {
        "place": place,
        "id": f"{kernel.kernel}/{kernel.gpu}",
        "label": kernel.label,
        "device": kernel.device or "no GPU",
        "verdict": style_of(kernel.verdict).label,
        "verdict_key": kernel.verdict,
        "change": decided or "not compared",
        "change_pct": kernel.change_pct,
        "strip": list(kernel.strip),
        "counted": ", ".join(counts),
        "checks": kernel.checks,
        "checked": int(kernel.checked.timestamp()),
        "checked_text": when(kernel.checked).removesuffix(" UTC"),
        "commit": short_sha(kernel.sha) or "not collected",
    }


def rank_of(verdict: str) -> int:
    """The place of a verdict in the order of the gate, worst first; unknown ones last."""
    return RANKS.index(verdict) if verdict in RANKS else len(RANKS)


def _column(field: str, name: str, tip: str, **extra: Any) -> dict[str, Any]:
    return {"field": field, "headerName": name, "headerTooltip": tip, "tooltipField": field, **extra}


_BY_CHANGE = {"comparator": {"function": "ncChecksByChange"}, "sortingOrder": ["asc", "desc"]}
_BY_TIME = {"comparator": {"function": "ncChecksByTime"}, "sortingOrder": ["desc", "asc"], "filter": False}
_NO_ORDER = {"sortable": False, "filter": False, "cellDataType": False, "tooltipField": "counted"}
_DECIDED = "Metric that decided the last check, and its change from the baseline"
COLUMNS = [
    _column("label", "Kernel", "Kernel, parameters and shape", cellRenderer="NcCheckKernel", minWidth=250, flex=3),
    _column("device", "GPU", "GPU model", minWidth=100, flex=1),
    _column("verdict", "Last verdict", "Verdict of the last check", cellRenderer="NcVerdict", width=150),
    _column("change", "Decided by", _DECIDED, minWidth=176, flex=2, **_BY_CHANGE),
    _column("strip", "History", "Last checks, newest on the right", cellRenderer="NcStrip", width=190, **_NO_ORDER),
    _column("checks", "Checks", "Number of checks", width=76, filter="agNumberColumnFilter"),
    _column("checked_text", "Last check, UTC", "Time of the last check", width=138, **_BY_TIME),
    _column("commit", "Commit", "Commit of the runs in the last check", width=118),
]
"""Order of the rows: regressed first, then the most recently checked."""


def grid(kernels: Sequence[CheckedKernel], address: ChecksAddress) -> Any:
    """The table, with the row of ``address`` selected and its search applied."""
    styles = {name: [style.label, style.color, style.sign] for name, style in VERDICT_STYLES.items()}
    options = {
        "rowSelection": {"mode": "singleRow", "enableClickSelection": True, "checkboxes": False},
        "quickFilterText": address.search,
        "context": {"verdicts": styles},
    }
    selected = {"ids": [f"{address.kernel}/{address.gpu}"]} if address.kernel else []
    return ag_grid(
        "checks-grid", COLUMNS, options, rowData=grid_rows(kernels), getRowId="params.data.id", selectedRows=selected
    )


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``."""
    _browser(app)

    @app.callback(
        Output("checks-detail", "children"),
        Input("checks-chosen", "data"),
        prevent_initial_call=True,
    )
    def show(chosen: Any) -> Component:
        return selected(store, history_of(store), address_of(chosen))

    @app.callback(
        Output("checks-body", "children"),
        Output("checks-token", "data"),
        Input("checks-poll", "n_intervals"),
        State("checks-token", "data"),
        State("checks-chosen", "data"),
        State("checks-query", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int | None, seen: str | None, chosen: Any, query: Any) -> tuple[Any, Any]:
        history = history_of(store)
        if history.token == seen:
            return no_update, no_update
        return body(store, history, address_of(chosen, query)), history.token


def address_of(chosen: Any, query: Any = "") -> ChecksAddress:
    """What the browser's state asks for, checked like an address."""
    state = chosen if isinstance(chosen, dict) else {}
    kernel, gpu, metric = (str(state.get(name) or "") for name in ("kernel", "gpu", "metric"))
    return ChecksAddress.parse(ChecksAddress(kernel, gpu, metric, state.get("even") is True, str(query or "")).query())


def _browser(app: Dash) -> None:
    """The functions of ``assets/checks.js`` with what each writes and reads."""
    grid = State("checks-grid", "dashGridOptions")
    chosen, again = Output("checks-chosen", "data"), Output("checks-chosen", "data", allow_duplicate=True)
    searched = (Output("checks-grid", "dashGridOptions"), Output("checks-query", "data"))
    cleared = (Output("checks-search", "value"), Output("checks-grid", "filterModel"))
    functions: dict[str, tuple[Any, ...]] = {
        "choose": (chosen, Input("checks-grid", "selectedRows")),
        "metric": (again, Input("checks-metric", "value")),
        "axis": (again, Input("checks-axis", "value")),
        "search": (*searched, Input("checks-search", "value"), grid),
        "matches": (
            Output("checks-count", "children"),
            Input("checks-grid", "virtualRowData"),
            State("checks-grid", "rowData"),
        ),
        "reset": (*cleared, Input("checks-reset", "n_clicks")),
    }
    in_browser(app, "ncubble_checks", functions, prevent_initial_call=True)


PAGE = Page("Checks", ChecksAddress, layout, register)
