"""Why no SM worked, as a run of ``ncubble streams`` tells it beside its lanes: a table per
device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.streams.causes import CAUSES
from ncubble.analysis.traces.run import read_trace_facts
from ncubble.dashboard.ui.components import table
from ncubble.text.values import duration

MOST_DEVICES = 16
_HEAD = ["No SM works because of", "Time", "Of the run", "Gaps", "What helps"]


def idle_tables(folder: Path) -> list[Component]:
    """Time without work on the SMs by cause; nothing for a run that tells none, as one of warps."""
    devices = read_trace_facts(folder).get("devices")
    blocks: list[Component] = []
    for device in devices[:MOST_DEVICES] if isinstance(devices, list) else []:
        try:
            title, rows = _rows(device)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        blocks += [html.H3(title), table(_HEAD, rows, title, (1, 2, 3))]
    return [html.Div(blocks, className="lane-table")] if blocks else []


def _rows(device: dict[str, Any]) -> tuple[str, list[list[Any]]]:
    """Title and rows of a device; raises KeyError, TypeError, ValueError or OverflowError for what
    no recorder told."""
    span = float(device["span_us"])
    rows: list[list[Any]] = []
    for one in device["causes"]:
        cause, us = CAUSES[one["cause"]], float(one["us"])
        share = f"{100 * us / span:.1f} %" if span > 0 else "-"
        rows.append([cause.title, duration(1e3 * us), share, f"{int(one['gaps']):,}", cause.remedy])
    name = str(device.get("name") or "")[:80]
    return f"Idle SMs of {name}" if name else "Idle SMs", rows
