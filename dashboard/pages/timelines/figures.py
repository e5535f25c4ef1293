"""The figure of lanes: one row per warp, stream or engine, its intervals coloured and hatched by
what it did.

A pure function of the rows of lanes. More intervals than a browser draws at once are summed up:
time is cut into steps, and each step of a lane shows the tag that took most of it. A narrower
window shows them all.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ncubble.analysis.account.palette import SIDE_STYLES, text_color
from ncubble.analysis.account.parts import WAIT_COLORS
from ncubble.analysis.traces.lanes import INDEX, NO_INDEX, WAIT, works
from ncubble.dashboard.ui.figures import HATCH, Drawn, Figure, safe
from ncubble.text.values import SI_TIME, duration

PIXELS = 1600
MOST_DRAWN = 4000
"""Maximum bars in a figure; browsers draw more with a noticeable delay."""
MOST_LANES, MOST_TAGS = 96, 24
OTHER = "other tags"
LANE_PX = 20
_WORK_COLORS = [side.color for side in SIDE_STYLES[1:]]
_WORK_HATCHES = ("", ".", "x", "\\", "|", "-", "+", "/")
_WAIT_HATCHES = ("/", "x", "-", ".", "\\", "|", "+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_OF_THE_PROBE = {
    **{tag: place for place, tag in enumerate(("load", "copy in flight", "compute", "store", "product in flight"))},
    **{tag: place for place, tag in enumerate(("wait_data", "wait_sync", "wait_slot", "wait_mma"))},
}
_NAMED = 0.06
"""Minimum share of the window for a bar to show its tag."""
_CLOSE_UP = 500
"""Intervals in a close-up: a few tiles of each warp."""
_STEPS = 2000
"""Resolvable positions in a window: about its width in pixels."""


class AxisUnit(NamedTuple):
    """A unit of time, and how many ns it has."""

    ns: float
    name: str


UNITS = tuple(AxisUnit(*unit) for unit in SI_TIME)
MICROSECONDS = UNITS[2]


def unit_of(span_ns: float) -> AxisUnit:
    """The largest unit of which a window has two."""
    return next((unit for unit in UNITS if span_ns >= 2 * unit.ns), UNITS[-1])


class TimeAxis(NamedTuple):
    """From ``low`` to ``high`` (ns), in ``unit``."""

    low: float
    high: float
    unit: AxisUnit

    def place(self, ns: float) -> str:
        """A time with as many digits as the window tells apart, a hundredth of a ns at most."""
        finest = max((self.high - self.low) / _STEPS, 0.01) / self.unit.ns
        return f"{ns / self.unit.ns:,.{max(0, math.ceil(-math.log10(finest)))}f} {self.unit.name}"


@dataclass(frozen=True)
class LanesFigure:
    """The figure, and what it does not show: lanes beyond ``MOST_LANES``, and detail within steps
    of ``step_ns``."""

    figure: Figure
    intervals: int
    bars: int
    lanes: int
    left_out: int
    step_ns: float


def lanes_figure(
    rows: pd.DataFrame,
    window: tuple[float, float] | None = None,
    numbered: bool = False,
    unit: AxisUnit | None = None,
) -> LanesFigure:
    """Lanes over ``window`` (ns after the first start; the whole by default), grouped. Lanes of
    which nothing lies in the window are not drawn. ``numbered``: bars of work show their ``index``.
    ``unit`` of the time axis: by default what suits the window; ``meta`` of the layout tells its ns
    (``lanes_ns``)."""
    rows = few_tags(rows)
    zero = float(rows["start_ns"].min()) if len(rows) else 0.0
    whole = float(rows["end_ns"].max()) - zero if len(rows) else 1.0
    low, high = window or (0.0, whole)
    high = max(high, low + 1.0)
    lanes, work = lane_names(rows), works(rows)
    # In order of appearance, waits last.
    tags = [str(tag) for own in (rows[work], rows[~work]) for tag in own["tag"].unique()]
    if window:
        rows = rows[(rows["end_ns"] - zero >= low) & (rows["start_ns"] - zero <= high)]
        inside = set(_lanes(rows))
        lanes = {lane: name for lane, name in lanes.items() if lane in inside}
    names = list(lanes.values())[:MOST_LANES]
    placed = _placed(rows, list(lanes), tags, zero, low, high)
    bars, step = summed(placed, len(names), len(tags), low, high)
    axis = TimeAxis(low, high, unit or unit_of(high - low))
    looks = enumerate(tag_looks(tags).items())
    traces = [_trace(bars[bars["tag"] == place], names, tag, look, axis, numbered) for place, (tag, look) in looks]
    layout = {**_layout(names, len(tags), axis), "meta": {"lanes_ns": axis.unit.ns, "whole_ns": whole}}
    return LanesFigure(Figure(traces, layout), len(placed), len(bars), len(names), len(lanes) - len(names), step)


def close_up(rows: pd.DataFrame) -> tuple[float, float] | None:
    """A window in the middle of the lanes in which intervals are drawn one by one; None where all
    of them can be."""
    if len(rows) <= MOST_DRAWN:
        return None
    span = float(rows["end_ns"].max() - rows["start_ns"].min())
    low = span // 2
    return low, low + max(1.0, span * min(_CLOSE_UP, MOST_DRAWN // 2) // len(rows))


def _placed(
    rows: pd.DataFrame, lanes: list[tuple[str, str]], tags: list[str], zero: float, low: float, high: float
) -> pd.DataFrame:
    """Intervals of the first ``MOST_LANES`` lanes within a window: ``lane`` and ``tag`` as places
    in the lists, ``start`` and ``end`` in ns from zero."""
    place = {lane: index for index, lane in enumerate(lanes)}
    order = np.array([place[lane] for lane in _lanes(rows)], dtype=int)
    lane = order[rows.groupby(["group", "lane"], sort=False).ngroup().to_numpy()]
    rows, lane = rows[lane < MOST_LANES], lane[lane < MOST_LANES]
    placed = pd.DataFrame(
        {
            "lane": lane,
            "tag": rows["tag"].map({tag: index for index, tag in enumerate(tags)}).to_numpy(int),
            "start": np.clip(rows["start_ns"].to_numpy(float) - zero, low, None),
            "end": np.clip(rows["end_ns"].to_numpy(float) - zero, None, high),
            INDEX: rows[INDEX].to_numpy(int) if INDEX in rows else NO_INDEX,
        }
    )
    return placed[placed["end"] >= placed["start"]]


def few_tags(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with at most ``MOST_TAGS`` tags: those that took most time, the others as
    ``OTHER``."""
    if rows["tag"].nunique() <= MOST_TAGS:
        return rows
    took = (rows["end_ns"] - rows["start_ns"]).groupby(rows["tag"]).sum()
    kept = took.nlargest(MOST_TAGS - 1).index
    return rows.assign(tag=rows["tag"].where(rows["tag"].isin(kept), OTHER))


