"""Where a metric changed for good, as the Checks page shows it: lines in the figure, a sentence,
and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import VERDICT_STYLES, VerdictStyle
from ncubble.analysis.history.checked import CheckedKernel
from ncubble.analysis.history.output import changed, commits, confidence, interval, short, size
from ncubble.analysis.history.steps import LEAST_POINTS
from ncubble.analysis.history.trend import LevelShift, TrendSeries, series_of
from ncubble.dashboard.pages.checks.words import when
from ncubble.dashboard.ui.components import Child, aria, sign, table
from ncubble.dashboard.ui.figures import Drawn, safe
from ncubble.text.values import NOT_COLLECTED, number

DIRECTIONS: dict[str, VerdictStyle] = {
    "worse": VerdictStyle("worse", VERDICT_STYLES["regressed"].color, "triangle-down", "▼"),
    "better": VerdictStyle("better", VERDICT_STYLES["improved"].color, "triangle-up", "▲"),
    "moved": VerdictStyle("moved", VERDICT_STYLES["not_comparable"].color, "diamond", "◆"),
}
BOUNDARY = VerdictStyle("new setup", VERDICT_STYLES["nothing_measured"].color, "line-ns", "┆")
_HEAD = ("What changed", "Since the check of", "By (95 % interval)", "Confidence", "At commit")
_ROW, _ROWS = 15, 3
"""Height in pixels of a row of texts above a figure, and the number of rows for texts that are
close together."""
_NEAR = 0.12


@dataclass(frozen=True)
class Mark:
    """A line of the figure: before which of its checks it stands, its text, and how it is drawn."""

    place: int
    text: str
    style: VerdictStyle
    dash: str


def trend_of(rows: pd.DataFrame, subject: CheckedKernel) -> TrendSeries | None:
    """The trend of one metric (``history.checked.of_metric``); None where no check has a value."""
    if not rows["mean"].map(lambda value: number(value) is not None).any():
        return None
    named = rows.assign(id=subject.kernel, label=subject.label, device=subject.device)
    return series_of(named.to_dict("records"))


def marks(rows: pd.DataFrame, trend: TrendSeries) -> list[Mark]:
    """The lines for changes and boundaries, in the order of ``rows``."""
    places, lines = {check: place for place, check in enumerate(rows["check"])}, []
    for shift in trend.changes:
        style, place = DIRECTIONS[shift.direction], places[trend.checks[shift.index].check]
        lines.append(Mark(place, f"{style.sign} {size(shift, trend.unit)}", style, "solid"))
    for boundary in trend.boundaries:
        what = ", ".join(what for what, _, _ in boundary.changed)
        lines.append(Mark(places[trend.checks[boundary.index].check], f"new {what}", BOUNDARY, "dot"))
    return sorted(lines, key=lambda mark: mark.place)


def _rows(lines: Sequence[Mark], edges: np.ndarray) -> list[int]:
    """The row of each text above the figure: those that stand close go up, so that none lies on
    another."""
    whole = float(edges[-1] - edges[0]) or 1.0
    rows: list[int] = []
    for place, mark in enumerate(lines):
        close = place and (edges[mark.place] - edges[lines[place - 1].place]) / whole < _NEAR
        rows.append((rows[-1] + 1) % _ROWS if close else 0)
    return rows


def room_of(lines: Sequence[Mark], edges: np.ndarray) -> int:
    """Pixels that the texts of ``lines`` take above the figure."""
    return 4 + _ROW * (1 + max(_rows(lines, edges))) if lines else 0


def drawn_marks(lines: Sequence[Mark], edges: np.ndarray) -> tuple[list[Drawn], list[Drawn]]:
    """``lines`` as shapes at the borders between checks (``edges``), and their texts as annotations
    above the figure."""
    shapes, texts = [], []
    text = {"y": 1, "yref": "paper", "yanchor": "bottom", "font": {"size": 12}, "showarrow": False}
    line = {"type": "line", "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    for mark, row in zip(lines, _rows(lines, edges), strict=True):
        x = float(edges[mark.place])
        look = {"color": mark.style.color, "width": 1.6, "dash": mark.dash}
        shapes.append({**line, "x0": x, "x1": x, "line": look})
        texts.append({**text, "x": x, "yshift": _ROW * row, "text": safe(mark.text)})
    return shapes, texts


def in_words(trend: TrendSeries | None) -> str:
    """All changes in one sentence, for the figure's label and above the table."""
    if trend is None:
        return "No check holds a value."
    if trend.changes:
        count = len(trend.changes)
        times = {1: "", 2: " twice; last"}.get(count, f" {count} times; last")
        shift = trend.changes[-1]
        label, check = DIRECTIONS[shift.direction].label, trend.checks[shift.index]
        at = f" at {short(check.sha)}" if short(check.sha) else ""
        moved = f"by {size(shift, trend.unit)} ({label}; confidence {confidence(shift)})"
        return f"The level changed lastingly{times} on {check.checked:%Y-%m-%d}{at} {moved}."
    if not trend.enough:
        return f"Too few checks to detect a lasting change: at least {LEAST_POINTS} are needed."
    return f"No lasting change over {len(trend.checks)} checks."


