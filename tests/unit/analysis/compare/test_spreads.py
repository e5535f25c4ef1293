"""Why one rank takes longer than another."""

from __future__ import annotations

import pytest

from ncubble.analysis.compare.spreads import why_slower


def rank(
    ns: float, cycles: float | None, busy: float | None = 90.0, clock: float | None = 2e9
) -> dict[str, float | None]:
    return {"duration_ns": ns, "cycles": cycles, "sm_clock_hz": clock, "tensor_busy": busy, "unit_busy": 0.0}


@pytest.mark.parametrize(
    ("slow", "fast", "words"),
    [
        (rank(150.0, 150.0), rank(100.0, 100.0), "more work: its tensor pipe is busy for 50.0 % more cycles"),
        (rank(150.0, 150.0, 60.0), rank(100.0, 100.0), "It has no more work: the additional cycles are idle time"),
        (rank(150.0, 150.0, 75.0), rank(100.0, 100.0), "45 % of the additional cycles are work"),
        (
            rank(110.0, 100.0, clock=1.8e9),
            rank(100.0, 100.0),
            "for the same number of cycles, at an SM clock 10.0 % lower",
        ),
        (rank(150.0, 150.0, None), rank(100.0, 100.0), "It takes 50.0 % longer: 50.0 % more cycles"),
        (rank(150.0, 150.0, clock=None), rank(100.0, 100.0), "50.0 % more cycles. It has more work"),
    ],
)
def test_the_reason_is_clock_work_or_idle_time(slow, fast, words) -> None:
    assert words in why_slower(slow, fast)


def test_nothing_is_said_of_ranks_that_take_as_long_or_whose_cycles_are_not_known() -> None:
    assert why_slower(rank(101.0, 101.0), rank(100.0, 100.0)) == ""
    assert why_slower(rank(150.0, None), rank(100.0, 100.0)) == ""
