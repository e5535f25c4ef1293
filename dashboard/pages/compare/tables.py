"""Tables of the Compare page. Text from reports only ever becomes string children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label, part_style
from ncubble.analysis.compare.compare import Comparison
from ncubble.analysis.compare.sides import letter
from ncubble.analysis.compare.text import Line, headings, lines
from ncubble.analysis.details.tracks import as_percent
from ncubble.dashboard.pages.compare.figures import Sampled
from ncubble.dashboard.ui.components import swatch, table

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
        style = part_style(row.name)
        if max((value.mean for value in row.values if value), default=0.0) >= 0.05:
            text = part_label(row.name, unit)
            items.append(html.Span([swatch(style.color, style.hatch), text], title=style.meaning))
    return html.Div(items, className="legend bare")


def as_table(numbers: Component) -> Component:
    """The numbers of a figure, folded away below it."""
    return html.Details([html.Summary("View as table"), numbers], className="as-table")


def stalls_table(comparison: Comparison) -> Component:
    """Every stall reason that any side has, in percent of its warp samples."""
    sides = [index for index, side in enumerate(comparison.sides) if side]
    head = ["% of warp samples", *(letter(index) for index in sides)]
    rows = [
        [row.name.replace("_", " "), *(f"{value.mean:.1f}" if (value := row.values[i]) else "–" for i in sides)]
        for row in comparison.section("stalls")
    ]
    return table(head, rows, "Warp samples by stall reason on every side", numeric=range(1, len(head)))


def timelines_table(sampled: Sequence[Sampled]) -> Component:
    """Least, mean and most of each track while a side is active."""
    head = ["Track", "Side", "least", "mean", "most", "samples"]
    rows: list[list[Component | str]] = []
    for label in dict.fromkeys(track.label for one in sampled for track, *_ in one.window.tracks):
        for one in sampled:
            tracks = [track for track in one.window.tracks if track[0].label == label]
            rows += [_track_row(label, one, name, values, unit) for _, name, values, unit in tracks]
    return table(head, rows, "Tracks of the timelines in numbers", numeric=(2, 3, 4, 5))


def _track_row(label: str, one: Sampled, name: str, values: pd.Series, measured: str) -> list[Component | str]:
    inside = values[(values.index >= one.window.start_ns) & (values.index <= one.window.end_ns)]
    scaled, unit = as_percent(name, inside, measured)
    numbers = [f"{number:,.1f} {unit}" for number in (scaled.min(), scaled.mean(), scaled.max())]
    return [label, letter(one.side), *numbers, str(len(scaled))]
