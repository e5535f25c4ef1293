"""The steady state is the longest stretch of launches that repeats, whatever lies around it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.program.span import steady_state, warm_repeats

LAYER = [1, 2, 3, 4, 1, 2, 5]
STEP = [9, *LAYER * 12, 7, *[6, 6, 5, 4] * 12, 8]


def found(kernels, times=None):
    """Of launches that take 1 ns each, unless told otherwise."""
    return steady_state(np.array(kernels), np.ones(len(kernels)) if times is None else np.array(times, float))


def test_a_step_of_equal_layers_is_found_behind_warm_up_and_before_evaluation():
    steady = found([20, 21, 22, *STEP, 30, *STEP * 20, 40, 41])
    assert (steady.first, steady.period, steady.repeats, steady.extra) == (139, len(STEP), 20, 0)
    assert steady.share == pytest.approx(20 * len(STEP) / (4 + 21 * len(STEP) + 2))


def test_the_shortest_period_counts_and_what_continues_it_is_counted_apart():
    steady = found([1, 2, 3] * 7 + [1, 2])
    assert (steady.first, steady.period, steady.repeats, steady.extra) == (0, 3, 7, 2)
    assert found([4] * 9).period == 1


def test_what_never_repeats_or_only_for_a_moment_has_no_steady_state():
    assert found(range(50)) is None
    assert found([1]) is None
    assert found([1, 1]) is None and found([1, 1, 1]) is None and found([1, 2, 1, 2]).repeats == 2
    assert found([]) is None
    assert found([1, 1, *range(2, 40)]) is None
    assert found([1, 2, 1, 2, 3, 4], [1, 1, 1, 1, 100, 100]) is None
    assert found([1, 2] * 4, [0] * 8) is None


def test_a_logging_kernel_now_and_then_ends_the_stretch_it_does_not_hide_the_step():
    steady = found([*STEP * 3, 50, *STEP * 8, 50, *STEP * 2])
    assert (steady.first, steady.period) == (3 * len(STEP) + 1, len(STEP))
    assert steady.repeats == 8


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(4, 9), st.lists(st.integers(6, 99), max_size=9)
)
def test_any_repeated_sequence_is_found(step, repeats, before):
    steady = found([*before, *step * repeats], [*[0.0] * len(before), *[1.0] * len(step) * repeats])
    assert steady is not None
    assert steady.share >= 0.98
    assert len(step) % steady.period == 0 or steady.period <= len(step)
    assert steady.first + steady.period * steady.repeats + steady.extra <= len(before) + len(step) * repeats


def test_slow_repetitions_at_the_start_are_warm_up_and_never_more_than_half():
    assert warm_repeats(np.array([400, 130, 100, 100, 101, 99, 300])) == 2
    assert warm_repeats(np.array([100, 100, 100])) == 0
    assert warm_repeats(np.array([400, 1])) == 0
    assert warm_repeats(np.array([9, 9, 1, 1, 1, 1, 1])) == 2
