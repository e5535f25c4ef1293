"""The timeline as a figure: one row per track on a shared axis, idle time of the unit coloured by
its cause. Needs no Dash."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.palette import TRACK_COLORS, text_color
from ncubble.analysis.account.parts import Style, part_color, part_label, part_style
from ncubble.analysis.details.tracks import (
    REST,
    Bands,
    Marks,
    Stalls,
    Window,
    as_percent,
    idle_bands,
    stall_series,
    window,
)
from ncubble.dashboard.ui.figures import HATCH, OTHER, Drawn, Figure, axis_name, domains, faded, reason_style, safe

TRACK_PX = 58
UNIT_WEIGHT, STALL_WEIGHT = 2.3, 1.7
"""Heights of the rows of unit and stalls, relative to the other rows."""
GAPS = 0.1
"""Share of the height between rows, times their number."""
LEFT_PX = 118
"""Margin for row names and axis ticks."""
LABEL_WIDTH = 0.11
"""Minimum distance of two labels, as a share of the time axis, to avoid overlap at 1000 px."""
NAMED_BAND = 9.0
"""Minimum percent of a sample for a band to carry its name."""
Row = tuple[list[Drawn], Drawn]
"""Traces of a row, and its axis."""


@dataclass(frozen=True)
class LaunchTimeline:
    """What the timeline of one launch shows: ``marks`` is None where no phases were found,
    ``bands`` is idle time of the unit by part on the times of its own series, ``stalls`` are
    sampled warp states in ``stall_unit``."""

    shown: Window
    marks: Marks | None = None
    bands: Bands = field(default_factory=dict)
    stalls: Stalls = field(default_factory=dict)
    stall_unit: str = ""

    @classmethod
    def of(cls, frame: pd.DataFrame, account: BubbleAccount | None) -> LaunchTimeline | None:
        """Of the timeline rows of a launch and its account; None where no track was sampled."""
        unit = account.unit if account is not None else "tensor"
        shown = window(frame, unit)
        if shown is None:
            return None
        stalls = stall_series(frame, shown)
        if account is None or not account.phases:
            return cls(shown, None, {}, *stalls)
        marks = Marks.of(account.phases, account.parts, shown, unit)
        return cls(shown, marks, bands_of(shown, marks, account.phases, account.parts), *stalls)

    @property
    def span_ns(self) -> float:
        """How long the launch was active."""
        return max(self.shown.end_ns - self.shown.start_ns, 1.0)

    def figure(self, asked_us: tuple[float, float] | None = None) -> Figure:
        """Tracks on a shared axis in µs from the first to the last active sample, with bubbles
        shaded.

        The steady level that ``marks`` speak of is the dotted line in the track of that series.
        ``asked_us`` is the range that is shown; without it, all.
        """
        rows = [self._track_row(row) for row in range(len(self.shown.tracks))]
        weights = [UNIT_WEIGHT if self.bands and row == 0 else 1.0 for row in range(len(rows))]
        if self.stalls:
            weights.append(STALL_WEIGHT)
            rows.append(self._stall_row(len(rows)))
        axes = {
            axis_name("yaxis", row): {**axis, "domain": place, "fixedrange": True}
            for row, ((_, axis), place) in enumerate(zip(rows, domains(weights, GAPS), strict=True))
        }
        shapes, labels = _marked(self, self.marks) if self.marks else ([], [])
        titles = [_title(axis.pop("name"), axis["domain"]) for axis in axes.values()]
        span = self.span_ns / 1e3
        spikes = {"showspikes": True, "spikemode": "across", "spikethickness": 1, "spikesnap": "hovered data"}
        x_axis = {
            "anchor": axis_name("y", len(rows) - 1),
            "range": list(asked_us or (-0.01 * span, 1.01 * span)),
            "title": {"text": "µs since the first active sample", "standoff": 8},
            "unifiedhovertitle": {"text": "%{x:.1f} µs"},
        }
        return Figure(
            [trace for traces, _ in rows for trace in traces],
            {
                **axes,
                **{"hovermode": "x unified", "hoversubplots": "axis", "dragmode": "zoom", "showlegend": False},
                "shapes": shapes,
                "annotations": [*labels, *titles],
                "xaxis": x_axis | spikes,
                "height": round(TRACK_PX * sum(weights)) + 74,
                "uirevision": "timeline",
                "margin": {"l": LEFT_PX, "r": 16, "t": 28, "b": 40},
            },
        )

    def micros(self, times: pd.Index) -> list[float]:
        """Times in µs since the first active sample."""
        since: list[float] = ((times.to_numpy() - self.shown.start_ns) / 1e3).round(3).tolist()
        return since

    def _track_row(self, row: int) -> Row:
        track, name, sampled, measured = self.shown.tracks[row]
        bands, times = self.bands if row == 0 else {}, sampled.index
        step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        near = np.asarray((times >= self.shown.start_ns - step) & (times <= self.shown.end_ns + step))
        scaled, unit = as_percent(name, sampled[near], measured)
        micros, color, words = self.micros(times[near]), TRACK_COLORS[track.color], safe(unit)
        filling = {"stackgroup": f"row{row}", "fillcolor": color}
        trace = _line(row, micros, scaled.round(3).tolist(), {"color": color, "width": 1.4}) | {
            **(filling if bands else {"fill": "tozeroy", "fillcolor": faded(color, 0.18)}),
            "name": track.label,
            "hovertemplate": f"{track.label} %{{y:.1f}} {words}<extra></extra>",
            "meta": {"kind": "track", "unit": words},
        }
        axis: Drawn = {"name": f"{track.label}<br>{words}", "rangemode": "tozero", "nticks": 3}
        if words.startswith("%"):
            top = max(100.0, float(np.nanmax(scaled.to_numpy())))
            # No tick at the top of a low row: it would touch the 0 of the row above.
            ends, ticks = ([0, top], [0, 50, 100]) if bands else ([0, 1.04 * top], [0, 50])
            axis = {"name": axis["name"], "range": ends, "tickvals": ticks}
        layers = (_band(row, micros, share[near], part_style(part), {"part": part}) for part, share in bands.items())
        return [trace, *layers], axis

    def _stall_row(self, row: int) -> Row:
        unit, traces = safe(self.stall_unit), []
        for reason, sampled in self.stalls.items():
            style = OTHER if reason == REST else reason_style(reason)
            meta = {"reason": reason, "unit": unit}
            traces.append(_band(row, self.micros(sampled.index), sampled.to_numpy(dtype=float), style, meta))
        return traces, {"name": f"warps stalled<br>{unit}", "rangemode": "tozero", "nticks": 3}


def bands_of(shown: Window, marks: Marks, phases: Any, parts: Any) -> Bands:
    """Idle time by part on the times of the unit's track; empty where phases were not found on that
    series."""
    series = {name: sampled for _, name, sampled, _ in shown.tracks}
    _, first, sampled, measured = shown.tracks[0]
    known = marks.series == first and measured == "%"
    return idle_bands(sampled, series.get("sm_active"), phases, parts) if known else {}


def _title(name: str, place: list[float]) -> Drawn:
    """The name of a row and its unit, left of its axis and not turned: a row is too low for turned
    text."""
    at = {"xref": "paper", "x": 0, "xanchor": "right", "xshift": -34, "yref": "paper", "y": sum(place) / 2}
    return {"text": name, "showarrow": False, "align": "right", "yanchor": "middle", "font": {"size": 11.5}, **at}


def _line(row: int, micros: list[float], heights: list[float], line: Drawn) -> Drawn:
    """What all traces of a row share."""
    axes = {"xaxis": "x", "yaxis": axis_name("y", row)}
    return {"type": "scatter", "mode": "lines", "x": micros, "y": heights, "line": {"shape": "hvh", **line}, **axes}


def _band(row: int, micros: list[float], heights: np.ndarray, style: Style, meta: dict[str, str]) -> Drawn:
    """One layer of a stack; ``meta`` says what it is to the table below the figure."""
    trace = _line(row, micros, heights.round(2).tolist(), {"width": 0, "color": style.color}) | {
        "name": safe(style.label),
        "stackgroup": f"row{row}",
        "fillcolor": style.color,
        "meta": {"kind": "band", **meta},
    }
    if style.hatch:
        trace["fillpattern"] = {**HATCH, "shape": style.hatch, "bgcolor": style.color, "fillmode": "replace"}
    hover = f"{safe(style.label)} %{{y:.1f}}<extra></extra>"
    return trace | ({"hoverinfo": "skip"} if "part" in meta else {"hovertemplate": hover})


def _marked(drawn: LaunchTimeline, marks: Marks) -> tuple[list[Drawn], list[Drawn]]:
    """Shapes and annotations: every stretch shaded over all tracks, with its name where there is
    room; the steady level in its track; and the names of wide bands.

    Built as plain lists: adding shapes to a figure one by one takes seconds for a hundred of them.
    """
    widest = sorted(marks.stretches, key=lambda shade: (shade.part == "wave_gap", shade.start_ns - shade.end_ns))
    named: list[float] = []
    shapes, labels = [], []
    for stretch in widest:
        start, end = stretch.start_ns - drawn.shown.start_ns, stretch.end_ns - drawn.shown.start_ns
        place = {"xref": "x", "x0": start / 1e3, "x1": end / 1e3, "yref": "paper", "y0": 0, "y1": 1}
        look = {"fillcolor": part_color(stretch.part), "opacity": 0.28, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "rect", **look, **place})
        middle = (start + end) / 2
        if all(abs(middle - other) > LABEL_WIDTH * drawn.span_ns for other in named):
            named.append(middle)
            labels.append(_label(stretch.part, start, end, marks, drawn.span_ns))
    level = {"xref": "paper", "x0": 0, "x1": 1, "y0": marks.steady, "y1": marks.steady}
    dotted = {"type": "line", "line": {"dash": "dot", "width": 1.2, "color": "#858d96"}, **level}
    rows = [row for row, (_, name, *_) in enumerate(drawn.shown.tracks) if name == marks.series]
    shapes += [{**dotted, "yref": axis_name("y", row)} for row in rows]
    return shapes, labels + _band_names(drawn, marks)


def _label(part: str, start: float, end: float, marks: Marks, span: float) -> Drawn:
    middle = (start + end) / 2
    anchor = "left" if middle < 0.06 * span else "right" if middle > 0.94 * span else "center"
    at = {"left": start, "right": end, "center": middle}[anchor]
    text = part_label(part) if part == "wave_gap" else f"{part} {marks.shares.get(part, 0.0):.1f} %"
    place = {"x": at / 1e3, "xref": "x", "y": 1, "yref": "paper", "xanchor": anchor, "yanchor": "bottom"}
    return {"text": f"<b>{text}</b>", "showarrow": False, "font": {"size": 11, "color": part_color(part)}, **place}


def _band_names(drawn: LaunchTimeline, marks: Marks) -> list[Drawn]:
    """The names of wide steady bands, written into them in the middle of the longest stretch
    without a phase."""
    shaded = sorted((stretch.start_ns, stretch.end_ns) for stretch in marks.stretches)
    ends = accumulate((end for _, end in shaded), max, initial=drawn.shown.start_ns)
    starts = [*(start for start, _ in shaded), drawn.shown.end_ns]
    clear = [(start - end, (start + end) / 2) for start, end in zip(starts, ends, strict=True)]
    width, middle = max(clear, key=lambda stretch: stretch[0])
    if not drawn.bands or width <= 0.1 * (drawn.shown.end_ns - drawn.shown.start_ns):
        return []
    track, named = drawn.shown.tracks[0][2], []
    times = track.index.to_numpy(dtype=float)
    near = np.abs(times - middle) <= max(width / 4, np.median(np.diff(times)))
    level = float(np.clip(track.to_numpy(dtype=float), 0, 100)[near].mean())
    for part, share in drawn.bands.items():
        thick, color = float(share[near].mean()), part_style(part).color
        look = {"showarrow": False, "bgcolor": color, "borderpad": 1, "font": {"size": 11, "color": text_color(color)}}
        place = {"x": (middle - drawn.shown.start_ns) / 1e3, "xref": "x", "y": level + thick / 2, "yref": "y"}
        if thick >= NAMED_BAND:
            named.append({"text": f"<b>{part_label(part)}</b>", **look, **place})
        level += thick
    return named
