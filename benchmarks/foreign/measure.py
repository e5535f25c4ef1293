"""Reads what was measured: launches of a profiled run by the name of their NVTX range."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from benchmarks.foreign.programs import RANGE
from benchmarks.foreign.rules import Measured
from ncubble.analysis.report.launch import LaunchIdentity
from ncubble.analysis.report.report import Report

BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
CYCLES = "sm__cycles_elapsed.max"
MMAS = ("sm__inst_executed_pipe_tensor_op_gmma.sum", "sm__inst_executed_pipe_tensor_op_hmma.sum")
REGISTERS, THREADS, SMEM_B, WARP = 65536, 2048, 228 * 1024, 32
"""Of an SM of compute capability 9.0; a CTA takes 1 KiB of shared memory beside its own."""


def by_name(report: Report) -> dict[str, list[int]]:
    """Launches of a report by the name of their range, the longest first."""
    cycles = {launch.number: launch.value(CYCLES) for launch in report}
    found: dict[str, list[int]] = {}
    for launch, nvtx in zip(cycles, report.launches["nvtx"], strict=True):
        if name := re.search(rf"{RANGE}/([^;/]+)", str(nvtx)):
            found.setdefault(name[1], []).append(launch)
    return {name: sorted(launches, key=lambda launch: -cycles[launch]) for name, launches in found.items()}


def read(path: Path) -> dict[str, tuple[int, Measured]]:
    """By name: the launch that takes longest in its range, and what was measured of it."""
    report = Report.open(path)
    return {name: (launches[0], _measured(report, launches)) for name, launches in by_name(report).items()}


def _measured(report: Report, launches: list[int]) -> Measured:
    launch, *others = (report.launch(number) for number in launches)
    row = launch.identity
    counted = [launch.value(name) for name in MMAS]
    known = [count for count in counted if not math.isnan(count)]
    busy, cycles = launch.value(BUSY), launch.value(CYCLES)
    beside = sum(other.value(CYCLES) for other in others)
    return Measured(
        kernel=row.kernel,
        cycles=cycles,
        duration_ns=row.duration_ns,
        tensor_pct=None if math.isnan(busy) else busy,
        products=sum(known) if known else None,
        ctas_per_sm=ctas_per_sm(row),
        beside_pct=100.0 * beside / cycles,
    )


def ctas_per_sm(row: LaunchIdentity) -> int | None:
    """How many CTAs of a launch fit on an SM of a Hopper GPU; None where its resources are not
    known."""
    threads = math.prod(int(size) for size in row.block.split(",") if size)
    sizes = (row.registers, row.smem_static_B, row.smem_dynamic_B)
    if not row.block or any(math.isnan(size) for size in sizes):
        return None
    registers, static, dynamic = (int(size) for size in sizes)
    warps = -(-threads // WARP)
    by_registers = REGISTERS // (max(-(-registers // 8) * 8, 8) * WARP * -(-warps // 4) * 4)
    return min(THREADS // (warps * WARP), by_registers, SMEM_B // (static + dynamic + 1024), 32)


def estimates(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Nsight's own rules with an estimated speedup, by name: ``rule``, ``title``, ``speedup_pct``,
    ``speedup_kind``."""
    report = Report.open(path)
    rules = report.rules[report.rules["speedup_pct"].notna()]
    columns = ["rule", "title", "speedup_pct", "speedup_kind"]
    return {
        name: rules.loc[rules["launch"] == launches[0], columns].to_dict("records")
        for name, launches in by_name(report).items()
    }
