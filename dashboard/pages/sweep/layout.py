"""The Sweep page: the sweeps that were found, or one of them. Its whole state is its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.sweeps.coordinates import SHAPE
from ncubble.analysis.sweeps.model import Sweep, sweeps
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.missing import still_loading
from ncubble.dashboard.pages.sweep.address import SweepAddress
from ncubble.dashboard.pages.sweep.detail import sweep_page
from ncubble.dashboard.ui.components import card, note, table
from ncubble.text import values as shown
from ncubble.text.gpus import short_gpu

MOST_LISTED = 300
MOST_VALUES = 8
RECORD = (
    "ncubble profile tensor_core_gemm -p stages=1",
    "ncubble profile tensor_core_gemm -p stages=2",
    "ncubble profile tensor_core_gemm -p stages=3",
)
found = Remembered(sweeps)


def layout(store: ReportStore, address: SweepAddress) -> Component:
    """The page at an address; while reports are being read, launches may still come."""
    all_found, progress = found.of(store), store.progress()
    chosen = choose(all_found, address)
    if chosen is not None:
        return sweep_page(store, all_found, chosen, address)
    if not progress.finished and (address.kernel or not all_found):
        return still_loading(progress)
    problems: list[Component] = []
    if address.kernel:
        text = "No sweep is like that: no launches of this kernel differ in this parameter alone, or are not here."
        problems.append(note("error", text))
    if not progress.finished:
        text = f"{progress.done} of {progress.total} reports are read; more sweeps may come."
        problems.append(html.P([text, " ", dcc.Link("Look again", href=SweepAddress.PATH)], className="hint"))
    body = _listed(all_found) if all_found else _none(len(store.rows()))
    return html.Div([_head(all_found), *problems, body], className="sweep-page")


def choose(all_found: Sequence[Sweep], address: SweepAddress) -> Sweep | None:
    """The sweep that an address means: on the GPU that it names, else on that of the most launches;
    None without one.

    It keeps the series that have all coordinates that the address fixes.
    """
    same = [one for one in all_found if one.kernel == address.kernel and one.parameter == address.parameter]
    on_gpu = [one for one in same if address.gpu in ("", one.gpu, short_gpu(one.gpu))]
    kept = [left for one in on_gpu if (left := one.narrowed(address.fixed)).series]
    return max(kept, key=lambda one: one.launches, default=None)


def _head(all_found: Sequence[Sweep]) -> Component:
    count = len(all_found)
    lead = f"{count} sweep{'' if count == 1 else 's'}: launches that differ in one parameter alone" if count else ""
    return html.Div([html.H1("Sweep"), html.P(lead, className="lead")], className="page-head")


def _none(launches: int) -> Component:
    """What to do where nothing was swept."""
    seen = f"None of the {launches} launches here differ" if launches else "No launches are here that differ"
    said = f"{seen} in one parameter alone. Record a kernel at several values of a parameter:"
    steps = html.Ul([html.Li(html.Code(command)) for command in RECORD])
    more = html.P(
        "Runs of your own program are found as well, if its launches differ in block size, in an argument of "
        "their template, or in the parameters that they write down."
    )
    return html.Div([html.P(said), steps, more], className="note note-empty sweep-none", role="note")


def _listed(all_found: Sequence[Sweep]) -> Component:
    search = dcc.Input(
        id="sweep-search", type="search", placeholder="Search kernel, parameter, GPU", className="search", value=""
    )
    tools = [html.Label("Search", htmlFor="sweep-search", className="visually-hidden"), search]
    tools.append(html.Span(id="sweep-count", className="hint", role="status"))
    head = ["Kernel", "Parameter", "Values", "Series", "Launches", "Slowest against fastest", "GPU"]
    rows = [_line(one) for one in all_found[:MOST_LISTED]]
    listed = html.Div(table(head, rows, "Sweeps that were found", numeric=(3, 4, 5)), id="sweep-list")
    parts: list[Any] = [html.Div(tools, className="crumbs"), listed]
    if len(all_found) > MOST_LISTED:
        text = f"{len(all_found) - MOST_LISTED} more are not listed: open fewer reports to see them."
        parts.append(html.P(text, className="hint"))
    return card("Sweeps", parts, "found among all launches; parameters first, the largest differences on top")


def _line(one: Sweep) -> list[Component | str]:
    address = SweepAddress(one.kernel, one.parameter, one.gpu)
    name = shown.short_name(one.kernel, 60)
    of_shape = [html.Span("shape", className="tag")] if one.kind == SHAPE else []
    values = one.values()
    told = ", ".join(values[:MOST_VALUES]) + (f", … {len(values)} in all" if len(values) > MOST_VALUES else "")
    return [
        dcc.Link(name, href=address.href(), className="row-link", title=one.kernel),
        html.Span([one.parameter, " ", *of_shape], className="sweep-parameter"),
        html.Span(told, className="sweep-values"),
        str(len(one.series)),
        str(one.launches),
        f"{one.ratio:.2f} ×" if one.ratio > 1.0 else shown.NOT_COLLECTED if not _timed(one) else "1.00 ×",
        html.Span(one.gpu_shown or "unknown", title=one.gpu),
    ]


def _timed(one: Sweep) -> bool:
    return any(series.ends() for series in one.series)
