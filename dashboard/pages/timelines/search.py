"""The search on Timelines, over the whole recording: how many regions and lanes match, and which
comes next."""

from __future__ import annotations

import html as html_text
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ncubble.dashboard.pages.timelines.figures import lane_names
from ncubble.text.values import duration

LONGEST = 80
"""Characters of a query."""
LEAST_NS = 1000.0
"""A window around a hit is narrowed down to this, unless the hit is longer."""
TIMES_AS_WIDE = 100.0
"""A hit takes at least a hundredth of its window: a narrower one would hardly be seen."""
MARGIN = 1.25


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


def request_of(asked: Any) -> tuple[str, tuple[float, float], int | None, int] | None:
    """The arguments of ``find`` from what the browser sent; None for what it never sends."""
    if not isinstance(asked, dict) or not isinstance(query := asked.get("query"), str):
        return None
    low, high, place, step = (asked.get(name) for name in ("from", "to", "place", "step"))
    ends = [float(end) for end in (low, high) if isinstance(end, int | float) and 0 <= end < 1e15]
    if len(ends) < 2 or ends[0] >= ends[1] or step not in (-1, 0, 1):
        return None
    return query, (ends[0], ends[1]), place if isinstance(place, int) and place > 0 else None, step
