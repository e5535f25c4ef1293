"""Whether the values of a launch can be true together: what a flipped bit inside a report's blocks gives away.

The frame of a file cannot tell (see ``container``), nor does the native reader. These relations hold in every launch
of 97 public reports (ncu 2020.3 to 2025.3, compute capability 7.0 to 12.0) and of the shipped recordings; a launch that
breaks one is shown with the values that contradict each other, never silently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ncubble.analysis.report import Report
from ncubble.analysis.stalls import reasons_of
from ncubble.analysis.units import MEMORY, PIPES, TENSOR, utilization

CLOCK_TOLERANCE = 0.1
"""Cycles against duration times clock: from different passes; they agree to 2.3 % at worst in the reports above."""
PCT_RANGE = (-0.5, 103.0)
"""Utilization in percent: passes disagree by some 3 points on a saturated unit."""


def doubts(report: Report, launch: int) -> list[str]:
    """Contradictions in one launch, each beginning with ``suspicious:`` and naming the values."""
    found = [
        *_clock(report, launch),
        *_utilization(report, launch),
        *_samples(report, launch),
        *_counts(report, launch),
    ]
    return [f"suspicious: {text}; the file may be damaged" for text in found]


def _clock(report: Report, launch: int) -> Iterator[str]:
    row = report.identity(launch)
    cycles, expected = float(row["cycles"]), float(row["duration_ns"]) * float(row["sm_clock_hz"]) * 1e-9
    if expected > 0 and not abs(cycles / expected - 1.0) <= CLOCK_TOLERANCE:
        yield f"{cycles:.6g} cycles, but duration times SM clock gives {expected:.6g}"
    for name in ("duration_ns", "cycles", "sm_clock_hz"):
        if float(row[name]) <= 0:
            yield f"{name} is {row[name]}"


def _utilization(report: Report, launch: int) -> Iterator[str]:
    for unit, stems in {"tensor": TENSOR, **PIPES, **MEMORY}.items():
        value = utilization(report, launch, stems)
        if not (math.isnan(value) or PCT_RANGE[0] <= value <= PCT_RANGE[1]):
            yield f"{unit} is busy for {value:.4g} % of the time"


def _samples(report: Report, launch: int) -> Iterator[str]:
    """Samples per instruction and reason must add up to the launch's total."""
    source = report.source_of(launch)
    if source.empty:
        return
    by_reason = float(source[reasons_of(source)].to_numpy().sum())
    totals = {"by stall reason": by_reason, "in all": report.value(launch, "smsp__pcsamp_sample_count")}
    counted = float(source["samples"].sum())
    for what, total in totals.items():
        if not math.isnan(total) and total != counted:
            yield f"{counted:.0f} warp samples over the instructions, but {total:.0f} {what}"


def _counts(report: Report, launch: int) -> Iterator[str]:
    """Launch geometry and executions are whole numbers of a size that a GPU can have."""
    grid = [report.value(launch, f"launch__grid_dim_{axis}") for axis in "xyz"]
    if not any(math.isnan(size) for size in grid):
        ctas, product = report.value(launch, "launch__grid_size"), math.prod(grid)
        if not math.isnan(ctas) and ctas != product:
            yield f"{ctas:.0f} CTAs, but the grid of {'x'.join(f'{size:.0f}' for size in grid)} has {product:.0f}"
    executed = report.source_of(launch)["executed"].dropna()
    if len(executed) and ((executed < 0) | (executed != executed.round())).any():
        yield "executions of an instruction are not a whole number"
