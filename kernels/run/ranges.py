"""NVTX ranges around the phases of a verification or a timing, so that a profiler finds their
launches: ``ncu --nvtx --nvtx-include "time/"``.

They are ranges of the host. A phase inside a kernel has none: the probe (``kernels/probe``) marks
those.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from ncubble.errors import MeasurementError
from ncubble.text.remedies import extras_command

Ranges = Callable[[str], AbstractContextManager[object]]
"""A range of this name as long as the block runs."""
VERIFY, WARM_UP, TIME = "verify", "warm-up", "time"


def no_ranges(name: str) -> AbstractContextManager[object]:
    """No range."""
    return nullcontext()


def nvtx_ranges() -> Ranges:
    """Ranges of NVTX's default domain; raises MeasurementError where NVIDIA's package is
    missing."""
    try:
        import nvtx
    except ImportError as error:
        remedy = f"{extras_command('gpu')}, or omit --nvtx"
        raise MeasurementError(f"nvtx cannot be imported: {error}", remedy) from error

    def ranged(name: str) -> AbstractContextManager[object]:
        marked: AbstractContextManager[object] = nvtx.annotate(name)
        return marked

    return ranged
