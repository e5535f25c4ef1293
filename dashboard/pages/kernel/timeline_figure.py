"""The timeline as a figure: one row per track on a shared axis, idle time of the unit coloured by
its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.palette import TRACK_COLORS, text_color
from ncubble.analysis.account.parts import Style, part_color, part_label, part_style
from ncubble.analysis.details.idle_bands import Bands, idle_bands
from ncubble.analysis.details.tracks import Marks, Track, Window, as_percent, window
from ncubble.analysis.details.warp_states import REST, Stalls, stall_series
from ncubble.dashboard.ui.figures import HATCH, OTHER, Drawn, Figure, axis_name, faded, reason_style, safe

TRACK_PX = 58
UNIT_WEIGHT, STALL_WEIGHT = 2.3, 1.7
"""Heights of the rows of unit and stalls, relative to the other rows."""
LEFT_PX = 118
"""Margins for row names and axis ticks."""
LABEL_WIDTH = 0.11
"""Minimum distance of two labels, as a share of the time axis, to avoid overlap at 1000 px."""
NAMED_BAND = 9.0
"""Minimum percent of a sample for a band to carry its name."""


@dataclass(frozen=True)
class Overlay:
    """What is drawn beside the tracks: idle time of the unit by part (on the times of its own
    series), and sampled warp states with their unit. Both may be empty."""

    bands: Bands = field(default_factory=dict)
    stalls: Stalls = field(default_factory=dict)
    stall_unit: str = ""


@dataclass(frozen=True)
class LaunchTimeline:
    """What the timeline of one launch shows. ``marks`` is None where no phases were found."""

    shown: Window
    marks: Marks | None
    over: Overlay

    @classmethod
    def of(cls, frame: pd.DataFrame, account: BubbleAccount | None) -> LaunchTimeline | None:
        """Of the timeline rows of a launch and its account; None where no track was sampled."""
        unit = account.unit if account is not None else "tensor"
        shown = window(frame, unit)
        if shown is None:
            return None
        marks = Marks.of(account.phases, account.parts, shown, unit) if account and account.phases else None
        bands = bands_of(shown, marks, account.phases, account.parts) if account else {}
        return cls(shown, marks, Overlay(bands, *stall_series(frame, shown)))

    def figure(self, asked_us: tuple[float, float] | None = None) -> Figure:
        """As ``timeline_figure``."""
        return timeline_figure(self.shown, self.marks, self.over, asked_us)


def bands_of(shown: Window, marks: Marks | None, phases: Any, parts: Mapping[str, float]) -> Bands:
    """Idle time by part on the times of the unit's track; empty where no phases were found, or not
    on that series."""
    series = {name: values for _, name, values, _ in shown.tracks}
    first = shown.tracks[0][1] if shown.tracks else ""
    if marks is None or phases is None or marks.series != first:
        return {}
    measured = next(unit for _, name, _, unit in shown.tracks if name == first)
    return idle_bands(series[first], series.get("sm_active"), phases, parts) if measured == "%" else {}


def timeline_figure(
    shown: Window, marks: Marks | None, over: Overlay | None = None, asked_us: tuple[float, float] | None = None
) -> Figure:
    """Tracks of one launch on a shared axis in µs from its first to its last active sample, with
    its bubbles shaded.

    The steady level that ``marks`` speak of is the dotted line in the track of that series.
    ``asked_us`` is the range that is shown; without it, all.
    """
    drawn, span = over or Overlay(), max(shown.end_ns - shown.start_ns, 1.0)
    weights = [UNIT_WEIGHT if drawn.bands and row == 0 else 1.0 for row in range(len(shown.tracks))]
    rows = [_row(row, track, shown, drawn.bands if row == 0 else {}) for row, track in enumerate(shown.tracks)]
    if drawn.stalls:
        weights.append(STALL_WEIGHT)
        rows.append(_stall_row(len(rows), drawn, shown))
    axes = {
        axis_name("yaxis", row): {**axis, "domain": place, "fixedrange": True}
        for row, ((_, axis), place) in enumerate(zip(rows, domains(weights), strict=True))
    }
    shapes, labels = _marked(marks, shown, drawn.bands, span) if marks else ([], [])
    titles = [_title(axis.pop("name"), axis["domain"]) for axis in axes.values()]
    return Figure(
        [trace for traces, _ in rows for trace in traces],
        {
            **axes,
            "shapes": shapes,
            "annotations": [*labels, *titles],
            "xaxis": {
                "anchor": axis_name("y", len(rows) - 1),
                "range": list(asked_us or (-0.01 * span / 1e3, 1.01 * span / 1e3)),
                "showspikes": True,
                "spikemode": "across",
                "spikethickness": 1,
                "spikesnap": "hovered data",
                "title": {"text": "time since the first active sample, µs", "standoff": 8},
                "unifiedhovertitle": {"text": "%{x:.1f} µs"},
            },
            "height": round(TRACK_PX * sum(weights)) + 74,
            "showlegend": False,
            "hovermode": "x unified",
            "hoversubplots": "axis",
            "dragmode": "zoom",
            "uirevision": "timeline",
            "margin": {"l": LEFT_PX, "r": 16, "t": 28, "b": 40},
        },
    )


def domains(weights: Sequence[float]) -> list[list[float]]:
    """The shares of the figure's height that rows of these relative heights take, the first on top,
    with gaps."""
    gap = 0.1 / max(len(weights), 1)
    room, whole = 1.0 - gap * (len(weights) - 1), sum(weights)
    places, top = [], 1.0
    for weight in weights:
        size = room * weight / whole
        places.append([max(0.0, top - size), top])
        top -= size + gap
    return places


Row = tuple[list[Drawn], Drawn]
"""Traces of a row, and its axis."""


def _row(row: int, drawn: tuple[Track, str, pd.Series, str], shown: Window, bands: Bands) -> Row:
    track, name, values, measured = drawn
    step = float(np.median(np.diff(values.index))) if len(values) > 1 else 0.0
    near = np.asarray((values.index >= shown.start_ns - step) & (values.index <= shown.end_ns + step))
    scaled, unit = as_percent(name, values[near], measured)
    words = safe(unit)
    micros = ((values.index[near].to_numpy() - shown.start_ns) / 1e3).round(3).tolist()
    traces = [_track(row, track, micros, scaled, words, stacked=bool(bands))]
    traces += [_band(row, micros, share[near], part_style(part), {"part": part}) for part, share in bands.items()]
    return traces, _track_axis(track.label, scaled, words, stacked=bool(bands))


def _track(row: int, track: Track, micros: list[float], values: pd.Series, unit: str, stacked: bool) -> Drawn:
    color = TRACK_COLORS[track.color]
    alone: Drawn = {"fill": "tozeroy", "fillcolor": faded(color, 0.18)}
    return {
        "type": "scatter",
        "x": micros,
        "y": values.round(3).tolist(),
        "name": track.label,
        "mode": "lines",
        "line": {"color": color, "width": 1.4, "shape": "hvh"},
        "hovertemplate": f"{track.label} %{{y:.1f}} {unit}<extra></extra>",
        "meta": {"kind": "track", "unit": unit},
        "xaxis": "x",
        "yaxis": axis_name("y", row),
        **({"stackgroup": f"row{row}", "fillcolor": color} if stacked else alone),
    }


def _track_axis(label: str, values: pd.Series, unit: str, stacked: bool) -> Drawn:
    name = f"{label}<br>{unit}"
    if not unit.startswith("%"):
        return {"name": name, "rangemode": "tozero", "nticks": 3}
    top = max(100.0, float(np.nanmax(values.to_numpy())))
    # No tick at the top of a low row: it would touch the 0 of the row above.
    ticks = {"range": [0, top if stacked else 1.04 * top], "tickvals": [0, 50, 100] if stacked else [0, 50]}
    return {"name": name, **ticks}


def _title(name: str, place: list[float]) -> Drawn:
    """The name of a row and its unit, left of its axis and not turned: a row is too low for turned
    text."""
    at = {"xref": "paper", "x": 0, "xanchor": "right", "xshift": -34, "yref": "paper", "y": sum(place) / 2}
    return {"text": name, "showarrow": False, "align": "right", "yanchor": "middle", "font": {"size": 11.5}, **at}


def _band(row: int, micros: list[float], values: np.ndarray, style: Style, meta: dict[str, str]) -> Drawn:
    """One layer of a stack; ``meta`` says what it is to the table below the figure."""
    trace = {
        "type": "scatter",
        "x": micros,
        "y": values.round(2).tolist(),
        "name": safe(style.label),
        "mode": "lines",
        "line": {"width": 0, "shape": "hvh", "color": style.color},
        "stackgroup": f"row{row}",
        "fillcolor": style.color,
        "meta": {"kind": "band", **meta},
        "xaxis": "x",
        "yaxis": axis_name("y", row),
    }
    if style.hatch:
        trace["fillpattern"] = {**HATCH, "shape": style.hatch, "bgcolor": style.color, "fillmode": "replace"}
    if "part" in meta:
        return trace | {"hoverinfo": "skip"}
    return trace | {"hovertemplate": f"{safe(style.label)} %{{y:.1f}}<extra></extra>"}


def _stall_row(row: int, drawn: Overlay, shown: Window) -> Row:
    unit, traces = safe(drawn.stall_unit), []
    for reason, values in drawn.stalls.items():
        micros = ((values.index.to_numpy() - shown.start_ns) / 1e3).round(3).tolist()
        style = OTHER if reason == REST else reason_style(reason)
        traces.append(_band(row, micros, values.to_numpy(dtype=float), style, {"reason": reason, "unit": unit}))
    return traces, {"name": f"warps stalled<br>{unit}", "rangemode": "tozero", "nticks": 3}


def _marked(marks: Marks, shown: Window, bands: Bands, span: float) -> tuple[list[Drawn], list[Drawn]]:
    """Shapes and annotations: every stretch shaded over all tracks, with its name where there is
    room; the steady level in its track; and the names of wide bands.

    Built as plain lists: adding shapes to a figure one by one takes seconds for a hundred of them.
    """
    widest = sorted(marks.stretches, key=lambda shade: (shade.part == "wave_gap", shade.start_ns - shade.end_ns))
    named: list[float] = []
    shapes, labels = [], []
    for stretch in widest:
        start, end = stretch.start_ns - shown.start_ns, stretch.end_ns - shown.start_ns
        place = {"xref": "x", "x0": start / 1e3, "x1": end / 1e3, "yref": "paper", "y0": 0, "y1": 1}
        look = {"fillcolor": part_color(stretch.part), "opacity": 0.28, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "rect", **look, **place})
        middle = (start + end) / 2
        if all(abs(middle - other) > LABEL_WIDTH * span for other in named):
            named.append(middle)
            labels.append(_label(stretch.part, start, end, marks, span))
    level = {"xref": "paper", "x0": 0, "x1": 1, "y0": marks.steady, "y1": marks.steady}
    dotted = {"type": "line", "line": {"dash": "dot", "width": 1.2, "color": "#858d96"}, **level}
    rows = [row for row, (_, name, *_) in enumerate(shown.tracks) if name == marks.series]
    shapes += [{**dotted, "yref": axis_name("y", row)} for row in rows]
    return shapes, labels + _band_names(bands, shown, marks)


def _label(part: str, start: float, end: float, marks: Marks, span: float) -> Drawn:
    middle = (start + end) / 2
    anchor = "left" if middle < 0.06 * span else "right" if middle > 0.94 * span else "center"
    at = {"left": start, "right": end, "center": middle}[anchor]
    text = part_label(part) if part == "wave_gap" else f"{part} {marks.shares.get(part, 0.0):.1f} %"
    place = {"x": at / 1e3, "xref": "x", "y": 1, "yref": "paper", "xanchor": anchor, "yanchor": "bottom"}
    return {"text": f"<b>{text}</b>", "showarrow": False, "font": {"size": 11, "color": part_color(part)}, **place}


def _band_names(bands: Bands, shown: Window, marks: Marks) -> list[Drawn]:
    """The names of wide steady bands, written into them in the middle of the longest stretch
    without a phase."""
    middle, width = _clear(marks, shown)
    if not bands or width <= 0.1 * (shown.end_ns - shown.start_ns):
        return []
    track = shown.tracks[0][2]
    times = track.index.to_numpy(dtype=float)
    near = np.abs(times - middle) <= max(width / 4, np.median(np.diff(times)))
    level, named = float(np.clip(track.to_numpy(dtype=float), 0, 100)[near].mean()), []
    for part, share in bands.items():
        thick = float(share[near].mean())
        if thick >= NAMED_BAND:
            color = part_style(part).color
            named.append(
                {
                    "text": f"<b>{part_label(part)}</b>",
                    "showarrow": False,
                    "bgcolor": color,
                    "borderpad": 1,
                    "font": {"size": 11, "color": text_color(color)},
                    "x": (middle - shown.start_ns) / 1e3,
                    "xref": "x",
                    "y": level + thick / 2,
                    "yref": "y",
                }
            )
        level += thick
    return named


def _clear(marks: Marks, shown: Window) -> tuple[float, float]:
    """(middle, width) in ns of the longest stretch of the launch that is not shaded."""
    begin, middle, width = shown.start_ns, shown.start_ns, 0.0
    shaded = sorted((stretch.start_ns, stretch.end_ns) for stretch in marks.stretches)
    for start, end in [*shaded, (shown.end_ns, shown.end_ns)]:
        if start - begin > width:
            middle, width = (start + begin) / 2, start - begin
        begin = max(begin, end)
    return middle, width
