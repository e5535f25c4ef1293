"""Colours, hatchings and words of the bubble account, defined once. Plain data: the terminal report uses them, too.

Families of hue carry the meaning, so that the bar can be read without the legend: green is work, orange is data on its
way, violet is waiting for each other or for an issue slot, blue is the shape of the launch. Neighbours also differ in
hatching and in lightness, because twelve hues cannot be told apart by every eye. All of them keep a contrast of 3:1 or
more against both the light and the dark surface of the dashboard.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """How one part of the account is shown: ``color`` as ``#rrggbb``, ``hatch`` as a plotly pattern shape or empty."""

    label: str
    color: str
    hatch: str
    meaning: str


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
"""Hatches as classes of ``assets/ncubble.css``, for what no figure draws."""

PART_STYLES: dict[str, Part] = {
    "tensor_busy": Part("tensor busy", "#15805f", "", "The tensor pipe is active: the work this kernel exists for."),
    "unit_busy": Part("busiest unit busy", "#5aa052", "", "The unit that bounds this kernel is active."),
    "ramp": Part("ramp", "#4a90d9", "/", "SMs wait for their first tile: launch and prologue."),
    "tail": Part("tail", "#3f74c0", "\\", "SMs without a CTA while others still run: a partial last wave."),
    "no_cta": Part(
        "no CTA", "#557a9a", "x", "Ramp and tail together: SMs without a CTA. The report cannot tell them apart."
    ),
    "wave_gap": Part(
        "wave gap", "#7a8fe0", "-", "Dips of the unit, mostly between CTA waves: epilogue and prologue do not overlap."
    ),
    "data_wait": Part(
        "data wait", "#cf4307", "", "Latency exposed: warps wait for global memory to reach shared memory."
    ),
    "copy_cost": Part(
        "copy cost", "#c98200", "/", "The work of moving data: addresses, copy instructions, shared-memory writes."
    ),
    "smem_wait": Part("smem wait", "#ad5f19", "x", "Waiting for shared-memory reads or bank conflicts."),
    "sync_wait": Part("sync wait", "#b54aa2", "", "Warps wait for other warps at a barrier, not for an MMA."),
    "issue": Part("issue", "#8a5ecb", "|", "Issue slots, address arithmetic, conversions, dependent latency."),
    "epilogue": Part("epilogue", "#a8809a", "+", "Stores and drain at the end of a tile."),
    "other": Part("other", "#858d96", "", "The named remainder: time that no part above explains."),
    "idle": Part("idle, not split", "#8a6d5c", "/", "Steady idle time that the report has no samples to share out."),
}

WORK_PARTS = ("tensor_busy", "unit_busy")
"""Parts that are work; every other part is a bubble."""

CAUSE_WORDS: dict[str, str] = {
    "none": "saturated",
    "memory_bound": "memory-bound",
    "slow_path": "slow MMA path",
    "no_tensor_work": "no tensor work",
    "tiny_launch": "tiny launch",
    "unknown": "unknown",
}
"""Causes that are not parts of the account, in words."""

GOOD_CAUSES = ("none", "memory_bound")
"""Causes under which idle tensor time is no bubble that a change of this kernel removes."""

TRACK_COLORS: dict[str, str] = {
    "tensor": "#15805f",
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
"""Sides of a comparison in order: grey for A, that others are held against."""


WAIT_COLORS = tuple(PART_STYLES[name].color for name in ("other", "idle", "no_cta", "epilogue"))
"""Quiet colours for what a lane waits for; none of them is that of a side."""

CAUSE_COLORS: dict[str, str] = {
    "none": PART_STYLES["tensor_busy"].color,
    "memory_bound": "#2393a8",
    "slow_path": "#c0485a",
    "no_tensor_work": "#76869a",
    "tiny_launch": "#a38a2c",
}


@dataclass(frozen=True)
class VerdictStyle:
    """How a verdict of the gate is shown: words, colour, plotly's ``symbol`` and the ``sign`` that looks like it."""

    label: str
    color: str
    symbol: str
    sign: str


VERDICT_STYLES: dict[str, VerdictStyle] = {
    "regressed": VerdictStyle("regressed", "#cf4307", "triangle-down", "▼"),
    "not_comparable": VerdictStyle("not comparable", "#a87400", "diamond", "◆"),
    "nothing_measured": VerdictStyle("nothing measured", "#76869a", "circle-open", "○"),
    "improved": VerdictStyle("improved", "#2f7fe0", "triangle-up", "▲"),
    "pass": VerdictStyle("pass", "#15805f", "circle", "●"),
    "info": VerdictStyle("not gated", "#858d96", "square", "■"),
}
"""Verdicts of the gate. An unknown one is shown like ``info``, by its own name."""


def part_label(name: str, unit: str = "") -> str:
    """The words for a part or cause; an unknown name is shown as it is, with spaces. ``unit`` names the busy unit."""
    if name == "unit_busy" and unit:
        return f"{unit} busy"
    if name in PART_STYLES:
        return PART_STYLES[name].label
    return CAUSE_WORDS.get(name, name.replace("_", " "))


def part_color(name: str) -> str:
    """The colour of a part or cause; grey for what has none."""
    if name in PART_STYLES:
        return PART_STYLES[name].color
    return CAUSE_COLORS.get(name, PART_STYLES["other"].color)


def text_color(background: str) -> str:
    """White or near-black, whichever stands out more on ``background`` (``#rrggbb``)."""
    return max(("#ffffff", "#10161d"), key=lambda text: contrast(text, background))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours ``#rrggbb``, 1 to 21 (WCAG 2.2)."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
