"""``Evidence``: everything that account, model and diagnosis know of one launch, read once.

Counters come by the names of ``profiling/generations``; what they lack is NaN. What follows from
the code is computed when it is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

import numpy as np
import pandas as pd

from ncubble.analysis.account.code import CodeContext, context_of
from ncubble.analysis.account.phases import Phases, phases
from ncubble.analysis.account.rings import Ring, rings_of, together
from ncubble.analysis.account.stalls import SmLoad, classified
from ncubble.analysis.account.units import Busy, busy_of, cta_share, other_shares, quantity, ratio
from ncubble.analysis.report.frames import executions, series, stall_columns
from ncubble.analysis.report.report import Launch, once_per_launch
from ncubble.chips import Chip, chip_of
from ncubble.profiling.metrics.generations import load_generations
from ncubble.sass.bystanders import Bystanders
from ncubble.sass.opcodes import role, width_bytes
from ncubble.sass.slices import multiplied

WARP = 32
SECTOR_B = 32
WAVEFRONT_B = 128
"""Bytes per cycle through the data stage of L1 and shared memory."""
COPY_PASSES = 2
"""An LDGSTS passes the load/store unit as a request, and what comes back is written to shared
memory."""
BOX_CYCLES = 10.0
"""Cycles of TMA for a box, however small: a GEMM of boxes of 256 bytes gets one in that time
(planted_boxes, H200)."""
LIMITS = ("registers", "shared_mem", "warps", "blocks", "barriers")
"""Limits of the CTAs per SM."""
WITH_A_FAST_PATH = ("HMMA", "IMMA")
"""MMAs of types that ``wgmma`` also supports; it has no double precision."""
CONVERSIONS = ("I2F", "I2HP")
"""Mnemonics that convert integers to floating point; conversions of 8-bit floats have ``UNPACK``.
Results that are rounded to half for the next product (attention) are no operands that came in
another type."""
FUSED = ("FFMA", "HFMA2")
ARITHMETIC = (*FUSED, "FADD", "FMUL", "HADD2", "HMUL2", "MUFU", "DADD", "DMUL", "DFMA")
MULTIPLIES = (*FUSED, "DFMA", "FMUL", "HMUL2", "DMUL")
LEAST_FUSED, MOSTLY = 0.25, 0.9
"""Shares of all instructions, and of arithmetic, above which multiply-adds count as a matrix
product."""
_LOADS = ("copy", "load_global", "local")
_ASK_FOR_NOTHING = ("UTMA", "LDGDEP", "ARRIVES", "STL")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was read of one launch. NaN, None and empty stand for what the report lacks.

    ``busy`` is the unit that bounds it, ``shares`` the busy percent of every other unit but the
    tensor pipe. ``with_cta``: share of elapsed cycles in which an SM has a CTA; ``imbalance_pct``:
    percent of them in which the mean SM has none and the busiest one has. ``phases`` were found on
    ``series``. ``quantities`` by name of the generations. ``grid`` counts CTAs, ``block`` warps of
    each; ``active_warps`` are those of an SM while it has any; ``shared_B`` is the shared memory of
    a CTA, with ``reserved_B`` of the driver, of ``sm_shared_B`` and at most ``cta_shared_B``;
    ``limits``: CTAs of an SM that each resource allows. ``declared_stages`` is the program's word.
    """

    source: pd.DataFrame
    timeline: pd.DataFrame = field(default_factory=pd.DataFrame)
    launch: int = 0
    busy: Busy | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    with_cta: float = math.nan
    imbalance_pct: float = math.nan
    series: str = ""
    phases: Phases | None = None
    chip: Chip | None = None
    capability: str = ""
    duration_ns: float = math.nan
    cycles: float = math.nan
    active_cycles: float = math.nan
    quantities: Mapping[str, float] = field(default_factory=dict)
    dram_read_B: float = math.nan  # noqa: N815
    dram_written_B: float = math.nan  # noqa: N815
    grid: float = math.nan
    block: float = math.nan
    waves: float = math.nan
    active_warps: float = math.nan
    shared_B: float = math.nan  # noqa: N815
    sm_shared_B: float = math.nan  # noqa: N815
    cta_shared_B: float = math.nan  # noqa: N815
    reserved_B: float = math.nan  # noqa: N815
    limits: Mapping[str, float] = field(default_factory=dict)
    bank_conflict_share: float = math.nan
    declared_stages: int | None = None

    @property
    def unit(self) -> str:
        """The unit that bounds the launch; empty where it is not known."""
        return self.busy.unit if self.busy else ""

    @property
    def launching_pct(self) -> float:
        """Percent of kernel time in which no SM has a CTA; 0 where it is not known."""
        return max(0.0, 100.0 * (1.0 - self.with_cta) - self.imbalance_pct)  # of NaN, too

    @property
    def dram_pct(self) -> float:
        """Busy share of DRAM in percent."""
        return self.shares.get("dram", math.nan)

    @property
    def dram_B(self) -> float:  # noqa: N802
        """Bytes from and to DRAM."""
        return self.dram_read_B + self.dram_written_B

    def quantity(self, name: str) -> float:
        """A counter by its name in the generations."""
        return self.quantities.get(name, math.nan)

    @property
    def sms(self) -> float:
        """SMs of the GPU."""
        return self.quantity("sms")

    @cached_property
    def load(self) -> SmLoad:
        """Load of an SM while it has CTAs."""
        part = self.with_cta if self.with_cta > 0 else math.nan
        cycles = self.active_cycles * self.sms if self.active_cycles > 0 and self.sms > 0 else math.nan
        # Bytes that came into L1 are those of LDGSTS but for few, unless TMA copies, too.
        copied = self.quantity("fill_bytes")
        if not self.quantity("ldgsts") > 0 or self.quantity("tma") > 0:
            copied = math.nan
        return SmLoad(
            resident=self._resident(),
            busy=float(np.minimum(1.0, (self.busy.pct if self.busy else math.nan) / 100.0 / part)),
            copies=COPY_PASSES * copied / WAVEFRONT_B / cycles,
            reads=self.quantity("shared_read_wavefronts") / cycles,
            data_pipe=self.quantity("lsu_data_pipe_pct") / 100.0 / part,
            boxes=BOX_CYCLES * self.quantity("tma") / cycles,
        )

    def _resident(self) -> float:
        """CTAs of an SM at a time, as far as there are that many."""
        known = [limit for what, limit in self.limits.items() if limit > 0 and what != "barriers"]
        if not known or not self.grid > 0 or not self.sms > 0:
            return math.nan
        return max(1.0, min([*known, math.ceil(self.grid / self.sms)]))

    # Of the code with its samples.

    @cached_property
    def code(self) -> CodeContext:
        """What stands around each instruction."""
        return context_of(self.source, self.unit)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Warp samples by instruction and reason, with their part of the account
        (``stalls.classified``)."""
        return classified(self.source, self.unit, self.load)

    @cached_property
    def ring(self) -> Ring | None:
        """The rings of the launch together, by its code; None where it shows none."""
        return together(rings_of(self.source, self.grid, self.block, self.unit))

    @cached_property
    def stages(self) -> int | None:
        """Buffers of the ring, by the code, else by the program's word; None where neither says."""
        return self.ring.stages if self.ring and self.ring.stages is not None else self.declared_stages

    @cached_property
    def opcodes(self) -> list[str]:
        """Mnemonics of the kernel's instructions, in their order."""
        return self.source["opcode"].tolist()

    @cached_property
    def roles(self) -> list[str]:
        """What each instruction does (``opcodes.role``), whatever unit bounds the kernel."""
        return [role(opcode) for opcode in self.opcodes]

    @cached_property
    def executed(self) -> np.ndarray:
        """Executions of each instruction, by warps; 0 where the report does not count them."""
        return np.asarray(self.source["executed"].fillna(0.0), dtype=float)

    def executions(self, *names: str) -> float:
        """Executions of all instructions whose mnemonic begins with one of ``names``, or of all, by
        warps."""
        return float(sum(count for name, count in self._executions.items() if not names or name.startswith(names)))

    @cached_property
    def _executions(self) -> dict[str, float]:
        return executions(self.source)

    @cached_property
    def spilled_pct(self) -> float:
        """Percent of executed instructions that access local memory: spilled registers, and arrays
        that are indexed by variables."""
        total = self.executions()
        return 100.0 * self.executions("LDL", "STL") / total if total > 0 else 0.0

    @property
    def stores(self) -> float:
        """Executions of all stores to global memory, by warps; adding to memory is none."""
        return self.executions("STG", "ST.", "UTMASTG", "UBLKCP")

    @cached_property
    def slow_path(self) -> bool:
        """Whether the MMAs are such that reach less than the chip's peak."""
        mma = [opcode for opcode, name in zip(self.opcodes, self.roles, strict=True) if name == "mma"]
        slow = self.chip is not None and self.chip.slow_mma_share > 0
        return slow and bool(mma) and all(opcode.startswith(WITH_A_FAST_PATH) for opcode in mma)

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
        widening = (op.startswith(CONVERSIONS) or "UNPACK" in op for op in self._executions)
        return float(sum(compress(self._executions.values(), widening)))

    @cached_property
    def products(self) -> float:
        """Executions of all MMAs, by warps."""
        return float(sum(count for name, count in self._executions.items() if role(name) == "mma"))

    @cached_property
    def core_products(self) -> bool:
        """Whether the kernel multiplies matrices without the tensor pipe, or works like one that
        does: its arithmetic is fused multiply-adds. Products of the recordings are 31 to 88 % of
        their instructions and all of their arithmetic; elsewhere they are less than 15 % of all, or
        less than 80 % of the arithmetic."""
        total, fused, arithmetic = (self.executions(*names) for names in ((), FUSED, ARITHMETIC))
        return total > 0 and fused >= LEAST_FUSED * total and fused >= MOSTLY * arithmetic

    @cached_property
    def multiplies(self) -> bool:
        """Whether for most multiply-adds two factors were loaded: those of polynomials and filters
        have a constant, or what was computed before."""
        made = [row for row, name in enumerate(self.opcodes) if name.startswith(MULTIPLIES) and self.executed[row] > 0]
        loads = [row for row, name in enumerate(self.roles) if name in ("load_global", "load_shared")]
        both = multiplied(self.code.sass, loads, made, self.code.loop)
        return bool(2.0 * self.executed[list(both)].sum() >= self.executions(*FUSED, "DFMA"))

    @property
    def tiled(self) -> bool:
        """Whether the kernel multiplies tiles, on whichever pipe."""
        return "mma" in self.roles or self.core_products

    @cached_property
    def _main_mma(self) -> list[int]:
        """The MMAs of the main loop: those that are executed as often as the busiest one."""
        mma = [i for i, name in enumerate(self.roles) if name == "mma"]
        most = max(self.executed[mma], default=0.0)
        return [i for i in mma if self.executed[i] == most > 0]

    @cached_property
    def trips(self) -> float:
        """Iterations of the main loop for each pass through the code behind it; NaN where that
        cannot be told."""
        mma = self._main_mma
        stores = [i for i, name in enumerate(self.roles) if name == "store_global" and mma and i > mma[-1]]
        counts = [self.executed[i] for i in stores if self.executed[i] > 0]
        return float(self.executed[mma[0]] / min(counts)) if counts else math.nan

    def of_few_warps(self) -> np.ndarray:
        """Which instructions between the MMAs run in a branch that only some warps take: a stretch
        of other counts than the loop's, one of them at most half of it."""
        rare = np.zeros(len(self.roles), dtype=bool)
        if not (mma := self._main_mma):
            return rare
        most = self.executed[mma[0]]
        odd = (self.executed > 0) & (self.executed != most)
        start = mma[0]
        for i in range(mma[0], mma[-1] + 2):
            if i <= mma[-1] and odd[i]:
                continue
            if i > start and (self.executed[start:i] <= 0.5 * most).any():
                rare[start:i] = True
            start = i + 1
        return rare

    @cached_property
    def row_samples(self) -> np.ndarray:
        """Warp samples of each instruction, those of all stall reasons together."""
        return np.asarray(self.source[stall_columns(self.source)].to_numpy(dtype=float).sum(axis=1))

    @cached_property
    def producer_idle(self) -> float:
        """Share of their samples in which warps that only copy by ``cp.async`` wait for a free
        slot; NaN without such."""
        aside = Bystanders(self.source["sass"].tolist(), self.opcodes, self.roles, self.code.staged)
        rows = [row for row in range(len(self.roles)) if aside.only_copies(row)]
        waits = [row for row in rows if self._at_mbarrier(row)]
        return _over(float(self.row_samples[waits].sum()), float(self.row_samples[rows].sum()))

    def _at_mbarrier(self, row: int) -> bool:
        """Whether a row checks an mbarrier, or is the branch back to the check."""
        check = row - 1 if self.opcodes[row].startswith("BRA") else row
        return check >= 0 and self.opcodes[check].startswith("SYNCS.PHASECHK")

    @cached_property
    def few_warps_pct(self) -> float:
        """Percent of all samples in arithmetic that only some warps do between the MMAs; NaN
        without samples."""
        rows = self.of_few_warps() & np.array([name in ("other", "local") for name in self.roles], dtype=bool)
        return 100.0 * _over(float(self.row_samples[rows].sum()), float(self.row_samples.sum()))

    # Bytes that were moved for those that the code asked for.

    @cached_property
    def asked_B(self) -> float:  # noqa: N802
        """Bytes that copies, global loads and loads of spilled registers ask for, if all lanes are
        on."""
        loads = (
            (opcode, count)
            for opcode, name, count in zip(self.opcodes, self.roles, self.executed, strict=True)
            if name in _LOADS and not opcode.startswith(_ASK_FOR_NOTHING)
        )
        return float(sum(WARP * width_bytes(opcode) * count for opcode, count in loads))

    @cached_property
    def fetched(self) -> float:
        """Bytes that came into L1 for each byte that copies and loads asked for."""
        return _over(self.quantity("fill_bytes"), self.asked_B)

    @cached_property
    def sectors(self) -> float:
        """Bytes of the sectors that L1 looked up for loads, for each byte that was asked for."""
        return _over(SECTOR_B * self.quantity("load_sectors"), self.asked_B)

    @cached_property
    def dram_needed(self) -> float:
        """Share of DRAM bytes (0 to 1) without those that were read and that no load asked for."""
        needed = min(self.dram_read_B, self.asked_B) + self.dram_written_B
        return _over(needed, self.dram_B) if self.asked_B > 0 else math.nan

    @cached_property
    def box_B(self) -> float:  # noqa: N802
        """Bytes of a TMA box."""
        return _over(self.quantity("tma_bytes"), self.quantity("tma"))


