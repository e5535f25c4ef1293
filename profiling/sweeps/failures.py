"""What ends a sweep before all is done."""

from __future__ import annotations

from collections.abc import Sequence

from ncubble.errors import MeasurementError

RESUME = "the same command goes on with what is missing"


class SchedulerLostError(MeasurementError):
    """The connection to the Dask scheduler broke."""

    def __init__(self, address: str, done: int, left: int) -> None:
        super().__init__(
            f"the scheduler {address} is gone, after {done} of {done + left} jobs",
            f"what was measured is in the store; start the cluster again: {RESUME}",
        )


class NoWorkerError(MeasurementError):
    """No worker is left that can measure."""

    def __init__(self, reasons: Sequence[str], left: int) -> None:
        listed = "".join(f"\n    {reason}" for reason in dict.fromkeys(reasons)) or " none joined the cluster"
        super().__init__(
            f"no worker can measure{f' the {left} jobs that are left' if left else ''}:{listed}",
            f"mend one of them (`ncubble doctor --gpu` there says what it lacks): {RESUME}",
        )
