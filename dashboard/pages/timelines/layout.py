"""The Timelines page: lanes of warps and of streams, and what it takes to record them. Its state is
its address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label, part_style
from ncubble.analysis.streams.work import CAUSES
from ncubble.analysis.traces.account import CANNOT_TELL, WORK, TraceAccount, trace_account
from ncubble.analysis.traces.lanes import (
    FILE,
    Concurrency,
    Lanes,
    concurrency,
    lane_kind,
    percent,
    read_lanes,
    read_warps,
    run_id,
    tag_times,
)
from ncubble.dashboard.data.recordings import runs_with
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.pages.timelines.figures import LanesFigure, close_up, lanes_figure
from ncubble.dashboard.pages.timelines.levels import levels_cards
from ncubble.dashboard.pages.timelines.search import LONGEST, find, request_of
from ncubble.dashboard.ui.components import (
    Child,
    aria,
    bare,
    card,
    figure,
    meter,
    note,
    nothing_found,
    page_head,
    part_name,
    run_list,
    search_field,
    table,
)
from ncubble.errors import NcubbleError
from ncubble.text.values import duration, fixed

MOST_DEVICES = 16
MOST_REGIONS = 16
NAMES = {"warps": "Warp roles", "streams": "Streams and copies"}
_PROMISES = {
    "warps": "One lane per warp of a CTA: when a producer waits for a slot, and a consumer for a tile.",
    "streams": "One lane per stream and copy engine of a program: which copies overlap with kernels.",
}
_RECORDERS = {"warps": "ncubble trace NAME", "streams": "ncubble streams NAME"}
_UNREAL = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""What facts that no recorder wrote raise."""


def layout(store: ReportStore, address: TimelinesAddress) -> Component:
    """The page at an address."""
    runs = runs_with(FILE, store)
    chosen = next((run for run in runs if run_id(run) == address.run), None)
    parts: list[Component] = [page_head("Timelines", "Concurrent activity of warps, streams and copies")]
    if address.run and chosen is None:
        parts.append(note("error", "No run with lanes has this address. It may have been moved or deleted."))
    elif chosen is None and runs:
        chosen = runs[0]
    kinds = {run: _kind(run, _stamp(run)) for run in runs}
    if runs:
        tags = {run: NAMES.get(kind, "damaged") for run, kind in kinds.items()}
        href = {run: TimelinesAddress(run_id(run)).href() for run in runs}
        parts.append(run_list("Runs with lanes", runs, chosen, href.__getitem__, tags.__getitem__))
    parts += [*levels_cards(chosen, address), shown(chosen, address)] if chosen else []
    lacking = (kind for kind in NAMES if kind not in kinds.values())
    parts += [nothing_found(NAMES[kind], _PROMISES[kind], _RECORDERS[kind], FILE, store.paths) for kind in lacking]
    return html.Div(parts, className="timelines-page")


def _stamp(run: Path) -> int:
    """When the file changed last, in ns since 1970; 0 where it is gone."""
    try:
        return (run / FILE).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1024)
def _kind(run: Path, stamp: int) -> str:
    return lane_kind(run)


@lru_cache(maxsize=4)
def _read(run: Path, stamp: int) -> tuple[Lanes, Concurrency]:
    lanes = read_lanes(run)
    return lanes, concurrency(lanes.rows)


@lru_cache(maxsize=4)
def _account(run: Path, stamp: int) -> TraceAccount | None:
    try:
        return trace_account(read_warps(run).rows)
    except NcubbleError:  # lanes that name no warps
        return None