def changes(trend: TrendSeries) -> Component:
    """The sentence, and a row for every change, boundary and odd check where there is any."""
    parts: list[Component] = [html.P(in_words(trend), className="checks-trend")]
    rows: list[list[Child]] = [
        [html.Span([sign(style, **aria(hidden="true")), what]), *rest] for style, what, *rest in lines(trend)
    ]
    if rows:
        parts.append(table(_HEAD, rows, f"Lasting changes of {trend.label}", numeric=(2, 3)))
    if trend.again:
        count = "1 check" if trend.again == 1 else f"{trend.again} checks"
        parts.append(html.P(f"{count} of reports that were checked before are not counted again.", className="hint"))
    return html.Div(parts, className="checks-changes")


Line = tuple[VerdictStyle, str, str, str, str, str]


def lines(trend: TrendSeries) -> list[Line]:
    """(style, what, when, size, confidence, commit) of changes, boundaries and odd checks, the
    newest first."""
    newest_first = sorted(_events(trend), key=lambda event: -event[0])
    return [
        (style, what, when(trend.checks[index].checked), moved, sure, commit)
        for index, style, what, moved, sure, commit in newest_first
    ]


def _events(trend: TrendSeries) -> Iterator[tuple[int, VerdictStyle, str, str, str, str]]:
    """(place of the check, style, what, size, confidence, commit)."""
    for shift in trend.changes:
        style = DIRECTIONS[shift.direction]
        moved = size(shift, trend.unit) + (f" ({interval(shift)})" if interval(shift) else "")
        yield shift.index, style, f"level {style.label}", moved, confidence(shift), _between(trend, shift)
    for boundary in trend.boundaries:
        moved = "unknown" if boundary.change_pct is None else f"{boundary.change_pct:+.2f} %"
        what = f"new {changed(boundary)}: changes here are not attributed to the kernel"
        yield boundary.index, BOUNDARY, what, moved, "", _commit(trend, boundary.index)
    for index in trend.odd:
        last = index == len(trend.checks) - 1
        what = (
            "the last check is an outlier; the next shows whether the change lasts"
            if last
            else "one outlier; the next check is back at the level"
        )
        moved = f"{trend.checks[index].mean:.5g} {trend.unit}"
        yield index, VERDICT_STYLES["nothing_measured"], what, moved, "", _commit(trend, index)


def _between(trend: TrendSeries, shift: LevelShift) -> str:
    """The commits of a change, and between which it lies for sure."""
    if shift.first == shift.last:
        return commits(trend, shift)
    first, last = (_commit(trend, place) for place in (shift.first - 1, shift.last))
    return f"{commits(trend, shift)}; it is between {first} and {last}"


def _commit(trend: TrendSeries, index: int) -> str:
    return short(trend.checks[index].sha) or NOT_COLLECTED
