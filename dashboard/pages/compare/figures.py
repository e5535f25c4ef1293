"""Figures of the Compare page as pure functions of comparisons and timelines.

Sides are told apart by letter, colour and dash or hatch; no figure names a theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ncubble.analysis.account.palette import SIDE_STYLES, Side, text_color
from ncubble.analysis.account.parts import Style, part_label, part_style
from ncubble.analysis.compare.compare import Comparison, Row, letter
from ncubble.analysis.compare.words import amount
from ncubble.dashboard.ui.figures import Drawn, Figure, filled, safe, segment_text

ROW_PX = 46
STALLS = 8
"""Maximum stall reasons in the figure; the table has all."""


def accounts_figure(comparison: Comparison, unit: str = "") -> Figure:
    """The accounts one below the other, A on top, each from 0 to 100 % of its own elapsed SM
    cycles; beyond that where a measured part is negative."""
    rows = comparison.section("account")
    shown = [index for index, side in enumerate(comparison.sides) if side and _has(rows, index)]
    layout: Drawn = {
        "barmode": "relative",
        "bargap": 0.14,
        "showlegend": False,
        "height": 40 + ROW_PX * max(len(shown), 1),
        "margin": {"l": 34, "r": 22, "t": 4, "b": 34},
        "xaxis": {"range": _ends(rows, shown), "ticksuffix": " %", "dtick": 20, "showgrid": False},
        "yaxis": {"autorange": "reversed", "showgrid": False, "tickfont": {"size": 14}},
    }
    return Figure([_part(row, shown, unit) for row in rows], layout)


def _ends(rows: Sequence[Row], shown: Sequence[int]) -> list[float]:
    """Where the stacked bars begin and end, negative shares left of zero."""
    sides = [[value.mean for row in rows if (value := row.values[index])] for index in shown]
    low = min((math.fsum(share for share in side if share < 0) for side in sides), default=0.0)
    return [low, 100.0 - low]


def _part(row: Row, shown: Sequence[int], unit: str) -> Drawn:
    """Bars of one part of the account, one for each side."""
    style, label = part_style(row.name), safe(part_label(row.name, unit))
    shares = [value.mean if (value := row.values[index]) else 0.0 for index in shown]
    return {
        "type": "bar",
        "x": shares,
        "y": [f"<b>{letter(index)}</b>" for index in shown],
        "orientation": "h",
        "name": label,
        "text": [segment_text(label, share) for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": text_color(style.color), "size": 13},
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}} <b>{label}</b> %{{x:.2f}} %<br>{safe(style.meaning)}<extra></extra>",
    }


def _has(rows: Sequence[Row], index: int) -> bool:
    return any(row.values[index] for row in rows)


def changes_figure(comparison: Comparison) -> Figure:
    """Time of every part on the other sides minus that of A in µs; the bars of a side sum to its
    change of duration.

    A single other side has the colours of the parts, several have their own.
    """
    rows = [row for row in comparison.section("time") if _matters(row, comparison)]
    others = [index for index, side in enumerate(comparison.sides) if index and side]
    several = len(others) > 1
    traces = [_changes(rows, index, SIDE_STYLES[index % len(SIDE_STYLES)]) for index in others if several]
    traces += [_changes([row], index, part_style(row.name)) for index in others if not several for row in rows]
    layout = _grouped(len(rows), len(others), "µs relative to A; left of zero is time saved")
    ends = [0.0, *(change.difference / 1e3 for row in rows for change in row.changes if change)]
    room = 0.13 * (max(ends) - min(ends) or 1.0)  # numbers are outside the bars
    layout["xaxis"] |= {"range": [min(ends) - room, max(ends) + room], "zeroline": True, "zerolinewidth": 1.5}
    return Figure(traces, layout | {"barmode": "group" if several else "relative", "showlegend": several})


def _changes(rows: Sequence[Row], index: int, style: Side | Style) -> Drawn:
    """Bars of one side, one for each of ``rows``."""
    changes = [change.difference if (change := row.changes[index]) else 0.0 for row in rows]
    return {
        "type": "bar",
        "x": [round(change / 1e3, 4) for change in changes],
        "y": [safe(part_label(row.name)) for row in rows],
        "orientation": "h",
        "name": f"{letter(index)} - A",
        "text": [amount(change, "ns", sign=True) for change in changes],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}}: %{{text}}<extra>{letter(index)} - A</extra>",
    }


def _matters(row: Row, comparison: Comparison) -> bool:
    """Whether a part moved by a two hundredth of A's time on any side."""
    took = comparison.row("launch", "duration_ns")
    whole = took.values[0].mean if took and took.values[0] else 0.0
    return any(abs(change.difference) >= whole / 200 for change in row.changes if change)


def _grouped(rows: int, sides: int, title: str) -> Drawn:
    """The layout of bars in groups, first group and first side on top."""
    return {
        "barmode": "group",
        "bargap": 0.22,
        "height": 84 + rows * max(26, 18 * sides + 8),
        "margin": {"l": 8, "r": 70, "t": 28, "b": 40},
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "xaxis": {"title": {"text": title, "standoff": 8}},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "ticksuffix": " "},
    }


def stalls_figure(comparison: Comparison) -> Figure:
    """Shares of warp samples by stall reason, the largest on any side on top."""
    rows = comparison.section("stalls")[:STALLS]
    sides = [index for index, side in enumerate(comparison.sides) if side and _has(rows, index)]
    return Figure([_stalls(rows, index) for index in sides], _grouped(len(rows), len(sides), "% of warp samples"))


def _stalls(rows: Sequence[Row], index: int) -> Drawn:
    """Bars of one side, one for each stall reason."""
    style = SIDE_STYLES[index % len(SIDE_STYLES)]
    shares = [value.mean if (value := row.values[index]) else 0.0 for row in rows]
    return {
        "type": "bar",
        "x": [round(share, 3) for share in shares],
        "y": [safe(row.name.replace("_", " ")) for row in rows],
        "orientation": "h",
        "name": letter(index),
        "text": [f"{share:.1f} %" for share in shares],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}}: %{{x:.2f}} % of warp samples<extra>{letter(index)}</extra>",
    }
