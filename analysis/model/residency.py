"""How many CTAs an SM holds at other depths of a ring: shared memory grows by a tile per stage."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ncubble.analysis.report.report import Launch

_LIMITS = ("registers", "warps", "blocks", "barriers")
_PER_SM = "device__attribute_max_shared_memory_per_multiprocessor"
_PER_CTA = "device__attribute_max_shared_memory_per_block_optin"
_RESERVED = "launch__shared_mem_per_block_driver"
UNIT_B = 128
"""Shared memory is allocated in multiples of this (CUDA occupancy calculator, compute capability
7.0 on)."""


@dataclass(frozen=True)
class Residency:
    """``others`` is the number of CTAs per SM by registers, warps and the like; bytes are of shared
    memory: ``used_B`` of a CTA at depth ``stages``, ``stage_B`` of one stage, ``reserved_B`` by the
    driver per CTA."""

    stages: int
    others: int
    used_B: float  # noqa: N815
    stage_B: float  # noqa: N815
    reserved_B: float  # noqa: N815
    sm_B: float  # noqa: N815
    cta_B: float  # noqa: N815

    def shared_B(self, stages: int) -> float:  # noqa: N802
        """Shared memory of a CTA at another depth, in bytes."""
        return self.used_B + (stages - self.stages) * self.stage_B

    def ctas(self, stages: int) -> int:
        """CTAs per SM at another depth; 0 where not even one fits."""
        needed = self.shared_B(stages)
        if needed > self.cta_B:
            return 0
        rounded = math.ceil((max(0.0, needed) + self.reserved_B) / UNIT_B) * UNIT_B
        return min(self.others, int(self.sm_B // rounded)) if rounded > 0 else self.others


def residency(launch: Launch, stages: int, stage_B: float) -> Residency | None:  # noqa: N803
    """Residency of one launch; None where the report lacks the limits (section ``Occupancy``)."""
    row = launch.identity
    limits = [launch.value(f"launch__occupancy_limit_{name}") for name in _LIMITS]
    known = [limit for limit in limits if limit >= 1]
    sizes = [launch.value(name) for name in (_PER_SM, _PER_CTA)]
    if not known or any(math.isnan(size) for size in sizes):
        return None
    reserved = launch.value(_RESERVED)
    used = row.smem_static_B + row.smem_dynamic_B
    return Residency(stages, int(min(known)), used, stage_B, reserved if reserved >= 0 else 0.0, sizes[0], sizes[1])
