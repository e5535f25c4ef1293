"""The account as a waterfall: a step for each bubble, from 100 % of elapsed time down to what the
unit worked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ncubble.analysis.account.palette import Style
from ncubble.analysis.account.parts import WORK, display_order, part_label, part_style
from ncubble.dashboard.ui.figures import Drawn, Figure, filled, safe
from ncubble.text.values import duration, number

SMALLEST = 0.05
"""Parts below this percent are not drawn: their label would read 0.0 %."""
WHOLE = "#858d96"
HEIGHT_PX = 204


@dataclass(frozen=True)
class Step:
    """One bar: the part, its share in percent of elapsed time (negative where the kernel is slower
    without it), and where its lower edge lies (percent)."""

    part: str
    share: float
    base: float

    @property
    def top(self) -> float:
        """Where its upper edge lies."""
        return self.base + abs(self.share)

    @property
    def end(self) -> float:
        """The level from which the next bar goes on."""
        return self.base if self.share >= 0 else self.top


def parts_of(account: Mapping[str, Any]) -> list[tuple[str, float, Style]]:
    """(name, percent, style) in display order; parts below ``SMALLEST`` are left out."""
    known = [(name, number(account[name]) or 0.0) for name in display_order(account)]
    return [(name, share, part_style(name)) for name, share in known if abs(share) >= SMALLEST]


def steps(account: Mapping[str, Any]) -> list[Step]:
    """The bubbles, largest first, each beginning where the one before ended; then the work, which
    stands on 0."""
    shares = {name: share for name, share, _ in parts_of(account)}
    bubbles = sorted((name for name in shares if name not in WORK), key=lambda name: -shares[name])
    _, *edges = accumulate((-shares[name] for name in bubbles), initial=100.0)
    lower = [max(0.0, min(edge, edge + shares[name])) for name, edge in zip(bubbles, edges, strict=True)]
    falling = [Step(name, shares[name], edge) for name, edge in zip(bubbles, lower, strict=True)]
    return [*falling, *(Step(name, share, 0.0) for name, share in shares.items() if name in WORK)]


def waterfall(account: Mapping[str, Any], duration_ns: float | None = None, unit: str = "") -> Figure:
    """Bars from 100 % down to the busy share of ``unit`` (in words), each with its percent, and its
    time if known."""
    drawn = [(step, part_style(step.part)) for step in steps(account)]
    whole = (Step("", 100.0, 0.0), Style("elapsed", WHOLE, "", "All SM cycles of the launch."))
    traces, numbers = [], []
    for step, style in (whole, *drawn):
        label = part_label(step.part, unit) if step.part else style.label
        place = safe(wrapped(label)).replace("\n", "<br>")
        time = duration(duration_ns * step.share / 100.0) if duration_ns is not None else ""
        traces.append(_bar(step, style, place, label, time))
        numbers.append(_number(step, place, time))
    axis = {"fixedrange": True, "automargin": True}
    return Figure(
        traces,
        {
            "height": HEIGHT_PX,
            "showlegend": False,
            "bargap": 0.18,
            "margin": {"l": 8, "r": 8, "t": 22, "b": 42},
            "shapes": [_connector(index, step.end) for index, (step, _) in enumerate(drawn[:-1], 1)],
            "annotations": numbers,
            "xaxis": {"showgrid": False, "tickangle": 0, **axis},
            "yaxis": {"range": [0, 108], "ticksuffix": " %", "tickvals": [0, 25, 50, 75, 100], **axis},
        },
    )


def _bar(step: Step, style: Style, place: str, label: str, time: str) -> Drawn:
    amount = f"{step.share:.2f} %" + (f", {time}" if time else "")
    return {
        "type": "bar",
        "x": [place],
        "y": [abs(step.share)],
        "base": [step.base],
        "name": safe(label),
        "customdata": [safe(step.part)],
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"<b>{safe(label)}</b> {amount}<br>{safe(style.meaning)}<extra></extra>",
    }


def _number(step: Step, place: str, time: str) -> Drawn:
    """Percent and time of a step: above its bar, or below where it hangs near 100 %; in one line
    above a whole one."""
    full = step.share >= 80.0
    above = full or step.top <= 88.0
    return {
        "x": place,
        "y": step.top if above else step.base,
        "text": f"<b>{step.share:.1f} %</b>" + (f"{' · ' if full else '<br>'}{time}" if time else ""),
        "showarrow": False,
        "yanchor": "bottom" if above else "top",
        "font": {"size": 11},
    }


def _connector(index: int, level: float) -> Drawn:
    """The thin line from the end of bar ``index`` to the next."""
    ends = {"x0": index - 0.41, "x1": index + 1.41, "y0": level, "y1": level}
    return {"type": "line", "xref": "x", "yref": "y", **ends, "line": {"color": WHOLE, "width": 1, "dash": "dot"}}


def wrapped(label: str) -> str:
    """A label in two lines of about equal length where it has several words, so that twelve fit
    side by side."""
    words = label.split(" ")
    if len(words) < 2 or len(label) <= 8:
        return label
    halves = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
    return "\n".join(min(halves, key=lambda pair: max(map(len, pair))))


def described(account: Mapping[str, Any], unit: str) -> str:
    """The waterfall in words, for those who do not see it."""
    shares = [f"{part_label(step.part, unit)} {step.share:.1f} %" for step in steps(account)]
    return f"From 100 % of elapsed SM cycles down to work: {', '.join(shares)}"
