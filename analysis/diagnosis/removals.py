"""Changes that remove a part of the account, or most of it: what the evidence shows of a part, and
what its removal gains.

Rules are tried in the order of this file. To add one, write it here, and a new fact, if it needs
one, in ``account/evidence.py``. Where none applies, a part is told what usually helps
(``account/parts.toml``), without a gain.

Of kernels without tensor work, what is lost to sectors that are fetched and that nobody asked for
is no part of the account: their busiest server (DRAM, L2, or the L1 data pipe behind the LSU) is
full of work that coalesced accesses do without. The cure is bounded by the bytes that were asked
for, and by the server that is full next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.account.parts import OUTCOMES, PARTS
from ncubble.analysis.account.units import MEMORY
from ncubble.analysis.changes.change import KEPT, PREDICTED, Change, Gain, gain_of
from ncubble.chips import Chip
from ncubble.sass.opcodes import width_bytes

CONFLICTS = 0.25
"""Share of shared-memory wavefronts that are due to conflicts."""
OVERFETCH = 1.8
"""Bytes fetched per requested byte: sectors of 32 bytes of which at most half is used."""
SMALL_BOX_B = 1024
"""Below this a box is many times shorter than the 16 KB that a 128 x 64 tile of half precision
takes at once."""
SHORT_LOOP = 8
CONVERSIONS_PER_MMA = 1.0
IDLE_PRODUCER = 0.25
FEW_WARPS_PCT = 1.0
SPILLS_PCT = 1.0
"""Percent of executed instructions of local memory from which on registers count as spilled: 0.5 %
that all hit L1 cost nothing (a public report of an A6000)."""
DEEP = 6
"""Half as many stages are three still, which is depth enough for most tiles. It lies between two
known cases: a Triton GEMM of four stages that loses with fewer, and a GEMM of six that gains."""
UNTRIED_PCT = 8.0
"""A smaller part is not worth a try."""
MEMORY_ROOF_PCT = 80.0
"""DRAM throughput above which moving the data takes the time, whatever part is removed: a plain
copy reaches 86 to 90 % on an H200."""
FULL_SERVER_PCT = 60.0
"""Busy share of a server above which its work bounds the kernel (Nsight's rule ``SOLBottleneck``
calls less latency-bound)."""
NEXT_PCT = 80.0
"""Busy share of another server above which coalesced accesses would gain next to nothing, and of
issue slots above which more warps would not."""
VECTOR_B = 16
"""Bytes that a thread loads or stores at once, at most."""
KIND_OF_PART = {
    "copy_cost": "copies",
    "smem_wait": "reuse",
    "sync_wait": "barriers",
    "issue": "registers",
    "epilogue": "epilogue",
    "wave_gap": "epilogue",
    "ramp": "epilogue",
    "tail": "ctas",
    "no_cta": "ctas",
}
"""What usually helps a part; waits for data have rules of their own (``predicted.py``)."""
_Rule = Callable[[Evidence], bool]


@dataclass(frozen=True)
class Removal:
    """The ``kind`` of change that removes one of ``parts``, with its sentence, where ``applies``
    finds its evidence in a launch."""

    kind: str
    parts: tuple[str, ...]
    text: str
    applies: _Rule


REMOVALS: list[Removal] = []
"""In the order in which they are tried: most explanatory first."""


def removal(kind: str, *parts: str, text: str) -> Callable[[_Rule], _Rule]:
    """Register a rule as the evidence of a removal."""

    def register(rule: _Rule) -> _Rule:
        REMOVALS.append(Removal(kind, parts, text, rule))
        return rule

    return register


@removal(
    "copies",
    "data_wait",
    "copy_cost",
    text="copy global to shared memory asynchronously (cp.async or TMA), with at least two stages",
)
def no_async(found: Evidence) -> bool:
    """Tiles go through registers: the loads of the next tile wait for the stores of this one."""
    return found.tiled and not found.copies and not found.bulk and any(found.code.staged)


@removal(
    "copies",
    "data_wait",
    "copy_cost",
    text="fetch a tile by one TMA box, or few: boxes of whole 128-byte rows, up to 256 rows each",
)
def small_boxes(found: Evidence) -> bool:
    """TMA takes some ten cycles for a box however small it is (``evidence.BOX_CYCLES``)."""
    return found.bulk and found.box_B < SMALL_BOX_B


@removal(
    "barriers",
    "data_wait",
    "copy_cost",
    text="use more warps for copies, or TMA, where one thread requests a whole tile",
)
def role_imbalance(found: Evidence) -> bool:
    """Warps that only copy and hardly ever wait for a free slot: all others wait for them."""
    return found.producer_idle < IDLE_PRODUCER


@removal("copies", "copy_cost", text="copy 16 bytes per thread and instruction (cp.async.cg 16), or use TMA")
def narrow_copies(found: Evidence) -> bool:
    """No copy has the 16 bytes per thread that bypass L1: several instructions for the bytes of
    one."""
    return bool(found.copies) and not wide(found)


UNCOALESCED = "let neighbouring threads read neighbouring bytes: whole sectors of 32 bytes, best lines of 128"


@removal("copies", "copy_cost", "data_wait", text=UNCOALESCED)
def uncoalesced(found: Evidence) -> bool:
    """Neighbouring threads request bytes of different sectors, so more is fetched than used."""
    return found.fetched >= OVERFETCH and not found.bulk


@removal("shared_layout", "smem_wait", text="swizzle or pad the shared-memory tile, or load fragments with ldmatrix")
def bank_conflicts(found: Evidence) -> bool:
    """Lanes of a warp meet in the same banks."""
    return found.bank_conflict_share > CONFLICTS


@removal(
    "barriers",
    "sync_wait",
    text="share the work between two barriers evenly among warps, or move it to warps of its own",
)
def barrier_imbalance(found: Evidence) -> bool:
    """Some warps work on between two barriers while all others are there."""
    return found.few_warps_pct >= FEW_WARPS_PCT


@removal("registers", "issue", text="lower register use: smaller tiles per thread, or a higher register cap")
def spills(found: Evidence) -> bool:
    """Registers go to local memory and back."""
    return found.spilled_pct >= SPILLS_PCT


@removal(
    "conversion",
    "issue",
    text="convert packed (prmt, lop3, magic numbers), once per operand, or pass the narrow type to the MMA",
)
def dequant_issue(found: Evidence) -> bool:
    """Operands are converted between load and product, with as many conversions as products or
    more."""
    return found.products > 0 and found.conversions >= CONVERSIONS_PER_MMA * found.products


@removal(
    "stages",
    "epilogue",
    "wave_gap",
    text="use fewer stages, so that a second CTA fits on the SM and hides the fixed cost of a tile",
)
def occupancy_cliff(found: Evidence) -> bool:
    """Stages take the shared memory of a second CTA, which registers would allow, and which would
    hide what is lost."""
    deep = found.stages is not None and found.stages >= DEEP
    return deep and found.limits["shared_mem"] == 1.0 and found.limits["registers"] >= 2.0


@removal(
    "epilogue",
    "epilogue",
    "wave_gap",
    text="overlap the epilogue with the next tile (persistent kernel), store wider, or split K less",
)
def short_k(found: Evidence) -> bool:
    """So few iterations that the fixed cost of a tile is as long as they are."""
    return found.trips <= SHORT_LOOP


def _unfilled_pct(found: Evidence) -> float:
    """Percent of the SMs' time that CTAs of equal work leave unused in their last wave."""
    waves = found.waves if found.waves > 1.0 and found.grid >= found.sms else found.grid / found.sms
    return 100.0 * (1.0 - waves / math.ceil(waves)) if waves > 0 else 0.0


