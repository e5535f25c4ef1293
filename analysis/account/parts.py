"""Parts of the bubble account: one record each, with words, fix and colours.

Families of hue carry the meaning, so that the bar can be read without the legend: green is work,
orange is data on its way, violet is waiting for each other or for an issue slot, blue is the shape
of the launch. Neighbours also differ in hatching and in lightness, because twelve hues cannot be
told apart by every eye. All colours keep a contrast of 3:1 or more on both surfaces of the
dashboard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ncubble.analysis.account.palette import OUTCOMES, Outcome, Style


@dataclass(frozen=True, kw_only=True)
class Part(Style):
    """One part of the account.

    ``kind`` is ``work``, ``launch`` (shape of the launch, found on the timeline), ``steady``
    (shared out by warp samples) or ``rest``. ``symbol`` is plotly's marker of launches with this
    cause, ``letter`` its cell in a bar without colour. A part with a ``fix`` can be removed;
    ``cause`` is its name as a cause. ``launch_sd`` and ``gpu_sd``: standard deviation between
    launches of one process, and between GPUs of one model, in points of kernel time
    (``benchmarks/gate/proof.py``). ``fix_untiled`` is the fix of a kernel that multiplies no
    tiles, if different.
    """

    name: str
    kind: str
    symbol: str
    letter: str
    launch_sd: float
    gpu_sd: float
    fix: str = ""
    fix_untiled: str = ""
    cause: str = ""


_TAIL = Part(
    name="tail",
    label="tail",
    kind="launch",
    color="#3f74c0",
    hatch="\\",
    symbol="triangle-up",
    letter="t",
    launch_sd=0.7,
    gpu_sd=0.5,
    meaning="SMs without a CTA while others still run: a partial last wave.",
    fix="balance the last wave: grid a whole number of waves, stream-K, or a persistent kernel",
    fix_untiled="balance the last wave: grid a whole number of waves, CTAs of equal work, or a persistent kernel",
)

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(
            name="tensor_busy",
            label="tensor busy",
            kind="work",
            color="#15805f",
            symbol="circle",
            letter="█",
            launch_sd=0.1,
            gpu_sd=0.4,
            meaning="The tensor pipe is active: useful work.",
        ),
        Part(
            name="unit_busy",
            label="busiest unit busy",
            kind="work",
            color="#5aa052",
            symbol="square",
            letter="█",
            launch_sd=0.6,
            gpu_sd=0.6,
            meaning="The unit that bounds this kernel is active.",
        ),
        Part(
            name="ramp",
            label="ramp",
            kind="launch",
            color="#4a90d9",
            hatch="/",
            symbol="diamond",
            letter="r",
            launch_sd=0.3,
            gpu_sd=0.1,
            meaning="SMs wait for their first tile: launch and prologue.",
            fix="shorten the prologue, or overlap it with the previous kernel (programmatic dependent launch)",
        ),
        _TAIL,
        replace(  # ramp is short wherever SMs have no CTA for long
            _TAIL,
            name="no_cta",
            cause="tail",
            label="no CTA",
            color="#557a9a",
            hatch="x",
            symbol="triangle-down",
            letter="n",
            meaning="Ramp and tail together: SMs without a CTA. The report cannot tell them apart.",
        ),
        Part(
            name="wave_gap",
            label="wave gap",
            kind="launch",
            color="#7a8fe0",
            hatch="-",
            symbol="cross",
            letter="g",
            launch_sd=0.5,
            gpu_sd=0.2,
            meaning="Dips of the unit, mostly between CTA waves: epilogue and prologue do not overlap.",
            fix="overlap epilogue and prologue of consecutive tiles: persistent kernel with an asynchronous epilogue",
            fix_untiled="keep SMs busy while CTAs change: more resident CTAs, or a loop over the work of several",
        ),
        Part(
            name="data_wait",
            label="data wait",
            kind="steady",
            color="#cf4307",
            symbol="x",
            letter="d",
            launch_sd=0.5,
            gpu_sd=0.9,
            meaning="Latency exposed: warps wait for global memory to reach shared memory.",
            fix="keep more bytes in flight (more stages or resident CTAs), if a deeper run shows a gain",
            fix_untiled="keep more bytes in flight: several independent loads per thread before the first use, "
            "16-byte vector loads, more resident warps",
        ),
        Part(
            name="copy_cost",
            label="copy cost",
            kind="steady",
            color="#c98200",
            hatch="/",
            symbol="pentagon",
            letter="c",
            launch_sd=0.3,
            gpu_sd=0.2,
            meaning="The work of moving data: addresses, copy instructions, shared-memory writes.",
            fix="spend less on copying: wider copies, larger tiles, TMA",
            fix_untiled="spend less on moving data: 16-byte vector accesses, fewer address computations",
        ),
        Part(
            name="smem_wait",
            label="smem wait",
            kind="steady",
            color="#ad5f19",
            hatch="x",
            symbol="star",
            letter="m",
            launch_sd=0.15,
            gpu_sd=0.1,
            meaning="Waiting for shared-memory reads or bank conflicts.",
            fix="read less shared memory: larger warp or thread tiles, so that each operand serves more products",
            fix_untiled=(
                "use less shared memory: keep values in registers, exchange them by shuffles, read 16 bytes at once"
            ),
        ),
        Part(
            name="sync_wait",
            label="sync wait",
            kind="steady",
            color="#b54aa2",
            symbol="hexagon",
            letter="s",
            launch_sd=0.35,
            gpu_sd=0.2,
            meaning="Warps wait for other warps at a barrier, not for an MMA.",
            fix="synchronize fewer warps or less often: mbarriers, warp specialization",
            fix_untiled="synchronize less often: combine within a warp by shuffles first, fewer warps per CTA",
        ),
        Part(
            name="issue",
            label="issue",
            kind="steady",
            color="#8a5ecb",
            hatch="|",
            symbol="circle-open",
            letter="i",
            launch_sd=0.5,
            gpu_sd=0.2,
            meaning="Issue slots, address arithmetic, conversions, dependent latency.",
            fix="issue fewer instructions per useful one (larger warp tiles, hoisted address arithmetic), "
            "or more warps",
            fix_untiled="issue fewer instructions per useful one (vector accesses, unrolled loops, hoisted address "
            "arithmetic), or more warps",
        ),
        Part(
            name="epilogue",
            label="epilogue",
            kind="steady",
            color="#a8809a",
            hatch="+",
            symbol="square-open",
            letter="e",
            launch_sd=0.15,
            gpu_sd=0.1,
            meaning="Stores and drain at the end of a tile.",
            fix="overlap the epilogue with the next tile (persistent kernel), or store wider",
            fix_untiled="store wider and in whole sectors, or overlap stores with the loads of more resident CTAs",
        ),
        Part(
            name="other",
            label="other",
            kind="steady",
            color="#858d96",
            symbol="diamond-open",
            letter="o",
            launch_sd=0.05,
            gpu_sd=0.05,
            meaning="Remainder: time not explained by the other parts.",
        ),
        Part(
            name="idle",
            label="idle, not split",
            kind="rest",
            color="#8a6d5c",
            hatch="/",
            symbol="triangle-up-open",
            letter=".",
            launch_sd=0.7,
            gpu_sd=1.0,
            meaning="Steady idle time of reports without samples to split it.",
        ),
    )
}
"""By name, in display order."""


def _of_kind(kind: str) -> tuple[str, ...]:
    return tuple(part.name for part in PARTS.values() if part.kind == kind)


WORK, LAUNCH_SHAPE, STEADY = _of_kind("work"), _of_kind("launch"), _of_kind("steady")
"""Parts in which the unit works (all others are bubbles); parts from the timeline; parts from warp
samples."""
JOINED = "+"
"""Joins parts that an ablation can only measure together: ``data_wait+copy_cost`` if plain loads
leave no wait to remove."""
COARSE: dict[str, tuple[str, ...]] = {"idle": STEADY, "no_cta": ("ramp", "tail")}
"""Coarse parts of accounts whose report lacks the data to split them, and the parts they stand
for."""

CAUSES: dict[str, Part | Outcome] = {**PARTS, **OUTCOMES}
WAIT_COLORS = tuple(PARTS[name].color for name in ("other", "idle", "no_cta", "epilogue"))
"""Muted colours for waits of a lane; distinct from the colours of sides."""


def part_style(name: str) -> Part:
    """How a part is shown, or the first of joined ones; an unknown one is shown like ``other``."""
    return PARTS.get(name.split(JOINED)[0], PARTS["other"])


def display_order(names: Iterable[str]) -> list[str]:
    """``names`` in the account's order; unknown ones last, in their given order."""
    given = list(dict.fromkeys(names))
    return [*(name for name in PARTS if name in given), *(name for name in given if name not in PARTS)]


def part_label(name: str, unit: str = "") -> str:
    """The words for a part, joined parts or a cause; an unknown name is shown as it is, with
    spaces. ``unit`` names the busy unit."""
    if name == "unit_busy" and unit:
        return f"{unit} busy"
    labels = (CAUSES[part].label if part in CAUSES else part.replace("_", " ") for part in name.split(JOINED))
    return " and ".join(labels)


def part_color(name: str) -> str:
    """The colour of a part or cause, or of the first of joined ones; grey for what has none."""
    first = name.split(JOINED)[0]
    return (CAUSES[first].color if first in CAUSES else "") or PARTS["other"].color
