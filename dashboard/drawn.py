"""Figures of plain dictionaries.

Plotly checks each member that is set on a figure, which takes ten times as long as all else of a page. The tests make
the same checks, by ``plotly.graph_objects.Figure(figure.to_dict())``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ncubble.dashboard.figures import HATCH

Drawn = dict[str, Any]
"""A trace, an axis or a layout as plotly.js reads it."""


def figure_of(traces: Sequence[Drawn], layout: Drawn) -> go.Figure:
    """The figure of plain traces and a layout."""
    return go.Figure({"data": list(traces), "layout": layout}, _validate=False)


def filled(color: str, hatch: str) -> Drawn:
    """The marker of bars in one colour and hatch, as everywhere."""
    return {"color": color, "line": {"width": 0}, "pattern": {**HATCH, "shape": hatch, "bgcolor": color}}
