"""Both levels in one figure: the streams of a run above, and below the warps of one of its
launches, joined by lines where that launch lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import ACCENT
from ncubble.analysis.streams.account import Levels, levels_of
from ncubble.analysis.traces.lanes import FILE, INDEX, NO_INDEX, WAIT, WARPS, cut, read_lanes, works
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines.figures import LANE_PX, MICROSECONDS, LanesFigure, lanes_figure
from ncubble.dashboard.ui.components import MOST_CHOICES, card, choices, figure, note
from ncubble.dashboard.ui.figures import Drawn, Figure, faded, safe
from ncubble.errors import NcubbleError
from ncubble.text.values import duration

TOP_PX, BETWEEN_PX, BOTTOM_PX = 34, 96, 44
"""Space for a legend above both figures, an axis and the other legend between them, and an axis
with its title below."""
_LEAST_LANES = 3
_PLACE = r"(SM \d+ CTA \d+)"
_ROLES = {group: place for place, group in enumerate(("loader", "copies", "math", "storer"))}
"""The order of the work: loaders, copies in flight, math warps, storers."""


def levels_cards(run: Path, address: TimelinesAddress) -> Sequence[Component]:
    """The figure of a run of streams whose warps were traced; nothing for another run."""
    warps = run / WARPS / FILE
    if not warps.is_file():
        return ()
    title = f"Streams, and warps within a kernel: {run.name}"
    try:
        levels = _read(run, (warps.stat().st_mtime_ns, (run / FILE).stat().st_mtime_ns))
    except (NcubbleError, OSError) as error:
        return (card(title, [note("error", f"The warps of this run cannot be read: {error}")]),)
    if levels is None:
        return (card(title, [note("error", "The traced warps do not belong to any kernel of these streams.")]),)
    known = levels.launches["launch"].tolist()
    launch = address.launch if address.launch in known else levels.middle
    first = max(0, min(known.index(launch) - MOST_CHOICES // 2, len(known) - MOST_CHOICES))
    near = known[first : first + MOST_CHOICES]  # in a long run, those around the shown one
    links = [(str(one), address.href(launch=one), one == launch) for one in near]
    label = f"Streams of {run.name}, and below them the warps of launch {launch}"
    off = duration(abs(levels.slack_ns) / 2)
    clocks = (
        f"Warps lie within their kernels; both clocks agree within ± {off}."
        if levels.slack_ns >= 0
        else f"The clocks of kernels and warps disagree: some warps appear {off} outside their kernel."
    )
    parts = [
        figure("levels", levels_figure(levels, launch), label),
        html.Dl([choices("Launch", links)], className="facts"),
        html.P(clocks, className="hint"),
    ]
    return (card(title, parts, "the band above marks the launch below; numbers are tiles of its CTA"),)


@lru_cache(maxsize=4)
def _read(run: Path, stamps: tuple[int, int]) -> Levels | None:
    return levels_of(read_lanes(run).rows, read_lanes(run / WARPS).rows)


def levels_figure(levels: Levels, launch: int | None = None, span_ns: float | None = None) -> Figure:
    """Streams over warps of ``launch`` (the middle one by default), the first ``span_ns`` of it or
    all; raises KeyError where there is no such launch."""
    kernel, warps = levels.of_launch(levels.middle if launch is None else launch)
    start = float(warps["start_ns"].min())
    warps, place = _short(cut(warps, start, float(warps["end_ns"].max()) if span_ns is None else start + span_ns))
    # Gaps of the SMs below the streams that fill them, and warps in the order of the work.
    above = lanes_figure(_ordered(levels.streams, ~works(levels.streams)), unit=MICROSECONDS)
    ranked = _ordered(warps, warps["group"].map(_ROLES).fillna(len(_ROLES)))
    below = lanes_figure(_tiles(ranked), numbered=True, unit=MICROSECONDS)
    heights = [LANE_PX * max(part.lanes, _LEAST_LANES) for part in (above, below)]
    inner = sum(heights) + BETWEEN_PX
    split = (heights[1] / inner, 1 - heights[0] / inner)
    shown, layout = above.figure.to_plotly_json(), below.figure.to_plotly_json()["layout"]
    xaxis, yaxis = ({**shown["layout"][axis], "anchor": anchor} for axis, anchor in (("xaxis", "y"), ("yaxis", "x")))
    took = duration(float(kernel["end_ns"]) - float(kernel["start_ns"]))
    title = f"µs since the first warp on {place}, in a kernel of {took} in {kernel['lane']}"
    legend = {"orientation": "h", "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)", "traceorder": "normal"}
    times = float(kernel["start_ns"]), float(kernel["end_ns"])
    return Figure(
        [*_traces(above, "", "legend"), *_traces(below, "2", "legend2")],
        {
            "barmode": "overlay",
            "bargap": 0.18,
            "height": inner + TOP_PX + BOTTOM_PX,
            "margin": {"l": 8, "r": 16, "t": TOP_PX, "b": BOTTOM_PX},
            "hovermode": "closest",
            "uniformtext": {"mode": "hide", "minsize": 8},
            "legend": {**legend, "y": 1.0, "x": 0.0, "xanchor": "left"},
            "legend2": {**legend, "y": split[0], "x": 0.5, "xanchor": "center"},  # beside the lines
            "xaxis": {**xaxis, "title": None, "ticksuffix": " µs"},
            "yaxis": {**yaxis, "domain": [split[1], 1]},
            "xaxis2": {**layout["xaxis"], "anchor": "y2", "title": {"text": safe(title), "standoff": 8}},
            "yaxis2": {**layout["yaxis"], "anchor": "x2", "domain": [0, split[0]]},
            "shapes": _joined(shown["layout"]["xaxis"]["range"], times, split),
        },
    )


def _ordered(rows: pd.DataFrame, rank: pd.Series) -> pd.DataFrame:
    """The rows by rank, then start."""
    return rows.assign(rank=rank).sort_values(["rank", "start_ns"], kind="stable").drop(columns="rank")


def _short(warps: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The lanes without the SM and CTA that they share, and these; as they are where they share
    none."""
    places = warps["lane"].str.extract(_PLACE, expand=False).unique()
    if len(places) != 1 or not isinstance(places[0], str):
        return warps, "these SMs"
    lane = warps["lane"].str.replace(_PLACE, "", regex=True).str.replace(" copies", "").str.strip()
    return warps.assign(lane=lane), places[0]