@once_per_launch
def evidence(launch: Launch) -> Evidence:
    """Everything that is read of one launch."""
    row, busy, stages = launch.identity, busy_of(launch), launch.declared.get("stages")
    name, timed = find_phases(launch.timeline, busy) if busy else ("", None)
    with_cta, active = cta_share(launch), launch.value("sm__cycles_active.avg")
    return Evidence(
        source=launch.source,
        timeline=launch.timeline,
        launch=launch.number,
        busy=busy,
        shares=other_shares(launch),
        with_cta=with_cta,
        imbalance_pct=100.0 * with_cta * (launch.value("sm__cycles_active.max") / active - 1.0) if active else math.nan,
        series=name,
        phases=timed,
        chip=chip_of(row.compute_capability),
        capability=row.compute_capability,
        duration_ns=row.duration_ns,
        cycles=row.cycles,
        active_cycles=active,
        quantities={name: quantity(launch, name) for name in load_generations().quantities},
        dram_read_B=launch.value("dram__bytes_read.sum"),
        dram_written_B=launch.value("dram__bytes_write.sum"),
        grid=_product(row.grid),
        block=float(np.ceil(_product(row.block) / WARP)),
        waves=launch.value("launch__waves_per_multiprocessor"),
        active_warps=launch.value("sm__warps_active.avg.per_cycle_active"),
        shared_B=row.smem_static_B + row.smem_dynamic_B,
        sm_shared_B=launch.value("device__attribute_max_shared_memory_per_multiprocessor"),
        cta_shared_B=launch.value("device__attribute_max_shared_memory_per_block_optin"),
        reserved_B=launch.value("launch__shared_mem_per_block_driver"),
        limits={what: launch.value(f"launch__occupancy_limit_{what}") for what in LIMITS},
        bank_conflict_share=ratio(launch, "bank_conflicts"),
        declared_stages=stages if isinstance(stages, int) and stages > 0 else None,
    )


def find_phases(timeline: pd.DataFrame, busy: Busy) -> tuple[str, Phases | None]:
    """Phases from the unit's series, or from issued instructions if that was not sampled; with the
    series' name, empty without phases."""
    active = series(timeline, "sm_active")
    for name in (busy.series, "issue"):
        if name and (timed := phases(series(timeline, name), active)):
            return name, timed
    return "", None


def _product(extent: str) -> float:
    """Of the numbers in a text such as ``32,32,1``; NaN where it holds something else."""
    parts = extent.split(",")
    return float(math.prod(int(part) for part in parts)) if all(part.isdecimal() for part in parts) else math.nan


def _over(amount: float, parts: float) -> float:
    return amount / parts if parts > 0 else math.nan
