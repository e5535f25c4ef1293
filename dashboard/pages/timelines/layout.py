"""The Timelines page: lanes of warps and of streams, and what it takes to record them. Its state is
its address."""

from __future__ import annotations

import html as html_text
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
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
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.page import Page, choose_run, in_browser
from ncubble.dashboard.pages.timelines.figures import LanesFigure, close_up, lane_names, lanes_figure
from ncubble.dashboard.pages.timelines.levels import levels_cards
from ncubble.dashboard.ui import components as ui
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
    kinds = {run: _kind(run, _stamp(run)) for run in store.runs_with(FILE)}
    tags = {run: NAMES.get(kind, "damaged") for run, kind in kinds.items()}
    chosen, choosing = choose_run("Runs with lanes", tags, address)
    answer = f"{chosen.name}: {sentence(chosen)}" if chosen and kinds[chosen] else ""
    parts = [ui.page_head("Timelines", "What runs at the same time, and what waits", answer=answer), *choosing]
    parts += [*levels_cards(chosen, address), shown(chosen, address)] if chosen else []
    lacking = (kind for kind in NAMES if kind not in kinds.values())
    parts += [ui.nothing_found(NAMES[kind], _PROMISES[kind], _RECORDERS[kind], FILE, store.paths) for kind in lacking]
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


def sentence(run: Path) -> str:
    """What the page finds: how much overlaps, and what time goes to; empty where it cannot be
    read."""
    try:
        lanes, together = _read(run, _stamp(run))
    except NcubbleError:
        return ""
    if lanes.kind == "streams":
        return " ".join([overlap(together), *idle_facts(lanes.facts)[0]])
    known = _account(run, _stamp(run))
    if known is None:
        return overlap(together)
    bubbles = "".join(f", {part_label(part)} takes {pct:.1f} %" for part, pct in [*known.bubbles.items()][:1])
    return f"{overlap(together)} The recorded SMs compute {known.parts[WORK]:.1f} % of the time{bubbles}."


def shown(run: Path, address: TimelinesAddress) -> Component:
    """The lanes of one run, and how much of them works at the same time."""
    try:
        lanes, together = _read(run, _stamp(run))
    except NcubbleError as error:
        return ui.card(run.name, [ui.note("error", f"{error.message}. Remedy: {error.remedy}.")])
    title, rows = f"{NAMES[lanes.kind]}: {run.name}", lanes.rows
    if rows.empty:
        return ui.card(title, [ui.note("empty", "This run has no intervals.")])
    middle = close_up(rows) if lanes.kind == "warps" and not address.window else None
    drawn = lanes_figure(rows, address.window or middle)
    middle_words = f" This is the middle section of {duration(together.span_ns)}." if middle else ""
    tables = idle_facts(lanes.facts)[1] if lanes.kind == "streams" else account_table(_account(run, _stamp(run)))
    label = f"{NAMES[lanes.kind]} of {run.name}: {drawn.lanes} lanes, {drawn.intervals} intervals. {sentence(run)}"
    search = "Find a lane or region"
    tools = [
        html.Span(hint(drawn) + middle_words, id="lanes-hint", className="hint"),
        html.Button("Whole run", id="lanes-whole", className="button small", n_clicks=0),
        *ui.search_field("search", f"{search} in this recording (Enter: the next one)", search, maxLength=LONGEST),
        html.Span(id="lanes-found", className="hint", role="status"),
        *(dcc.Store(id=f"lanes-{name}") for name in ("asked", "matches", "window")),
        dcc.Store(id="lanes-run", data=run_id(run)),
    ]
    parts = [
        ui.figure("lanes", drawn.figure, label, tools=True),
        html.Div(id="lanes-ruler", className="lanes-ruler", **ui.aria(hidden="true")),
        html.Div(tools, className="lane-hint"),
        html.Div(window_table(rows, address.window or middle), id="lanes-times"),
        *tables,
        *overlap_tables(together),
    ]
    how = "drag, Ctrl and wheel, or W A S D to zoom; waits are hatched and do not count as work"
    clock = lanes.facts.get("clock")
    if lanes.kind == "warps" and isinstance(clock, dict) and not clock.get("ns_per_cycle"):
        how += "; times within a CTA are cycles (1,000 as 1 µs): the SM clock is not known"
    return ui.card(title, parts, how)


