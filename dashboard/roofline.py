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

from ncubble.dashboard.figures import point_marker, point_text, safe, scatter_layout
from ncubble.dashboard.palette import part_color, part_label

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
    """TFLOP/s over FLOP per byte, both logarithmic, with the roofs of the GPUs; one trace per cause.

    Every row must hold ``tflops`` and ``intensity`` (``worth_drawing``).
    """
    largest = max((row.get("recoverable_ns") or 0.0 for row in rows), default=0.0)
    traces = [*_roof_traces(rows), *(_points(rows, cause, largest) for cause in dict.fromkeys(_cause(r) for r in rows))]
    figure = go.Figure(traces)
    figure.update_layout(**scatter_layout())
    figure.update_xaxes(
        title="FLOP per byte of DRAM traffic", type="log", automargin=True, **_decades(rows, "intensity")
    )
    figure.update_yaxes(title="TFLOP/s", type="log", automargin=True, **_decades(rows, "tflops", _tops(rows)))
    for note in _names(rows):
        figure.add_annotation(**note)
    return figure


def _cause(row: Row) -> str:
    return str(row["cause_key"])


def _points(rows: Sequence[Row], cause: str, largest: float) -> dict[str, Any]:
    group = [row for row in rows if row["cause_key"] == cause]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [row["intensity"] for row in group],
        "y": [row["tflops"] for row in group],
        "name": safe(part_label(cause)),
        "customdata": [row["id"] for row in group],
        "text": [_text(row) for row in group],
        "marker": {"color": part_color(cause), **point_marker(cause, group, largest)},
        "cliponaxis": False,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _text(row: Row) -> str:
    numbers = f"{row['tflops']:.4g} TFLOP/s · {row['intensity']:.4g} FLOP/byte"
    moved = f" · {row['dram_gbs']:.0f} GB/s" if row.get("dram_gbs") is not None else ""
    source = "FLOPs named by the run" if row.get("flops_from") == "run" else f"FLOPs from {row.get('flops_from')}"
    return f"{point_text(row)}<br>{numbers}{moved}<br>{safe(source)}"


def _span(rows: Sequence[Row]) -> tuple[float, float]:
    """The range of x: at least two decades around the launches and the ridges."""
    values = [float(row["intensity"]) for row in rows if row["intensity"] > 0]
    values += [1e3 * top.peak / memory.peak for memory, tops in _by_gpu(rows) for top in tops]
    low, high = min(values, default=1.0), max(values, default=100.0)
    return low / 3, high * 4


def _by_gpu(rows: Sequence[Row]) -> list[tuple[Roof, list[Roof]]]:
    """The DRAM roof of each GPU that has one, with its compute roofs."""
    roofs = roofs_of(rows)
    return [(one, [r for r in roofs if r.gpu == one.gpu and r.name != "DRAM"]) for one in roofs if one.name == "DRAM"]


def _roof_traces(rows: Sequence[Row]) -> list[dict[str, Any]]:
    if not rows:
        return []
    low, high = _span(rows)
    traces = []
    for place, (memory, tops) in enumerate(_by_gpu(rows)):
        highest = max((top.peak for top in tops), default=memory.peak * high / 1e3)
        ridge = min(1e3 * highest / memory.peak, high)
        slope = _steps(low, ridge)
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
    text = (
        f"<b>{safe(roof.gpu)}: {safe(roof.name)} roof</b><br>{peak}, median of the drawn launches<br>{safe(roof.basis)}"
    )
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


def _names(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The name of each roof at its line: compute roofs at their right end, DRAM along its slope."""
    groups, (_, high) = _by_gpu(rows), _span(rows)
    several, notes = len(groups) > 1, []
    for memory, tops in groups:
        prefix = f"{safe(memory.gpu)} " if several else ""
        for top in tops:
            text = f"{prefix}{safe(top.name)} {top.peak:.3g} TFLOP/s"
            notes.append(_note(high, top.peak, text, "right", "bottom"))
        lowest = min((top.peak for top in tops), default=1.0)
        x = 1e3 * lowest / memory.peak / 4
        notes.append(_note(x, x * memory.peak / 1e3, f"{prefix}DRAM {memory.peak:,.0f} GB/s", "right", "bottom"))
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


def _tops(rows: Sequence[Row]) -> list[float]:
    return [top.peak for _, tops in _by_gpu(rows) for top in tops]


def _decades(rows: Sequence[Row], name: str, more: Sequence[float] = ()) -> dict[str, Any]:
    """The range of a logarithmic axis in powers of ten."""
    if name == "intensity":
        low, high = _span(rows) if rows else (0.1, 1000.0)
        return {"range": [math.log10(low), math.log10(high)]}
    values = [*(float(row[name]) for row in rows if row[name] > 0), *more]
    low, high = min(values, default=0.1), max(values, default=100.0)
    return {"range": [math.log10(low / 3), math.log10(high * 2.2)]}
