"""Which unit bounds a kernel, and for how much of the elapsed time it was busy.

The tensor pipe wherever a kernel issues MMAs. Kernels without tensor work are measured by their busiest unit instead,
DRAM and L2 included, so that their account says what they are bound by. Percentages are of elapsed cycles; a metric
that exists only per active cycle is scaled by the share of cycles with a CTA.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ncubble.analysis.opcodes import role
from ncubble.analysis.report import Report

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
_ACTIVE = ".avg.pct_of_peak_sustained_active"
TENSOR = (
    "sm__pipe_tensor_cycles_active",
    "sm__pipe_tensor_op_hmma_cycles_active",
    "sm__pipe_tensor_op_hmma_cycles_active_v2",
    "sm__pipe_tensor_op_imma_cycles_active",
    "sm__pipe_tensor_op_dmma_cycles_active",
    "sm__pipe_tensor_subpipe_hmma_cycles_active",
)
TENSOR_ISSUE = (
    "sm__inst_executed_pipe_tensor",
    "sm__inst_executed_pipe_tensor_op_hmma",
    "sm__inst_executed_pipe_tensor_op_imma",
    "sm__inst_executed_pipe_tensor_op_dmma",
    "sm__inst_executed_pipe_tensor_op",
)
PIPES = {
    "fma": ("sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_fma", "sm__inst_executed_pipe_fmaheavy"),
    "alu": ("sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_alu"),
    "fp64": ("sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64"),
    "xu": ("sm__inst_executed_pipe_xu",),
    "fp16": ("sm__inst_executed_pipe_fp16",),
    "lsu": ("sm__inst_executed_pipe_lsu", "l1tex__data_pipe_lsu_wavefronts"),
}
MEMORY = {
    "dram": ("gpu__dram_throughput", "dram__throughput", "dram__cycles_active", "dram__bytes"),
    "l2": ("lts__throughput", "lts__t_sectors"),
}
BYTES = ".sum.pct_of_peak_sustained_elapsed"
BOTH_WAYS = {"dram__bytes": ("dram__bytes_read", "dram__bytes_write")}
"""Traffic of one bus by direction: shares of the same peak, which add up (all that ncu 2023 collects on cc 8.9)."""
_SAMPLED = ("fma", "alu", "xu", "fp64", "dram", "l2")
UNREADABLE = ("", "???")
"""Opcodes of code that the reader cannot disassemble."""
INCIDENTAL_PCT = 5.0
"""Below this, and without the code, a busy tensor pipe is no proof of MMAs: HFMA2.MMA moves constants through it
(elementwise kernels of public GH200 reports show 1 %, of A100 reports 3.5 %)."""
CTA_CYCLES = (
    ("sm__cycles_active.avg", "sm__cycles_elapsed.avg"),
    ("smsp__cycles_active.avg", "smsp__cycles_elapsed.avg"),
    ("sm__cycles_active.avg", "sm__cycles_elapsed.max"),
)


@dataclass(frozen=True)
class Busy:
    """The bounding unit, its busy share of elapsed cycles in percent, its timeline series, and metrics that were
    lacking."""

    unit: str
    pct: float
    series: str = ""
    missing: tuple[str, ...] = ()


def utilization(report: Report, launch: int, stems: tuple[str, ...]) -> float:
    """Busy share of elapsed cycles, in percent, by the first of ``stems`` that is collected; NaN where none is."""
    return next((value for stem in stems if not math.isnan(value := _elapsed(report, launch, stem))), math.nan)


def tensor_utilization(report: Report, launch: int) -> float:
    """Tensor pipe's busy share of elapsed cycles, in percent; NaN where not collected. Where only the counters of
    single operations are there, the busiest of them: kernels use one kind of MMA."""
    whole = utilization(report, launch, TENSOR[:1])
    single = [value for stem in TENSOR[1:] if not math.isnan(value := _elapsed(report, launch, stem))]
    return max(single, default=math.nan) if math.isnan(whole) else whole


def _elapsed(report: Report, launch: int, stem: str) -> float:
    if stem in BOTH_WAYS:
        return sum(report.value(launch, part + BYTES) for part in BOTH_WAYS[stem])
    elapsed = report.value(launch, stem + _ELAPSED)
    return elapsed if not math.isnan(elapsed) else report.value(launch, stem + _ACTIVE) * cta_share(report, launch)


def cta_share(report: Report, launch: int) -> float:
    """Share of elapsed SM cycles in which an SM had a CTA, 0 to 1; NaN where not collected."""
    for active, elapsed in CTA_CYCLES:
        share = report.value(launch, active) / (report.value(launch, elapsed) or math.nan)
        if not math.isnan(share):
            return float(min(1.0, share))
    return math.nan


def uses_tensor(report: Report, launch: int) -> bool | None:
    """Whether the kernel issues MMAs, by its code or by counters; None where the report cannot say.

    Code with execution counts decides. Warp samples alone prove an MMA, but not that there is none.
    """
    source = report.source_of(launch)
    ran = source[(source["executed"].fillna(0.0) > 0) | (source["samples"] > 0)]
    if any(role(opcode) == "mma" for opcode in ran["opcode"]):
        return True
    if len(ran) and ran["executed"].notna().any() and not ran["opcode"].isin(UNREADABLE).any():
        return False
    values = [tensor_utilization(report, launch), *(_elapsed(report, launch, stem) for stem in TENSOR_ISSUE)]
    known = [value for value in values if not math.isnan(value)]
    return max(known) >= INCIDENTAL_PCT if known else None


def lacking_of(report: Report, launch: int) -> str:
    """Why there is no ``busy_of`` of this launch, in words."""
    if uses_tensor(report, launch):
        return f"the kernel issues MMAs, but the tensor pipe's utilization was not collected ({TENSOR[0] + _ELAPSED})"
    others = {unit: utilization(report, launch, stems) for unit, stems in {**PIPES, **MEMORY}.items()}
    known = [unit for unit, value in others.items() if not math.isnan(value)]
    if known:
        return (
            f"whether the kernel uses the tensor pipe is not known: its utilization ({TENSOR[0] + _ELAPSED}) was not "
            f"collected, that of {', '.join(known)} was"
        )
    return "no utilization of elapsed cycles was collected for any unit (tensor pipe, other pipes, DRAM, L2)"


def busy_of(report: Report, launch: int) -> Busy | None:
    """The unit that the account of this launch is about; None where no unit's utilization was collected."""
    tensor = tensor_utilization(report, launch)
    used = uses_tensor(report, launch)
    if used and not math.isnan(tensor):
        return Busy("tensor", min(tensor, 100.0), "tensor")
    others = {unit: utilization(report, launch, stems) for unit, stems in {**PIPES, **MEMORY}.items()}
    known = {unit: value for unit, value in others.items() if not math.isnan(value)}
    if used is not False or not known:
        return None
    unit = max(known, key=lambda name: known[name])
    lacking = tuple(stems[0] + _ELAPSED for unit, stems in {**PIPES, **MEMORY}.items() if unit not in known)
    return Busy(unit, min(known[unit], 100.0), unit if unit in _SAMPLED else "", lacking)
