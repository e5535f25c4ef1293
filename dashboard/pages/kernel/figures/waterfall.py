"""The account as a waterfall: from 100 % of elapsed time, one step per bubble, down to what the
unit worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ncubble.analysis.account.palette import Style
from ncubble.analysis.account.parts import WORK, display_order, part_label, part_style
from ncubble.dashboard.ui.drawn import Figure, figure_of, filled
from ncubble.dashboard.ui.figures import safe
from ncubble.text.values import duration, number

SMALLEST = 0.05
"""Percent below which a part is not drawn: its label would read 0.0 %."""
WHOLE = "#858d96"
HEIGHT_PX = 204


@dataclass(frozen=True)
class Step:
    """One bar: the part, its share in percent of elapsed time, and where its lower edge lies
    (percent)."""

    part: str
    share: float
    base: float


def parts_of(account: Mapping[str, Any]) -> list[tuple[str, float, Style]]:
    """(name, percent, style) in display order; parts below ``SMALLEST`` and unknown ones are left
    out."""
    known = [(name, number(account[name]) or 0.0) for name in display_order(account)]
    return [(name, share, part_style(name)) for name, share in known if share >= SMALLEST]


def steps(account: Mapping[str, Any]) -> list[Step]:
    """The bubbles, largest first, each beginning where the one before ended; then the work, which
    stands on 0."""
    shown = [(name, share) for name, share, _ in parts_of(account)]
    bubbles = sorted((one for one in shown if one[0] not in WORK), key=lambda one: -one[1])
    found, level = [], 100.0
    for name, share in bubbles:
        level -= share
        found.append(Step(name, share, max(0.0, level)))
    return [*found, *(Step(name, share, 0.0) for name, share in shown if name in WORK)]


def waterfall(account: Mapping[str, Any], duration_ns: float | None = None, unit: str = "") -> Figure:
    """Bars from 100 % down to the busy share of ``unit`` (in words), each with its percent, and its
    time if known."""
    drawn = [(step, part_style(step.part)) for step in steps(account)]
    whole = (Step("", 100.0, 0.0), Style("elapsed", WHOLE, "", "All SM cycles of the launch."))
    bars = [whole, *drawn]
    named = [part_label(step.part, unit) if step.part else style.label for step, style in bars]
    places = [safe(wrapped(name)).replace("\n", "<br>") for name in named]
    times = [duration(duration_ns * step.share / 100.0) if duration_ns is not None else "" for step, _ in bars]
    axis = {"fixedrange": True, "automargin": True}
    return figure_of(
        [_bar(*one, at, name, took) for one, at, name, took in zip(bars, places, named, times, strict=True)],
        {
            "height": HEIGHT_PX,
            "showlegend": False,
            "bargap": 0.18,
            "margin": {"l": 8, "r": 8, "t": 22, "b": 42},
            "shapes": [_connector(index, step.base) for index, (step, _) in enumerate(drawn[:-1], 1)],
            "annotations": [_number(step, at, took) for (step, _), at, took in zip(bars, places, times, strict=True)],
            "xaxis": {"showgrid": False, "tickangle": 0, **axis},
            "yaxis": {"range": [0, 108], "ticksuffix": " %", "tickvals": [0, 25, 50, 75, 100], **axis},
        },
    )


def _bar(step: Step, style: Style, place: str, label: str, took: str) -> dict[str, Any]:
    said = f"{step.share:.2f} %" + (f", {took}" if took else "")
    return {
        "type": "bar",
        "x": [place],
        "y": [step.share],
        "base": [step.base],
        "name": safe(label),
        "customdata": [safe(step.part)],
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"<b>{safe(label)}</b> {said}<br>{safe(style.meaning)}<extra></extra>",
    }


def _number(step: Step, place: str, took: str) -> dict[str, Any]:
    """Percent and time of a step: above its bar, or below where it hangs near 100 %; in one line
    above a whole one."""
    full = step.share >= 80.0
    above = full or step.base + step.share <= 88.0
    text = f"<b>{step.share:.1f} %</b>" + (f"{' · ' if full else '<br>'}{took}" if took else "")
    return {
        "x": place,
        "y": step.base + step.share if above else step.base,
        "text": text,
        "showarrow": False,
        "yanchor": "bottom" if above else "top",
        "font": {"size": 11},
    }


def wrapped(label: str) -> str:
    """A label in two lines of about equal length where it has several words, so that twelve fit
    side by side."""
    words = label.split(" ")
    if len(words) < 2 or len(label) <= 8:
        return label
    halves = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
    first, second = min(halves, key=lambda pair: max(len(pair[0]), len(pair[1])))
    return f"{first}\n{second}"


def _connector(index: int, level: float) -> dict[str, Any]:
    """The thin line from the lower edge of bar ``index`` to the next."""
    line = {"color": WHOLE, "width": 1, "dash": "dot"}
    return {
        "type": "line",
        "xref": "x",
        "yref": "y",
        "x0": index - 0.41,
        "x1": index + 1.41,
        "y0": level,
        "y1": level,
        "line": line,
    }


def said(account: Mapping[str, Any], unit: str) -> str:
    """The waterfall in words, for those who do not see it."""
    shares: Sequence[str] = [f"{part_label(step.part, unit)} {step.share:.1f} %" for step in steps(account)]
    return f"From 100 % of elapsed SM cycles down to work: {', '.join(shares)}"
