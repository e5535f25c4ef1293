"""Figures of plain dictionaries, as pure functions of frames and verdicts. No figure names a theme:
the page adds it (see ``themes``).

Plotly checks each member that is set on a figure and copies all of it to make JSON, which takes ten
times as long as all else of a page. Here it does so for who asks for a member of a figure: the
tests.

Every text that comes out of a report goes through ``safe``: plotly renders some tags, and a
kernel's name is no markup.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ncubble.analysis.account.palette import ACCENT
from ncubble.analysis.account.parts import CAUSES, PARTS, part_color, part_label
from ncubble.analysis.launches.packed import PackedRows
from ncubble.text.values import duration, percent, short_name

NO_STALL = "selected"
Drawn = dict[str, Any]
"""A trace, an axis or a layout as plotly.js reads it."""
HATCH: Drawn = {"fgcolor": "rgba(255,255,255,0.3)", "size": 7, "solidity": 0.25}


class Figure:
    """Traces and a layout that are JSON as they stand. Any other attribute is that of plotly's
    figure of the same."""

    def __init__(self, traces: Sequence[Drawn], layout: Drawn) -> None:
        self._plain = {"data": list(traces), "layout": layout}

    def to_plotly_json(self) -> dict[str, Any]:
        """``data`` and ``layout``. Not a copy: do not write to it."""
        return self._plain

    @cached_property
    def checked(self) -> Any:
        """The figure as plotly's own; raises ValueError for a member that plotly does not know."""
        import plotly.graph_objects as go

        return go.Figure(self._plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.checked, name)


def filled(color: str, hatch: str) -> Drawn:
    """The marker of bars in one colour and hatch, as everywhere."""
    return {"color": color, "line": {"width": 0}, "pattern": {**HATCH, "shape": hatch, "bgcolor": color}}


def faded(color: str, alpha: float) -> str:
    """``#rrggbb`` as a translucent colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def safe(value: object) -> str:
    """Text from a report, for plotly: shown as it stands, never taken for markup."""
    return html.escape(str(value), quote=True)


def segment_text(label: str, share: float) -> str:
    """What stands in a segment of ``share`` percent: name and share, the share alone, or
    nothing."""
    if share >= 1.1 * len(label) + 2:
        return f"{label}<br><b>{share:.1f}</b>"
    return f"<b>{share:.0f}</b>" if share >= 4 else ""


def stall_bar(shares: Sequence[tuple[str, float]], limit: int = 12) -> Figure:
    """Warp samples by stall reason, largest on top; ``selected`` (a warp that issued) is green, it
    is no stall."""
    shown = list(shares[:limit])
    rest = sum(share for _, share in shares[limit:])
    if rest >= 0.05:
        shown.append((f"{len(shares) - limit} more", rest))
    names = [safe(reason.replace("_", " ")) for reason, _ in shown]
    values = [share for _, share in shown]
    good = PARTS["tensor_busy"].color
    bars: Drawn = {
        "type": "bar",
        "x": values,
        "y": names,
        "orientation": "h",
        "marker": {"color": [good if reason == NO_STALL else ACCENT for reason, _ in shown]},
        "text": [f"{value:.1f} %" for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{x:.2f} % of warp samples<extra></extra>",
    }
    layout: Drawn = {
        "height": 56 + 24 * len(shown),
        "margin": {"l": 8, "r": 56, "t": 4, "b": 40},
        "bargap": 0.25,
        "xaxis": {"title": {"text": "% of warp samples", "standoff": 8}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False, "ticksuffix": " "},
    }
    return Figure([bars], layout)


_WORDS, _NUMBERS = ("id", "name", "label", "unit", "cause", "cause_key"), ("busy", "duration_ns", "recoverable_ns")
_POINT = (*_WORDS, *_NUMBERS, "tensor", "dram")
"""Fields that a point shows."""


def utilization_data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tensor % against DRAM % of launches, one trace per cause; area of a point grows with its
    recoverable idle time.

    ``data`` and ``layout``, JSON-ready: with thousands of points, plotly's objects cost more than
    all the rest. Launches that lack either number are counted below the figure by the page, not
    drawn.
    """
    drawn = PackedRows.of(rows).picked(_POINT)
    return {
        "data": point_traces(
            [row for row in drawn if None not in (row["tensor"], row["dram"])], "dram", "tensor", point_text
        ),
        "layout": {
            **scatter_layout(),
            "xaxis": {"title": {"text": "DRAM throughput, % of peak"}, "range": [-2, 102], "automargin": True},
            "yaxis": {"title": {"text": "tensor pipe active, % of peak"}, "range": [-3, 103], "automargin": True},
        },
    }


