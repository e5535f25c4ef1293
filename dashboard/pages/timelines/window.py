"""The table of what lanes do in the window that is shown."""

from __future__ import annotations

import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.traces.window import tag_times
from ncubble.dashboard.ui.components import table
from ncubble.text.values import duration

MOST_ROWS = 16
_HEAD = ("Region", "Of", "Times", "Time", "% of its lanes", "Median")


def window_table(lanes: pd.DataFrame, window: tuple[float, float] | None) -> list[Component]:
    """Time by region and group in a window (ns after the first interval; None: the whole)."""
    zero, end = float(lanes["start_ns"].min()), float(lanes["end_ns"].max())
    low, high = (zero + window[0], zero + window[1]) if window else (zero, end)
    times = tag_times(lanes, low, high)
    rows = [
        [
            each.tag,
            each.group,
            f"{each.count:,}",
            duration(each.ns),
            f"{each.pct:.1f} %",
            duration(each.median_ns) if each.median_ns is not None else "–",
        ]
        for each in times[:MOST_ROWS]
    ]
    title = f"In this window of {duration(high - low)}" if window else f"In total {duration(high - low)}"
    more = [html.P(f"{len(times) - MOST_ROWS} more are left out.", className="hint")] if len(times) > MOST_ROWS else []
    return [html.Div([html.H3(title), table(_HEAD, rows, title, (2, 3, 4, 5)), *more], className="lane-table")]
