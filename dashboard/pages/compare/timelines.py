"""Timelines of all sides of a comparison, overlaid: a figure with a row per track, its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import SIDE_STYLES
from ncubble.analysis.compare.compare import letter
from ncubble.analysis.details.tracks import MIN_ACTIVE, TRACKS, Window, as_percent, window
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import CompareAddress
from ncubble.dashboard.ui.components import as_table, card, choice, crumbs, figure, note
from ncubble.dashboard.ui.figures import Drawn, Figure, axis_name, domains, safe

AXES = {"in µs": False, "in % of each launch": True}


@dataclass(frozen=True)
class Sampled:
    """The timeline of one side: its number and what of it is drawn."""

    side: int
    window: Window

    @property
    def span_ns(self) -> float:
        """How long the launch was active."""
        return self.window.end_ns - self.window.start_ns

    def tracks(self, label: str) -> Iterator[tuple[pd.Series, str]]:
        """Values by time in ns of the launch's active time, and their unit, of the tracks with this
        label."""
        for track, name, values, measured in self.window.tracks:
            if track.label == label:
                inside = (values.index >= self.window.start_ns) & (values.index <= self.window.end_ns)
                yield as_percent(name, values[inside], measured)


def section(entries: Sequence[Entry], address: CompareAddress) -> Component:
    """The card of the timelines; which sides have none is said."""
    windows = [window(entry.launch.timeline, entry.verdict.unit or "tensor") for entry in entries]
    sampled = [Sampled(side, seen) for side, seen in enumerate(windows) if seen and seen.active >= MIN_ACTIVE]
    if not sampled:
        lacking = "Not collected on any side: PM samples, or too few to draw. Profile with"
        return card("Timelines", [note("empty", lacking, "--set timeline")])
    axes = [choice(text, address.href(relative=axis), axis == address.relative) for text, axis in AXES.items()]
    drawn = overlaid_figure(sampled, address.relative)
    head = ["Track", "Side", "least", "mean", "most", "samples"]
    labels = dict.fromkeys(track.label for side in sampled for track, *_ in side.window.tracks)
    rows = [row for label in labels for side in sampled for row in _rows(label, side)]
    parts: list[Component] = [
        crumbs("Axis of the timelines", *axes),
        figure("overlaid", drawn, "Timelines of all sides, overlaid", tools=True),
        as_table("Tracks of the timelines in numbers", head, rows, numeric=(2, 3, 4, 5)),
    ]
    without = [letter(side) for side in range(len(entries)) if side not in {own.side for own in sampled}]
    if without:
        parts.append(html.P(f"No samples, or too few to draw: {', '.join(without)}.", className="hint"))
    return card("Timelines", parts, "PM sampling, aligned at each launch's start; drag to zoom")


def _rows(label: str, side: Sampled) -> Iterator[list[str]]:
    """Least, mean and most of each track while a side is active."""
    for values, unit in side.tracks(label):
        numbers = [f"{number:,.1f} {unit}" for number in (values.min(), values.mean(), values.max())]
        yield [label, letter(side.side), *numbers, str(len(values))]


def overlaid_figure(sampled: Sequence[Sampled], relative: bool = False) -> Figure:
    """Tracks that any side has, all sides in each, from each launch's own first active sample on.

    The axis is time in µs, or percent of each launch's own active time where ``relative``.
    """
    present = {track.label for side in sampled for track, *_ in side.window.tracks}
    known = [track.label for track in TRACKS if track.label in present]
    labels, traces, axes = [*known, *sorted(present - set(known))], list[Drawn](), {}
    places = domains([1.0] * len(labels), 0.14)
    for row, label in enumerate(labels):
        unit = ""
        for side in sampled:
            for values, measured in list(side.tracks(label))[:1]:
                unit = safe(measured)
                traces.append(_line(row, label, side, values, unit, relative))
        axes[axis_name("yaxis", row)] = {
            "title": {"text": f"{safe(label)}<br>{unit}", "font": {"size": 12}, "standoff": 6},
            "automargin": True,
            "domain": places[row],
            **({"range": [0, 104], "tickvals": [0, 50, 100]} if unit.startswith("%") else {"rangemode": "tozero"}),
        }
    span = 100.0 if relative else max((side.span_ns for side in sampled), default=1.0) / 1e3
    along = "% of each launch's active time" if relative else "time since each launch's first active sample, µs"
    layout: Drawn = {
        "height": 104 * max(len(labels), 1) + 84,
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        "margin": {"l": 8, "r": 16, "t": 34, "b": 40},
        "xaxis": {
            "anchor": axis_name("y", max(len(labels) - 1, 0)),
            "range": [-0.01 * span, 1.01 * span],
            "title": {"text": along, "standoff": 8},
            "unifiedhovertitle": {"text": "%{x:.1f} %" if relative else "%{x:.1f} µs"},
        },
    }
    return Figure(traces, layout | axes)


def _line(row: int, label: str, side: Sampled, values: pd.Series, unit: str, relative: bool) -> Drawn:
    """The line of one side in the track in ``row``."""
    scale = 100.0 / max(side.span_ns, 1.0) if relative else 1e-3
    style, name = SIDE_STYLES[side.side % len(SIDE_STYLES)], letter(side.side)
    return {
        "type": "scatter",
        "x": ((values.index.to_numpy() - side.window.start_ns) * scale).round(3).tolist(),
        "y": values.round(3).tolist(),
        "name": name,
        "legendgroup": name,
        "showlegend": row == 0,
        "mode": "lines",
        "line": {"color": style.color, "width": 1.6, "dash": style.dash},
        "hovertemplate": f"{name} {safe(label)} %{{y:.1f}} {unit}<extra></extra>",
        "xaxis": "x",
        "yaxis": axis_name("y", row),
    }
