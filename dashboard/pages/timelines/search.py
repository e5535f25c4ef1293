"""The search on Timelines, over the whole recording: how many regions and lanes match, and which
comes next."""

from __future__ import annotations

import html as html_text
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.page import in_browser
from ncubble.dashboard.pages.timelines.figures import lane_names
from ncubble.dashboard.ui.components import search_field
from ncubble.text.values import duration

LONGEST = 80
"""Characters of a query."""
LEAST_NS = 1000.0
"""A window around a hit is narrowed down to this, unless the hit is longer."""
TIMES_AS_WIDE = 100.0
"""A hit takes at least a hundredth of its window: a narrower one would hardly be seen."""
MARGIN = 1.25


@dataclass(frozen=True)
class LaneHit:
    """The interval to show, number ``place`` (from 1) of those that match in order of time.

    ``lane``: as the figure has it. ``start`` and ``end`` in ns after the first interval.
    """

    place: int
    lane: str
    tag: str
    start: float
    end: float
    window: tuple[float, float]

    @property
    def words(self) -> str:
        """Where it is."""
        return f"{self.tag} in {html_text.unescape(self.lane)} at {duration(self.start)}"


@dataclass(frozen=True)
class LaneMatches:
    """How many intervals of the recording match, and the one to go to, if that is asked for."""

    count: int
    intervals: int
    hit: LaneHit | None = None

    def to_json(self) -> dict[str, Any]:
        """For the browser."""
        words = f"{self.count:,} of {self.intervals:,} intervals"
        if self.hit:
            words = f"{self.hit.place:,} of {self.count:,} intervals: {self.hit.words}"
        return {"count": self.count, "words": words, "hit": asdict(self.hit) if self.hit else None}


def find(
    frame: pd.DataFrame, query: str, window: tuple[float, float], place: int | None = None, step: int = 0
) -> LaneMatches:
    """What of ``frame`` has ``query`` in its tag or in the name of its lane, in any case of
    letters. ``step``: 1 for the hit after ``place``, -1 for the one before it, around the ends;
    without a place the first one from the begin of ``window`` on, or the last before its end. 0
    only counts."""
    wanted = query.strip().lower()[:LONGEST]
    if not wanted or frame.empty:
        return LaneMatches(0, len(frame))
    names = lane_names(frame)
    appeared = frame.groupby(["group", "lane"], sort=False).ngroup().to_numpy()
    shown = [names[lane] for lane in frame[["group", "lane"]].drop_duplicates().itertuples(index=False, name=None)]
    fits = np.array([wanted in html_text.unescape(name).lower() for name in shown])[appeared]
    fits |= frame["tag"].isin([tag for tag in frame["tag"].unique() if wanted in str(tag).lower()]).to_numpy()
    rows = np.flatnonzero(fits)
    if not step or not len(rows):
        return LaneMatches(len(rows), len(frame))
    zero = float(frame["start_ns"].min())
    starts = frame["start_ns"].to_numpy(float)[rows] - zero
    order = np.argsort(starts, kind="stable")
    if place is not None:
        at = (place - 1 + step) % len(rows)
    elif step > 0:
        at = int(np.searchsorted(starts[order], window[0])) % len(rows)
    else:
        at = (int(np.searchsorted(starts[order], window[1], side="right")) - 1) % len(rows)
    row = rows[order[at]]
    start, end = starts[order[at]], float(frame["end_ns"].iloc[row]) - zero
    around = _around(start, end, window, float(frame["end_ns"].max()) - zero)
    hit = LaneHit(at + 1, shown[appeared[row]], str(frame["tag"].iloc[row]), float(start), end, around)
    return LaneMatches(len(rows), len(frame), hit)


def _around(start: float, end: float, window: tuple[float, float], whole: float) -> tuple[float, float]:
    """A window with the interval in its middle, as wide as the present one where that shows it."""
    length = end - start
    span = min(window[1] - window[0], max(TIMES_AS_WIDE * length, LEAST_NS))
    span = min(max(span, MARGIN * length), whole)
    low = min(max((start + end - span) / 2.0, 0.0), whole - span)
    return low, low + span


def search_parts() -> list[Component]:
    """The field, and what it says."""
    label, place = "Find a lane or region in this recording (Enter: the next one)", "Find a lane or region"
    return [
        *search_field("search", label, place, maxLength=LONGEST),
        html.Span(id="lanes-found", className="hint", role="status"),
        dcc.Store(id="lanes-asked"),
        dcc.Store(id="lanes-matches"),
    ]


def register_search(app: Dash, lanes_of: Callable[[str], pd.DataFrame | None]) -> None:
    """Add the callbacks of the search. ``lanes_of``: the lanes of a run by its id."""
    told = {"told": (Output("lanes-found", "children"), Input("lanes-matches", "data"))}
    in_browser(app, "ncubble_lanes", told, prevent_initial_call=True)

    @app.callback(
        Output("lanes-matches", "data"),
        Input("lanes-asked", "data"),
        State("lanes-run", "data"),
        prevent_initial_call=True,
    )
    def search(asked: Any, run: Any) -> dict[str, Any] | None:
        request = request_of(asked)
        frame = lanes_of(TimelinesAddress.parse(f"run={run}").run) if request else None
        if request is None or frame is None:
            return None
        return {**find(frame, *request).to_json(), "query": request[0]}


def request_of(asked: Any) -> tuple[str, tuple[float, float], int | None, int] | None:
    """The arguments of ``find`` from what the browser sent; None for what it never sends."""
    if not isinstance(asked, dict) or not isinstance(query := asked.get("query"), str):
        return None
    low, high, place, step = (asked.get(name) for name in ("from", "to", "place", "step"))
    ends = [end for end in (low, high) if isinstance(end, int | float) and 0 <= end < 1e15]
    if len(ends) < 2 or ends[0] >= ends[1] or step not in (-1, 0, 1):
        return None
    return query, (float(ends[0]), float(ends[1])), place if isinstance(place, int) and place > 0 else None, step
