"""Figures of the Compare page as pure functions of comparisons and timelines.

Sides are told apart by letter, colour and dash or hatch; no figure names a theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ncubble.analysis.compare import Comparison, Row
from ncubble.analysis.compare_text import amount
from ncubble.analysis.sides import letter
from ncubble.dashboard.figures import HATCH, safe, segment_text
from ncubble.dashboard.palette import PART_STYLES, SIDE_STYLES, Part, Side, part_label, text_color
from ncubble.dashboard.timeline import TRACKS, Window, as_percent, axis_name, domain

ROW_PX = 46
STALLS = 8
"""Stall reasons that are drawn; the table has all."""


def accounts_figure(comparison: Comparison, unit: str = "") -> go.Figure:
    """The accounts one below the other, A on top, each from 0 to 100 % of its own elapsed SM cycles."""
    figure = go.Figure()
    rows = comparison.section("account")
    shown = [index for index, side in enumerate(comparison.sides) if side and _has(rows, index)]
    for row in rows:
        style, label = PART_STYLES.get(row.name, PART_STYLES["other"]), safe(part_label(row.name, unit))
        shares = [value.mean if (value := row.values[index]) else 0.0 for index in shown]
        figure.add_bar(
            x=shares,
            y=[f"<b>{letter(index)}</b>" for index in shown],
            orientation="h",
            name=label,
            text=[segment_text(label, share) for share in shares],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"color": text_color(style.color), "size": 13},
            marker={"color": style.color, "line": {"width": 0}, "pattern": _hatched(style.hatch, style.color)},
            hovertemplate=f"%{{y}} <b>{label}</b> %{{x:.2f}} %<br>{safe(style.meaning)}<extra></extra>",
        )
    height = 40 + ROW_PX * max(len(shown), 1)
    margin = {"l": 34, "r": 22, "t": 4, "b": 34}
    figure.update_layout(barmode="stack", bargap=0.14, showlegend=False, height=height, margin=margin)
    figure.update_xaxes(range=[0, 100], ticksuffix=" %", dtick=20, showgrid=False)
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont={"size": 14})
    return figure


def _has(rows: Sequence[Row], index: int) -> bool:
    return any(row.values[index] for row in rows)


def _hatched(shape: str, color: str) -> dict[str, Any]:
    return {**HATCH, "shape": shape, "bgcolor": color}


def changes_figure(comparison: Comparison) -> go.Figure:
    """Time of every part on the other sides minus that of A in µs; the bars of a side sum to its change of duration.

    A single other side has the colours of the parts, several have their own.
    """
    rows = [row for row in comparison.section("time") if _matters(row, comparison)]
    others = _others(comparison)
    figure = go.Figure()
    for index in others:
        if len(others) > 1:
            _add_changes(figure, rows, index, SIDE_STYLES[index % len(SIDE_STYLES)])
            continue
        for row in rows:
            _add_changes(figure, [row], index, PART_STYLES.get(row.name, PART_STYLES["other"]))
    _grouped(figure, len(rows), len(others), "µs against A; left of zero is time saved")
    ends = [0.0, *(change.difference / 1e3 for row in rows for change in row.changes if change)]
    room = 0.13 * (max(ends) - min(ends) or 1.0)  # the numbers stand outside the bars
    figure.update_xaxes(range=[min(ends) - room, max(ends) + room], zeroline=True, zerolinewidth=1.5)
    return figure.update_layout(barmode="group" if len(others) > 1 else "relative", showlegend=len(others) > 1)


def _add_changes(figure: go.Figure, rows: Sequence[Row], index: int, style: Side | Part) -> None:
    """Bars of one side, one for each of ``rows``."""
    changes = [change.difference if (change := row.changes[index]) else 0.0 for row in rows]
    figure.add_bar(
        x=[round(change / 1e3, 4) for change in changes],
        y=[safe(part_label(row.name)) for row in rows],
        orientation="h",
        name=f"{letter(index)} - A",
        text=[amount(change, "ns", sign=True) for change in changes],
        textposition="outside",
        cliponaxis=False,
        marker={"color": style.color, "pattern": _hatched(style.hatch, style.color), "line": {"width": 0}},
        hovertemplate=f"%{{y}}: %{{text}}<extra>{letter(index)} - A</extra>",
    )


def _matters(row: Row, comparison: Comparison) -> bool:
    """Whether a part moved by a two hundredth of A's time on any side."""
    took = comparison.row("launch", "duration_ns")
    whole = took.values[0].mean if took and took.values[0] else 0.0
    return any(abs(change.difference) >= whole / 200 for change in row.changes if change)


def _others(comparison: Comparison) -> list[int]:
    return [index for index, side in enumerate(comparison.sides) if index and side]


