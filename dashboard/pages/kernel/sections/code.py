"""The hottest instructions of one launch."""

from __future__ import annotations

from dash import dcc
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.kernel.sections.tables import source_table
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.ui.components import card, not_collected


def section(entry: Entry) -> Component:
    """Instructions with the most samples, each linked to its place on the Source page."""
    rows = entry.launch.source
    if rows.empty or not rows["samples"].sum() > 0:
        return card("Hottest instructions", [not_collected("warp samples per instruction", "--set source")])
    launch = entry.row["id"]
    all_of_them = dcc.Link(
        "all instructions beside their source", href=SourceAddress().of_launch(launch), className="live-only"
    )
    return card("Hottest instructions", [source_table(rows, launch), all_of_them], "by share of warp samples")
