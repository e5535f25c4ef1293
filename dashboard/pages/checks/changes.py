"""What changed for good over the checks of one kernel, as a sentence and a table."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.history.trend import TrendSeries
from ncubble.dashboard.pages.checks.trend import Line, in_words, lines
from ncubble.dashboard.ui.components import aria, table

_HEAD = ("What changed", "Since the check of", "By (95 % interval)", "Confidence", "At commit")


def changes(trend: TrendSeries) -> Component:
    """The sentence, and a row for every change, boundary and odd check where there is any."""
    found = lines(trend)
    parts: list[Component] = [html.P(in_words(trend), className="checks-trend")]
    if found:
        parts.append(table(_HEAD, [_row(line) for line in found], f"Lasting changes of {trend.label}", numeric=(2, 3)))
    if trend.again:
        count = "1 check" if trend.again == 1 else f"{trend.again} checks"
        parts.append(html.P(f"{count} of reports that had been checked before do not count again.", className="hint"))
    return html.Div(parts, className="checks-changes")


def _row(line: Line) -> list[Any]:
    style, what, when, moved, confidence, commit = line
    sign = html.Span(style.sign, style={"color": style.color}, className="sign", **aria(hidden="true"))
    return [html.Span([sign, what]), when, moved, confidence, commit]
