"""Both levels in one figure: the streams of a run above, and below the warps of one of its
launches, joined by lines where that launch lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import ACCENT
from ncubble.analysis.streams.levels import Levels, levels_of
from ncubble.analysis.traces.concurrency import WAIT, works
from ncubble.analysis.traces.lanes import FILE, INDEX, NO_INDEX, WARPS, LaneRun, read_lanes
from ncubble.analysis.traces.run import cut
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines.figures import LANE_PX, LanesFigure, lanes_figure
from ncubble.dashboard.pages.timelines.time_axis import MICROSECONDS
from ncubble.dashboard.ui.components import MOST_CHOICES, card, choices, figure, note
from ncubble.dashboard.ui.figures import faded, safe
from ncubble.errors import NcubbleError
from ncubble.text.values import duration

TOP_PX, BETWEEN_PX, BOTTOM_PX = 34, 96, 44
"""Space for a legend above both figures, an axis and the other legend between them, and an axis
with its title below."""
_LEAST_LANES = 3
_PLACE = r"(SM \d+ CTA \d+)"


def levels_cards(run: LaneRun, address: TimelinesAddress) -> Sequence[Component]:
    """The figure of a run of streams whose warps were traced; nothing for another run."""
    warps = run.path / WARPS / FILE
    if not warps.is_file():
        return ()
    title = f"Streams, and warps within a kernel: {run.path.name}"
    try:
        levels = _read(run, (warps.stat().st_mtime_ns, (run.path / FILE).stat().st_mtime_ns))
    except (NcubbleError, OSError) as error:
        return (card(title, [note("error", f"The warps of this run cannot be read: {error}")]),)
    if levels is None:
        return (card(title, [note("error", "The traced warps do not belong to any kernel of these streams.")]),)
    known = levels.launches["launch"].tolist()
    launch = address.launch if address.launch in known else levels.middle
    first = max(0, min(known.index(launch) - MOST_CHOICES // 2, len(known) - MOST_CHOICES))
    near = known[first : first + MOST_CHOICES]  # in a long run, those around the shown one
    links = [(str(one), address.href(launch=one), one == launch) for one in near]
    label = f"Streams of {run.path.name}, and below them the warps of launch {launch}"
    parts = [
        figure("levels", levels_figure(levels, launch), label),
        html.Dl([choices("Launch", links)], className="facts"),
        html.P(_told(levels.slack_ns), className="hint"),
    ]
    return (card(title, parts, "the band above marks the launch below; numbers are tiles of its CTA"),)


@lru_cache(maxsize=4)
def _read(run: LaneRun, stamps: tuple[int, int]) -> Levels | None:
    return levels_of(read_lanes(run)[1], read_lanes(LaneRun(run.path / WARPS))[1])


def _told(slack_ns: float) -> str:
    """How far the place of the warps within their kernels is known."""
    if slack_ns >= 0:
        return f"Warps lie within their kernels; both clocks agree within ± {duration(slack_ns / 2)}."
    return (
        f"The clocks of kernels and warps disagree: some warps appear {duration(-slack_ns / 2)} outside their kernel."
    )


def levels_figure(levels: Levels, launch: int | None = None, span_ns: float | None = None) -> go.Figure:
    """Streams over warps of ``launch`` (the middle one by default), the first ``span_ns`` of it or
    all; raises KeyError where there is no such launch."""
    kernel, warps = levels.of_launch(levels.middle if launch is None else launch)
    start = float(warps["start_ns"].min())
    end = float(warps["end_ns"].max()) if span_ns is None else start + span_ns
    above = lanes_figure(_idle_last(levels.streams), unit=MICROSECONDS)
    warps, place = _short(cut(warps, start, end))
    below = lanes_figure(_ordered(_tiles(warps)), numbered=True, unit=MICROSECONDS)
    heights = [LANE_PX * max(part.lanes, _LEAST_LANES) for part in (above, below)]
    inner = sum(heights) + BETWEEN_PX
    split = (heights[1] / inner, 1 - heights[0] / inner)
    drawn = go.Figure([*_traces(above, "", "legend"), *_traces(below, "2", "legend2")])
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "bargap": 0.18,
        "height": inner + TOP_PX + BOTTOM_PX,
        "margin": {"l": 8, "r": 16, "t": TOP_PX, "b": BOTTOM_PX},
        "hovermode": "closest",
        "uniformtext": {"mode": "hide", "minsize": 8},
        "legend": _legend(1.0, 0.0, "left"),
        "legend2": _legend(split[0], 0.5, "center"),  # beside the lines, which end on both sides
        "xaxis": {**_axis(above.figure.layout.xaxis), "anchor": "y", "ticksuffix": " µs"},
        "yaxis": {**_axis(above.figure.layout.yaxis), "anchor": "x", "domain": [split[1], 1]},
        "xaxis2": {**_axis(below.figure.layout.xaxis), "anchor": "y2", "title": _title(kernel, place)},
        "yaxis2": {**_axis(below.figure.layout.yaxis), "anchor": "x2", "domain": [0, split[0]]},
        "shapes": _joined(above, (float(kernel["start_ns"]), float(kernel["end_ns"])), split),
    }
    return drawn.update_layout(layout)


def _idle_last(streams: pd.DataFrame) -> pd.DataFrame:
    """The lanes with the gaps of the SMs below the streams that fill them."""
    return streams.assign(wait=~works(streams)).sort_values(["wait", "start_ns"], kind="stable").drop(columns="wait")


def _short(warps: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The lanes without the SM and CTA that they share, and these; as they are where they share
    none."""
    places = warps["lane"].str.extract(_PLACE, expand=False).unique()
    if len(places) != 1 or not isinstance(places[0], str):
        return warps, "these SMs"
    return warps.assign(
        lane=warps["lane"].str.replace(_PLACE, "", regex=True).str.replace(" copies", "").str.strip()
    ), places[0]


