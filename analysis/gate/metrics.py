"""What the gate compares: one table of metrics with direction, limit and the noise that was
measured for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ncubble.analysis.gate.noise import NO_SHIFTS, NoiseTest, Sample, Shifts, compare

MIN_TENSOR_PCT = 5.0
"""Below this share of elapsed cycles, only cycles are gated, not tensor utilization. ``HFMA2.MMA``,
with which the compiler also loads constants, runs in the tensor pipe: elementwise kernels without
any HMMA show up to 4 % on A100 and H100 (public reports)."""

Better = Literal["higher", "lower", "neutral"]


@dataclass(frozen=True)
class GateMetric:
    """One metric of the gate.

    ``counters`` are tried in order; values of two different counters are never compared. ``column``
    names a column of the launches frame to read instead of a counter. ``better`` is ``higher``,
    ``lower`` or ``neutral``. ``limit_pct`` is the relative loss that must not pass. ``cv_pct`` is
    the noise that is expected before any repeat is seen, chosen after looking at 883 launches of 8
    kernels on three H200s: most repeat within a process to 0.07 to 0.15 %, three scatter by 0.5 to
    1.6 % (``docs/validation/gate.md``). ``shifts``, from the same launches: what those of a process
    and of a GPU share, and how the metric may follow the SM clock (``noise``). Values outside
    ``lowest .. highest`` cannot be real: they count as not measured.
    """

    name: str
    unit: str
    better: Better
    counters: tuple[str, ...]
    gated: bool
    limit_pct: float
    cv_pct: float
    lowest: float
    highest: float = 1e18
    column: str = ""
    shifts: Shifts = NO_SHIFTS

    def compare(self, before: Sample, now: Sample, limit_pct: float) -> NoiseTest:
        """The test of ``noise`` with what was measured of this metric."""
        return compare(before, now, better=self.better, limit_pct=limit_pct, cv_pct=self.cv_pct, shifts=self.shifts)

    def plausible(self, value: float) -> bool:
        """Whether ``value`` can be a measurement. NaN and infinities cannot."""
        return self.lowest <= value <= self.highest


METRICS = (
    GateMetric(
        "tensor_elapsed_pct",
        "%",
        better="higher",
        counters=(
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        ),
        gated=True,
        limit_pct=1.0,
        cv_pct=0.18,
        lowest=0.0,
        highest=105.0,
        shifts=Shifts(run_pct=0.06, gpu_pct=0.2, clock=(-1.0, 0.0)),
    ),
    GateMetric(
        "cycles",
        "cycle",
        "lower",
        ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max"),
        gated=True,
        limit_pct=2.0,
        cv_pct=0.2,
        lowest=1.0,
        shifts=Shifts(run_pct=0.06, gpu_pct=0.2, clock=(0.0, 1.0)),
    ),
    GateMetric(
        "duration_ns",
        "ns",
        "lower",
        ("gpu__time_duration",),
        gated=False,
        limit_pct=2.0,
        cv_pct=0.34,
        lowest=1.0,
        column="duration_ns",
        shifts=Shifts(run_pct=0.1, gpu_pct=0.3, clock=(-1.0, 0.0)),
    ),
    GateMetric(
        "dram_pct",
        "%",
        better="neutral",
        counters=(
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        gated=False,
        limit_pct=2.0,
        cv_pct=0.5,
        lowest=0.0,
        highest=105.0,
    ),
)
BY_NAME = {metric.name: metric for metric in METRICS}
