"""The figure of lanes: one row per warp, stream or engine, its intervals coloured and hatched by
what it did.

A pure function of a frame of lanes (``analysis.lanes``). More intervals than a browser draws at
once are summed up: time is cut into steps, and each step of a lane shows the tag that took most of
it. A narrower window shows them all.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ncubble.analysis.account.palette import SIDE_STYLES, text_color
from ncubble.analysis.account.parts import WAIT_COLORS
from ncubble.analysis.traces.concurrency import WAIT, works
from ncubble.analysis.traces.lanes import INDEX, NO_INDEX
from ncubble.dashboard.pages.timelines.bar_words import bar_text, hover
from ncubble.dashboard.pages.timelines.time_axis import AxisUnit, TimeAxis, unit_of
from ncubble.dashboard.ui.figures import HATCH, safe

PIXELS = 1600
MOST_DRAWN = 4000
"""Maximum bars in a figure; browsers draw more with a noticeable delay."""
MOST_LANES = 96
MOST_TAGS = 24
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
_CLOSE_UP = 500
"""Intervals in a close-up: a few tiles of each warp."""


@dataclass(frozen=True)
class LanesFigure:
    """The figure, and what it does not show: lanes beyond ``MOST_LANES``, and detail within steps
    of ``step_ns``."""

    figure: go.Figure
    intervals: int
    bars: int
    lanes: int
    left_out: int
    step_ns: float


def lanes_figure(
    frame: pd.DataFrame,
    window: tuple[float, float] | None = None,
    numbered: bool = False,
    unit: AxisUnit | None = None,
) -> LanesFigure:
    """Lanes of ``frame`` over ``window`` (ns after the first start; the whole by default), grouped.
    Lanes of which nothing lies in the window are not drawn. ``numbered``: bars of work show their
    ``index``. ``unit`` of the time axis: by default what suits the window; ``meta`` of the layout
    tells its ns (``lanes_ns``)."""
    frame = few_tags(frame)
    zero = float(frame["start_ns"].min()) if len(frame) else 0.0
    whole = (0.0, float(frame["end_ns"].max()) - zero) if len(frame) else (0.0, 1.0)
    low, high = window or whole
    high = max(high, low + 1.0)
    lanes, work = lane_names(frame), works(frame)
    # In order of appearance, waits last.
    tags = [str(tag) for rows in (frame[work], frame[~work]) for tag in rows["tag"].unique()]
    if window:
        frame = frame[(frame["end_ns"] - zero >= low) & (frame["start_ns"] - zero <= high)]
        inside = set(_lanes(frame))
        lanes = {lane: name for lane, name in lanes.items() if lane in inside}
    names = list(lanes.values())[:MOST_LANES]
    placed = _placed(frame, list(lanes), tags, zero, low, high)
    bars, step = summed(placed, len(names), len(tags), low, high)
    figure = go.Figure()
    axis = TimeAxis(low, high, unit or unit_of(high - low))
    for index, (tag, look) in enumerate(tag_looks(tags).items()):
        _add_tag(figure, bars[bars["tag"] == index], names, tag, look, axis, numbered)
    _lay_out(figure, names, len(tags), axis)
    figure.update_layout(meta={"lanes_ns": axis.unit.ns, "whole_ns": whole[1]})
    return LanesFigure(figure, len(placed), len(bars), len(names), len(lanes) - len(names), step)


def close_up(frame: pd.DataFrame) -> tuple[float, float] | None:
    """A window in the middle of ``frame`` in which intervals are drawn one by one; None where all
    of them can be."""
    if len(frame) <= MOST_DRAWN:
        return None
    span = float(frame["end_ns"].max() - frame["start_ns"].min())
    low = span // 2
    return low, low + max(1.0, span * min(_CLOSE_UP, MOST_DRAWN // 2) // len(frame))


def _placed(
    frame: pd.DataFrame, lanes: list[tuple[str, str]], tags: list[str], zero: float, low: float, high: float
) -> pd.DataFrame:
    """Intervals of the first ``MOST_LANES`` lanes within a window: ``lane`` and ``tag`` as places
    in the lists, ``start`` and ``end`` in ns from zero."""
    appeared = frame.groupby(["group", "lane"], sort=False).ngroup().to_numpy()
    place = {lane: index for index, lane in enumerate(lanes)}
    order = np.array([place[lane] for lane in _lanes(frame)], dtype=int)
    shown = order[appeared] < MOST_LANES if len(order) else np.zeros(0, dtype=bool)
    frame, appeared = frame[shown], appeared[shown]
    placed = pd.DataFrame(
        {
            "lane": order[appeared],
            "tag": frame["tag"].map({tag: index for index, tag in enumerate(tags)}).to_numpy(int),
            "start": np.clip(frame["start_ns"].to_numpy(float) - zero, low, None),
            "end": np.clip(frame["end_ns"].to_numpy(float) - zero, None, high),
            INDEX: frame[INDEX].to_numpy(int) if INDEX in frame else NO_INDEX,
        }
    )
    return placed[placed["end"] >= placed["start"]]


def few_tags(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with at most ``MOST_TAGS`` tags: those that took most time, the others as
    ``OTHER``."""
    if frame["tag"].nunique() <= MOST_TAGS:
        return frame
    took = (frame["end_ns"] - frame["start_ns"]).groupby(frame["tag"]).sum()
    kept = took.nlargest(MOST_TAGS - 1).index
    return frame.assign(tag=frame["tag"].where(frame["tag"].isin(kept), OTHER))


