"""Where a metric changed for good, as the Checks page shows it: lines in the figure, and words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ncubble.analysis.account.palette import VERDICT_STYLES, VerdictStyle
from ncubble.analysis.history.checked import CheckedKernel
from ncubble.analysis.history.output import changed, commits, confidence, interval, short, size
from ncubble.analysis.history.steps import LEAST_POINTS
from ncubble.analysis.history.trend import Boundary, LevelShift, TrendSeries, series_of
from ncubble.dashboard.pages.checks.words import when
from ncubble.dashboard.ui.figures import safe
from ncubble.text.values import number

DIRECTIONS: dict[str, VerdictStyle] = {
    "worse": VerdictStyle("worse", VERDICT_STYLES["regressed"].color, "triangle-down", "▼"),
    "better": VerdictStyle("better", VERDICT_STYLES["improved"].color, "triangle-up", "▲"),
    "moved": VerdictStyle("moved", VERDICT_STYLES["not_comparable"].color, "diamond", "◆"),
}
BOUNDARY = VerdictStyle("new setup", VERDICT_STYLES["nothing_measured"].color, "line-ns", "┆")
_ROW, _ROWS = 15, 3
"""Pixels of a row of texts above a figure, and how many rows there are for texts that stand
close."""
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
    places = {check: place for place, check in enumerate(rows["check"])}
    found = [
        Mark(places[trend.checks[one.index].check], f"{style.sign} {size(one, trend.unit)}", style, "solid")
        for one in trend.changes
        for style in [DIRECTIONS[one.direction]]
    ]
    found += [
        Mark(places[trend.checks[one.index].check], f"new {_what(one)}", BOUNDARY, "dot") for one in trend.boundaries
    ]
    return sorted(found, key=lambda mark: mark.place)


def _what(boundary: Boundary) -> str:
    return ", ".join(what for what, _, _ in boundary.changed)


def _rows(found: Sequence[Mark], edges: np.ndarray) -> list[int]:
    """The row of each text above the figure: those that stand close go up, so that none lies on
    another."""
    whole = float(edges[-1] - edges[0]) or 1.0
    rows: list[int] = []
    for place, mark in enumerate(found):
        close = place and (edges[mark.place] - edges[found[place - 1].place]) / whole < _NEAR
        rows.append((rows[-1] + 1) % _ROWS if close else 0)
    return rows


def room_of(found: Sequence[Mark], edges: np.ndarray) -> int:
    """Pixels that the texts of ``found`` take above the figure."""
    return 4 + _ROW * (1 + max(_rows(found, edges))) if found else 0


def add_marks(figure: go.Figure, found: Sequence[Mark], edges: np.ndarray) -> None:
    """Draw ``found`` at the borders between checks (``edges``), each with its text above the
    figure."""
    for mark, row in zip(found, _rows(found, edges), strict=True):
        x, line = float(edges[mark.place]), {"color": mark.style.color, "width": 1.6, "dash": mark.dash}
        figure.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", line=line, layer="below")
        place: dict[str, Any] = {"x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": _ROW * row}
        figure.add_annotation(text=safe(mark.text), font={"size": 12}, showarrow=False, **place)


def in_words(trend: TrendSeries | None) -> str:
    """All changes in one sentence, for the figure's label and above the table."""
    if trend is None:
        return "No check holds a value."
    if trend.changes:
        count = len(trend.changes)
        times = {1: "", 2: " twice; last"}.get(count, f" {count} times; last")
        return f"The level changed for good{times} {_said(trend, trend.changes[-1])}."
    if not trend.enough:
        return f"No lasting change can be told yet: that takes {LEAST_POINTS} checks or more."
    return f"No lasting change over {len(trend.checks)} checks."


def _said(trend: TrendSeries, change: LevelShift) -> str:
    style, date = DIRECTIONS[change.direction], trend.checks[change.index].checked
    where = short(trend.checks[change.index].sha)
    at = f" at {where}" if where else ""
    return f"on {date:%Y-%m-%d}{at} by {size(change, trend.unit)} ({style.label}; confidence {confidence(change)})"


Line = tuple[VerdictStyle, str, str, str, str, str]


def lines(trend: TrendSeries) -> list[Line]:
    """(style, what, when, size, confidence, commit) of changes, boundaries and odd checks, the
    newest first."""
    found = [*_changes(trend), *_boundaries(trend), *_odd(trend)]
    return [line for _, line in sorted(found, key=lambda pair: -pair[0])]


def _changes(trend: TrendSeries) -> Iterator[tuple[int, Line]]:
    for one in trend.changes:
        style = DIRECTIONS[one.direction]
        wide = f" ({interval(one)})" if interval(one) else ""
        where = commits(trend, one) + _between(trend, one)
        yield (
            one.index,
            (
                style,
                f"level {style.label}",
                _when(trend, one.index),
                size(one, trend.unit) + wide,
                confidence(one),
                where,
            ),
        )


def _between(trend: TrendSeries, one: LevelShift) -> str:
    if one.first == one.last:
        return ""
    first, last = (short(trend.checks[place].sha) or "not collected" for place in (one.first - 1, one.last))
    return f"; it lies between {first} and {last}"


def _boundaries(trend: TrendSeries) -> Iterator[tuple[int, Line]]:
    for one in trend.boundaries:
        moved = "not told" if one.change_pct is None else f"{one.change_pct:+.2f} %"
        what = f"new {changed(one)}: what moved here is not put down to the kernel"
        yield one.index, (BOUNDARY, what, _when(trend, one.index), moved, "", _commit(trend, one.index))


def _odd(trend: TrendSeries) -> Iterator[tuple[int, Line]]:
    style = VERDICT_STYLES["nothing_measured"]
    for index in trend.odd:
        value: Any = trend.checks[index].mean
        what = "one odd check, back at the next"
        if index == len(trend.checks) - 1:
            what = "an odd check, the last: the next will tell whether it stays"
        moved = f"{value:.5g} {trend.unit}"
        yield index, (style, what, _when(trend, index), moved, "", _commit(trend, index))


def _when(trend: TrendSeries, index: int) -> str:
    return when(trend.checks[index].checked)


def _commit(trend: TrendSeries, index: int) -> str:
    return short(trend.checks[index].sha) or "not collected"
