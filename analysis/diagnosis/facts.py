"""Facts from the report besides the account: the evidence for diseases. NaN, None: unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ncubble.analysis.account.units import MEMORY, other_shares, ratio, utilization
from ncubble.analysis.model.pipeline import present_depth
from ncubble.analysis.report.frames import stall_columns
from ncubble.analysis.report.report import Launch, once_per_launch
from ncubble.chips import Chip, chip_of
from ncubble.profiling.metrics.generations import load_generations
from ncubble.sass.bystanders import Bystanders
from ncubble.sass.opcodes import role, width_bytes
from ncubble.sass.slices import staged_through_registers

WARP = 32
SECTOR_B = 32
WITH_A_FAST_PATH = ("HMMA", "IMMA")
"""MMAs of types that ``wgmma`` also supports; it has no double precision."""
CONVERSIONS = ("I2F", "I2HP")
"""Mnemonics that convert integers to floating point; conversions of 8-bit floats have ``UNPACK``.
Results that are rounded to half for the next product (attention) are no operands that came in
another type."""

FUSED = ("FFMA", "HFMA2")
ARITHMETIC = (*FUSED, "FADD", "FMUL", "HADD2", "HMUL2", "MUFU", "DADD", "DMUL", "DFMA")
LEAST_FUSED, MOSTLY = 0.25, 0.9
"""Shares of all instructions, and of arithmetic, above which multiply-adds count as a matrix
product."""


@dataclass(frozen=True)
class LaunchFacts:
    """Counters and code of one launch. ``stages`` is the depth of its ring, by its code, else the
    program's word, as ``compulsory_B`` (bytes that must move) is.

    ``fetched``: bytes that came into L1 for each byte that copies and loads asked for. ``sectors``:
    bytes of the sectors that L1 looked up for loads, likewise. ``dram_needed``: share of DRAM bytes
    (0 to 1) without those that were read and that no load asked for. ``box_B``: bytes of a TMA box.
    ``resident``: CTAs of an SM that each resource allows, by its name. ``shares``: busy percent of
    every unit but the tensor pipe.
    """

    source: pd.DataFrame
    chip: Chip | None
    duration_ns: float
    dram_pct: float
    dram_B: float  # noqa: N815
    stages: int | None
    compulsory_B: float  # noqa: N815
    ctas: float
    sms: float
    waves: float
    bank_conflict_share: float
    fetched: float
    sectors: float
    dram_needed: float
    box_B: float  # noqa: N815
    resident: dict[str, float]
    shares: dict[str, float]

    @cached_property
    def opcodes(self) -> list[str]:
        """Mnemonics of the kernel's instructions, in their order."""
        return self.source["opcode"].tolist()

    @cached_property
    def roles(self) -> list[str]:
        """What each instruction does (``opcodes.role``)."""
        return [role(opcode) for opcode in self.opcodes]

    @cached_property
    def staged(self) -> list[bool]:
        """Which instructions carry tiles from global to shared memory through registers."""
        return staged_through_registers(self.source["sass"].tolist(), self.roles)

    @cached_property
    def executed(self) -> np.ndarray:
        """Executions of each instruction, by warps; 0 where the report does not count them."""
        return np.asarray(self.source["executed"].fillna(0.0), dtype=float)

    @cached_property
    def per_mma(self) -> float:
        """Executions of the busiest MMA, by warps; NaN where there is none."""
        counts = [count for count, name in zip(self.executed, self.roles, strict=True) if name == "mma"]
        return max(counts, default=math.nan) or math.nan

    @property
    def slow_mma_share(self) -> float:
        """Share of mma.sync time that wgmma saves on this chip; 0 where it has no wgmma, or is not
        known."""
        return self.chip.slow_mma_share if self.chip else 0.0

    @property
    def slow_path(self) -> bool:
        """Whether the MMAs are such that reach less than the chip's peak."""
        mma = [opcode for opcode, name in zip(self.opcodes, self.roles, strict=True) if name == "mma"]
        return self.slow_mma_share > 0 and bool(mma) and all(opcode.startswith(WITH_A_FAST_PATH) for opcode in mma)

    @cached_property
    def copies(self) -> list[str]:
        """Mnemonics of the ``cp.async`` copies."""
        return [opcode for opcode in self.opcodes if opcode.startswith("LDGSTS")]

    @cached_property
    def bulk(self) -> bool:
        """Whether TMA copies anything into shared memory."""
        return any(opcode.startswith(("UTMALDG", "UBLKCP")) for opcode in self.opcodes)

    @cached_property
    def conversions(self) -> float:
        """Executions of all instructions that widen an operand's type, by warps."""
        counted = zip(self.executed, self.opcodes, strict=True)
        return float(sum(count for count, op in counted if op.startswith(CONVERSIONS) or "UNPACK" in op))

    @cached_property
    def products(self) -> float:
        """Executions of all MMAs, by warps."""
        return float(sum(count for count, name in zip(self.executed, self.roles, strict=True) if name == "mma"))

    @cached_property
    def core_products(self) -> bool:
        """Whether the kernel multiplies matrices without the tensor pipe, or works like one that
        does: its arithmetic is fused multiply-adds. Products of the recordings are 31 to 88 % of
        their instructions and all of their arithmetic; elsewhere they are less than 15 % of all, or
        less than 80 % of the arithmetic."""
        total, fused, arithmetic = (self._executions(*names) for names in ((), FUSED, ARITHMETIC))
        return total > 0 and fused >= LEAST_FUSED * total and fused >= MOSTLY * arithmetic

    @property
    def tiled(self) -> bool:
        """Whether the kernel multiplies tiles, on whichever pipe."""
        return "mma" in self.roles or self.core_products

    def _executions(self, *names: str) -> float:
        """Executions of all instructions whose mnemonic begins with one of ``names``, or of all, by
        warps."""
        counted = zip(self.executed, self.opcodes, strict=True)
        return float(sum(count for count, opcode in counted if not names or opcode.startswith(names)))

    @cached_property
    def _main_mma(self) -> list[int]:
        """The MMAs of the main loop: those that are executed as often as the busiest one."""
        return [i for i, name in enumerate(self.roles) if name == "mma" and self.executed[i] == self.per_mma]

    @cached_property
    def trips(self) -> float:
        """Iterations of the main loop for each pass through the code behind it; NaN where that
        cannot be told."""
        mma = self._main_mma
        stores = [i for i, name in enumerate(self.roles) if name == "store_global" and mma and i > mma[-1]]
        counts = [self.executed[i] for i in stores if self.executed[i] > 0]
        return self.per_mma / min(counts) if counts else math.nan

    def of_few_warps(self) -> np.ndarray:
        """Which instructions between the MMAs run in a branch that only some warps take: a stretch
        of other counts than the loop's, one of them at most half of it."""
        mma = self._main_mma
        rare = np.zeros(len(self.roles), dtype=bool)
        if not mma:
            return rare
        odd = (self.executed > 0) & (self.executed != self.per_mma)
        start = mma[0]
        for i in range(mma[0], mma[-1] + 2):
            if i <= mma[-1] and odd[i]:
                continue
            if i > start and (self.executed[start:i] <= 0.5 * self.per_mma).any():
                rare[start:i] = True
            start = i + 1
        return rare

    @cached_property
    def _samples(self) -> np.ndarray:
        """Warp samples of each instruction, those of all stall reasons together."""
        return np.asarray(self.source[stall_columns(self.source)].to_numpy(dtype=float).sum(axis=1))

    @cached_property
    def producer_idle(self) -> float:
        """Share of their samples in which warps that only copy by ``cp.async`` wait for a free
        slot; NaN without such."""
        rows = np.array([self.bystanders.only_copies(row) for row in range(len(self.roles))], dtype=bool)
        if not len(rows) or self._samples[rows].sum() <= 0:
            return math.nan
        waits = np.array([bool(rows[i]) and self._at_mbarrier(i) for i in range(len(rows))], dtype=bool)
        return float(self._samples[waits].sum() / self._samples[rows].sum())

    def _at_mbarrier(self, row: int) -> bool:
        """Whether a row checks an mbarrier, or is the branch back to the check."""
        check = row - 1 if self.opcodes[row].startswith("BRA") else row
        return check >= 0 and self.opcodes[check].startswith("SYNCS.PHASECHK")

    @cached_property
    def few_warps_pct(self) -> float:
        """Percent of all samples in arithmetic that only some warps do between the MMAs; NaN
        without samples."""
        rows = self.of_few_warps() & np.array([name in ("other", "local") for name in self.roles], dtype=bool)
        total = self._samples.sum()
        return float(100.0 * self._samples[rows].sum() / total) if total > 0 else math.nan

    @cached_property
    def bystanders(self) -> Bystanders:
        """What the code says of waits that hold nothing up."""
        return Bystanders(self.source["sass"].tolist(), self.opcodes, self.roles, self.staged)