def shown(run: Path, address: TimelinesAddress) -> Component:
    """The lanes of one run, and how much of them works at the same time."""
    try:
        lanes, together = _read(run, _stamp(run))
    except NcubbleError as error:
        return card(run.name, [note("error", f"{error.message}. Remedy: {error.remedy}.")])
    title, rows = f"{NAMES[lanes.kind]}: {run.name}", lanes.rows
    if rows.empty:
        return card(title, [note("empty", "This run has no intervals.")])
    middle = close_up(rows) if lanes.kind == "warps" and not address.window else None
    drawn = lanes_figure(rows, address.window or middle)
    middle_words = f" This is the middle section of {duration(together.span_ns)}." if middle else ""
    idle, tables = (
        idle_facts(lanes.facts) if lanes.kind == "streams" else ([], account_table(_account(run, _stamp(run))))
    )
    sentence = " ".join([overlap(together), *idle])
    label = f"{NAMES[lanes.kind]} of {run.name}: {drawn.lanes} lanes, {drawn.intervals} intervals. {sentence}"
    search = "Find a lane or region"
    tools = [
        html.Span(hint(drawn) + middle_words, id="lanes-hint", className="hint"),
        html.Button("Whole run", id="lanes-whole", className="button small", n_clicks=0),
        *search_field("search", f"{search} in this recording (Enter: the next one)", search, maxLength=LONGEST),
        html.Span(id="lanes-found", className="hint", role="status"),
        *(dcc.Store(id=f"lanes-{name}") for name in ("asked", "matches", "window")),
        dcc.Store(id="lanes-run", data=run_id(run)),
    ]
    parts = [
        html.P(sentence, className="sentence"),
        figure("lanes", drawn.figure, label, tools=True),
        html.Div(id="lanes-ruler", className="lanes-ruler", **aria(hidden="true")),
        html.Div(tools, className="lane-hint"),
        html.Div(window_table(rows, address.window or middle), id="lanes-times"),
        *tables,
        *overlap_tables(together),
    ]
    how = "drag, Ctrl and wheel, or W A S D to zoom; waits are hatched and do not count as work"
    clock = lanes.facts.get("clock")
    if lanes.kind == "warps" and isinstance(clock, dict) and not clock.get("ns_per_cycle"):
        how += "; times within a CTA are cycles (1,000 as 1 µs): the SM clock is not known"
    return card(title, parts, how)


def lanes_of(store: ReportStore, run: str) -> pd.DataFrame | None:
    """The rows of a run by its id; None where it is not, or no longer, there."""
    folder = next((folder for folder in runs_with(FILE, store) if run_id(folder) == run), None)
    try:
        return _read(folder, _stamp(folder))[0].rows if folder else None
    except NcubbleError:
        return None


def hint(drawn: LanesFigure) -> str:
    """What the figure leaves out, in sentences."""
    merged = f"{drawn.intervals:,} intervals"
    if drawn.step_ns:
        step = duration(drawn.step_ns)
        merged += f", summarized in steps of {step}: each shows its longest activity. Zoom in to see all intervals"
    left = f" The first {drawn.lanes} lanes are drawn, {drawn.left_out} are left out." if drawn.left_out else ""
    return f"{merged}.{left}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[Child]], *more: Component) -> Component:
    """A heading and a table, whose columns but the first two hold numbers, where the head has
    units."""
    numeric = [place for place, name in enumerate(head) if name in _NUMERIC or "%" in name]
    return html.Div([html.H3(title), table(head, rows, title, numeric), *more], className="lane-table")


_NUMERIC = ("Time", "Times", "Median", "Gaps", "Range", "Work")


def window_table(rows: pd.DataFrame, window: tuple[float, float] | None) -> list[Component]:
    """Time by region and group in a window (ns after the first interval; None: the whole)."""
    zero, end = float(rows["start_ns"].min()), float(rows["end_ns"].max())
    low, high = (zero + window[0], zero + window[1]) if window else (zero, end)
    times = tag_times(rows, low, high)
    cells = []
    for each in times[:MOST_REGIONS]:
        median = duration(each.median_ns) if each.median_ns is not None else "–"
        cells.append([each.tag, each.group, f"{each.count:,}", duration(each.ns), f"{each.pct:.1f} %", median])
    left = f"{len(times) - MOST_REGIONS} more are left out."
    more = [html.P(left, className="hint")] if len(times) > MOST_REGIONS else []
    title = f"In this window of {duration(high - low)}" if window else f"In total {duration(high - low)}"
    return [_table(title, ("Region", "Of", "Times", "Time", "% of its lanes", "Median"), cells, *more)]


def account_table(known: TraceAccount | None) -> list[Component]:
    """The account of a trace of warps: where the time of the recorded SMs goes, without counters;
    nothing of lanes that are no trace of warps that compute."""
    if known is None:
        return []
    rows: list[list[Child]] = []
    for part, pct in known.parts.items():
        bounds = sorted((known.at_least[part], known.at_most[part]))
        if max(pct, *bounds) < 0.05:
            continue
        style = part_style("unit_busy" if part == WORK else part)
        spread = " to ".join(fixed(bound, 1) for bound in bounds)
        rows.append([part_name(part_label(part), style), fixed(pct, 1), spread, meter(pct, color=style.color)])
    text = f"Source: the probe trace, no counters. Not visible in it: {'; '.join(CANNOT_TELL)}."
    title = "Where the time of the recorded SMs goes"
    return [_table(title, ("Part", "% of time", "Range", ""), rows, html.P(text, className="hint"))]


