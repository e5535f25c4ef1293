"""How many CTAs of a kernel fit on an SM, from what the compiler said it uses.

Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Units of allocation: the
occupancy calculator of Nsight Compute.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.errors import MeasurementError

WARP = 32
REGISTERS_SM = 65536
REGISTER_UNIT = 256  # a warp gets registers in such portions
WARP_UNIT = 4  # registers lie in four partitions of an SM: as many warps fit in each
RESERVED_SMEM = 1024  # bytes that the system takes for each CTA
SMEM_UNIT = 128


@dataclass(frozen=True)
class SmLimits:
    """What an SM holds at most: warps, CTAs, bytes of shared memory."""

    warps: int
    ctas: int
    smem_B: int  # noqa: N815


LIMITS = {
    (8, 0): SmLimits(64, 32, 164 * 1024),
    (8, 6): SmLimits(48, 16, 100 * 1024),
    (8, 7): SmLimits(48, 16, 164 * 1024),
    (8, 9): SmLimits(48, 24, 100 * 1024),
    (9, 0): SmLimits(64, 32, 228 * 1024),
    (10, 0): SmLimits(64, 32, 228 * 1024),
    (12, 0): SmLimits(48, 24, 100 * 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """CTAs that fit on an SM, and the percentage of its warps that they fill."""

    ctas: int
    percent: float


def occupancy(capability: tuple[int, int], threads: int, registers: int, smem: int) -> Occupancy:
    """Occupancy of a kernel with ``threads`` per CTA, ``registers`` per thread and ``smem`` bytes per CTA.

    Raises:
        MeasurementError: the limits of this compute capability are not known here.
    """
    limits = LIMITS.get(capability)
    if limits is None:
        version = ".".join(map(str, capability))
        raise MeasurementError(
            f"what an SM of compute capability {version} holds is not known", "add it to kernels/device/occupancy.py"
        )
    warps = -(-threads // WARP)
    ctas = min(
        limits.ctas, limits.warps // warps, _warps_by_registers(registers) // warps, limits.smem_B // _smem_of_cta(smem)
    )
    return Occupancy(ctas, 100.0 * ctas * warps / limits.warps)


def _warps_by_registers(registers: int) -> int:
    warps = REGISTERS_SM // _up(max(registers, 1) * WARP, REGISTER_UNIT)
    return warps // WARP_UNIT * WARP_UNIT


def _smem_of_cta(smem: int) -> int:
    return _up(smem + RESERVED_SMEM, SMEM_UNIT)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
