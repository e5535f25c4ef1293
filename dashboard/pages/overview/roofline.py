"""Figures beside the table of launches: the roofline, and how many launches a figure may draw.

Pure: rows of ``rows.launch_row`` in, a figure out. x is measured FLOP per measured byte of DRAM, y measured TFLOP/s. A
roof is the median over the drawn launches of its GPU of what ``roofs.py`` found for each at its own clock; its hover
text says where that peak comes from. A roof that a measurement exceeds by more than 5 % is not drawn: DRAM by bytes, a
compute roof by the FLOP/s of a launch that no other roof could hold. Those of CUDA cores do not bound launches whose
tensor pipe worked, or may have.
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

from ncubble.analysis.model.roofs import DRAM, IDLE_TENSOR_PCT, is_of_cores
from ncubble.dashboard.data.rows import device_of, gpu_names
from ncubble.dashboard.ui.figures import point_text, point_traces, safe, scatter_layout

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
    """One roof of one GPU: ``peak`` in GB/s for DRAM, else in TFLOP/s; ``basis`` says where it comes from.

    ``gpu`` is what the GPU is called in the figure: by its full name only where another one shares the short name.
    """

    gpu: str
    name: str
    peak: float
    basis: str


def roofs_of(rows: Sequence[Row]) -> list[Roof]:
    """The roofs of the GPUs that most rows ran on, at most ``MOST_GPUS``, without those that a row exceeds."""
    devices = Counter(device_of(row) for row in rows)
    names, found = gpu_names(devices), list[Roof]()
    for device, _ in devices.most_common(MOST_GPUS):
        mine = [row for row in rows if device_of(row) == device]
        for name in dict.fromkeys(name for row in mine for name in row.get("roofs") or {}):
            stated = [row["roofs"][name] for row in mine if name in (row.get("roofs") or {})]
            roof = Roof(
                names[device] or "unknown GPU", name, float(median(one[0] for one in stated)), str(stated[0][1])
            )
            if not _exceeded(roof, mine):
                found.append(roof)
    return found


def _exceeded(roof: Roof, rows: Sequence[Row]) -> bool:
    """Whether a launch was faster than this roof: then what was counted, or the roof, is wrong."""
    speed = "dram_gbs" if roof.name == DRAM else "tflops"
    return any(_bounds(roof, row) and (row.get(speed) or 0.0) > OVERSHOOT * roof.peak for row in rows)


def _bounds(roof: Roof, row: Row) -> bool:
    """Whether a launch cannot be faster than ``roof``: no higher one, and no pipe without one, may have worked."""
    if roof.name == DRAM:
        return True
    peaks = {name: peak for name, (peak, _) in (row.get("roofs") or {}).items() if name != DRAM}
    tensor = row.get("tensor")
    cores_only = tensor is not None and tensor <= IDLE_TENSOR_PCT
    return peaks.get(roof.name) == max(peaks.values(), default=None) and (cores_only or not is_of_cores(roof.name))


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
Groups = Sequence[tuple[Roof | None, Sequence[Roof]]]


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
    """The DRAM roof of each GPU, if it has one, with its compute roofs."""
    by_gpu: dict[str, list[Roof]] = {}
    for roof in roofs_of(rows):
        by_gpu.setdefault(roof.gpu, []).append(roof)
    return [
        (next((one for one in mine if one.name == DRAM), None), [one for one in mine if one.name != DRAM])
        for mine in by_gpu.values()
    ]


def _span(rows: Sequence[Row], groups: Groups) -> Span:
    """The range of x: the launches and the ridges, with room on both sides."""
    values = [float(row["intensity"]) for row in rows]
    return _range(values + [1e3 * top.peak / memory.peak for memory, tops in groups if memory for top in tops], 3, 4)


def _range(values: Sequence[float], below: float, above: float) -> Span:
    """From the smallest positive value to the largest, widened by these factors."""
    positive = [value for value in values if value > 0]
    return min(positive, default=1.0) / below, max(positive, default=100.0) * above


def _roof_traces(groups: Groups, span: Span) -> list[dict[str, Any]]:
    traces = []
    low, high = span
    for place, (memory, tops) in enumerate(groups):
        if memory:
            slope = _steps(low, min(_ridge(memory, tops, high), high))
            said = f"{memory.peak:,.0f} GB/s"
            traces.append(_line(slope, [x * memory.peak / 1e3 for x in slope], memory, said, place))
        for top in tops:
            flat = _steps(1e3 * top.peak / memory.peak if memory else low, high)
            traces.append(_line(flat, [top.peak] * len(flat), top, f"{top.peak:.4g} TFLOP/s", place))
    return traces


def _ridge(memory: Roof, tops: Sequence[Roof], high: float) -> float:
    """FLOP per byte at which the DRAM roof meets the highest compute roof; ``high`` where there is none."""
    return 1e3 * max((top.peak for top in tops), default=memory.peak * high / 1e3) / memory.peak


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


CLOSE = 1.3
"""Roofs whose peaks differ by less than this factor leave no room for a name between them."""


def _names(groups: Groups, span: Span) -> list[dict[str, Any]]:
    """The name of each roof at its line: compute roofs at their right end, DRAM beside its slope."""
    several, notes = len(groups) > 1, []
    low, high = span
    for memory, tops in groups:
        prefix = f"{safe((memory or tops[0]).gpu)} " if several else ""
        above = math.inf
        for top in sorted(tops, key=lambda roof: -roof.peak):
            side = "top" if above / top.peak < CLOSE else "bottom"  # below its line, where another is close above
            notes.append(_note(high, top.peak, f"{prefix}{safe(top.name)} {top.peak:.3g} TFLOP/s", "right", side))
            above = top.peak
        if memory:
            x = (low * min(_ridge(memory, tops, high), high)) ** 0.5  # the middle of the slope on a logarithmic axis
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
