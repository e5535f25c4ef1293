"""The Sweep page: the sweeps that were found, or one of them. Its whole state is its address."""

from __future__ import annotations

from collections.abc import Sequence

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from ncubble.analysis.sweeps.coordinates import SHAPE
from ncubble.analysis.sweeps.model import Sweep, sweeps
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SweepAddress
from ncubble.dashboard.pages.page import Page, in_browser, still_loading
from ncubble.dashboard.pages.sweep import parallel
from ncubble.dashboard.pages.sweep.detail import sweep_page
from ncubble.dashboard.ui.components import Child, card, counted, note, page_head, search_field, table
from ncubble.text import values as shown
from ncubble.text.values import short_gpu

MOST_LISTED = 300
MOST_VALUES = 8
RECORD = (
    "ncubble profile tensor_core_gemm -p stages=1",
    "ncubble profile tensor_core_gemm -p stages=2",
    "ncubble profile tensor_core_gemm -p stages=3",
)
FIGURES = ("sweep-busy", "sweep-time", "sweep-parallel")
_HEAD = ("Kernel", "Parameter", "Values", "Series", "Launches", "Slowest relative to fastest", "GPU")
all_sweeps = Remembered(sweeps)


def layout(store: ReportStore, address: SweepAddress) -> Component:
    """The page at an address; while reports are being read, launches may still come."""
    listed, progress = all_sweeps.of(store), store.progress()
    chosen = choose(listed, address)
    if chosen is not None:
        return sweep_page(store, listed, chosen, address)
    if not progress.finished and (address.kernel or not listed):
        return still_loading(progress)
    problems: list[Component] = []
    if address.kernel:
        text = "No such sweep: no launches of this kernel differ only in this parameter, or they are not loaded."
        problems.append(note("error", text))
    if not progress.finished:
        text = f"{progress.done} of {progress.total} reports are read; more sweeps may appear."
        problems.append(html.P([text, " ", dcc.Link("Look again", href=SweepAddress.PATH)], className="hint"))
    lead = f"{counted(len(listed), 'sweep')}: launches that differ in only one parameter" if listed else ""
    body = _listed(listed) if listed else _none(len(store.rows()))
    return html.Div([page_head("Sweep", lead), *problems, body], className="sweep-page")


def choose(listed: Sequence[Sweep], address: SweepAddress) -> Sweep | None:
    """The sweep that an address means: on the GPU that it names, else on that of the most launches;
    None without one.

    It keeps the series that have all coordinates that the address fixes.
    """
    same = [sweep for sweep in listed if sweep.kernel == address.kernel and sweep.parameter == address.parameter]
    on_gpu = [sweep for sweep in same if address.gpu in ("", sweep.gpu, short_gpu(sweep.gpu))]
    kept = [left for sweep in on_gpu if (left := sweep.narrowed(address.fixed)).series]
    return max(kept, key=lambda sweep: sweep.launches, default=None)


def _none(launches: int) -> Component:
    """What to do where nothing was swept."""
    seen = f"None of the {launches} launches here differ" if launches else "There are no launches that differ"
    steps = html.Ul([html.Li(html.Code(command)) for command in RECORD])
    more = html.P(
        "Runs of your own program are found too, if its launches differ in block size, a template "
        "argument, or recorded parameters."
    )
    lead = html.P(f"{seen} in only one parameter. Record a kernel at several values of a parameter:")
    return html.Div([lead, steps, more], className="note note-empty sweep-none", role="note")


def _listed(listed: Sequence[Sweep]) -> Component:
    tools = search_field("sweep-search", "Search", "Search kernel, parameter, GPU", value="")
    tools.append(html.Span(id="sweep-count", className="hint", role="status"))
    rows = [_cells(sweep) for sweep in listed[:MOST_LISTED]]
    parts: list[Child] = [
        html.Div(tools, className="crumbs"),
        html.Div(table(_HEAD, rows, "Sweeps", numeric=(3, 4, 5)), id="sweep-list"),
    ]
    if len(listed) > MOST_LISTED:
        text = f"{len(listed) - MOST_LISTED} more are not listed; open fewer reports to see them."
        parts.append(html.P(text, className="hint"))
    return card("Sweeps", parts, "among all launches; parameters first, largest differences on top")


def _cells(sweep: Sweep) -> list[Child]:
    href = SweepAddress(sweep.kernel, sweep.parameter, sweep.gpu).href()
    of_shape = [html.Span("shape", className="tag")] if sweep.kind == SHAPE else []
    values = sweep.values()
    more = f", … {len(values)} in all" if len(values) > MOST_VALUES else ""
    timed = any(series.ends() for series in sweep.series)
    return [
        dcc.Link(shown.short_name(sweep.kernel, 60), href=href, className="row-link", title=sweep.kernel),
        html.Span([sweep.parameter, " ", *of_shape], className="sweep-parameter"),
        html.Span(", ".join(values[:MOST_VALUES]) + more, className="sweep-values"),
        str(len(sweep.series)),
        str(sweep.launches),
        f"{sweep.ratio:.2f} ×" if sweep.ratio > 1.0 else "1.00 ×" if timed else shown.NOT_COLLECTED,
        html.Span(sweep.gpu_shown or "unknown", title=sweep.gpu),
    ]


def register(app: Dash, store: ReportStore) -> None:
    """A click on a point leads to its launch (``assets/sweep.js``); parallel coordinates are built
    when they come into view."""
    place = [Output("url", part, allow_duplicate=True) for part in ("pathname", "search")]
    for name in FIGURES:
        click = Input({"type": "figure", "name": name}, "clickData")
        in_browser(app, "ncubble_sweep", {"openPoint": (*place, click)}, prevent_initial_call=True)
    parallel.register(app, store)


PAGE = Page("Sweep", SweepAddress, layout, register)
