"""Finer words for a cause, where the evidence tells one: one rule each, tried in order of how much they explain."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from ncubble.analysis.account.stalls import reasons_of
from ncubble.analysis.diagnosis.facts import LaunchFacts
from ncubble.sass.opcodes import width_bytes

CONFLICTS = 0.25
"""Share of shared-memory wavefronts that only conflicts make."""
OVERFETCH = 1.8
"""Bytes fetched for each that was asked for: sectors of 32 bytes of which half is used, or worse."""
SMALL_BOX_B = 1024
"""Below this a box is many times shorter than the 16 KB that a 128 x 64 tile of half precision takes at once."""
SHORT_LOOP = 8
REREAD = 2.0
"""DRAM traffic over what must move, from which on the same data come again and again."""
CONVERSIONS_PER_MMA = 1.0
IDLE_PRODUCER = 0.25
FEW_WARPS_PCT = 1.0
SPILL_INSTRUCTIONS = 4
DEEP = 6
"""Half as many stages are three still, which is depth enough for most tiles. It lies between two known cases: a Triton
GEMM of four stages that loses with fewer, and a GEMM of six that gains."""


OF_DEPTH = ("single_buffer", "shallow_pipeline")
"""What more stages cure."""


def disease_of(cause: str, facts: LaunchFacts) -> str | None:
    """The disease behind a cause; None where nothing tells one."""
    return next((word for word, applies in RULES.get(cause, ()) if applies(facts)), None)


def no_async(facts: LaunchFacts) -> bool:
    """Tiles go through registers: the loads of the next tile wait for the stores of this one."""
    return not facts.copies and not facts.bulk and any(facts.staged)


def small_boxes(facts: LaunchFacts) -> bool:
    """TMA takes some ten cycles for a box however small it is (``sm_load.BOX_CYCLES``)."""
    return facts.bulk and facts.box_B < SMALL_BOX_B


def uncoalesced(facts: LaunchFacts) -> bool:
    """Neighbouring threads ask for bytes of different sectors, so that more is fetched than is used."""
    return facts.fetched >= OVERFETCH


def narrow_copies(facts: LaunchFacts) -> bool:
    """No copy has the 16 bytes per thread that pass L1 by: several instructions for the bytes of one."""
    return bool(facts.copies) and max(width_bytes(opcode) for opcode in facts.copies) < 16


def role_imbalance(facts: LaunchFacts) -> bool:
    """Warps that only copy, and hardly ever wait for a free slot: they are what all others wait for."""
    return producer_idle(facts) < IDLE_PRODUCER


def producer_idle(facts: LaunchFacts) -> float:
    """Share of their samples in which warps that only copy by ``cp.async`` wait for a free slot; NaN without such."""
    rows = np.array([facts.bystanders.only_copies(row) for row in range(len(facts.roles))], dtype=bool)
    samples = facts.source[reasons_of(facts.source)].to_numpy(dtype=float).sum(axis=1)
    if not len(rows) or samples[rows].sum() <= 0:
        return math.nan
    waits = np.array([bool(rows[i]) and _at_mbarrier(facts, i) for i in range(len(rows))], dtype=bool)
    return float(samples[waits].sum() / samples[rows].sum())


def _at_mbarrier(facts: LaunchFacts, row: int) -> bool:
    """Whether a row checks an mbarrier, or is the branch back to the check."""
    check = row - 1 if facts.opcodes[row].startswith("BRA") else row
    return check >= 0 and facts.opcodes[check].startswith("SYNCS.PHASECHK")


def single_buffer(facts: LaunchFacts) -> bool:
    """One stage: a tile is awaited as soon as it is asked for."""
    return bool(facts.copies or facts.bulk) and facts.stages == 1


def shallow_pipeline(facts: LaunchFacts) -> bool:
    """Several stages, and their time is shorter than the latency."""
    return bool(facts.copies or facts.bulk) and facts.stages is not None and facts.stages > 1


def bank_conflicts(facts: LaunchFacts) -> bool:
    """Lanes of a warp meet in the same banks."""
    return facts.bank_conflict_share > CONFLICTS


def barrier_imbalance(facts: LaunchFacts) -> bool:
    """Some warps work on between two barriers while all others are there."""
    rows = facts.of_few_warps() & np.array([name in ("other", "local") for name in facts.roles], dtype=bool)
    samples = _working(facts.source)
    return bool(samples.sum() > 0 and 100.0 * samples[rows].sum() >= FEW_WARPS_PCT * samples.sum())


def _working(source: pd.DataFrame) -> np.ndarray:
    return np.asarray(source[reasons_of(source)].to_numpy(dtype=float).sum(axis=1))


def spills(facts: LaunchFacts) -> bool:
    """Registers go to local memory and back."""
    return facts.roles.count("local") >= SPILL_INSTRUCTIONS


def dequant_issue(facts: LaunchFacts) -> bool:
    """Operands are converted between load and product, with as many conversions as products or more."""
    return facts.products > 0 and facts.conversions >= CONVERSIONS_PER_MMA * facts.products


def short_k(facts: LaunchFacts) -> bool:
    """So few iterations that what a tile costs once is as long as they are."""
    return facts.trips <= SHORT_LOOP


def occupancy_cliff(facts: LaunchFacts) -> bool:
    """Stages take the shared memory of a second CTA, which registers would allow, and which would hide what is lost."""
    deep = facts.stages is not None and facts.stages >= DEEP
    return deep and facts.resident["shared_mem"] == 1.0 and facts.resident["registers"] >= 2.0


def l2_thrash(facts: LaunchFacts) -> bool:
    """What must move once moves again and again: CTAs that run together share too little."""
    return facts.dram_B >= REREAD * facts.compulsory_B and not math.isnan(facts.per_mma)


def too_few_ctas(facts: LaunchFacts) -> bool:
    """Not every SM gets work."""
    return facts.ctas < facts.sms


def partial_wave(facts: LaunchFacts) -> bool:
    """The last wave fills only some of the SMs."""
    return 0.0 < facts.waves - math.floor(facts.waves) < 0.9 if not math.isnan(facts.waves) else False


Rule = tuple[str, Callable[[LaunchFacts], bool]]
_OF_COPIES: tuple[Rule, ...] = (
    ("no_async", no_async),
    ("small_boxes", small_boxes),
    ("role_imbalance", role_imbalance),
)
_BETWEEN_TILES: tuple[Rule, ...] = (("occupancy_cliff", occupancy_cliff), ("short_k", short_k))
RULES: dict[str, tuple[Rule, ...]] = {
    "data_wait": (*_OF_COPIES, ("single_buffer", single_buffer), ("shallow_pipeline", shallow_pipeline)),
    "copy_cost": (*_OF_COPIES, ("narrow_copies", narrow_copies), ("uncoalesced", uncoalesced)),
    "smem_wait": (("bank_conflicts", bank_conflicts),),
    "sync_wait": (("barrier_imbalance", barrier_imbalance),),
    "issue": (("spills", spills), ("dequant_issue", dequant_issue)),
    "epilogue": _BETWEEN_TILES,
    "wave_gap": _BETWEEN_TILES,
    "tail": (("too_few_ctas", too_few_ctas), ("partial_wave", partial_wave)),
    "memory_bound": (("l2_thrash", l2_thrash),),
}
