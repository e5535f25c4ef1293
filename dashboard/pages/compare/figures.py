"""Figures of the Compare page as pure functions of comparisons and timelines.

Sides are told apart by letter, colour and dash or hatch; no figure names a theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from ncubble.analysis.account.palette import SIDE_STYLES, Side
from ncubble.analysis.account.parts import Style, part_label, part_style
from ncubble.analysis.compare.compare import Comparison, Row, letter
from ncubble.analysis.compare.words import amount
from ncubble.analysis.details.tracks import TRACKS, Window, as_percent
from ncubble.dashboard.ui.figures import (
    Drawn,
    Figure,
    axis_name,
    bars,
    domains,
    filled,
    reason_style,
    safe,
    segment_text,
    stacked,
)

ROW_PX = 46
NUMBER_PX = 62
"""Width of the longest number beside a bar."""
STALLS = 8
"""Maximum stall reasons in the figure; the table has all."""


def accounts_figure(comparison: Comparison, unit: str = "") -> Figure:
    """The accounts one below the other, A on top, each from 0 to 100 % of its own elapsed SM
    cycles; beyond that where a measured part is negative."""
    rows = comparison.section("account")
    shown, traces = _sides(comparison, rows), list[Drawn]()
    names = [f"<b>{letter(index)}</b>" for index in shown]
    for row in rows:
        style, label, shares = part_style(row.name), safe(part_label(row.name, unit)), _means(row, shown)
        texts = [segment_text(label, share) for share in shares]
        traces.append(stacked(shares, names, style, label, texts, 13, f"%{{y}} <b>{label}</b> %{{x:.2f}} %"))
    # Stacked bars end where their negative shares, left of zero, let them.
    sides = zip(*(_means(row, shown) for row in rows), strict=True)
    low = min((math.fsum(share for share in side if share < 0) for side in sides), default=0.0)
    layout: Drawn = {
        "barmode": "relative",
        "bargap": 0.14,
        "showlegend": False,
        "height": 40 + ROW_PX * max(len(shown), 1),
        "margin": {"l": 34, "r": 22, "t": 4, "b": 34},
        "xaxis": {"range": [low, 100.0 - low], "ticksuffix": " %", "dtick": 20, "showgrid": False},
        "yaxis": {"autorange": "reversed", "showgrid": False, "tickfont": {"size": 14}},
    }
    return Figure(traces, layout)


def _sides(comparison: Comparison, rows: Sequence[Row]) -> list[int]:
    """The sides of which any of ``rows`` is known."""
    return [index for index, side in enumerate(comparison.sides) if side and any(row.values[index] for row in rows)]


def _means(row: Row, sides: Sequence[int]) -> list[float]:
    return [value.mean if (value := row.values[index]) else 0.0 for index in sides]


def changes_figure(comparison: Comparison) -> Figure:
    """Time of every part on the other sides minus that of A in µs, where it moved by a two
    hundredth of A's time on any side; the bars of a side sum to its change of duration.

    A single other side has the colours of the parts, several have their own.
    """
    took = comparison.row("launch", "duration_ns")
    least = (took.values[0].mean if took and took.values[0] else 0.0) / 200
    moved = [[abs(change.difference) for change in row.changes if change] for row in comparison.section("time")]
    pairs = zip(comparison.section("time"), moved, strict=True)
    rows = [row for row, differences in pairs if differences and max(differences) >= least]
    others = [index for index, side in enumerate(comparison.sides) if index and side]
    several = len(others) > 1
    traces = [_changes(rows, index, SIDE_STYLES[index % len(SIDE_STYLES)]) for index in others if several]
    traces += [_changes([row], index, part_style(row.name)) for index in others if not several for row in rows]
    layout = _grouped(len(rows), len(others), "µs relative to A;<br>left of zero is time saved")
    ends = [0.0, *(change.difference / 1e3 for row in rows for change in row.changes if change)]
    edge = 0.01 * (max(ends) - min(ends) or 1.0)  # plotly leaves out the number of a bar that reaches the edge
    layout["margin"]["b"] += 16  # the title has two lines, for narrow screens
    layout["height"] += 16
    layout["xaxis"] |= {"range": [min(ends) - edge, max(ends) + edge], "zeroline": True, "zerolinewidth": 1.5}
    # Numbers are outside the bars: in the right margin, and between bars and names.
    layout["yaxis"] |= {"ticklabelstandoff": NUMBER_PX} if min(ends) < 0 else {}
    return Figure(traces, layout | {"barmode": "group" if several else "relative", "showlegend": several})


def _changes(rows: Sequence[Row], index: int, style: Side | Style) -> Drawn:
    """Bars of one side, one for each of ``rows``."""
    changes = [change.difference if (change := row.changes[index]) else 0.0 for row in rows]
    names, texts = [safe(part_label(row.name)) for row in rows], [amount(change, "ns", sign=True) for change in changes]
    look, name = filled(style.color, style.hatch), f"{letter(index)} - A"
    micros = [round(change / 1e3, 4) for change in changes]
    return bars(micros, names, look, texts, f"%{{y}}: %{{text}}<extra>{name}</extra>", name=name)


def _grouped(rows: int, sides: int, title: str) -> Drawn:
    """The layout of bars in groups, first group and first side on top."""
    return {
        "barmode": "group",
        "bargap": 0.22,
        "height": 84 + rows * max(26, 18 * sides + 8),
        "margin": {"l": 8, "r": 70, "t": 28, "b": 40},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "xaxis": {"title": {"text": title, "standoff": 8}, "tickangle": 0, "nticks": 4},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "ticksuffix": " "},
    }


def stalls_figure(comparison: Comparison) -> Figure:
    """Shares of warp samples by stall reason, the largest on any side on top."""
    rows = comparison.section("stalls")[:STALLS]
    sides, traces = _sides(comparison, rows), list[Drawn]()
    names = [safe(reason_style(row.name).label) for row in rows]
    for index in sides:
        style = SIDE_STYLES[index % len(SIDE_STYLES)]
        shares = [_means(row, [index])[0] for row in rows]
        texts, hover = [f"{share:.1f} %" for share in shares], "%{y}: %{x:.2f} % of warp samples"
        lengths, look = [round(share, 3) for share in shares], filled(style.color, style.hatch)
        hover += f"<extra>{letter(index)}</extra>"
        traces.append(bars(lengths, names, look, texts, hover, name=letter(index)))
    return Figure(traces, _grouped(len(rows), len(sides), "% of warp samples"))


# --- Timelines ---


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
                traces.append(_track(row, label, side, values, unit, relative))
        axes[axis_name("yaxis", row)] = {
            "title": {"text": f"{safe(label)}<br>{unit}", "font": {"size": 12}, "standoff": 6},
            "automargin": True,
            "domain": places[row],
            **({"range": [0, 104], "tickvals": [0, 50, 100]} if unit.startswith("%") else {"rangemode": "tozero"}),
        }
    span = 100.0 if relative else max((side.span_ns for side in sampled), default=1.0) / 1e3
    along = "% of each launch's active time" if relative else "µs since each launch's first active sample"
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


def _track(row: int, label: str, side: Sampled, values: pd.Series, unit: str, relative: bool) -> Drawn:
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