def _tiles(warps: pd.DataFrame) -> pd.DataFrame:
    """The lanes with the number of a tile within its CTA for that within the grid."""
    if INDEX not in warps:
        return warps
    load = warps[~warps["tag"].str.startswith(WAIT)]
    number = {tile: place for place, tile in enumerate(sorted(load[INDEX].unique()))}
    return warps.assign(**{INDEX: warps[INDEX].map(number).fillna(NO_INDEX).astype(int)})


def _traces(part: LanesFigure, axis: str, legend: str) -> list[Drawn]:
    axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "legend": legend}
    return [{**trace, **axes} for trace in part.figure.to_plotly_json()["data"]]


def _joined(reach: list[float], kernel_ns: tuple[float, float], split: tuple[float, float]) -> list[Drawn]:
    """The launch as a band over the streams, and lines from its ends to those of the lower part."""
    low, high = reach
    left, right = ((at / 1e3 - low) / (high - low) for at in kernel_ns)
    line = {"color": ACCENT, "width": 1.2}
    look = {"type": "path", "layer": "above", "xref": "paper", "yref": "paper"}
    top = f"M {left} 1 L {right} 1 L {right} {split[1]} L {left} {split[1]} Z"
    between = f"M {left} {split[1]} L 0 {split[0]} M {right} {split[1]} L 1 {split[0]}"
    return [
        {**look, "path": top, "line": line, "fillcolor": faded(ACCENT, 0.12)},
        {**look, "path": between, "line": {**line, "dash": "dot"}},
    ]