@removal(
    "ctas",
    "tail",
    "no_cta",
    text="give every SM work: more CTAs with less to do each (smaller tiles, split K); if persistent, tiles that "
    "divide evenly among SMs",
)
def too_few_ctas(found: Evidence) -> bool:
    """Not every SM gets work."""
    return found.grid < found.sms


@removal("ctas", "tail", "no_cta", text="make the grid a whole number of waves, or make the kernel persistent")
def partial_wave(found: Evidence) -> bool:
    """The last wave fills only some of the SMs, by more than what is not worth a try."""
    return _unfilled_pct(found) >= UNTRIED_PCT


def wide(found: Evidence) -> bool:
    """Whether copies have the widest instruction."""
    return bool(found.copies) and max(width_bytes(opcode) for opcode in found.copies) >= VECTOR_B


def removals_of(found: Evidence, account: BubbleAccount) -> Iterator[Change]:
    """Changes that remove parts: first those that evidence shows, with their gain, then what
    usually helps a part, without; the larger part first. Gains are unknown where moving the data
    takes the time."""
    idle, wasted = 100.0 - account.busy_pct, overfetch(found, account)
    slow_share = found.chip.slow_mma_share if found.chip else 0.0  # of MMA time that the chip's fast path saves
    full = found.dram_pct >= MEMORY_ROOF_PCT or (account.unit in MEMORY and account.busy_pct >= FULL_SERVER_PCT)
    known = not full or wasted is not None
    if wasted:
        yield change_of("copies", "unit_busy", UNCOALESCED, wasted.gain)
    if found.slow_path and (slow := account.parts["tensor_busy"] * slow_share) >= UNTRIED_PCT:
        gain = gain_of(slow, idle + slow) if known else None
        yield change_of("path", "slow_path", fast_path(found.chip), gain)
    removable = dict(account.bubbles)
    for part in {"tail", "no_cta"} & removable.keys():
        if found.imbalance_pct < removable[part]:  # of launch latency no number of CTAs gets rid
            removable[part] = found.imbalance_pct
    parts = [part for part, pct in removable.items() if PARTS[part].fix and pct >= UNTRIED_PCT]
    shown = {part: next((one for one in REMOVALS if part in one.parts and one.applies(found)), None) for part in parts}
    for part, one in shown.items():
        if one:
            latency = found.launching_pct if one.kind == "ctas" else 0.0
            gain = gain_of(removable[part], idle - latency)
            if one.kind == "ctas":  # what the same work on all SMs saves; that they share SMs may save more
                gain = replace(gain.at_most(_unfilled_pct(found)), high=gain.high)
            yield change_of(one.kind, part, one.text, gain if known else None)
    for part in (part for part, one in shown.items() if not one):
        kind = KIND_OF_PART.get(part, "")
        had = kind == "copies" and (found.bulk or wide(found))  # what that would bring
        nothing = part == "epilogue" and not found.stores and len(found.source) > 0
        if kind and not had and not nothing:
            yield change_of(kind, part, _usual(part, found))


