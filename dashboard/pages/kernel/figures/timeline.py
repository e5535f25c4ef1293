"""The timeline as a figure: one row per track on a shared axis, idle time of the unit coloured by
its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.palette import TRACK_COLORS, Style, text_color
from ncubble.analysis.account.parts import part_color, part_label, part_style
from ncubble.analysis.details.idle_bands import Bands, idle_bands
from ncubble.analysis.details.tracks import Marks, Stretch, Track, Window, as_percent
from ncubble.analysis.details.warp_states import REST, Stalls
from ncubble.dashboard.ui.drawn import HATCH, Figure, figure_of
from ncubble.dashboard.ui.figures import axis_name, safe
from ncubble.dashboard.ui.reasons import OTHER, reason_style

TRACK_PX = 58
UNIT_WEIGHT, STALL_WEIGHT = 2.3, 1.7
"""Heights of the unit's and of the stalls' row, in those of another."""
LEFT_PX = 118
"""Room for the names of the rows and the ticks of their axes."""
LABEL_WIDTH = 0.11
"""Least distance of two labels, as a share of the time axis, so that they do not collide at 1000
px."""
NAMED_BAND = 9.0
"""Percent of a sample that a band takes at least where its name is written into it."""


@dataclass(frozen=True)
class Overlay:
    """What is drawn beside the tracks: idle time of the unit by part (on the times of its own
    series), and sampled warp states with their unit. Both may be empty."""

    bands: Bands = field(default_factory=dict)
    stalls: Stalls = field(default_factory=dict)
    stall_unit: str = ""


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
    weights += [STALL_WEIGHT] if drawn.stalls else []
    rows = [_row(row, track, shown, drawn.bands if row == 0 else {}) for row, track in enumerate(shown.tracks)]
    rows += [_stall_row(len(rows), drawn, shown)] if drawn.stalls else []
    axes = {
        axis_name("yaxis", row): {**axis, "domain": place, "fixedrange": True}
        for row, ((_, axis), place) in enumerate(zip(rows, domains(weights), strict=True))
    }
    marked = _marked(marks, shown, drawn.bands, span) if marks else {"shapes": [], "annotations": []}
    marked["annotations"] += [_title(axis.pop("name"), axis["domain"]) for axis in axes.values()]
    return figure_of(
        [trace for traces, _ in rows for trace in traces],
        {
            **marked,
            **axes,
            "xaxis": _time_axis(len(rows), asked_us or (-0.01 * span / 1e3, 1.01 * span / 1e3)),
            "height": round(TRACK_PX * sum(weights)) + 74,
            "showlegend": False,
            "hovermode": "x unified",
            "hoversubplots": "axis",
            "dragmode": "zoom",
            "uirevision": "timeline",
            "margin": {"l": LEFT_PX, "r": 16, "t": 28, "b": 40},
        },
    )


def _marked(marks: Marks, shown: Window, bands: Bands, span: float) -> dict[str, Any]:
    """Shapes and annotations: shaded stretches with their names, the steady level, and the names of
    wide bands."""
    marked = _shade(marks, shown.start_ns, span)
    marked["shapes"] += [_level(marks, row) for row, (_, name, *_) in enumerate(shown.tracks) if name == marks.series]
    marked["annotations"] += _band_names(bands, shown, marks)
    return marked


def _time_axis(rows: int, shown: tuple[float, float]) -> dict[str, Any]:
    return {
        "anchor": axis_name("y", rows - 1),
        "range": list(shown),
        "showspikes": True,
        "spikemode": "across",
        "spikethickness": 1,
        "spikesnap": "hovered data",
        "title": {"text": "time since the first active sample, µs", "standoff": 8},
        "unifiedhovertitle": {"text": "%{x:.1f} µs"},
    }


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


Row = tuple[list[dict[str, Any]], dict[str, Any]]
"""Traces of a row, and its axis."""


def _row(row: int, drawn: tuple[Track, str, pd.Series, str], shown: Window, bands: Bands) -> Row:
    track, name, values, measured = drawn
    step = float(np.median(np.diff(values.index))) if len(values) > 1 else 0.0
    near = np.asarray((values.index >= shown.start_ns - step) & (values.index <= shown.end_ns + step))
    scaled, unit = as_percent(name, values[near], measured)
    words = safe(unit)
    micros = ((values.index[near].to_numpy() - shown.start_ns) / 1e3).round(3).tolist()
    traces = [_track(row, track, micros, scaled, words, stacked=bool(bands))]
    for part, share in bands.items():
        style = part_style(part)
        traces.append(_band(row, micros, share[near], style, {"part": part}))
    return traces, _track_axis(track.label, scaled, words, stacked=bool(bands))


def _track(row: int, track: Track, micros: list[float], values: pd.Series, unit: str, stacked: bool) -> dict[str, Any]:
    color = TRACK_COLORS[track.color]
    fill: dict[str, Any] = {"fill": "tozeroy", "fillcolor": faded(color, 0.18)}
    if stacked:
        fill = {"stackgroup": f"row{row}", "fillcolor": color}
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
        **fill,
    }


def _track_axis(label: str, values: pd.Series, unit: str, stacked: bool) -> dict[str, Any]:
    name = f"{label}<br>{unit}"
    if not unit.startswith("%"):
        return {"name": name, "rangemode": "tozero", "nticks": 3}
    top = max(100.0, float(np.nanmax(values.to_numpy())))
    # No tick at the top of a low row: it would meet the 0 of the row above.
    ticks = {"range": [0, top if stacked else 1.04 * top], "tickvals": [0, 50, 100] if stacked else [0, 50]}
    return {"name": name, **ticks}


def _title(name: str, place: list[float]) -> dict[str, Any]:
    """The name of a row and its unit, left of its axis and not turned: a row is too low for turned
    text."""
    at = {"xref": "paper", "x": 0, "xanchor": "right", "xshift": -34, "yref": "paper", "y": sum(place) / 2}
    return {"text": name, "showarrow": False, "align": "right", "yanchor": "middle", "font": {"size": 11.5}, **at}


def _band(row: int, micros: list[float], values: np.ndarray, style: Style, meta: dict[str, str]) -> dict[str, Any]:
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


def _band_names(bands: Bands, shown: Window, marks: Marks) -> list[dict[str, Any]]:
    """The names of wide steady bands, written into them in the middle of the longest stretch
    without a phase."""
    if not bands:
        return []
    times = shown.tracks[0][2].index.to_numpy(dtype=float)
    middle, width = _clear(marks, shown)
    near = np.abs(times - middle) <= max(width / 4, np.median(np.diff(times)))
    level, named = float(np.clip(shown.tracks[0][2].to_numpy(dtype=float), 0, 100)[near].mean()), []
    for part, share in bands.items():
        thick = float(share[near].mean())
        if thick >= NAMED_BAND and width > 0.1 * (shown.end_ns - shown.start_ns):
            color = part_style(part).color
            place = {"x": (middle - shown.start_ns) / 1e3, "xref": "x", "y": level + thick / 2, "yref": "y"}
            text = f"<b>{part_label(part)}</b>"
            named.append(
                {
                    "text": text,
                    "showarrow": False,
                    "bgcolor": color,
                    "borderpad": 1,
                    "font": {"size": 11, "color": text_color(color)},
                    **place,
                }
            )
        level += thick
    return named


def _clear(marks: Marks, shown: Window) -> tuple[float, float]:
    """(middle, width) in ns of the longest stretch of the launch that is not shaded."""
    ends, longest = shown.start_ns, (shown.start_ns, 0.0)
    for one in [*sorted(marks.stretches, key=lambda one: one.start_ns), Stretch("", shown.end_ns, shown.end_ns)]:
        if one.start_ns - ends > longest[1]:
            longest = ((one.start_ns + ends) / 2, one.start_ns - ends)
        ends = max(ends, one.end_ns)
    return longest


def _shade(marks: Marks, zero_ns: float, span: float) -> dict[str, list[dict[str, Any]]]:
    """``shapes`` that shade every stretch over all tracks, and ``annotations`` that name them where
    there is room.

    Built as plain lists: adding shapes to a figure one by one takes seconds for a hundred of them.
    """
    widest = sorted(marks.stretches, key=lambda one: (one.part == "wave_gap", one.start_ns - one.end_ns))
    named: list[float] = []
    shapes, labels = [], []
    for absolute in widest:
        one = Stretch(absolute.part, absolute.start_ns - zero_ns, absolute.end_ns - zero_ns)
        color, middle = part_color(one.part), (one.start_ns + one.end_ns) / 2
        place = {"xref": "x", "x0": one.start_ns / 1e3, "x1": one.end_ns / 1e3, "yref": "paper", "y0": 0, "y1": 1}
        shapes.append(
            {"type": "rect", "fillcolor": color, "opacity": 0.28, "line": {"width": 0}, "layer": "below", **place}
        )
        if all(abs(middle - other) > LABEL_WIDTH * span for other in named):
            named.append(middle)
            labels.append(_label(one, marks, span))
    return {"shapes": shapes, "annotations": labels}


def _level(marks: Marks, row: int) -> dict[str, Any]:
    """The dotted line at the steady level, over the whole track in ``row``."""
    place = {"xref": "paper", "x0": 0, "x1": 1, "yref": axis_name("y", row), "y0": marks.steady, "y1": marks.steady}
    return {"type": "line", "line": {"dash": "dot", "width": 1.2, "color": "#858d96"}, **place}


def _label(one: Stretch, marks: Marks, span: float) -> dict[str, Any]:
    middle = (one.start_ns + one.end_ns) / 2
    anchor = "left" if middle < 0.06 * span else "right" if middle > 0.94 * span else "center"
    at = {"left": one.start_ns, "right": one.end_ns, "center": middle}[anchor]
    text = part_label(one.part) if one.part == "wave_gap" else f"{one.part} {marks.shares.get(one.part, 0.0):.1f} %"
    place = {"x": at / 1e3, "xref": "x", "y": 1, "yref": "paper", "xanchor": anchor, "yanchor": "bottom"}
    return {"text": f"<b>{text}</b>", "showarrow": False, "font": {"size": 11, "color": part_color(one.part)}, **place}


def faded(color: str, alpha: float) -> str:
    """``#rrggbb`` as a translucent colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
