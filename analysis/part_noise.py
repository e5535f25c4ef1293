"""How much the parts of the bubble account scatter, in points of the kernel's time.

What the gate expects before it sees repeats, from three H200s and eight kernels (``recordings/h200-gate``; a table is
in ``docs/validation/gate.md``).
"""

from __future__ import annotations

from ncubble.analysis.noise import Shifts

_SD = {"tail": 0.6, "tensor_busy": 0.5, "unit_busy": 0.4}
_OTHERS = 0.3
PART_SHIFTS = Shifts(run_pct=0.1, gpu_pct=0.25)


def part_sd(part: str) -> float:
    """Standard deviation of a part between launches of one process, in points."""
    return _SD.get(part, _OTHERS)