def lanes_of(store: ReportStore, run: str) -> pd.DataFrame | None:
    """The rows of a run by its id; None where it is not, or no longer, there."""
    folder = next((folder for folder in store.runs_with(FILE) if run_id(folder) == run), None)
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


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[ui.Child]], *more: Component) -> Component:
    """A heading and a table, whose columns but the first two hold numbers, where the head has
    units."""
    numeric = [place for place, name in enumerate(head) if name in _NUMERIC or "%" in name]
    return html.Div([html.H3(title), ui.table(head, rows, title, numeric), *more], className="lane-table")


_NUMERIC = ("Time", "Times", "Median", "Gaps, mostly of it", "Range", "Work")


def window_table(rows: pd.DataFrame, window: tuple[float, float] | None) -> list[Component]:
    """Time by region and group in a window (ns after the first interval; None: the whole)."""
    zero, end = float(rows["start_ns"].min()), float(rows["end_ns"].max())
    low, high = (zero + window[0], zero + window[1]) if window else (zero, end)
    # Of the whole run, another table has the idle time of SMs by cause; a lane names one per gap.
    times = [one for one in tag_times(rows, low, high) if window or not one.tag.startswith("wait: ")]
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
    rows: list[list[ui.Child]] = []
    for part, pct in known.parts.items():
        bounds = sorted((known.at_least[part], known.at_most[part]))
        if max(pct, *bounds) < 0.05:
            continue
        style = part_style("unit_busy" if part == WORK else part)
        spread = " to ".join(fixed(bound, 1) for bound in bounds)
        rows.append([ui.part_name(part_label(part), style), fixed(pct, 1), spread, ui.meter(pct, color=style.color)])
    text = f"Source: the probe trace, no counters. Not visible in it: {'; '.join(CANNOT_TELL)}."
    title = "Where the time of the recorded SMs goes"
    return [_table(title, ("Part", "% of time", "Range", ""), rows, html.P(text, className="hint"))]