@once_per_launch
def launch_facts(launch: Launch) -> LaunchFacts:
    """Collect the facts of one launch."""
    row = launch.identity
    declared = launch.declared
    source, quantities = launch.source, load_generations().quantities
    limits = {what: launch.value(f"launch__occupancy_limit_{what}") for what in ("registers", "shared_mem")}
    compulsory, asked = declared.get("bytes"), _asked_bytes(source)
    read, written = (launch.value(f"dram__bytes_{way}.sum") for way in ("read", "write"))
    return LaunchFacts(
        source=source,
        chip=chip_of(row.compute_capability),
        duration_ns=row.duration_ns,
        dram_pct=utilization(launch, MEMORY["dram"]),
        dram_B=read + written,
        stages=present_depth(launch),
        compulsory_B=float(compulsory) if isinstance(compulsory, int | float) and compulsory > 0 else math.nan,
        ctas=launch.value("launch__grid_size"),
        sms=launch.first(quantities["sms"]),
        waves=launch.value("launch__waves_per_multiprocessor"),
        bank_conflict_share=ratio(launch, "bank_conflicts"),
        fetched=_over(launch.first(quantities["fill_bytes"]), asked),
        sectors=_over(SECTOR_B * launch.first(quantities["load_sectors"]), asked),
        dram_needed=_over(min(read, asked) + written, read + written) if asked > 0 else math.nan,
        box_B=_over(launch.first(quantities["tma_bytes"]), launch.first(quantities["tma"])),
        resident=limits,
        shares=other_shares(launch),
    )


def _asked_bytes(source: pd.DataFrame) -> float:
    """Bytes that copies, global loads and loads of spilled registers ask for, if all lanes are
    on."""
    counts = source["executed"].fillna(0.0).tolist()
    executed = zip(source["opcode"].tolist(), counts, strict=True)
    loads = ((op, n) for op, n in executed if role(op) in _LOADS and not op.startswith(_ASK_FOR_NOTHING))
    return float(sum(WARP * width_bytes(op) * n for op, n in loads))


_LOADS = ("copy", "load_global", "local")
_ASK_FOR_NOTHING = ("UTMA", "LDGDEP", "ARRIVES", "STL")


def _over(amount: float, parts: float) -> float:
    return amount / parts if parts > 0 else math.nan
