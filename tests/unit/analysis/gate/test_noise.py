"""The statistical rule of the gate: direction, limits, and its error rates on simulated repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import (
    BLIND,
    ClockShift,
    NoiseTest,
    Sample,
    Shifts,
    clock_shift,
    compare,
    moderated,
)

STEADY = [43.0, 43.05, 42.98, 43.02, 42.95]


def outcome(now: list[float], before: list[float] = STEADY, better: str = "higher", limit: float = 1.0) -> str:
    return compare(before, now, better=better, limit_pct=limit, cv_pct=0.26).outcome


def rate(cv: float, loss: float, n: int, m: int, trials: int, wanted: str = "regressed") -> float:
    """Share of simulated checks with the outcome ``wanted``; ``cv`` and ``loss`` in percent."""
    random = np.random.default_rng(20261120)
    before = 43 * (1 + cv / 100 * random.standard_normal((trials, n)))
    now = 43 * (1 - loss / 100) * (1 + cv / 100 * random.standard_normal((trials, m)))
    return sum(outcome(y, x) == wanted for x, y in zip(before.tolist(), now.tolist(), strict=True)) / trials


@pytest.mark.parametrize("cv", [0.03, 0.1, 0.26])
def test_false_alarms_stay_below_one_in_a_thousand_at_the_measured_noise(cv: float) -> None:
    assert rate(cv, 0.0, 5, 5, 40_000) <= 0.001


@pytest.mark.parametrize("cv", [0.03, 0.1, 0.26])
def test_a_loss_of_one_percent_is_found_in_99_of_100_checks_with_5_and_5_repeats(cv: float) -> None:
    assert rate(cv, 1.0, 5, 5, 20_000) >= 0.99


@pytest.mark.parametrize("cv", [0.03, 0.26])
def test_one_new_launch_raises_no_more_false_alarms_and_finds_two_percent(cv: float) -> None:
    assert rate(cv, 0.0, 5, 1, 40_000) <= 0.001
    assert rate(cv, 2.0, 5, 1, 20_000) >= 0.98


def test_noise_beyond_the_prior_is_believed_and_keeps_false_alarms_rare() -> None:
    assert rate(1.0, 0.0, 5, 5, 20_000) <= 0.005


@pytest.mark.parametrize(
    ("better", "factor", "expected"),
    [
        ("higher", 0.98, "regressed"),
        ("higher", 1.02, "improved"),
        ("lower", 0.98, "improved"),
        ("lower", 1.02, "regressed"),
    ],
)
def test_direction_decides_what_a_change_means(better: str, factor: float, expected: str) -> None:
    assert outcome([value * factor for value in STEADY], better=better) == expected


@pytest.mark.parametrize(("before", "now", "change"), [(40.0, 50.0, 25.0), (-40.0, -30.0, 25.0), (-40.0, -50.0, -25.0)])
def test_a_change_is_in_percent_of_what_was_there_also_below_zero(before: float, now: float, change: float) -> None:
    test = compare([before] * 5, [now] * 5, better="higher", limit_pct=1.0, cv_pct=0.26)
    assert test.change_pct == pytest.approx(change) and test.loss_pct == pytest.approx(-change)


def test_a_clock_that_is_fitted_takes_its_scatter_and_one_degree_of_freedom() -> None:
    clocks = tuple(1.75e9 * (1 + step / 100) for step in (-4, -2, 0, 2, 4))
    side = Sample(tuple(1e5 * (clock / 1.75e9) ** 0.5 for clock in clocks), clocks)
    without = Sample(side.values)
    found, bare = (
        compare(one, one, better="lower", limit_pct=1e-6, cv_pct=0.2, shifts=Shifts(clock=(0.0, 1.0)))
        for one in (side, without)
    )
    assert found.decision_pct == pytest.approx(
        stdtrit(12 + 7, 1 - 1e-3) * math.sqrt(12 / 19 * 0.2**2 * 2 / 5), rel=1e-3
    )
    assert bare.noisy and bare.decision_pct > 5 * found.decision_pct


def test_a_loss_below_half_the_limit_passes_however_certain_it_is() -> None:
    exact = [43.0] * 50
    assert outcome([value * 0.996 for value in exact], exact) == "pass"
    assert outcome([value * 0.994 for value in exact], exact) == "regressed"


def test_a_gate_that_cannot_fail_does_not_pass() -> None:
    wild = [10.0, 60.0, 43.0, 20.0, 80.0]
    result = compare(wild, wild, better="higher", limit_pct=1.0, cv_pct=0.26)
    assert (result.loss_pct, result.outcome, result.noisy) == (0.0, "inconclusive", True)
    assert result.decision_pct > BLIND


@pytest.mark.parametrize(("n", "m"), [(5, 5), (2, 8), (8, 2), (5, 1)])
def test_the_decision_is_the_rule_as_it_is_stated(n: int, m: int) -> None:
    before, now = [100 + 0.01 * i for i in range(n)], [100 + 0.02 * i for i in range(m)]
    squares = sum((value - np.mean(side)) ** 2 for side in (before, now) for value in side) / np.mean(before) ** 2 * 1e4
    df = 12 + n + m - 2
    sd = math.sqrt((12 * 0.2**2 + squares) / df)
    apart = sd**2 * (1 / n + 1 / m) + 0.06**2 * (1 / 2 + 1 / 1) + 0.3**2 * 2  # 2 processes and 1, each on one GPU
    result = compare(
        Sample(tuple(before), runs=tuple("xy"[i % 2] for i in range(n)), gpus=("a",) * n),
        Sample(tuple(now), runs=("z",) * m, gpus=("b",) * m),
        better="higher",
        limit_pct=0.01,
        cv_pct=0.2,
        shifts=Shifts(run_pct=0.06, gpu_pct=0.3),
    )
    assert result.decision_pct == pytest.approx(stdtrit(df, 1 - 1e-3) * math.sqrt(apart))


def test_the_prior_is_dropped_only_when_the_repeats_contradict_it() -> None:
    assert moderated(8 * 0.26**2, 8, 0.26) == (pytest.approx(0.26), 20, False)
    assert moderated(8 * 1.0**2, 8, 0.26) == (pytest.approx(1.0), 8, True)


@pytest.mark.parametrize(("before", "now"), [([43.0], [43.0]), (STEADY, []), ([0.0, 0.0], [1.0]), (STEADY, [math.nan])])
def test_what_cannot_be_compared_raises(before: list[float], now: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot compare"):
        compare(before, now, better="higher", limit_pct=1.0, cv_pct=0.26)


def test_impossible_values_are_not_plausible() -> None:
    tensor, cycles = BY_NAME["tensor_elapsed_pct"], BY_NAME["cycles"]
    assert tensor.plausible(0.0)
    assert not any(tensor.plausible(value) for value in (-1.0, 4e9, math.nan, math.inf))
    assert not any(cycles.plausible(value) for value in (0.0, -5.0, math.nan, math.inf))


def clocked(mean: float, clock: float) -> Sample:
    values = tuple(mean * (1 + off) for off in (-1e-3, -5e-4, 0.0, 5e-4, 1e-3))
    return Sample(values, (clock,) * 5, ("run",) * 5, ("gpu",) * 5)


def under_clock(loss_pct: float, clock_pct: float) -> NoiseTest:
    cycles = BY_NAME["cycles"]
    now = clocked(1e6 * (1 + loss_pct / 100), 1.7e9 * (1 + clock_pct / 100))
    return compare(clocked(1e6, 1.7e9), now, better="lower", limit_pct=2.0, cv_pct=cycles.cv_pct, shifts=cycles.shifts)


def test_a_loss_of_the_limit_that_only_the_clock_may_explain_is_not_passed() -> None:
    assert under_clock(1.5, 5.0).outcome == "pass"
    assert under_clock(4.0, 5.0).outcome == "inconclusive"
    assert under_clock(9.0, 5.0).outcome == "regressed"


def test_a_slower_clock_may_hide_a_loss_and_that_is_said() -> None:
    assert under_clock(0.0, -5.0).detectable_pct > 5.0
    assert under_clock(0.0, 0.0).detectable_pct < 2.0


def compared(before: Sample, now: Sample, shifts: Shifts | None = None) -> NoiseTest:
    """Cycles with an expected noise of 1 %, and no limit that decides before noise does."""
    known = {} if shifts is None else {"shifts": shifts}
    return compare(before, now, better="lower", limit_pct=1e-6, cv_pct=1.0, **known)


def test_what_the_clock_may_explain_comes_on_top_of_the_loss_that_counts() -> None:
    faster = Sample((100.0,) * 2, (1.03e9,) * 2)
    found = compared(Sample((100.0,) * 2, (1e9,) * 2), faster, Shifts(clock=(0.0, 1.0)))
    assert found.clock_room_pct > 2.0
    assert found.threshold_pct == found.decision_pct + found.clock_room_pct
    assert found.detectable_pct > found.threshold_pct


def test_gpus_differ_as_far_as_launches_are_on_different_ones() -> None:
    before = Sample((100.0,) * 4, gpus=("a",) * 4)
    same, half, other, unknown = (
        compared(before, Sample((100.0,) * 4, gpus=gpus), Shifts(gpu_pct=2.0)).decision_pct ** 2
        for gpus in (("a",) * 4, ("a", "b", "a", "b"), ("b",) * 4, ("",) * 4)
    )
    # Half of the launches elsewhere: (1 - 1/2)^2 + (1/2)^2 of a GPU's variance, against 1 + 1.
    assert (half - same) / (other - same) == pytest.approx(0.25)
    assert unknown == pytest.approx(other)


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
    assert clock_shift(sides, CYCLES, 0.2) == ClockShift()
