"""How many CTAs of a kernel fit on an SM, from what the compiler says it uses and the limits of the
chip."""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.chips import Version, limits_of

WARP = 32


@dataclass(frozen=True)
class Occupancy:
    """CTAs that fit on an SM, and the percentage of its warps that they fill."""

    ctas: int
    percent: float


def occupancy(capability: tuple[int, int], threads: int, registers: int, smem: int) -> Occupancy:
    """Occupancy of a kernel with ``threads`` per CTA, ``registers`` per thread and ``smem`` bytes
    per CTA.

    Raises:
        MeasurementError: the limits of this compute capability are not known.
    """
    limits = limits_of(Version(*capability))
    warps = -(-threads // WARP)
    by_registers = limits.registers // _up(max(registers, 1) * WARP, limits.register_unit)
    by_registers = by_registers // limits.warp_unit * limits.warp_unit // warps
    by_smem = limits.smem // _up(smem + limits.reserved_smem_B, limits.smem_unit_B)
    ctas = min(limits.ctas, limits.warps // warps, by_registers, by_smem)
    return Occupancy(ctas, 100.0 * ctas * warps / limits.warps)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
