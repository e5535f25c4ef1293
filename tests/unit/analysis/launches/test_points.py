"""Which launches a figure of all of them draws."""

from __future__ import annotations

from ncubble.analysis.launches.points import MOST_POINTS, worth_drawing
from tests.helpers.roofline_rows import row


def test_the_launches_with_the_most_recoverable_time_are_drawn() -> None:
    rows = [row(i) for i in range(MOST_POINTS + 500)] + [row(9, tflops=None)]
    shown, lacking = worth_drawing(rows, ("tflops", "intensity"))
    assert (len(shown), lacking) == (MOST_POINTS, 1)
    assert min(one["recoverable_ns"] for one in shown) == 500.0