def point_traces(
    rows: Sequence[Mapping[str, Any]], across: str, up: str, words: Callable[[Mapping[str, Any]], str]
) -> list[dict[str, Any]]:
    """A trace of points per cause: ``across`` and ``up`` name the fields, ``words`` says what
    hovering shows."""
    largest = max((row.get("recoverable_ns") or 0.0 for row in rows), default=0.0)
    traces: list[dict[str, Any]] = []
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row["cause_key"]), []).append(row)
    for cause, group in groups.items():
        traces.append(
            {
                "type": "scatter",
                "x": [row[across] for row in group],
                "y": [row[up] for row in group],
                "mode": "markers",
                "name": safe(part_label(cause)),
                "customdata": [row["id"] for row in group],
                "text": [words(row) for row in group],
                "marker": {"color": part_color(cause), **_marker(cause, group, largest)},
                "cliponaxis": False,
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def scatter_layout() -> dict[str, Any]:
    """The layout of figures with a point per launch."""
    below = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "itemsizing": "constant"}
    margin = {"l": 8, "r": 12, "t": 8, "b": 8}
    return {"margin": margin, "hovermode": "closest", "showlegend": True, "legend": below}


def _marker(cause: str, group: Sequence[Mapping[str, Any]], largest: float) -> dict[str, Any]:
    """Symbol of a cause, and sizes of its points: their area grows with recoverable time up to
    ``largest`` ns."""
    return {
        "symbol": (symbol := cause_symbol(cause)),
        "size": [_point_size(row.get("recoverable_ns"), largest) for row in group],
        "opacity": 0.85,
        "line": {"width": 2 if symbol.endswith("-open") else 1, "color": "rgba(255,255,255,0.5)"},
    }


def cause_symbol(cause: str) -> str:
    """The marker of a cause, the same wherever it is drawn."""
    return CAUSES[cause].symbol if cause in CAUSES else "asterisk-open"


def _point_size(recoverable_ns: float | None, largest: float) -> float:
    return round(9.0 + 15.0 * ((recoverable_ns or 0.0) / largest) ** 0.5, 1) if largest else 10.0


def point_text(row: Mapping[str, Any]) -> str:
    """What hovering a launch's point says, escaped for plotly."""
    lines = [f"<b>{safe(short_name(str(row['name']), 60))}</b>"]
    if row.get("label"):
        lines.append(safe(short_name(str(row["label"]), 80)))
    if row.get("unit") and row["unit"] != "tensor":
        lines.append(f"{safe(row['unit'])} busy {percent(row['busy'])}")
    lines.append(f"tensor {percent(row['tensor'])} · DRAM {percent(row['dram'])} · {duration(row['duration_ns'])}")
    lines.append(f"cause: {safe(row['cause'])}")
    return "<br>".join(lines)


def axis_name(name: str, row: int) -> str:
    """Plotly's name of the axis of the track in ``row`` (from 0): ``y``, ``y2``, …"""
    return name if row == 0 else f"{name}{row + 1}"


def domain(row: int, rows: int) -> list[float]:
    """The share of the figure's height that the track in ``row`` (from 0, at the top) takes."""
    gap = 0.14 / rows
    size = (1.0 - gap * (rows - 1)) / rows
    top = 1.0 - row * (size + gap)
    return [max(0.0, top - size), top]
