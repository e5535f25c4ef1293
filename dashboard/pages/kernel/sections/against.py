"""From one launch to its comparison with another of the same kernel."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.rows import labels
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.text import values

MOST = 16
"""Launches that are offered; the table of all launches compares any."""


def comparable(store: ReportStore, entry: Entry) -> Component | None:
    """Links that compare this launch with others of its kernel, which come first; None where there
    are none."""
    others = store.alike(entry)
    if not others:
        return None
    named = zip(others, labels([other.row for other in [*others, entry]]), strict=False)
    links = [html.Li(_link(other, label, entry)) for other, label in list(named)[:MOST]]
    if len(others) > MOST:
        links.append(html.Li(f"{len(others) - MOST} more: select rows in the table", className="hint"))
    return html.Details(
        [html.Summary("compare with another launch of this kernel"), html.Ul(links)], className="against"
    )


def _link(other: Entry, label: str, entry: Entry) -> Component:
    name = label or str(other.row["name"])
    took = values.duration(other.row["duration_ns"])
    where = f"{other.row['path']}, launch {other.number}"
    href = CompareAddress((str(other.row["id"]), str(entry.row["id"]))).href()
    return dcc.Link(f"{name} · {took}", href=href, className="button small", title=where)
