"""Colours and hatches besides those of parts and causes (``parts``). Plain data."""

from __future__ import annotations

from dataclasses import dataclass

HATCH_NAMES = {
    "": "",
    "/": "hatch-up",
    "\\": "hatch-down",
    "x": "hatch-cross",
    "-": "hatch-flat",
    "|": "hatch-upright",
    "+": "hatch-grid",
    ".": "hatch-dots",
}
"""Hatches as classes of ``assets/ncubble.css``, for everything outside figures."""

TRACK_COLORS: dict[str, str] = {
    "tensor": "#15805f",
    "unit": "#5aa052",
    "dram": "#cf4307",
    "l2": "#c98200",
    "l1": "#b54aa2",
    "sm": "#4a90d9",
    "issue": "#8a5ecb",
    "other": "#858d96",
}
ACCENT = "#3f74c0"


@dataclass(frozen=True)
class Side:
    """How one side of a comparison is drawn: ``hatch`` in bars, ``dash`` in lines."""

    color: str
    hatch: str
    dash: str


SIDE_STYLES: tuple[Side, ...] = (
    Side("#76869a", "", "dot"),
    Side("#2f7fe0", "/", "solid"),
    Side("#d13c78", ".", "longdash"),
    Side("#158f83", "x", "dash"),
    Side("#a87400", "\\", "dashdot"),
    Side("#8a5ecb", "|", "longdashdot"),
    Side("#cf4307", "-", "longdash"),
    Side("#4f9436", "+", "dot"),
)
"""Colours of the sides of a comparison in order: grey for A, the reference."""


@dataclass(frozen=True)
class VerdictStyle:
    """How a verdict of the gate is shown: words, colour, plotly's ``symbol`` and the ``sign`` that
    looks like it."""

    label: str
    color: str
    symbol: str
    sign: str


VERDICT_STYLES: dict[str, VerdictStyle] = {
    "regressed": VerdictStyle("regressed", "#cf4307", "triangle-down", "▼"),
    "limit_broken": VerdictStyle("limit broken", "#c8453c", "triangle-down-open", "▽"),
    "not_comparable": VerdictStyle("not comparable", "#a87400", "diamond", "◆"),
    "nothing_measured": VerdictStyle("nothing measured", "#76869a", "circle-open", "○"),
    "improved": VerdictStyle("improved", "#2f7fe0", "triangle-up", "▲"),
    "pass": VerdictStyle("pass", "#15805f", "circle", "●"),
    "info": VerdictStyle("not gated", "#858d96", "square", "■"),
}
"""Styles of gate verdicts. An unknown verdict is shown like ``info``, with its own name."""


def text_color(background: str) -> str:
    """White or near-black, whichever stands out more on ``background`` (``#rrggbb``)."""
    return max(("#ffffff", "#10161d"), key=lambda text: contrast(text, background))


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours ``#rrggbb``, 1 to 21 (WCAG 2.2)."""
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
