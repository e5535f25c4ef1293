"""Launches made up for tests of comparisons: one of 100 µs, and what a test wants changed of it."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.compare.compare import ComparedLaunch, Group
from tests.helpers.dashboard_frames import verdict

FULL = {"tensor_busy": 50.0, "ramp": 2.0, "tail": 3.0, "data_wait": 30.0, "issue": 15.0}
COARSE = {"tensor_busy": 60.0, "no_cta": 4.0, "idle": 36.0}
MERGED = {"no_cta": ["ramp", "tail"], "idle": ["wave_gap", "data_wait", "issue"]}


def subject(kernel: str = "gemm", launch: int = 0, **changes: Any) -> ComparedLaunch:
    """A launch of 100 µs; ``values`` and ``verdict`` are added to what it has."""
    values = {"duration_ns": 1e5, "cycles": 175_000.0, "sm_clock_hz": 1.75e9, "tensor_elapsed_pct": 50.0}
    members = {"account": dict(FULL), **changes.pop("verdict", {})}
    base: dict[str, Any] = {
        "report": "runs/a",
        "key": f"{kernel}-{launch}",
        "label": kernel,
        "demangled": f"void {kernel}()",
        "shape": "{}",
        "grid": "64,1,1",
        "block": "256,1,1",
        "nvtx": "",
        "device": "NVIDIA H200",
        "ncu_version": "2025.3.1",
        "stalls": {},
    }
    values |= changes.pop("values", {})
    judged = verdict(kernel, 1e5, "data_wait", **members)
    return ComparedLaunch(kernel=kernel, launch=launch, values=values, verdict=judged, **{**base, **changes})


def group(*durations: float, **changes: Any) -> Group:
    return Group(
        tuple(subject(launch=i, values={"duration_ns": one}, **dict(changes)) for i, one in enumerate(durations))
    )
