"""The hottest instructions of one launch."""

from __future__ import annotations

from dash import dcc
from dash.development.base_component import Component

from ncubble.dashboard.pages.kernel.opened import Opened
from ncubble.dashboard.pages.kernel.sections.tables import launch_address, source_table
from ncubble.dashboard.pages.source import address as source_address
from ncubble.dashboard.ui.components import card, not_collected


def section(entry: Opened) -> Component:
    """Instructions with the most samples, each linked to its place on the Source page."""
    rows = entry.source
    if rows.empty or not rows["samples"].sum() > 0:
        return card("Hottest instructions", [not_collected("warp samples per instruction", "--set source")])
    key, launch = launch_address(entry.row)
    all_of_them = dcc.Link(
        "all instructions beside their source", href=source_address.href(key, launch), className="live-only"
    )
    return card("Hottest instructions", [source_table(rows, key, launch), all_of_them], "by share of warp samples")