def idle_facts(facts: dict[str, Any]) -> tuple[list[str], list[Component]]:
    """How long no SM worked and why, as a run of ``ncubble streams`` tells it: a sentence and a
    table for each device; nothing of a run that tells none."""
    devices, sentences, blocks = facts.get("devices"), list[str](), list[Component]()
    head = ("SMs idle because of", "Time", "% of the run", "Gaps", "What helps")
    for device in devices[:MOST_DEVICES] if isinstance(devices, list) else []:
        try:
            name, span = str(device.get("name") or "")[:80], float(device["span_us"])
            idle = [(CAUSES[one["cause"]], float(one["us"]), int(one["gaps"])) for one in device["causes"]]
            rows = [
                [cause.title, duration(1e3 * us), f"{percent(us, span):.1f} %", f"{gaps:,}", cause.remedy]
                for cause, us, gaps in idle
            ]
            whose = f" of {name}" if name else ""
            blocks.append(_table(f"Idle SMs{whose}", head, rows))
            first, us, _ = max(idle, key=lambda one: one[1])
            why = f"{first.title} ({percent(us, span):.1f} %)"
            share = float(device["sm_idle_pct"])
            sentences.append(f"No SM{whose} is busy for {share:.1f} % of the time, mostly because of: {why}.")
        except _UNREAL:
            continue
    return sentences, [html.Div(blocks, className="idle-table")] if blocks else []


def overlap(together: Concurrency) -> str:
    """What overlaps, in one sentence."""
    idle = "No time is recorded"
    if span := together.span_ns:
        idle = f"Nothing runs for {100 * together.idle_ns / span:.1f} % of {duration(span)}"
    pairs = [pair for pair in together.overlaps if len(pair.what) == 2]
    if not pairs:
        return f"{idle}."
    best = max(pairs, key=lambda pair: pair.ns)
    return f"{idle}; {' and '.join(best.what)} overlap for {best.pct_of_span:.1f} %."


def overlap_tables(together: Concurrency) -> list[Component]:
    """Tables: how long each group works, and how long two or three of them do at once."""
    if not together.busy_ns:
        return []
    span = together.span_ns
    alone = [[name, duration(ns), f"{percent(ns, span):.1f} %"] for name, ns in together.busy_ns.items()]
    blocks = [_table("Work by group", ("Group", "Work", "% of the run"), alone)]
    if together.overlaps:
        rows = [
            [" + ".join(pair.what), duration(pair.ns), f"{pair.pct_of_span:.1f} %", f"{pair.pct_of_least:.1f} %"]
            for pair in together.overlaps
        ]
        blocks.append(_table("Overlap", ("At the same time", "Time", "% of the run", "% of the less busy"), rows))
    return blocks


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``: a zoom goes into the address, what is in the
    window is drawn anew, and the search looks through the whole recording."""
    state, window, plot = State("lanes-run", "data"), ("lanes-window", "data"), {"type": "figure", "name": "lanes"}
    functions = {
        "zoom": (Output(*window), Input(plot, "relayoutData"), state),
        "whole": (Output(*window, allow_duplicate=True), Input("lanes-whole", "n_clicks"), state),
        "told": (Output("lanes-found", "children"), Input("lanes-matches", "data")),
    }
    in_browser(app, "ncubble_lanes", functions, prevent_initial_call=True)
    in_browser(app, "ncubble_lanes", {"follow": (Output("lanes-ruler", "className"), Input(plot, "figure"))})

    @app.callback(
        Output({"type": "drawn", "name": "lanes"}, "data"),
        Output("lanes-hint", "children"),
        Output("lanes-times", "children"),
        Input(*window),
        state,
        prevent_initial_call=True,
    )
    def draw(window: Any, run: Any) -> tuple[Any, Any, Any]:
        address = address_of(window, run)
        rows = lanes_of(store, address.run)
        if rows is None:
            return no_update, no_update, no_update
        drawn = lanes_figure(rows, address.window)
        return bare(drawn.figure), hint(drawn), window_table(rows, address.window)

    @app.callback(Output("lanes-matches", "data"), Input("lanes-asked", "data"), state, prevent_initial_call=True)
    def search(asked: Any, run: Any) -> dict[str, Any] | None:
        request = request_of(asked)
        rows = lanes_of(store, address_of(None, run).run) if request else None
        return {**find(rows, *request).to_json(), "query": request[0]} if request and rows is not None else None


def address_of(window: Any, run: Any) -> TimelinesAddress:
    """What the browser's state asks for, checked like an address."""
    low, high = (window.get(name) for name in ("from", "to")) if isinstance(window, dict) else (None, None)
    return TimelinesAddress.parse(f"run={run}" + (f"&from={low}&to={high}" if low is not None else ""))


PAGE = Page("Timelines", TimelinesAddress, layout, register)
