"""How much of a change the gate puts down to the SM clock."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ncubble.analysis.gate.noise.clock import NO_CLOCK, clock_shift
from ncubble.analysis.gate.noise.noise import Sample, Shifts, compare

CYCLES = (0.0, 1.0)


def side(exponent: float, mean_ghz: float, number: int = 8, noise: float = 0.05, seed: int = 1) -> Sample:
    """Repeats of a kernel whose cycles follow the clock with ``exponent``; the clock wanders by 0.5
    %."""
    rng = np.random.default_rng(seed)
    clocks = [mean_ghz * 1e9 * (1 + rng.normal(0, 0.005)) for _ in range(number)]
    values = [1e5 * (clock / 1.75e9) ** exponent * (1 + rng.normal(0, noise / 100)) for clock in clocks]
    return Sample(tuple(values), tuple(clocks))


def judged(before: Sample, now: Sample) -> str:
    return compare(before, now, better="lower", limit_pct=1.0, cv_pct=0.2, shifts=Shifts(0.0, 0.0, CYCLES)).outcome


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_a_kernel_that_follows_the_clock_is_no_regression_at_another_clock(exponent: float) -> None:
    assert judged(side(exponent, 1.75), side(exponent, 1.76, seed=2)) == "pass"
    assert judged(side(exponent, 1.75), side(exponent, 1.80, seed=2)) in ("pass", "inconclusive")


def test_a_kernel_that_does_not_follow_the_clock_gets_no_excuse() -> None:
    slower = side(0.0, 1.80, seed=2)
    lost = Sample(tuple(value * 1.02 for value in slower.values), slower.clocks)
    assert judged(side(0.0, 1.75), lost) == "regressed"


def test_a_lower_clock_excuses_no_loss() -> None:
    slower = side(1.0, 1.70, seed=2)
    lost = Sample(tuple(value * 1.05 for value in slower.values), slower.clocks)
    assert judged(side(1.0, 1.75), lost) == "regressed"


def test_the_exponent_is_read_off_the_repeats() -> None:
    one, other = side(0.7, 1.75, 12), side(0.7, 1.76, 12, seed=2)
    mean = math.fsum(one.values) / len(one.values)
    sides = [([value / mean * 100 for value in part.values], part.clocks) for part in (one, other)]
    found = clock_shift(sides, CYCLES, 0.2)
    assert found.exponent == pytest.approx(0.7, abs=0.1)
    assert found.low < 0.7 * found.clock_pct < found.high


def test_repeats_at_one_clock_say_nothing_of_the_exponent() -> None:
    steady = ([100.0, 100.1, 99.9], [1.75e9] * 3)
    found = clock_shift([steady, ([100.0, 100.1, 99.9], [1.80e9] * 3)], CYCLES, 0.2)
    assert found.exponent is None
    assert (found.low, found.high) == (0.0, pytest.approx(100 * math.log(1.80 / 1.75)))


@pytest.mark.parametrize("clock", [math.nan, 0.0, -1.0, math.inf])
def test_an_unknown_clock_explains_nothing(clock: float) -> None:
    sides = [([100.0, 101.0], [1.75e9, clock]), ([100.0, 101.0], [1.8e9, 1.8e9])]
    assert clock_shift(sides, CYCLES, 0.2) is NO_CLOCK


def test_no_more_than_the_change_is_explained() -> None:
    found = clock_shift([([100.0] * 3, [1.75e9] * 3), ([100.1] * 3, [1.85e9] * 3)], CYCLES, 0.2)
    assert found.explains(0.1) == pytest.approx(0.1)
    assert found.explains(-0.1) == 0.0