def _ordered(warps: pd.DataFrame) -> pd.DataFrame:
    """The lanes in the order of the work: loaders, copies in flight, computers, storers."""
    order = {group: place for place, group in enumerate(("loader", "copies", "computer", "storer"))}
    rank = warps["group"].map(order).fillna(len(order))
    return warps.assign(rank=rank).sort_values(["rank", "start_ns"], kind="stable").drop(columns="rank")


def _tiles(warps: pd.DataFrame) -> pd.DataFrame:
    """The lanes with the number of a tile within its CTA for that within the grid."""
    if INDEX not in warps:
        return warps
    load = warps[~warps["tag"].str.startswith(WAIT)]
    number = {tile: place for place, tile in enumerate(sorted(load[INDEX].unique()))}
    return warps.assign(**{INDEX: warps[INDEX].map(number).fillna(NO_INDEX).astype(int)})


def _traces(part: LanesFigure, axis: str, legend: str) -> list[Any]:
    return [trace.update(xaxis=f"x{axis}", yaxis=f"y{axis}", legend=legend) for trace in part.figure.data]


def _axis(axis: Any) -> dict[str, Any]:
    return {key: value for key, value in axis.to_plotly_json().items() if key not in ("title", "anchor", "domain")}


def _title(kernel: pd.Series, place: str) -> dict[str, Any]:
    took = duration(float(kernel["end_ns"]) - float(kernel["start_ns"]))
    return {
        "text": safe(f"µs since the first warp on {place}, in a kernel of {took} in {kernel['lane']}"),
        "standoff": 8,
    }


def _legend(y: float, x: float, side: str) -> dict[str, Any]:
    look = {"bgcolor": "rgba(0,0,0,0)", "traceorder": "normal"}
    return {"orientation": "h", "y": y, "yanchor": "bottom", "x": x, "xanchor": side, **look}


def _joined(above: LanesFigure, kernel_ns: tuple[float, float], split: tuple[float, float]) -> list[dict[str, Any]]:
    """The launch as a band over the streams, and lines from its ends to those of the lower part."""
    low, high = above.figure.layout.xaxis.range
    left, right = ((at / 1e3 - low) / (high - low) for at in kernel_ns)
    line = {"color": ACCENT, "width": 1.2}
    look = {"type": "path", "layer": "above", "xref": "paper", "yref": "paper"}
    top = f"M {left} 1 L {right} 1 L {right} {split[1]} L {left} {split[1]} Z"
    between = f"M {left} {split[1]} L 0 {split[0]} M {right} {split[1]} L 1 {split[0]}"
    return [
        {**look, "path": top, "line": line, "fillcolor": faded(ACCENT, 0.12)},
        {**look, "path": between, "line": {**line, "dash": "dot"}},
    ]
