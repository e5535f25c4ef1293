"""Warp samples by the class of the instruction that holds a warp up, as a figure."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.account.palette import text_color
from ncubble.analysis.account.parts import part_label
from ncubble.analysis.details.stall_classes import ClassRow, shown_reasons
from ncubble.dashboard.ui.drawn import Figure, figure_of, filled
from ncubble.dashboard.ui.figures import safe
from ncubble.dashboard.ui.reasons import OTHER, reason_style

REST = "other"
SMALL = 0.05
TOLD = 0.5
"""Percent of kernel time from which a part is told beside a bar."""
LABELLED = 1.5
"""The axis, in longest bars: room for what stands beside them."""


def class_figure(rows: list[ClassRow]) -> Figure:
    """A bar per class, stacked by stall reason, in percent of all warp samples; wide segments carry
    their reason.

    Beside the bar its percent, and the part of the account that most of it was given to, in percent
    of kernel time.
    """
    named, labels = shown_reasons(rows), [safe(row.label) for row in rows]
    longest = max((row.share for row in rows), default=1.0)
    layers = [(reason, [row.reasons.get(reason, 0.0) for row in rows]) for reason in named]
    layers.append((REST, [sum(value for name, value in row.reasons.items() if name not in named) for row in rows]))
    axis = {"showgrid": False, "automargin": True, "fixedrange": True}
    return figure_of(
        [_layer(reason, values, labels, longest) for reason, values in layers if sum(values) > 0],
        {
            "barmode": "stack",
            "bargap": 0.2,
            "showlegend": False,
            "height": 52 + 25 * len(rows),
            "margin": {"l": 8, "r": 8, "t": 4, "b": 40},
            "annotations": [_total(row, label) for row, label in zip(rows, labels, strict=True)],
            "xaxis": {
                "title": {"text": "% of warp samples", "standoff": 8},
                "range": [0, longest * LABELLED],
                "fixedrange": True,
            },
            "yaxis": {"autorange": "reversed", "ticksuffix": " ", **axis},
        },
    )


def _layer(reason: str, values: list[float], labels: list[str], longest: float) -> dict[str, Any]:
    style = OTHER if reason == REST else reason_style(reason)
    return {
        "type": "bar",
        "x": [round(value, 3) for value in values],
        "y": labels,
        "orientation": "h",
        "name": safe(style.label),
        "text": [_inside(style.label, value, longest) for value in values],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": text_color(style.color), "size": 11},
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}}: <b>{safe(style.label)}</b> %{{x:.1f}} %<br>{safe(style.meaning)}<extra></extra>",
    }


def _total(row: ClassRow, label: str) -> dict[str, Any]:
    place = {"x": row.share, "y": label, "xanchor": "left", "xshift": 4}
    part, given = next(iter(row.parts.items()), ("", 0.0))
    told = f" → {safe(part_label(part))} <b>{given:.1f} %</b>" if given >= TOLD else ""
    return {"text": f"{row.share:.1f} %{told}", "showarrow": False, "font": {"size": 11}, **place}


def _inside(label: str, value: float, longest: float) -> str:
    """The reason in its segment where it fits, at about 90 characters for the longest bar."""
    return safe(label) if value > 0 and 90.0 * value / longest >= len(label) + 3 else ""