def change_of(kind: str, part: str, text: str, gain: Gain | None = None) -> Change:
    """A change that acts on a part of the account, and what it gains; None: that is not known."""
    part = PARTS[part].cause or part if part in PARTS else part
    if gain is None:
        return Change(kind=kind, part=part, text=text)
    return Change(
        kind=kind, part=part, text=text, gain_pct=gain.expected, low=gain.low, high=gain.high, basis=PREDICTED
    )


def fast_path(chip: Chip | None) -> str:
    """What to use instead of mma.sync on a chip that has something faster."""
    reached = 1.0 - chip.slow_mma_share if chip else 1.0
    share = {0.67: "two thirds", 0.25: "a quarter"}.get(round(reached, 2), f"{100.0 * reached:.0f} %")
    return OUTCOMES["slow_path"].fix.format(fast=chip.fast_mma if chip else "", share=share)


def _usual(part: str, found: Evidence) -> str:
    """What usually helps a part, without what the kernel already does: fragments that come by
    ldmatrix."""
    known = PARTS[part]
    text = known.fix if found.tiled else known.fix_untiled or known.fix
    if part == "issue" and found.quantity("issue_pct") >= NEXT_PCT:  # more warps would only wait for slots
        text = text.removesuffix(", or more warps")
    ldmatrix = part == "smem_wait" and "mma" in found.roles and not any(op.startswith("LDSM") for op in found.opcodes)
    return f"{text}, or wider loads (ldmatrix)" if ldmatrix else text


@dataclass(frozen=True)
class Overfetch:
    """``pct``: percent of kernel time in which the busiest server works for nobody. ``gain``: what
    coalesced accesses give back, in percent of kernel time."""

    pct: float
    gain: Gain


def overfetch(found: Evidence, account: BubbleAccount) -> Overfetch | None:
    """The loss to sectors that nobody asked for; None where it does not bound the kernel, or where
    TMA copies, whose bytes nothing counts by access, are among its loads.
    """
    busy, kept = account.parts["unit_busy"], needed(found)
    needless = 1.0 - kept.get(account.unit, 1.0)
    if found.bulk or busy < FULL_SERVER_PCT or needless < 1.0 - 1.0 / OVERFETCH:
        return None
    gain = freed(found, account, kept)
    return Overfetch(busy * needless, gain) if gain else None


def freed(found: Evidence, account: BubbleAccount, kept: Mapping[str, float]) -> Gain | None:
    """What it gains that units do only so much of their work (0 to 1, by name): the kernel fills
    its next unit as far as it fills the present one. None where that is full already."""
    busy = max(found.shares.values()) if account.unit == "tensor" else account.busy_pct
    left = max(account.parts["tensor_busy"], *(pct * kept.get(unit, 1.0) for unit, pct in found.shares.items()))
    expected = 100.0 * (1.0 - left / max(busy, left))
    return Gain(expected, KEPT * expected, 100.0 - left) if left < NEXT_PCT else None


def needed(found: Evidence) -> dict[str, float]:
    """Share of a server's present work that coalesced accesses leave (0 to 1), by its name; 1 where
    the report does not tell."""
    lsu = 1.0 / max(1.0, found.fetched, found.sectors)
    return {
        "dram": found.dram_needed if found.dram_needed < 1.0 else 1.0,
        "l2": 1.0 / max(1.0, found.fetched if found.fetched > 0 else found.sectors),
        "lsu": lsu,
        "l1tex": lsu,
    }
