"""What is expected of configurations that were not timed."""

from __future__ import annotations

import itertools
import math

import pytest

from ncubble.kernels.run.tune import improvements

SIZES, ORDERED = (4, 3), (True, False)
POINTS = list(itertools.product(range(4), range(3)))


def gains_of(times, ordered=ORDERED):
    return improvements(SIZES, ordered, POINTS, times)


def test_nothing_is_said_of_what_was_timed_and_nothing_is_left_where_all_was():
    times = {point: 100.0 + sum(point) for point in POINTS}
    assert gains_of(times) == {}
    assert set(gains_of({POINTS[0]: 100.0})) == set(POINTS[1:])


def test_more_is_expected_beside_the_fast_than_beside_the_slow():
    times = {(0, 0): 100.0, (3, 0): 400.0, (0, 1): 100.0, (3, 1): 400.0, (0, 2): 101.0}
    gains = gains_of(times)
    assert gains[(1, 0)] > 5 * gains[(2, 0)] > 0.0


def test_what_one_axis_shows_is_expected_at_values_of_the_other():
    times = {(place, 0): time for place, time in enumerate((400.0, 300.0, 200.0, 100.0))} | {(0, 1): 390.0}
    gains = gains_of(times)
    assert max(gains, key=lambda point: gains[point]) in [(3, 1), (3, 2)]


def test_words_have_no_order_and_numbers_have():
    times = {(0, 0): 100.0, (0, 1): 200.0, (3, 1): 210.0, (1, 1): 190.0}
    words = gains_of(times)
    numbers = gains_of(times, (True, True))
    assert words[(1, 2)] != numbers[(1, 2)]  # as numbers 2 is farther from 0 than from 1


@pytest.mark.parametrize("times", [{(0, 0): 5.0}, dict.fromkeys(POINTS[:5], 7.0), {(0, 0): 1.0, (3, 2): 1e6}])
def test_gains_are_finite_and_no_loss(times):
    gains = gains_of(times)
    assert all(math.isfinite(gain) and gain >= -1e-12 for gain in gains.values())


def test_the_order_of_timings_does_not_matter():
    times = {(0, 0): 100.0, (3, 2): 150.0, (1, 1): 120.0}
    assert gains_of(times) == pytest.approx(gains_of(dict(reversed(times.items()))))
