"""How much the parts of the bubble account scatter, in points of the kernel's time.

What the gate expects before it sees repeats, rounded up from ``python -m benchmarks.gate.part_noise``
over eight kernels and three H200s (``recordings/h200-gate``; docs/validation/gate.md): the largest
deviation of a part over the kernels.
"""

from __future__ import annotations

from ncubble.analysis.gate.noise.noise import Shifts

_RUN = 0.1
_LAUNCH_GPU = {
    "tensor_busy": (0.1, 0.4),
    "unit_busy": (0.6, 0.6),
    "ramp": (0.3, 0.1),
    "tail": (0.7, 0.5),
    "no_cta": (0.7, 0.5),
    "wave_gap": (0.5, 0.2),
    "data_wait": (0.5, 0.9),
    "copy_cost": (0.3, 0.2),
    "smem_wait": (0.15, 0.1),
    "sync_wait": (0.35, 0.2),
    "issue": (0.5, 0.2),
    "epilogue": (0.15, 0.1),
    "other": (0.05, 0.05),
    "idle": (0.7, 1.0),
}
"""By part: deviation between launches of one process, and between GPUs of one model."""


def part_sd(part: str) -> float:
    """Standard deviation of a part between launches of one process, in points."""
    return _LAUNCH_GPU[part][0]


def part_shifts(part: str) -> Shifts:
    """What all launches of a process, and all on one GPU, share of a part, in points."""
    return Shifts(run_pct=_RUN, gpu_pct=_LAUNCH_GPU[part][1])
