"""What recorded launches say of a depth that is predicted."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.launches.depths import measured_depth


def row(stages: int, cycles: float, ns: float, clock: float | None = 1.5, **changes: Any) -> dict[str, Any]:
    base = {"kernel": "gemm", "device": "NVIDIA H200", "dims": {"m": 1}, "parameters": {"stages": stages, "vec": 16}}
    return {**base, "cycles": cycles, "duration_ns": ns, "clock_ghz": clock, **changes}


NOW = row(1, 1000.0, 500.0, 2.0)


def test_time_says_less_than_cycles_where_the_clock_falls() -> None:
    assert measured_depth(NOW, [row(4, 700.0, 400.0, 1.75)], 4) == (
        "A recorded launch with 4 stages took 30.0 % fewer cycles and 20.0 % less time: the SM clock is 12.5 % lower."
    )


def test_several_launches_count_by_their_median_and_a_clock_may_be_missing() -> None:
    several = [row(4, cycles, 450.0, None) for cycles in (700.0, 800.0, 990.0)]
    assert measured_depth(NOW, several, 4) == (
        "3 recorded launches with 4 stages took 20.0 % fewer cycles and 10.0 % less time."
    )


def test_only_launches_that_differ_in_nothing_else_count() -> None:
    others = [
        row(4, 1.0, 1.0, dims={"m": 2}),
        row(4, 1.0, 1.0, device="NVIDIA H100"),
        row(4, 1.0, 1.0, kernel="other"),
        row(4, 1.0, 1.0, parameters={"stages": 4, "vec": 4}),
        row(3, 1.0, 1.0),
    ]
    assert measured_depth(NOW, others, 4) == ""
    assert measured_depth(NOW, [row(4, 1.0, 1.0, duration_ns=None)], 4) == ""
    assert measured_depth({**NOW, "cycles": None}, [row(4, 1.0, 1.0)], 4) == ""
