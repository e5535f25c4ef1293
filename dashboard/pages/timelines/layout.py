"""The Timelines page: lanes of warps and of streams, and what it takes to record them. Its state is
its address."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.analysis.streams.causes import CAUSES
from ncubble.analysis.traces.concurrency import Concurrency, concurrency
from ncubble.analysis.traces.lanes import FILE, LaneRun, find_lanes, lane_kind, read_lanes
from ncubble.analysis.traces.run import read_trace_facts
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.pages.timelines.coarse import account_table
from ncubble.dashboard.pages.timelines.figures import LanesFigure, close_up, lanes_figure
from ncubble.dashboard.pages.timelines.levels import levels_cards
from ncubble.dashboard.pages.timelines.overlaps import overlap, overlap_tables
from ncubble.dashboard.pages.timelines.search import register_search, search_parts
from ncubble.dashboard.pages.timelines.window import window_table
from ncubble.dashboard.ui.components import (
    aria,
    bare,
    card,
    counted,
    figure,
    link_list,
    note,
    page_head,
    table,
)
from ncubble.errors import NcubbleError
from ncubble.text.values import duration

FRESH_S = 10.0
"""Maximum age of the list of runs: walking many folders is slow."""
MOST_LISTED = 200
MOST_DEVICES = 16
_IDLE_HEAD = ("SMs idle because of", "Time", "% of the run", "Gaps", "What helps")
NAMES = {"warps": "Warp roles", "streams": "Streams and copies"}
_PROMISES = {
    "warps": (
        "One lane per warp of a CTA, from clocks written by the kernel itself: when a producer "
        "waits for a free slot, when a consumer waits for a tile, and which of the two delays the "
        "other."
    ),
    "streams": (
        "One lane per stream and copy engine over the run of a program: which copies overlap with "
        "kernels, and the share of time in which two or all three of upload, kernel and download "
        "overlap."
    ),
}
_RECORDERS = {"warps": "ncubble trace NAME", "streams": "ncubble streams NAME"}
_lock = threading.Lock()
_runs: dict[tuple[Path, ...], tuple[float, list[LaneRun]]] = {}


def layout(store: ReportStore, address: TimelinesAddress) -> Component:
    """The page at an address."""
    runs = runs_of(store)
    chosen = next((run for run in runs if run.id == address.run), None)
    parts: list[Component] = [page_head("Timelines", "Concurrent activity of warps, streams and copies")]
    if address.run and chosen is None:
        parts.append(note("error", "No run with lanes has this address. It may have been moved or deleted."))
    if chosen is None and runs and not address.run:
        chosen = runs[0]
    kinds = {run: _kind(run, _stamp(run)) for run in runs[:MOST_LISTED]}
    parts += [_listed(runs, kinds, chosen)] if runs else []
    parts += [*levels_cards(chosen, address), shown(chosen, address)] if chosen else []
    parts += [_missing(kind, store) for kind in NAMES if kind not in kinds.values()]
    return html.Div(parts, className="timelines-page")


def runs_of(store: ReportStore) -> list[LaneRun]:
    """Every run with lanes below the paths of the store; nothing else is ever read by this page."""
    roots = tuple(Path(path) for path in store.paths)
    with _lock:
        made, runs = _runs.get(roots, (-FRESH_S, []))
        if time.monotonic() - made >= FRESH_S:
            runs = list(find_lanes(roots))
            _runs[roots] = time.monotonic(), runs
    return runs


def _stamp(run: LaneRun) -> int:
    """When the file changed last, in ns since 1970; 0 where it is gone."""
    try:
        return (run.path / FILE).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1024)
def _kind(run: LaneRun, stamp: int) -> str:
    return lane_kind(run)


@lru_cache(maxsize=4)
def _read(run: LaneRun, stamp: int) -> tuple[str, pd.DataFrame, Concurrency]:
    kind, frame = read_lanes(run)
    return kind, frame, concurrency(frame, host=kind == "streams")


def _listed(runs: list[LaneRun], kinds: Mapping[LaneRun, str], chosen: LaneRun | None) -> Component:
    links = []
    for run in runs[:MOST_LISTED]:
        kind = html.Span(NAMES.get(kinds[run], "damaged"), className="tag")
        path = html.Span(str(run.path), className="hint side-path")
        links.append((run.path.name, TimelinesAddress(run.id).href(), run == chosen, [kind, path]))
    more = f", the first {MOST_LISTED} are listed" if len(runs) > MOST_LISTED else ""
    return card("Runs with lanes", [link_list(links)], f"{counted(len(runs), 'run')}{more}")


def shown(run: LaneRun, address: TimelinesAddress) -> Component:
    """The lanes of one run, and how much of them works at the same time."""
    try:
        kind, frame, together = _read(run, _stamp(run))
    except NcubbleError as error:
        return card(run.path.name, [note("error", f"{error.message}. Remedy: {error.remedy}.")])
    title = f"{NAMES[kind]}: {run.path.name}"
    if frame.empty:
        return card(title, [note("empty", "This run has no intervals.")])
    middle = close_up(frame) if kind == "warps" and not address.window else None
    lanes = lanes_figure(frame, address.window or middle)
    middle_words = f" This is the middle section of {duration(together.span_ns)}." if middle else ""
    left_out = html.Span(hint(lanes) + middle_words, id="lanes-hint", className="hint")
    sentence = " ".join([overlap(together), *idle_words(run.path)])
    label = f"{NAMES[kind]} of {run.path.name}: {lanes.lanes} lanes, {lanes.intervals} intervals. {sentence}"
    whole = html.Button("Whole run", id="lanes-whole", className="button small", n_clicks=0)
    parts = [
        html.P(sentence, className="sentence"),
        figure("lanes", lanes.figure, label, tools=True),
        html.Div(id="lanes-ruler", className="lanes-ruler", **aria(hidden="true")),
        html.Div([left_out, whole, *search_parts()], className="lane-hint"),
        dcc.Store(id="lanes-run", data=run.id),
        dcc.Store(id="lanes-window"),
        html.Div(window_table(frame, address.window or middle), id="lanes-times"),
        *(account_table(run, _stamp(run)) if kind == "warps" else idle_tables(run.path)),
        *overlap_tables(together),
    ]
    how = "drag, Ctrl and wheel, or W A S D to zoom; waits are hatched and do not count as work"
    return card(title, parts, how + _clock(kind, run.path))


def _clock(kind: str, folder: Path) -> str:
    """What a reader must know of the times of warps where the SM clock is not known."""
    clock = read_trace_facts(folder).get("clock") if kind == "warps" else None
    known = not isinstance(clock, dict) or clock.get("ns_per_cycle")
    return "" if known else "; times within a CTA are cycles (1,000 as 1 µs): the SM clock is not known"


def drawn(store: ReportStore, address: TimelinesAddress) -> tuple[LanesFigure, pd.DataFrame] | None:
    """The figure of a run over a window, and its lanes; None where it is not, or no longer,
    there."""
    frame = _lanes_of(store, address.run)
    return None if frame is None else (lanes_figure(frame, address.window), frame)


def _lanes_of(store: ReportStore, run_id: str) -> pd.DataFrame | None:
    run = next((run for run in runs_of(store) if run.id == run_id), None)
    try:
        return _read(run, _stamp(run))[1] if run else None
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


def idle_words(folder: Path) -> list[str]:
    """How long no SM worked and why above all, a sentence for each device of a run of streams."""
    sentences = []
    for device in _devices(folder):
        try:
            first = max(device["causes"], key=lambda cause: float(cause["us"]))
            title, idle, share = CAUSES[first["cause"]].title, float(device["sm_idle_pct"]), float(first["pct_of_span"])
            name = str(device.get("name") or "")[:80]
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        whose = f" of {name}" if name else ""
        sentences.append(
            f"No SM{whose} is busy for {idle:.1f} % of the time, mostly because of: {title} ({share:.1f} %)."
        )
    return sentences


def _devices(folder: Path) -> list[Any]:
    devices = read_trace_facts(folder).get("devices")
    return devices[:MOST_DEVICES] if isinstance(devices, list) else []


def idle_tables(folder: Path) -> list[Component]:
    """Why no SM worked, as a run of ``ncubble streams`` tells it: time by cause, a table per
    device; nothing for a run that tells none, as one of warps."""
    blocks: list[Component] = []
    for device in _devices(folder):
        try:
            title, rows = _idle_rows(device)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        blocks += [html.H3(title), table(_IDLE_HEAD, rows, title, (1, 2, 3))]
    return [html.Div(blocks, className="lane-table idle-table")] if blocks else []


def _idle_rows(device: dict[str, Any]) -> tuple[str, list[list[Any]]]:
    """Title and rows of a device; raises KeyError, TypeError, ValueError or OverflowError for what
    no recorder told."""
    span = float(device["span_us"])
    rows: list[list[Any]] = []
    for idle in device["causes"]:
        cause, us = CAUSES[idle["cause"]], float(idle["us"])
        share = f"{100 * us / span:.1f} %" if span > 0 else "-"
        rows.append([cause.title, duration(1e3 * us), share, f"{int(idle['gaps']):,}", cause.remedy])
    return f"Idle SMs of {str(device.get('name'))[:80]}" if device.get("name") else "Idle SMs", rows


def _missing(kind: str, store: ReportStore) -> Component:
    """What this part of the page will show, that nothing was found, and where it looked."""
    where = [html.Code(str(path)) for path in store.paths[:6]]
    more = [f" and {len(store.paths) - 6} more"] if len(store.paths) > 6 else []
    looked = html.P(
        ["No such run was found. Searched for ", html.Code(FILE), " in run directories below ", *where, *more]
    )
    parts = [html.P(_PROMISES[kind]), html.P(["To record it: ", html.Code(_RECORDERS[kind])]), looked]
    return card(NAMES[kind], [html.Div(parts, className="note note-empty", role="note")])


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of this page to ``app``: a zoom goes into the address, and what is in the
    window is drawn anew."""
    state, window, plot = State("lanes-run", "data"), ("lanes-window", "data"), {"type": "figure", "name": "lanes"}
    functions = {
        "zoom": (Output(*window), Input(plot, "relayoutData"), state),
        "whole": (Output(*window, allow_duplicate=True), Input("lanes-whole", "n_clicks"), state),
    }
    in_browser(app, "ncubble_lanes", functions, prevent_initial_call=True)
    in_browser(app, "ncubble_lanes", {"follow": (Output("lanes-ruler", "className"), Input(plot, "figure"))})
    register_search(app, lambda run: _lanes_of(store, run))

    @app.callback(
        Output({"type": "drawn", "name": "lanes"}, "data"),
        Output("lanes-hint", "children"),
        Output("lanes-times", "children"),
        Input("lanes-window", "data"),
        State("lanes-run", "data"),
        prevent_initial_call=True,
    )
    def draw(window: Any, run: Any) -> tuple[Any, Any, Any]:
        address = address_of(window, run)
        found = drawn(store, address)
        if found is None:
            return no_update, no_update, no_update
        lanes, frame = found
        return bare(lanes.figure), hint(lanes), window_table(frame, address.window)


def address_of(window: Any, run: Any) -> TimelinesAddress:
    """What the browser's state asks for, checked like an address."""
    low, high = (window.get(name) for name in ("from", "to")) if isinstance(window, dict) else (None, None)
    return TimelinesAddress.parse(f"run={run}" + (f"&from={low}&to={high}" if low is not None else ""))


PAGE = Page("Timelines", TimelinesAddress, layout, register)
