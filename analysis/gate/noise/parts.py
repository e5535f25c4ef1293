"""How much the parts of the bubble account scatter, in points of the kernel's time.

What the gate expects before it sees repeats, rounded up from ``python -m benchmarks.gate.part_noise``
over eight kernels and three H200s (``recordings/h200-gate``; docs/validation/gate.md): the largest
deviation of a part over the kernels.
"""

from __future__ import annotations

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.gate.noise.noise import Shifts

_RUN = 0.1


def part_sd(part: str) -> float:
    """Standard deviation of a part between launches of one process, in points."""
    return PARTS[part].launch_sd


def part_shifts(part: str) -> Shifts:
    """What all launches of a process, and all on one GPU, share of a part, in points."""
    return Shifts(run_pct=_RUN, gpu_pct=PARTS[part].gpu_sd)
