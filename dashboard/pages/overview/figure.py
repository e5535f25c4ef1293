"""The figure of the overview, which follows its table: utilization, or the roofline.

What a roofline shows is ``analysis.model.roofs``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.model import roofs
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.table import LaunchTable, remembered
from ncubble.dashboard.ui.components import counted, figure, segments
from ncubble.dashboard.ui.figures import Figure, point_text, point_traces, safe, scatter_layout, utilization_data
from ncubble.text.values import significant

_DASHES = ("solid", "dash", "dot")
ROOF_COLOR = "#7d8894"
DRAWN_AT_ONCE = 300
"""With more launches, the table comes first, and the browser asks for the figure once it is
there."""
MOST_POINTS = 2000
KINDS = {"utilization": "tensor % against DRAM %", "roofline": "roofline"}
_NEEDED = {"utilization": ("tensor", "dram"), "roofline": ("tflops", "intensity")}
_LACKS = {
    "utilization": "tensor or DRAM % not collected (--set pipeline)",
    "roofline": "FLOPs or DRAM bytes not known (FLOPs come from the run's facts, or from counters: --set full)",
}


def figure_card(table: LaunchTable, address: OverviewAddress) -> Component:
    """The card of the figure that follows the table."""
    later = len(remembered(table, address)) > DRAWN_AT_ONCE
    drawn, hint = ({"data": [], "layout": {"autosize": True}}, "Drawing.") if later else draw(table, address)
    head = [
        html.H2("Where the launches stand"),
        segments("figure-kind", KINDS.items(), address.figure, "Kind of figure"),
        html.Span("follows the table; click a point to open it", className="hint"),
    ]
    place: Any = figure(
        "scatter", Figure([], {}), "Launches of the table as points: tensor % against DRAM %, or roofline", "fill", True
    )
    kept, graph, downloads = place.children
    kept.data = drawn
    # Plotly's code takes longer to start than all else: what draws waits until the table has rows.
    waiting = dcc.Store(id="scatter-waiting", data=graph.to_plotly_json())
    place.children = [kept, waiting, html.Div(id="scatter-place", className="figure-place"), downloads]
    parts = [html.Div(head, className="card-head"), place, html.P(hint, id="scatter-hint", className="hint")]
    return html.Section(parts, className="card scatter-card")


def draw(table: LaunchTable, address: OverviewAddress) -> tuple[dict[str, Any], str]:
    """The figure of what a view lists as the page keeps it, and a line on what it leaves out."""
    rows = remembered(table, address).rows(table)
    shown, lacking = worth_drawing(rows, _NEEDED[address.figure])
    drawn = roofline_data(shown) if address.figure == "roofline" else utilization_data(shown)
    drawn["layout"]["autosize"] = True
    return drawn, left_out(address.figure, len(rows), len(shown), lacking)


def worth_drawing(rows: LaunchRows, fields: Sequence[str]) -> tuple[LaunchRows, int]:
    """Rows that hold every one of ``fields``, at most ``MOST_POINTS``, those with most recoverable
    time first kept; and how many lack one."""
    complete = np.flatnonzero(~np.isnan([rows.numbers(name) for name in fields]).any(axis=0))
    lacking = len(rows) - len(complete)
    if len(complete) > MOST_POINTS:
        recoverable = np.nan_to_num(rows.numbers("recoverable_ns")[complete])
        complete = complete[np.argsort(-recoverable, kind="stable")[:MOST_POINTS]]
    return rows.at(complete), lacking


def left_out(kind: str, listed: int, shown: int, lacking: int) -> str:
    """What the figure does not show, and why; empty where it shows all that the table lists."""
    sentences = []
    if shown + lacking < listed:
        sentences.append(f"Drawn: the {shown:,} of {listed - lacking:,} launches with the most recoverable time.")
    if lacking:
        sentences.append(f"{counted(lacking, 'launch', 'launches')} not drawn: {_LACKS[kind]}.")
    return " ".join(sentences)


def roofline_data(rows: Sequence[roofs.Row]) -> dict[str, Any]:
    """TFLOP/s over FLOP per byte, both logarithmic, with the roofs of the GPUs: ``data`` and
    ``layout``, JSON-ready.

    Every row must hold ``tflops`` and ``intensity`` (``worth_drawing``).
    """
    groups = roofs.roofs_by_gpu(rows)
    span = roofs.intensity_span(rows, groups)
    peaks = [top.peak for _, tops in groups for top in tops]
    height = roofs.padded([*(float(row["tflops"]) for row in rows), *peaks], 3, 2.2)
    return {
        "data": [*_roof_traces(groups, span), *point_traces(rows, "intensity", "tflops", _text)],
        "layout": {
            **scatter_layout(),
            "xaxis": _axis("FLOP per byte of DRAM traffic", span),
            "yaxis": _axis("TFLOP/s", height),
            "annotations": _names(groups, span),
        },
    }


def _axis(title: str, span: roofs.Span) -> dict[str, Any]:
    """A logarithmic axis, named at each decade; a short one at 2 and 5, too."""
    ends = [math.log10(end) for end in span]
    step = 1 if ends[1] - ends[0] > 2 else "D2"
    return {"title": {"text": title}, "type": "log", "range": ends, "automargin": True, "dtick": step}


def _text(row: roofs.Row) -> str:
    numbers = f"{row['tflops']:.4g} TFLOP/s · {row['intensity']:.4g} FLOP/byte"
    moved = f" · {row['dram_gbs']:.0f} GB/s" if row.get("dram_gbs") is not None else ""
    source = "FLOPs named by the run" if row.get("flops_from") == "run" else f"FLOPs from {row.get('flops_from')}"
    return f"{point_text(row)}<br>{numbers}{moved}<br>{safe(source)}"


def _roof_traces(groups: roofs.Groups, span: roofs.Span) -> list[dict[str, Any]]:
    traces = []
    low, high = span
    for place, (memory, tops) in enumerate(groups):
        if memory:
            slope = roofs.equal_ratios(low, min(roofs.ridge(memory, tops, high), high))
            peak = f"{significant(memory.peak, thousands=',')} GB/s"
            traces.append(_line(slope, [x * memory.peak / 1e3 for x in slope], memory, peak, place))
        for top in tops:
            flat = roofs.equal_ratios(1e3 * top.peak / memory.peak if memory else low, high)
            peak = f"{significant(top.peak, thousands=',')} TFLOP/s"
            traces.append(_line(flat, [top.peak] * len(flat), top, peak, place))
    return traces


def _line(x: list[float], y: list[float], roof: roofs.Roof, peak: str, place: int) -> dict[str, Any]:
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


def _names(groups: roofs.Groups, span: roofs.Span) -> list[dict[str, Any]]:
    """The name of each roof at its line, of several GPUs at the highest: compute roofs at their
    right end, DRAM below the start of its slope."""
    low, high = span
    notes, above = [], math.inf
    tops = _by_name(top for _, roofs_of in groups for top in roofs_of)
    for alike in sorted(tops, key=lambda named: -named[0].peak):
        top = alike[0]
        side = "top" if above / top.peak < CLOSE else "bottom"  # below its line, where another is close above
        notes.append(_note(high, top.peak, _name(alike, len(groups), "TFLOP/s"), "right", side))
        above = top.peak
    for alike in _by_name(memory for memory, _ in groups if memory):
        start = low * alike[-1].peak / 1e3
        notes.append(_note(low, start, _name(alike, len(groups), "GB/s"), "left", "top"))
    return notes


def _by_name(kinds: Iterable[roofs.Roof]) -> Iterable[list[roofs.Roof]]:
    """Roofs of the same name on each GPU, the highest first."""
    named: dict[str, list[roofs.Roof]] = {}
    for roof in sorted(kinds, key=lambda roof: -roof.peak):
        named.setdefault(roof.name, []).append(roof)
    return named.values()


def _name(alike: Sequence[roofs.Roof], gpus: int, unit: str) -> str:
    peaks = [(roof, significant(roof.peak, thousands=",")) for roof in alike]
    shown = [f"{safe(roof.gpu)} {peak}" if gpus > 1 else peak for roof, peak in peaks]
    return f"{safe(alike[0].name)} {', '.join(shown)} {unit}"


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
