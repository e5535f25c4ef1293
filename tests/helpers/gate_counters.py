"""Counters of both paths of the attention over bytes, in place of those that ncu reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ncubble.errors import NcubbleError

TENSOR, THROUGHPUT = (
    f"{unit}.avg.pct_of_peak_sustained_elapsed" for unit in ("sm__pipe_tensor_cycles_active", "sm__throughput")
)
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
BASELINE = {TENSOR: 4.11, THROUGHPUT: 12.5, READ: 900_000.0, WRITTEN: 100_000.0}
CANDIDATE = {TENSOR: 6.13, THROUGHPUT: 26.9, READ: 901_000.0, WRITTEN: 100_000.0}


class Counted:
    """Gives ``BASELINE`` and ``CANDIDATE`` but for ``changes`` of the candidate, or ``error``."""

    def __init__(self, error: NcubbleError | None = None, **changes: float | None) -> None:
        names = {"tensor": TENSOR, "throughput": THROUGHPUT, "read": READ}
        changed = {names[key]: value for key, value in changes.items()}
        self.candidate = {key: value for key, value in {**CANDIDATE, **changed}.items() if value is not None}
        self.error = error
        self.calls: list[tuple[Any, ...]] = []

    def __call__(
        self, parameters: Mapping[str, Any], sizes: Mapping[str, int], metrics: Sequence[str]
    ) -> Mapping[str, float]:
        self.calls.append((dict(parameters), dict(sizes), list(metrics)))
        if self.error is not None:
            raise self.error
        return self.candidate if parameters["use_cp_async"] == 1 else BASELINE
