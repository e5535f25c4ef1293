"""Figures beside the table of launches: the roofline, and how many launches a figure may draw.

Pure: rows of ``rows.launch_row`` in, a figure out. x is measured FLOP per measured byte of DRAM, y measured TFLOP/s. A
roof is the median over the drawn launches of its GPU of what ``roofs.py`` found for each at its own clock; its hover
text says where that peak comes from. A roof that a measurement exceeds by more than 5 % is not drawn.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import plotly.graph_objects as go

from ncubble.dashboard.figures import point_text, point_traces, safe, scatter_layout

MOST_POINTS = 2000
MOST_GPUS = 3
OVERSHOOT = 1.05
_DASHES = ("solid", "dash", "dot")
ROOF_COLOR = "#7d8894"
Row = Mapping[str, Any]


def worth_drawing(rows: Sequence[Row], fields: Sequence[str]) -> tuple[list[Row], int]:
    """Rows that hold every one of ``fields``, at most ``MOST_POINTS``, those with most recoverable time first kept;
    and how many lack one."""
    complete = [row for row in rows if all(row.get(name) is not None for name in fields)]
    lacking = len(rows) - len(complete)
    if len(complete) > MOST_POINTS:
        complete = heapq.nlargest(MOST_POINTS, complete, key=lambda row: row.get("recoverable_ns") or 0.0)
    return complete, lacking


@dataclass(frozen=True)
class Roof:
    """One roof of one GPU: ``peak`` in GB/s for DRAM, else in TFLOP/s; ``basis`` says where it comes from."""

    gpu: str
    name: str
    peak: float
    basis: str


def roofs_of(rows: Sequence[Row]) -> list[Roof]:
    """The roofs of the GPUs that most rows ran on, at most ``MOST_GPUS``, without those that a row exceeds."""
    gpus = Counter(str(row.get("gpu")) for row in rows)
    found: list[Roof] = []
    for gpu, _ in gpus.most_common(MOST_GPUS):
        mine = [row for row in rows if str(row.get("gpu")) == gpu]
        for name in dict.fromkeys(name for row in mine for name in row.get("roofs") or {}):
            stated = [row["roofs"][name] for row in mine if name in (row.get("roofs") or {})]
            roof = Roof(gpu, name, float(median(one[0] for one in stated)), str(stated[0][1]))
            if not _exceeded(roof, mine):
                found.append(roof)
    return found


def _exceeded(roof: Roof, rows: Sequence[Row]) -> bool:
    """Whether a launch was faster than its memory's roof: then bytes or the roof are wrong."""
    return roof.name == "DRAM" and any((row.get("dram_gbs") or 0.0) > OVERSHOOT * roof.peak for row in rows)


def roofline(rows: Sequence[Row]) -> go.Figure:
    """``roofline_data`` as a figure of plotly."""
    return go.Figure(roofline_data(rows))


def roofline_data(rows: Sequence[Row]) -> dict[str, Any]:
    """TFLOP/s over FLOP per byte, both logarithmic, with the roofs of the GPUs: ``data`` and ``layout``, JSON-ready.

    Every row must hold ``tflops`` and ``intensity`` (``worth_drawing``).
    """
    groups = _by_gpu(rows)
    span = _span(rows, groups)
    peaks = [top.peak for _, tops in groups for top in tops]
    height = _range([*(float(row["tflops"]) for row in rows), *peaks], 3, 2.2)
    return {
        "data": [*_roof_traces(groups, span), *point_traces(rows, "intensity", "tflops", _text)],
        "layout": {
            **scatter_layout(),
            "xaxis": _axis("FLOP per byte of DRAM traffic", span),
            "yaxis": _axis("TFLOP/s", height),
            "annotations": _names(groups, span),
        },
    }


Span = tuple[float, float]
Groups = Sequence[tuple[Roof, Sequence[Roof]]]


def _axis(title: str, span: Span) -> dict[str, Any]:
    """A logarithmic axis, named at each decade; a short one at 2 and 5, too."""
    ends = [math.log10(end) for end in span]
    step = 1 if ends[1] - ends[0] > 2 else "D2"
    return {"title": {"text": title}, "type": "log", "range": ends, "automargin": True, "dtick": step}