def idle_facts(facts: dict[str, Any]) -> tuple[list[str], list[Component]]:
    """How long no SM worked and why, as a run of ``ncubble streams`` tells it: a sentence and a
    table for each device; nothing of a run that tells none."""
    devices, sentences, blocks = facts.get("devices"), list[str](), list[Component]()
    head = ("SMs idle because of", "Time", "% of the run", "Gaps, mostly of it", "What helps")
    for device in devices[:MOST_DEVICES] if isinstance(devices, list) else []:
        try:
            name, span = str(device.get("name") or "")[:80], float(device["span_us"])
            idle = [
                (CAUSES[one["cause"]], float(one["us"]), f"{int(one['gaps']):,}".removeprefix("0"))
                for one in device["causes"]
            ]
            rows = [
                [cause.title, duration(1e3 * us), f"{percent(us, span):.1f} %", gaps or "–", cause.remedy]
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


# --- The search, through the whole recording ---

LONGEST = 80
"""Characters of a query."""
LEAST_NS = 1000.0
"""A window around a hit is narrowed down to this, unless the hit is longer."""
TIMES_AS_WIDE = 100.0
"""A hit takes at least a hundredth of its window: a narrower one would hardly be seen."""
MARGIN = 1.25
LanesAsked = TypedDict(
    "LanesAsked", {"query": str, "from": float, "to": float, "place": int | None, "step": Literal[-1, 0, 1]}
)
"""What the browser asks for (``find``)."""


class LaneHit(NamedTuple):
    """The interval to show, number ``place`` (from 1) of those that match in order of time.

    ``lane``: as the figure has it. ``start`` and ``end`` in ns after the first interval.
    """

    place: int
    lane: str
    tag: str
    start: float
    end: float
    window: tuple[float, float]


@dataclass(frozen=True)
class LaneMatches:
    """How many intervals of the recording match, and the one to go to, if that is asked for."""

    count: int
    intervals: int
    hit: LaneHit | None = None

    def to_json(self) -> dict[str, Any]:
        """For the browser."""
        words, hit = f"{self.count:,} of {self.intervals:,} intervals", self.hit
        if hit:
            where = f"{hit.tag} in {html_text.unescape(hit.lane)} at {duration(hit.start)}"
            words = f"{hit.place:,} of {self.count:,} intervals: {where}"
        return {"count": self.count, "words": words, "hit": hit._asdict() if hit else None}


def find(
    rows: pd.DataFrame, query: str, window: tuple[float, float], place: int | None = None, step: int = 0
) -> LaneMatches:
    """What of the lanes has ``query`` in its tag or in the name of its lane, in any case of
    letters. ``step``: 1 for the hit after ``place``, -1 for the one before it, around the ends;
    without a place the first one from the begin of ``window`` on, or the last before its end. 0
    only counts."""
    wanted = query.strip().lower()[:LONGEST]
    if not wanted or rows.empty:
        return LaneMatches(0, len(rows))
    names = lane_names(rows)
    lanes = [names[lane] for lane in rows[["group", "lane"]].drop_duplicates().itertuples(index=False, name=None)]
    lane = rows.groupby(["group", "lane"], sort=False).ngroup().to_numpy()
    fits = np.array([wanted in html_text.unescape(name).lower() for name in lanes])[lane]
    fits |= rows["tag"].isin([tag for tag in rows["tag"].unique() if wanted in str(tag).lower()]).to_numpy()
    if not step or not fits.any():
        return LaneMatches(int(fits.sum()), len(rows))
    zero, whole = float(rows["start_ns"].min()), float(rows["end_ns"].max() - rows["start_ns"].min())
    own = rows.assign(lane=lane)[fits].sort_values("start_ns", kind="stable")
    starts = own["start_ns"].to_numpy(float) - zero
    if place is not None:
        at = place - 1 + step
    else:
        at = int(np.searchsorted(starts, window[0]) if step > 0 else np.searchsorted(starts, window[1], "right") - 1)
    at %= len(own)
    hit, start = own.iloc[at], float(starts[at])
    end = float(hit["end_ns"]) - zero
    # A window with the interval in its middle, as wide as the present one where that shows it.
    length = end - start
    span = min(window[1] - window[0], max(TIMES_AS_WIDE * length, LEAST_NS))
    span = min(max(span, MARGIN * length), whole)
    low = min(max((start + end - span) / 2.0, 0.0), whole - span)
    shown = LaneHit(at + 1, lanes[hit["lane"]], str(hit["tag"]), start, end, (low, low + span))
    return LaneMatches(len(own), len(rows), shown)


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
        prevent_initial_call=True,
    )
    def draw(window: str | None) -> tuple[Any, Any, Any]:
        address = TimelinesAddress.parse(window)
        rows = lanes_of(store, address.run)
        if rows is None:
            return no_update, no_update, no_update
        drawn = lanes_figure(rows, address.window)
        return ui.bare(drawn.figure), hint(drawn), window_table(rows, address.window)

    @app.callback(Output("lanes-matches", "data"), Input("lanes-asked", "data"), state, prevent_initial_call=True)
    def search(asked: LanesAsked | None, run: str | None) -> dict[str, Any] | None:
        rows = lanes_of(store, run or "") if asked else None
        if asked is None or rows is None:
            return None
        found = find(rows, asked["query"], (asked["from"], asked["to"]), asked["place"], asked["step"])
        return {**found.to_json(), "query": asked["query"]}


PAGE = Page("Timelines", TimelinesAddress, layout, register)
