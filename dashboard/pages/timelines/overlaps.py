"""How long groups of lanes work at once: a sentence and tables."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.traces.concurrency import Concurrency
from ncubble.dashboard.ui.components import table
from ncubble.text.values import duration


def overlap(together: Concurrency) -> str:
    """What overlaps, in one sentence."""
    if not together.busy_ns and together.span_ns:
        return f"No GPU work is in these {duration(together.span_ns)}."
    idle = "No time is recorded"
    if span := together.span_ns:
        idle = f"Nothing runs for {100 * together.idle_ns / span:.1f} % of {duration(span)}"
    pairs = [pair for pair in together.overlaps if len(pair.what) == 2]
    if not pairs:
        return f"{idle}."
    best = max(pairs, key=lambda pair: pair.ns)
    return f"{idle}; {' and '.join(best.what)} overlap for {best.pct_of_span:.1f} %."


def overlap_tables(together: Concurrency) -> list[Component]:
    """Tables: how long each group works, and how long two or three of them do at once."""
    if not together.busy_ns:
        return []
    span = together.span_ns or 1.0
    alone = [[name, duration(ns), f"{100 * ns / span:.1f} %"] for name, ns in together.busy_ns.items()]
    blocks = [html.H3("Work by group"), table(["Group", "Work", "% of the run"], alone, "Work by group", (1, 2))]
    if together.overlaps:
        rows = [
            [" + ".join(pair.what), duration(pair.ns), f"{pair.pct_of_span:.1f} %", f"{pair.pct_of_least:.1f} %"]
            for pair in together.overlaps
        ]
        head = ["At the same time", "Time", "% of the run", "% of the less busy"]
        blocks += [html.H3("Overlap"), table(head, rows, "Overlap of groups", (1, 2, 3))]
    return [html.Div(blocks, className="lane-table")]
