"""Reports made up for tests of the gate: frames with the columns of the contract, and chosen
counter values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.gate.baseline import Baseline, record
from ncubble.analysis.gate.repeats import Repeats, collect
from ncubble.analysis.report.report import Launch
from ncubble.profiling.runs import Manifest, Run

TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
TENSOR_ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
CYCLES = "sm__cycles_elapsed.max"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
GPU = "GPU-374ead9a-0f1a-a0a4-81ef-1cad32769755"
STEADY = (43.0, 43.05, 42.98, 43.02, 42.95)
STEADY_CYCLES = (500_000.0, 500_400.0, 499_700.0, 500_100.0, 499_800.0)
_numbers = count()


@dataclass
class FakeReport:
    """What the gate reads of a Report."""

    run: Run
    key: str
    launches: pd.DataFrame
    counters: dict[str, Sequence[float]]

    def wide(self, names: list[str]) -> pd.DataFrame:
        missing = [float("nan")] * len(self.launches)
        return pd.DataFrame({name: self.counters.get(name, missing) for name in names}, index=self.launches["launch"])

    def scalars(self, number: int) -> dict[str, float]:
        """A counter of its own of every launch: what was measured twice is never equal in all."""
        return {"sm__inst_issued.sum": hash((self.key, number)) % 1e9}

    def launch(self, number: int) -> Launch:
        return Launch(self, number)  # type: ignore[arg-type]


def gemm(stages: int = 3, **more: Any) -> dict[str, Any]:
    """The manifest's facts of a catalog kernel."""
    shape = {"m": 4096, "n": 4096, "k": 4096}
    return {"name": "tensor_core_gemm", "function": "gemm", "parameters": {"stages": stages}, "shape": shape, **more}


def report(
    tensor: Sequence[float] = STEADY,
    cycles: Sequence[float] = STEADY_CYCLES,
    *,
    kernel: dict[str, Any] | None = None,
    counters: dict[str, Sequence[float]] | None = None,
    manifest: dict[str, Any] | None = None,
    key: str = "",
    functions: str | list[str] = "gemm",
    **columns: Any,
) -> FakeReport:
    """A report with one launch per value. ``columns`` replace columns of the launches frame."""
    number, order = len(tensor), next(_numbers)
    values = counters if counters is not None else {TENSOR: tensor, CYCLES: cycles[:number], DRAM: [20.0] * number}
    frame = {
        "launch": list(range(number)),
        "kernel": functions,
        "demangled": "void gemm<(int)3>(__half const*, float*)",
        "grid": "32,32,1",
        "block": "256,1,1",
        "registers": 128.0,
        "smem_static_B": 0.0,
        "smem_dynamic_B": 49152.0,
        "device": "NVIDIA H200",
        "compute_capability": "9.0",
        "ncu_version": "2025.3.1",
        "nvtx": "",
        "duration_ns": 290_000.0 + 1e-6 * order,  # what is measured anew is never equal to the last bit
        "cycles": 500_000.0,
        "sm_clock_hz": 1.75e9 + 1e-3 * order,
        **columns,
    }
    path = Path(f"run-{order}")
    facts = Manifest(kernel=gemm() if kernel is None else kernel, **{"device": {"uuid": GPU}, **(manifest or {})})
    return FakeReport(Run(path, path / "report.ncu-rep", facts), key or str(path), pd.DataFrame(frame), values)


def groups(*reports: FakeReport) -> list[Repeats]:
    """Repeats of made-up reports."""
    return collect(reports)[0]


def recorded(*reports: FakeReport) -> list[Baseline]:
    """Baselines of made-up reports."""
    return record(groups(*(reports or (report(),))), "2026-11-20T12:00:00+00:00")
