"""Figures of plain dictionaries.

Plotly checks each member that is set on a figure and copies all of it to make JSON, which takes ten
times as long as all else of a page. Here it does so for who asks for a member of a figure: the
tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

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


def figure_of(traces: Sequence[Drawn], layout: Drawn) -> Figure:
    """The figure of plain traces and a layout."""
    return Figure(traces, layout)


def filled(color: str, hatch: str) -> Drawn:
    """The marker of bars in one colour and hatch, as everywhere."""
    return {"color": color, "line": {"width": 0}, "pattern": {**HATCH, "shape": hatch, "bgcolor": color}}