def _grouped(figure: go.Figure, rows: int, sides: int, title: str) -> go.Figure:
    """The layout of bars in groups, first group and first side on top."""
    height = 84 + rows * max(26, 18 * sides + 8)
    figure.update_layout(
        barmode="group", bargap=0.22, height=height, margin={"l": 8, "r": 70, "t": 28, "b": 40}, showlegend=True
    )
    figure.update_layout(legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"})
    figure.update_xaxes(title=title, title_standoff=8)
    figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False, ticksuffix=" ")
    return figure


def stalls_figure(comparison: Comparison) -> go.Figure:
    """Shares of warp samples by stall reason, the largest on any side on top."""
    rows = comparison.section("stalls")[:STALLS]
    names = [safe(row.name.replace("_", " ")) for row in rows]
    figure = go.Figure()
    sides = [index for index, side in enumerate(comparison.sides) if side and _has(rows, index)]
    for index in sides:
        style = SIDE_STYLES[index % len(SIDE_STYLES)]
        shares = [value.mean if (value := row.values[index]) else 0.0 for row in rows]
        figure.add_bar(
            x=[round(share, 3) for share in shares],
            y=names,
            orientation="h",
            name=letter(index),
            text=[f"{share:.1f} %" for share in shares],
            textposition="outside",
            cliponaxis=False,
            marker={"color": style.color, "pattern": _hatched(style.hatch, style.color), "line": {"width": 0}},
            hovertemplate=f"%{{y}}: %{{x:.2f}} % of warp samples<extra>{letter(index)}</extra>",
        )
    return _grouped(figure, len(rows), len(sides), "% of warp samples")


@dataclass(frozen=True)
class Sampled:
    """The timeline of one side: its number and what of it is drawn."""

    side: int
    window: Window


def overlaid_figure(sampled: Sequence[Sampled], relative: bool = False) -> go.Figure:
    """Tracks that any side has, all sides in each, from each launch's own first active sample on.

    The axis is time in µs, or percent of each launch's own active time where ``relative``.
    """
    labels = [track.label for track in TRACKS if any(_series(one, track.label) for one in sampled)]
    labels += sorted({t.label for one in sampled for t, *_ in one.window.tracks} - {track.label for track in TRACKS})
    figure = go.Figure()
    for row, label in enumerate(labels):
        unit = ""
        for one in sampled:
            unit = _draw(figure, row, label, one, relative) or unit
        percent: dict[str, Any] = (
            {"range": [0, 104], "tickvals": [0, 50, 100]} if unit.startswith("%") else {"rangemode": "tozero"}
        )
        title = {"text": f"{safe(label)}<br>{unit}", "font": {"size": 12}, "standoff": 6}
        axis: dict[str, Any] = {"title": title, "automargin": True, "domain": domain(row, len(labels)), **percent}
        figure.update_layout({axis_name("yaxis", row): axis})
    longest = max((one.window.end_ns - one.window.start_ns for one in sampled), default=1.0) / 1e3
    along = "% of each launch's active time" if relative else "time since each launch's first active sample, µs"
    figure.update_layout(
        height=104 * max(len(labels), 1) + 84,
        hovermode="x unified",
        hoversubplots="axis",
        showlegend=True,
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        margin={"l": 8, "r": 16, "t": 34, "b": 40},
    )
    span = 100.0 if relative else longest
    hover = "%{x:.1f} %" if relative else "%{x:.1f} µs"
    figure.update_xaxes(anchor=axis_name("y", max(len(labels) - 1, 0)), range=[-0.01 * span, 1.01 * span])
    figure.update_xaxes(title={"text": along, "standoff": 8}, unifiedhovertitle={"text": hover})
    return figure


def _series(one: Sampled, label: str) -> tuple[str, pd.Series, str] | None:
    """(series name, values by t_ns, unit) of the track that has this label, or None."""
    return next(((name, values, unit) for track, name, values, unit in one.window.tracks if track.label == label), None)


def _draw(figure: go.Figure, row: int, label: str, one: Sampled, relative: bool) -> str:
    """Adds the line of one side to the track in ``row``; returns its unit, empty where it has no such series."""
    found = _series(one, label)
    if found is None:
        return ""
    name, values, measured = found
    start, end = one.window.start_ns, one.window.end_ns
    inside = values[(values.index >= start) & (values.index <= end)]
    scaled, unit = as_percent(name, inside, measured)
    at = (scaled.index.to_numpy() - start) * (100.0 / max(end - start, 1.0) if relative else 1e-3)
    style = SIDE_STYLES[one.side % len(SIDE_STYLES)]
    figure.add_scatter(
        x=at.round(3).tolist(),
        y=scaled.round(3).tolist(),
        name=letter(one.side),
        legendgroup=letter(one.side),
        showlegend=row == 0,
        mode="lines",
        line={"color": style.color, "width": 1.6, "dash": style.dash},
        hovertemplate=f"{letter(one.side)} {safe(label)} %{{y:.1f}} {unit}<extra></extra>",
        xaxis="x",
        yaxis=axis_name("y", row),
    )
    return str(unit)
