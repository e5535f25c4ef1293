"""Repeats against absolute limits, and the growth of a part of the account against a limit in
points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ncubble.analysis.account.parts import COARSE
from ncubble.analysis.gate.check.rule_verdict import check_absolute, check_growth, in_baseline_time
from ncubble.analysis.gate.check.rules import parse
from ncubble.analysis.gate.noise.noise import Sample, Shifts

FLOOR = parse("tensor_elapsed_pct >= 44")
CEILING = parse("cycles <= 2.1e6")
GROWTH = parse("data_wait +2")
STEADY = [20.1, 20.3, 19.9, 20.0, 20.2]
PRIOR = 0.3


def grown(points: float, before: list[float] = STEADY) -> list[float]:
    return [value + points for value in before]


@pytest.mark.parametrize(
    ("limit", "values", "verdict"),
    [
        (FLOOR, [44.0, 44.0], "pass"),
        (FLOOR, [50.0], "pass"),
        (FLOOR, [40.0, 49.0], "pass"),
        (FLOOR, [43.99, 44.0], "regressed"),
        (CEILING, [2.1e6], "pass"),
        (CEILING, [2.0e6, 2.3e6], "regressed"),
        (parse("data_wait <= 10"), [9.0, 11.5], "regressed"),
        (parse("data_wait <= 10"), [9.0, 10.5], "pass"),
    ],
)
def test_the_mean_alone_decides_an_absolute_limit(limit, values, verdict) -> None:
    found = check_absolute(limit, values)
    assert found.verdict == verdict and found.value == pytest.approx(np.mean(values))
    assert bool(found.reason) == (verdict != "pass")


def test_the_reason_gives_mean_limit_and_spread() -> None:
    assert check_absolute(CEILING, [2.2e6, 2.4e6]).reason == (
        "cycles is 2300000, above the limit 'cycles <= 2100000' (2 launches, 2200000 to 2400000)"
    )
    assert check_absolute(FLOOR, [12.3]).reason == (
        "tensor_elapsed_pct is 12.3, below the limit 'tensor_elapsed_pct >= 44' (1 launch)"
    )


def test_a_mean_that_rounds_to_its_limit_is_shown_with_all_digits() -> None:
    assert "is 43.9999999, below" in check_absolute(FLOOR, [43.9999999]).reason


@pytest.mark.parametrize("values", [[], [None, None], [math.nan, math.inf]])
@pytest.mark.parametrize("limit", [FLOOR, CEILING, parse("data_wait <= 10"), parse("idle <= 10")])
def test_an_absolute_limit_is_never_kept_by_measuring_nothing(limit, values) -> None:
    found = check_absolute(limit, values)
    assert (found.verdict, found.value) == ("nothing_measured", None)
    if limit.metric in COARSE:
        assert "cannot separate data_wait, copy_cost" in found.reason
    else:
        assert "profile with the default sets" in found.reason


def test_launches_that_lack_the_value_are_counted() -> None:
    found = check_absolute(FLOOR, [50.0, None, math.nan])
    assert found.verdict == "pass" and found.note == "tensor_elapsed_pct: 2 of 3 launches lack it"


def test_a_limit_within_the_interval_of_the_mean_is_called_near() -> None:
    near = check_absolute(FLOOR, [43.9, 44.2, 44.1])
    assert near.verdict == "pass" and "within noise of its limit" in near.note
    assert check_absolute(FLOOR, [48.9, 49.2, 49.1]).note == ""
    assert check_absolute(FLOOR, [44.01]).note == ""  # no noise is known of one launch
    assert "within noise" in check_absolute(FLOOR, [44.01], sd_prior=0.1).note


@pytest.mark.parametrize(
    ("values", "sd_prior", "note"),
    [
        ([44.1, 44.2, 44.3], None, "±0.25 (95 %) around 44.2"),  # t of 2 degrees of freedom, 4.30, by 0.1 / sqrt(3)
        ([44.2, 44.3, 44.4], None, ""),
        ([44.0, 44.2], None, "±1.3 (95 %) around 44.1"),  # t of 1, 12.7
        ([44.05, 44.15, 44.1], 0.1, "±0.12 (95 %) around 44.1"),  # t of 12 + 2, 2.14, by about 0.095 / sqrt(3)
        ([44.0, 44.0], None, "±0 (95 %) around 44"),
        ([44.1, 44.2, 44.3], 0.1, ""),  # a prior narrows the interval of few launches
        ([44.01], 0.1, "±0.22 (95 %) around 44.01"),  # t of 12, 2.18
        ([44.25], 0.1, ""),
    ],
)
def test_the_interval_of_a_mean_follows_its_scatter_and_what_is_expected(values, sd_prior, note) -> None:
    found = check_absolute(FLOOR, values, sd_prior).note
    assert found.endswith(note) and bool(found) == bool(note)


@pytest.mark.parametrize(
    ("points", "verdict"),
    [(-20, "pass"), (-2, "pass"), (0, "pass"), (0.9, "pass"), (1.1, "regressed"), (9, "regressed")],
)
def test_growth_beyond_half_of_the_limit_is_a_regression_and_shrinking_no_improvement(points, verdict) -> None:
    found = check_growth(GROWTH, STEADY, grown(points), PRIOR)
    assert found.verdict == verdict and found.value == pytest.approx(points)
    assert bool(found.reason) == (verdict != "pass")
    assert found.comparison is not None and found.comparison.decision_pct == pytest.approx(1.0)


def test_growth_is_in_points_whatever_the_part_took_before() -> None:
    small, large = [0.0, 0.1, 0.2], [80.0, 80.1, 80.2]
    one, other = (check_growth(GROWTH, side, grown(1.5, side), PRIOR) for side in (small, large))
    assert one.verdict == other.verdict == "regressed"
    assert one.comparison is not None and other.comparison is not None
    assert one.comparison.p_value == pytest.approx(other.comparison.p_value, rel=1e-6)


def test_the_reason_of_a_growth_gives_points_start_and_limit() -> None:
    reason = check_growth(GROWTH, STEADY, grown(3), PRIOR).reason
    assert reason.startswith(
        "data_wait grew by 3.00 points of the baseline's time, from 20.10: the limit is 'data_wait +2'"
    )


def test_noise_that_hides_the_limit_is_not_comparable_and_no_pass() -> None:
    wild = [20.0, 28.0, 20.0, 28.0, 20.0]
    for now in (wild, grown(3, wild)):
        found = check_growth(GROWTH, STEADY, now, PRIOR)
        assert found.verdict == "not_comparable" and "Profile more repeats" in found.reason


def test_a_part_that_fell_but_scatters_is_said_to_have_fallen() -> None:
    wild = [20.0, 28.0, 20.0, 28.0, 20.0]
    for points, said in ((-0.5, "fell by 0.50"), (-7.0, "fell by 7.00"), (0.5, "grew by 0.50")):
        reason = check_growth(GROWTH, wild, grown(points, wild), PRIOR).reason
        assert reason.startswith(f"data_wait {said} points of the baseline's time, from 23.20, but its repeats scatter")


def test_clocks_processes_and_gpus_of_launches_without_the_part_are_left_out() -> None:
    known = Sample((20.0, 20.2), (1.7e9, 1.7e9), ("a", "b"), ("x", "x"))
    lacking = Sample((20.0, math.nan, 20.2), (1.7e9, 1.0e9, 1.7e9), ("a", "a", "b"), ("x", "y", "x"))
    shifts = Shifts(run_pct=0.5, gpu_pct=0.5, clock=(0.0, 1.0))
    before = Sample(tuple(STEADY), (1.7e9,) * 5, ("z",) * 5, ("x",) * 5)
    full, partly = (check_growth(GROWTH, before, now, PRIOR, shifts) for now in (known, lacking))
    assert full.comparison == partly.comparison
    other = Sample((20.0, 20.2), (1.7e9, 1.7e9), ("a", "b"), ("y", "x"))
    assert check_growth(GROWTH, before, other, PRIOR, shifts).comparison != full.comparison


def test_a_growth_that_may_go_unseen_is_called_weak() -> None:
    weak = check_growth(GROWTH, STEADY, STEADY, 1.0)
    assert weak.verdict == "pass" and weak.note.startswith("weak: with 5 + 5 repeats a growth of data_wait below")
    assert check_growth(GROWTH, STEADY, STEADY, PRIOR).note == ""


def test_noise_that_processes_share_is_part_of_the_test() -> None:
    runs = (Sample(tuple(STEADY), runs=("a",) * 5), Sample(tuple(grown(1.2)), runs=("b",) * 5))
    assert check_growth(GROWTH, *runs, PRIOR).verdict == "regressed"
    assert check_growth(GROWTH, *runs, PRIOR, Shifts(run_pct=0.6)).verdict == "pass"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([], STEADY, "no launch of the baseline has it: record the baseline again"),
        ([None] * 5, STEADY, "no launch of the baseline has it"),
        ([20.0, None], STEADY, "only one launch of the baseline has it"),
        (STEADY, [], "no account of these launches has it: profile with the default sets"),
        (STEADY, [None, math.nan], "profile with the default sets"),
        ([], [], "profile with the default sets"),
    ],
)
def test_a_part_that_one_side_lacks_is_not_comparable(before, now, said) -> None:
    found = check_growth(GROWTH, before, now, PRIOR)
    assert found.verdict == "not_comparable" and said in found.reason


def test_two_launches_of_the_baseline_and_one_of_now_are_enough() -> None:
    assert check_growth(GROWTH, [20.0, 20.2], [20.1], PRIOR).verdict == "pass"
    assert check_growth(GROWTH, [20.0, None, 20.2], [29.0], PRIOR).verdict == "regressed"


def test_launches_without_the_part_are_left_out_with_what_is_known_of_them() -> None:
    now = Sample((20.0, math.nan, 20.2), runs=("a", "b", "c"), gpus=("x", "y", "z"))
    found = check_growth(GROWTH, [*STEADY, None], now, PRIOR)
    assert found.verdict == "pass"
    assert found.note == "data_wait of the baseline: 1 of 6 launches lack it; data_wait: 1 of 3 launches lack it"


def test_shares_are_counted_in_the_time_of_the_baseline() -> None:
    for unit in (100.0, 1.0):
        assert in_baseline_time([20.0, None], 0.5 * unit, unit) == (10.0, None)
    for cycles, before in ((math.nan, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, math.nan), (-1.0, 1.0), (math.inf, 1.0)):
        assert in_baseline_time([20.0], cycles, before) == (None,)
    faster = in_baseline_time([25.0] * 5, 80.0, 100.0)  # everything but this part got faster
    assert check_growth(GROWTH, [20.0] * 5, faster, PRIOR).verdict == "pass"
    slower = in_baseline_time([20.0] * 5, 120.0, 100.0)  # its share is as before, of more time
    assert check_growth(GROWTH, [20.0] * 5, slower, PRIOR).verdict == "regressed"


def test_other_kinds_of_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="not an absolute limit"):
        check_absolute(GROWTH, [1.0])
    with pytest.raises(ValueError, match="not a limit of growth"):
        check_growth(FLOOR, [1.0, 1.0], [1.0], PRIOR)


@pytest.mark.parametrize(("growth", "least", "most"), [(0.0, 0.0, 0.001), (2.0, 0.99, 1.0)])
def test_error_rates_at_the_noise_that_is_expected(growth: float, least: float, most: float) -> None:
    random = np.random.default_rng(20261122)
    trials = 2_000
    before = 20 + PRIOR * random.standard_normal((trials, 5))
    now = 20 + growth + PRIOR * random.standard_normal((trials, 5))
    pairs = zip(before.tolist(), now.tolist(), strict=True)
    found = sum(check_growth(GROWTH, one, other, PRIOR).verdict == "regressed" for one, other in pairs)
    assert least <= found / trials <= most
