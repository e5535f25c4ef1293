"""Diseases: specific forms of a cause, if the evidence shows one. Each is a record made from its
rule.

They are tried in the order of this file. To add one, write its rule here, and a new fact, if it
needs one, in ``account/evidence.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncubble.analysis.account.parts import CAUSES, Outcome, Part
from ncubble.sass.opcodes import width_bytes

if TYPE_CHECKING:
    from ncubble.analysis.account.evidence import Evidence

    _Rule = Callable[[Evidence], bool]

CONFLICTS = 0.25
"""Share of shared-memory wavefronts that are due to conflicts."""
OVERFETCH = 1.8
"""Bytes fetched per requested byte: sectors of 32 bytes of which at most half is used."""
SMALL_BOX_B = 1024
"""Below this a box is many times shorter than the 16 KB that a 128 x 64 tile of half precision
takes at once."""
SHORT_LOOP = 8
REREAD = 2.0
"""DRAM traffic relative to the minimum, above which the same data are fetched repeatedly."""
CONVERSIONS_PER_MMA = 1.0
IDLE_PRODUCER = 0.25
FEW_WARPS_PCT = 1.0
SPILL_INSTRUCTIONS = 4
DEEP = 6
"""Half as many stages are three still, which is depth enough for most tiles. It lies between two
known cases: a Triton GEMM of four stages that loses with fewer, and a GEMM of six that gains."""


@dataclass(frozen=True)
class Disease:
    """A specific form of one or more causes: ``applies`` returns whether the evidence of a launch
    shows it. ``of_depth``: more pipeline stages fix it.
    """

    name: str
    causes: tuple[str, ...]
    words: str
    fix: str
    applies: Callable[[Evidence], bool]
    of_depth: bool = False


DISEASES: dict[str, Disease] = {}
"""By name, in the order in which they are tried: most explanatory first."""


def disease(*causes: str, fix: str, words: str = "", of_depth: bool = False) -> Callable[[_Rule], _Rule]:
    """Register a rule as the disease of its name, which refines ``causes``; ``words`` if they
    differ from its name."""

    def register(rule: _Rule) -> _Rule:
        name = rule.__name__
        DISEASES[name] = Disease(name, causes, words or name.replace("_", " "), fix, rule, of_depth)
        return rule

    return register


def disease_of(cause: str, found: Evidence) -> Disease | None:
    """The disease of a cause; None if the evidence shows none."""
    return next((known for known in DISEASES.values() if cause in known.causes and known.applies(found)), None)


def fix_of(cause: str, name: str | None = None, *, tiled: bool = True) -> str:
    """The fix for a cause, or for its disease ``name``; empty for an unknown cause. Without
    ``tiled``, the fix for kernels that multiply no tiles."""
    known: Disease | Part | Outcome | None = DISEASES.get(name or "") or CAUSES.get(cause)
    if isinstance(known, Part) and not tiled:
        return known.fix_untiled or known.fix
    return known.fix if known else ""


def disease_words(name: str | None) -> str:
    """A disease in words; an unknown one by its name, empty for None."""
    return DISEASES[name].words if name in DISEASES else (name or "").replace("_", " ")


@disease(
    "data_wait",
    "copy_cost",
    fix="copy global to shared memory asynchronously (cp.async or TMA), with at least two stages",
)
def no_async(found: Evidence) -> bool:
    """Tiles go through registers: the loads of the next tile wait for the stores of this one."""
    return found.tiled and not found.copies and not found.bulk and any(found.code.staged)


@disease(
    "data_wait",
    "copy_cost",
    fix="fetch a tile by one TMA box, or few: boxes of whole 128-byte rows, up to 256 rows each",
)
def small_boxes(found: Evidence) -> bool:
    """TMA takes some ten cycles for a box however small it is (``evidence.BOX_CYCLES``)."""
    return found.bulk and found.box_B < SMALL_BOX_B


@disease("data_wait", "copy_cost", fix="use more warps for copies, or TMA, where one thread requests a whole tile")
def role_imbalance(found: Evidence) -> bool:
    """Warps that only copy and hardly ever wait for a free slot: all others wait for them."""
    return found.producer_idle < IDLE_PRODUCER


@disease(
    "data_wait", fix="add a second stage, so that the next tile is in flight while this one is used", of_depth=True
)
def single_buffer(found: Evidence) -> bool:
    """One stage: a tile is awaited as soon as it is requested."""
    return bool(found.copies or found.bulk) and found.stages == 1


@disease("data_wait", fix="add stages within the limits of shared memory and occupancy", of_depth=True)
def shallow_pipeline(found: Evidence) -> bool:
    """Several stages, and their time is shorter than the latency."""
    return bool(found.copies or found.bulk) and found.stages is not None and found.stages > 1


@disease("copy_cost", fix="copy 16 bytes per thread and instruction (cp.async.cg 16), or use TMA")
def narrow_copies(found: Evidence) -> bool:
    """No copy has the 16 bytes per thread that bypass L1: several instructions for the bytes of
    one."""
    return bool(found.copies) and max(width_bytes(opcode) for opcode in found.copies) < 16


@disease(
    "copy_cost",
    "data_wait",
    fix="let neighbouring threads read neighbouring bytes: whole sectors of 32 bytes, best lines of 128",
)
def uncoalesced(found: Evidence) -> bool:
    """Neighbouring threads request bytes of different sectors, so more is fetched than used."""
    return found.fetched >= OVERFETCH and not found.bulk


@disease("smem_wait", fix="swizzle or pad the shared-memory tile, or load fragments with ldmatrix")
def bank_conflicts(found: Evidence) -> bool:
    """Lanes of a warp meet in the same banks."""
    return found.bank_conflict_share > CONFLICTS


@disease("sync_wait", fix="share the work between two barriers evenly among warps, or move it to warps of its own")
def barrier_imbalance(found: Evidence) -> bool:
    """Some warps work on between two barriers while all others are there."""
    return found.few_warps_pct >= FEW_WARPS_PCT


@disease("issue", fix="lower register use: smaller tiles per thread, or a higher register cap")
def spills(found: Evidence) -> bool:
    """Registers go to local memory and back."""
    return found.roles.count("local") >= SPILL_INSTRUCTIONS


@disease(
    "issue", fix="convert packed (prmt, lop3, magic numbers), once per operand, or pass the narrow type to the MMA"
)
def dequant_issue(found: Evidence) -> bool:
    """Operands are converted between load and product, with as many conversions as products or
    more."""
    return found.products > 0 and found.conversions >= CONVERSIONS_PER_MMA * found.products


@disease(
    "epilogue",
    "wave_gap",
    fix="use fewer stages, so that a second CTA fits on the SM and hides the fixed cost of a tile",
)
def occupancy_cliff(found: Evidence) -> bool:
    """Stages take the shared memory of a second CTA, which registers would allow, and which would
    hide what is lost."""
    deep = found.stages is not None and found.stages >= DEEP
    return deep and found.limits["shared_mem"] == 1.0 and found.limits["registers"] >= 2.0


@disease(
    "epilogue",
    "wave_gap",
    fix="overlap the epilogue with the next tile (persistent kernel), store wider, or split K less",
    words="short K",
)
def short_k(found: Evidence) -> bool:
    """So few iterations that the fixed cost of a tile is as long as they are."""
    return found.trips <= SHORT_LOOP


@disease(
    "tail",
    fix="give every SM work: more CTAs with less to do each (smaller tiles, split K); if persistent, tiles that divide "
    "evenly among SMs",
    words="too few CTAs",
)
def too_few_ctas(found: Evidence) -> bool:
    """Not every SM gets work."""
    return found.grid < found.sms


@disease("tail", fix="make the grid a whole number of waves, or make the kernel persistent")
def partial_wave(found: Evidence) -> bool:
    """The last wave fills only some of the SMs."""
    return 0.0 < found.waves - math.floor(found.waves) < 0.9 if not math.isnan(found.waves) else False


@disease(
    "none",
    fix=(
        "reduce requests to L1 and shared memory: keep reused values in registers, exchange them "
        "by shuffles, read 16 bytes per thread at once"
    ),
    words="LSU bound",
)
def lsu_bound(found: Evidence) -> bool:
    """Without products to feed, the busiest unit is the one that serves L1 and shared memory."""
    return not found.tiled and max(found.shares, key=lambda unit: found.shares[unit], default="") == "lsu"


@disease(
    "memory_bound",
    fix="let concurrent CTAs share rows and columns: order tiles in bands or groups",
    words="L2 thrash",
)
def l2_thrash(found: Evidence) -> bool:
    """The same data are moved repeatedly: concurrent CTAs share too little."""
    return found.dram_B >= REREAD * found.compulsory_B and found.products > 0