def _text(row: Row) -> str:
    numbers = f"{row['tflops']:.4g} TFLOP/s · {row['intensity']:.4g} FLOP/byte"
    moved = f" · {row['dram_gbs']:.0f} GB/s" if row.get("dram_gbs") is not None else ""
    source = "FLOPs named by the run" if row.get("flops_from") == "run" else f"FLOPs from {row.get('flops_from')}"
    return f"{point_text(row)}<br>{numbers}{moved}<br>{safe(source)}"


def _by_gpu(rows: Sequence[Row]) -> Groups:
    """The DRAM roof of each GPU that has one, with its compute roofs."""
    roofs = roofs_of(rows)
    return [(one, [r for r in roofs if r.gpu == one.gpu and r.name != "DRAM"]) for one in roofs if one.name == "DRAM"]


def _span(rows: Sequence[Row], groups: Groups) -> Span:
    """The range of x: the launches and the ridges, with room on both sides."""
    values = [float(row["intensity"]) for row in rows]
    return _range(values + [1e3 * top.peak / memory.peak for memory, tops in groups for top in tops], 3, 4)


def _range(values: Sequence[float], below: float, above: float) -> Span:
    """From the smallest positive value to the largest, widened by these factors."""
    positive = [value for value in values if value > 0]
    return min(positive, default=1.0) / below, max(positive, default=100.0) * above


def _roof_traces(groups: Groups, span: Span) -> list[dict[str, Any]]:
    traces = []
    low, high = span
    for place, (memory, tops) in enumerate(groups):
        highest = max((top.peak for top in tops), default=memory.peak * high / 1e3)
        slope = _steps(low, min(1e3 * highest / memory.peak, high))
        traces.append(_line(slope, [x * memory.peak / 1e3 for x in slope], memory, f"{memory.peak:,.0f} GB/s", place))
        for top in tops:
            flat = _steps(1e3 * top.peak / memory.peak, high)
            traces.append(_line(flat, [top.peak] * len(flat), top, f"{top.peak:.4g} TFLOP/s", place))
    return traces


def _steps(low: float, high: float, count: int = 12) -> list[float]:
    """Points from ``low`` to ``high`` at equal ratios, so that a line can be hovered anywhere."""
    ratio = max(high / low, 1.0)
    return [low * ratio ** (index / (count - 1)) for index in range(count)]


def _line(x: list[float], y: list[float], roof: Roof, peak: str, place: int) -> dict[str, Any]:
    name = f"<b>{safe(roof.gpu)}: {safe(roof.name)} roof</b>"
    text = f"{name}<br>{peak}, median of the drawn launches<br>{safe(roof.basis)}"
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": f"{safe(roof.gpu)} {safe(roof.name)}",
        "showlegend": False,
        "line": {"color": ROOF_COLOR, "width": 1.6, "dash": _DASHES[place % len(_DASHES)]},
        "hovertemplate": f"{text}<extra></extra>",
    }


def _names(groups: Groups, span: Span) -> list[dict[str, Any]]:
    """The name of each roof at its line: compute roofs at their right end, DRAM beside its slope."""
    several, notes = len(groups) > 1, []
    low, high = span
    for memory, tops in groups:
        prefix = f"{safe(memory.gpu)} " if several else ""
        for top in tops:
            notes.append(_note(high, top.peak, f"{prefix}{safe(top.name)} {top.peak:.3g} TFLOP/s", "right", "bottom"))
        ridge = 1e3 * max((top.peak for top in tops), default=memory.peak * high / 1e3) / memory.peak
        x = (low * min(ridge, high)) ** 0.5  # the middle of the slope on a logarithmic axis
        notes.append(_note(x, x * memory.peak / 1e3, f"{prefix}DRAM {memory.peak:,.0f} GB/s ", "right", "bottom"))
    return notes


def _note(x: float, y: float, text: str, xanchor: str, yanchor: str) -> dict[str, Any]:
    return {
        "x": math.log10(x),
        "y": math.log10(y),
        "text": text,
        "xanchor": xanchor,
        "yanchor": yanchor,
        "showarrow": False,
        "font": {"size": 11},
    }