def lane_names(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What stands beside each lane, by (group, lane): groups together; lanes that differ in numbers
    by these, otherwise as they appear."""
    lanes = _lanes(frame)
    kinds = {(group, lane): (group, _NUMBER.sub("#", lane)) for group, lane in lanes}
    groups, order = (
        {key: place for place, key in enumerate(dict.fromkeys(keys))}
        for keys in ((group for group, _ in lanes), kinds.values())
    )
    numbers = {lane: [int(number) for number in _NUMBER.findall(lane[1])] for lane in lanes}
    lanes.sort(key=lambda lane: (groups[lane[0]], order[kinds[lane]], numbers[lane]))
    return {(group, lane): safe(lane if lane == group else f"{group} · {lane}") for group, lane in lanes}


def _lanes(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """(group, lane) of every lane as they appear."""
    return list(frame[["group", "lane"]].drop_duplicates().itertuples(index=False, name=None))


def summed(placed: pd.DataFrame, lanes: int, tags: int, low: float, high: float) -> tuple[pd.DataFrame, float]:
    """Bars (lane, tag, start, end, ``count`` of intervals that end there, ``share`` of the bar that
    the tag took), and the step in ns; where all intervals can be drawn, they are the bars, and the
    step is 0."""
    if len(placed) <= MOST_DRAWN:
        return placed.assign(count=1, share=1.0), 0.0
    steps = max(1, min(PIXELS, MOST_DRAWN // max(lanes, 1)))
    step = (high - low) / steps
    took, ended = _by_step(placed, (lanes, tags, steps), low, step)
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


def _by_step(
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
    looks = {}
    work, waits = (
        _places([tag for tag in tags if tag.lower().startswith(WAIT) == waiting]) for waiting in (False, True)
    )
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
    known = [tag for tag in tags if tag in _OF_THE_PROBE]
    free = itertools.count(1 + max((_OF_THE_PROBE[tag] for tag in known), default=-1))
    return {tag: _OF_THE_PROBE[tag] if tag in _OF_THE_PROBE else next(free) for tag in tags}


def _add_tag(
    figure: go.Figure,
    bars: pd.DataFrame,
    names: list[str],
    tag: str,
    look: tuple[str, str],
    axis: TimeAxis,
    numbered: bool,
) -> None:
    (color, hatch), span = look, axis.span
    length = (bars["end"] - bars["start"]).to_numpy(float)
    shares = zip(length / span, bars[INDEX].to_numpy(int), strict=True)
    figure.add_bar(
        base=bars["start"].to_numpy(float) / axis.unit.ns,
        x=np.maximum(length, span / PIXELS) / axis.unit.ns,
        y=np.array([names[lane] for lane in bars["lane"]], dtype=object),
        orientation="h",
        name=safe(tag),
        text=np.array([bar_text(tag, share, index if numbered else NO_INDEX) for share, index in shares], dtype=object),
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": text_color(color), "size": 11},
        marker={"color": color, "line": _EDGE, "pattern": {**HATCH, "shape": hatch, "bgcolor": color}},
        customdata=np.array([hover(axis, *row) for row in bars[_HOVERED].itertuples(index=False)], dtype=object),
        hovertemplate=f"<b>{safe(tag)}</b> · %{{y}}<br>%{{customdata}}<extra></extra>",
    )


_EDGE = {"width": 0.6, "color": "rgba(16,22,29,0.5)"}
_HOVERED = ["start", "end", "count", "share", INDEX]


def _lay_out(figure: go.Figure, names: list[str], tags: int, axis: TimeAxis) -> None:
    # A narrow window gets two tags per legend row; otherwise Plotly draws it over the lanes.
    more_rows = max(0, -(-tags // 2) - 1)
    room: dict[str, Any] = {"l": 8, "r": 16, "t": 34, "b": 44}
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    figure.update_layout(
        barmode="overlay",
        bargap=0.18,
        height=96 + LANE_PX * (max(len(names), 4) + more_rows),
        margin=room,
        showlegend=True,
        legend=legend,
        hovermode="closest",
        uniformtext={"mode": "hide", "minsize": 8},  # otherwise Plotly shrinks names to fit their bars
    )
    title = f"time since the first interval, {axis.unit.name}"
    figure.update_xaxes(range=axis.range, title=title, title_standoff=8, tickformat=",.6~f")
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=names,
        range=[len(names) - 0.5, -0.5],
        automargin=True,
        showgrid=False,
        fixedrange=True,
        tickmode="array",
        tickvals=names,
        ticksuffix=" ",
    )
