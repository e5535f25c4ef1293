"""Tables of the Compare page. Text from reports only ever becomes string children."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.compare import Comparison
from ncubble.analysis.compare_text import Line, headings, lines
from ncubble.dashboard.components import swatch, table
from ncubble.dashboard.palette import PART_STYLES, part_label

SIGNS = {"better": "▲ better", "worse": "▼ worse", "changed": "◆ changed", "unclear": "? unclear"}
"""Outcomes of the noise test: a sign and a word beside the colour."""


def metric_tables(comparison: Comparison) -> list[Component]:
    """What was measured of the launches, then the account in numbers."""
    found: list[Component] = []
    titles = (("launch", "Measurement"), ("account", "% of elapsed SM cycles"))
    for section, title in titles:
        shown = lines(comparison, section)
        if shown:
            head = [title, *headings(comparison)]
            rows = [[one.name, *_cells(one, comparison)] for one in shown]
            found.append(table(head, rows, f"{title} on every side", numeric=range(1, len(head))))
    return found


def _cells(one: Line, comparison: Comparison) -> list[Component | str]:
    found: list[Component | str] = []
    for index, side in enumerate(comparison.sides):
        if side is None:
            continue
        found.append(one.values[index])
        if index:
            found.append(_change(one.changes[index], one.outcomes[index]))
    return found


def _change(text: str, outcome: str) -> Component | str:
    """A difference, and what the noise model says of it."""
    if not outcome:
        return html.Span(text, className="hint") if text == "same" else text
    return html.Span([text, html.Span(SIGNS.get(outcome, outcome), className=f"outcome {outcome.split()[0]}")])


def parts_legend(comparison: Comparison, unit: str) -> Component:
    """Colours of the parts that any side has; their meaning on hover."""
    items: list[Any] = []
    for row in comparison.section("account"):
        style = PART_STYLES.get(row.name, PART_STYLES["other"])
        if max((value.mean for value in row.values if value), default=0.0) >= 0.05:
            text = part_label(row.name, unit)
            items.append(html.Span([swatch(style.color, style.hatch), text], title=style.meaning))
    return html.Div(items, className="legend bare")
