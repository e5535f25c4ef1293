"""Whether another profiler has started this process."""

from __future__ import annotations

from collections.abc import Mapping

from ncubble.errors import MeasurementError

MARKS = (
    "CUDA_INJECTION64_PATH",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    "NV_TPS_LAUNCH_TOKEN",
    "NSYS_PROFILING_SESSION_ID",
    "NVIDIA_PROCESS_INJECTION_CRASH_REPORTING",
)
"""Variables that profilers set for what they start: libraries for injection the first, ncu the
second and third, nsys the fourth, both the last. NVIDIA documents the first only."""


def active_profiler(env: Mapping[str, str]) -> str:
    """The variable that tells of one; empty where none does."""
    return next((name for name in MARKS if env.get(name)), "")


def refuse_inside_profiler(env: Mapping[str, str]) -> None:
    """Raise MeasurementError where another profiler has this process, which would have the program,
    too."""
    if taken := active_profiler(env):
        message = f"another profiler is active here ({taken} is set)"
        raise MeasurementError(message, "run `ncubble streams` outside of ncu and nsys, and unset that variable")
