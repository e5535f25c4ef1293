"""Times of replayed launches without any counter: between two events, in a process without ncu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.capsules.replays import DIED, TRIES, run_plan
from ncubble.profiling.capsules.rounds import MeasuredRounds

WARM_UP = 1
"""Warm-up rounds that do not count: code is loaded, results are compared, clocks rise."""


def time_rounds(capsule: Capsule, plan: Path, heard: Callable[[int], None]) -> MeasuredRounds:
    """Time of each launch of ``plan`` (``write_plan`` with ``timed``). ``heard`` is called with the
    number of timed launches. It ends early if a launch fails or hangs. Raises MeasurementError if
    nothing was timed.
    """
    for _ in range(TRIES):
        timed = MeasuredRounds()

        def on_row(row: dict[str, Any], timed: MeasuredRounds = timed) -> None:
            timed.take(row)
            heard(len(timed.values))

        ended = run_plan(capsule, plan, on_row)
        if ended.status != TAKEN:
            break
    if not timed.values and not timed.outcomes:
        last = ended.stderr.strip().splitlines()[-1:] or [str(ended.status)]
        message = f"the launch cannot be replayed: {last[0]}"
        raise MeasurementError(message, "see docs/ablation.md for what cannot be replayed")
    return timed.cut_off("hangs" if ended.hung else DIED)