def lane_names(rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What stands beside each lane, by (group, lane): groups together; lanes that differ in numbers
    by these, otherwise as they appear."""
    lanes = _lanes(rows)
    kinds = [(group, _NUMBER.sub("#", lane)) for group, lane in lanes]
    # The first place of each group, and of each kind of lanes.
    groups, firsts = (
        {key: place for place, key in reversed([*enumerate(keys)])} for keys in ([group for group, _ in lanes], kinds)
    )
    order = {
        lane: (groups[lane[0]], firsts[kind], [int(number) for number in _NUMBER.findall(lane[1])])
        for lane, kind in zip(lanes, kinds, strict=True)
    }
    lanes.sort(key=order.__getitem__)
    return {(group, lane): safe(lane if lane == group else f"{group} · {lane}") for group, lane in lanes}


def _lanes(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """(group, lane) of every lane as they appear."""
    return list(rows[["group", "lane"]].drop_duplicates().itertuples(index=False, name=None))


def summed(placed: pd.DataFrame, lanes: int, tags: int, low: float, high: float) -> tuple[pd.DataFrame, float]:
    """Bars (lane, tag, start, end, ``count`` of intervals that end there, ``share`` of the bar that
    the tag took), and the step in ns; where all intervals can be drawn, they are the bars, and the
    step is 0."""
    if len(placed) <= MOST_DRAWN:
        return placed.assign(count=1, share=1.0), 0.0
    steps = max(1, min(PIXELS, MOST_DRAWN // max(lanes, 1)))
    step = (high - low) / steps
    took, ended = by_step(placed, (lanes, tags, steps), low, step)
    most = np.where(took.sum(axis=1) > 0, took.argmax(axis=1), -1)
    first = np.concatenate([np.ones((lanes, 1), dtype=bool), most[:, 1:] != most[:, :-1]], axis=1).ravel()
    begins = np.flatnonzero(first)
    lane, place = np.divmod(begins, steps)
    length = np.diff(np.append(begins, lanes * steps))
    own = np.take_along_axis(took, np.maximum(most, 0)[:, None, :], axis=1)[:, 0, :].ravel()
    bars = pd.DataFrame(
        {
            "lane": lane,
            "tag": most.ravel()[begins],
            "start": low + place * step,
            "end": low + (place + length) * step,
            "count": np.add.reduceat(ended.sum(axis=1).ravel(), begins),
            "share": np.add.reduceat(own, begins) / (length * step),
            INDEX: NO_INDEX,
        }
    )
    return bars[bars["tag"] >= 0], step


def by_step(
    placed: pd.DataFrame, shape: tuple[int, int, int], low: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Time in ns, and number of intervals that end, by lane, tag and step."""
    steps, start, end = shape[2], placed["start"].to_numpy(), placed["end"].to_numpy()
    first = np.clip(((start - low) // step).astype(int), 0, steps - 1)
    last = np.clip(((end - low) // step).astype(int), first, steps - 1)
    pieces = last - first + 1
    of = np.repeat(np.arange(len(placed)), pieces)
    at = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    left = np.maximum(start[of], low + at * step)
    right = np.minimum(end[of], low + (at + 1) * step)
    row = placed["lane"].to_numpy() * shape[1] + placed["tag"].to_numpy()
    size = shape[0] * shape[1] * steps
    # Zero-length intervals stay visible: they count as a billionth of a step.
    took = np.bincount(row[of] * steps + at, np.maximum(right - left, 1e-9 * step), size)
    ended = np.bincount(row * steps + last, minlength=size)
    return took.reshape(shape), ended.reshape(shape)


def tag_looks(tags: list[str]) -> dict[str, tuple[str, str]]:
    """(colour, hatch) of each tag, all different for ``MOST_TAGS``: waits in quiet colours and
    hatched, work in others.

    A hatch turns by two with each round of the colours, so that no pair comes twice in four rounds.
    """
    waits = _places([tag for tag in tags if tag.lower().startswith(WAIT)])
    work = _places([tag for tag in tags if tag not in waits])
    looks = {}
    for tag in tags:
        if tag in waits:
            turn, place = divmod(waits[tag], len(_WAIT_HATCHES))
            looks[tag] = WAIT_COLORS[turn % len(WAIT_COLORS)], _WAIT_HATCHES[place]
        else:
            turn, place = divmod(work[tag], len(_WORK_COLORS))
            looks[tag] = _WORK_COLORS[place], _WORK_HATCHES[(place + 2 * turn) % len(_WORK_HATCHES)]
    return looks


def _places(tags: list[str]) -> dict[str, int]:
    """A number for each tag: those of the probe have theirs, so that they look the same in every
    run."""
    free = itertools.count(1 + max((_OF_THE_PROBE[tag] for tag in tags if tag in _OF_THE_PROBE), default=-1))
    return {tag: _OF_THE_PROBE[tag] if tag in _OF_THE_PROBE else next(free) for tag in tags}


def _trace(
    bars: pd.DataFrame, names: list[str], tag: str, look: tuple[str, str], axis: TimeAxis, numbered: bool
) -> Drawn:
    (color, hatch), span = look, axis.high - axis.low
    length = (bars["end"] - bars["start"]).to_numpy(float)
    texts, hovers = [], []
    for start, end, count, share, index in bars[["start", "end", "count", "share", INDEX]].itertuples(index=False):
        width = (end - start) / span
        number = "" if not numbered or index == NO_INDEX or tag.lower().startswith(WAIT) else str(int(index))
        # Tag and number (of work), one, or none, as there is room.
        texts.append(safe(f"{tag} {number}".strip()) if width >= _NAMED else number if width >= _NAMED / 4 else "")
        where = f"{duration(end - start)} from {axis.place(start)}"
        if count != 1 or share != 1.0:
            where = f"{100 * share:.0f} % of {where}, in which {count:.0f} intervals of this lane end"
        elif index != NO_INDEX:
            where = f"{where}, number {index:.0f}"
        hovers.append(where)
    return {
        "type": "bar",
        "base": (bars["start"].to_numpy(float) / axis.unit.ns).tolist(),
        "x": (np.maximum(length, span / PIXELS) / axis.unit.ns).tolist(),
        "y": [names[lane] for lane in bars["lane"]],
        "orientation": "h",
        "name": safe(tag),
        "text": texts,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": text_color(color), "size": 11},
        "marker": {
            "color": color,
            "line": {"width": 0.6, "color": "rgba(16,22,29,0.5)"},
            "pattern": {**HATCH, "shape": hatch, "bgcolor": color},
        },
        "customdata": hovers,
        "hovertemplate": f"<b>{safe(tag)}</b> · %{{y}}<br>%{{customdata}}<extra></extra>",
    }


def _layout(names: list[str], tags: int, axis: TimeAxis) -> Drawn:
    # A narrow window gets two tags per legend row; otherwise Plotly draws it over the lanes.
    more_rows = max(0, -(-tags // 2) - 1)
    return {
        "barmode": "overlay",
        "bargap": 0.18,
        "height": 96 + LANE_PX * (max(len(names), 4) + more_rows),
        "margin": {"l": 8, "r": 16, "t": 34, "b": 44},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "hovermode": "closest",
        "uniformtext": {"mode": "hide", "minsize": 8},  # otherwise Plotly shrinks names to fit their bars
        "xaxis": {
            "range": [axis.low / axis.unit.ns, axis.high / axis.unit.ns],
            "title": {"text": f"time since the first interval, {axis.unit.name}", "standoff": 8},
            "tickformat": ",.6~f",
        },
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": names,
            "range": [len(names) - 0.5, -0.5],
            "automargin": True,
            "showgrid": False,
            "fixedrange": True,
            "tickmode": "array",
            "tickvals": names,
            "ticksuffix": " ",
        },
    }
