"""Kernels that run together share the time evenly; the shares sum to the time in which any runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.program.account import shares
from ncubble.analysis.program.span import within


def shared(intervals, windows):
    start, end = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    return shares(start, end, windows)


def test_only_time_within_the_windows_counts():
    found = shared([(0, 10), (8, 30)], ((2, 9), (20, 25)))
    assert found.own_ns.tolist() == [6.5, 5.5]
    assert (found.busy_ns, found.overlapped_ns) == (12.0, 1.0)
    assert within(0, 22, ((2, 9), (20, 25))) == 9


def test_of_nothing_there_is_nothing():
    assert shares(np.array([]), np.array([]), ((0, 5),)).busy_ns == 0
    assert shared([(0, 5)], ()).own_ns.tolist() == [0.0]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=12),
    st.lists(st.integers(0, 80), min_size=2, max_size=6, unique=True).filter(lambda edges: len(edges) % 2 == 0),
)
def test_shares_are_those_of_every_single_moment(pieces, edges):
    intervals = [(start, start + length) for start, length in pieces]
    edges = sorted(edges)
    windows = tuple(zip(edges[::2], edges[1::2], strict=True))
    own = [0.0] * len(intervals)
    for moment in range(100):
        running = [place for place, (start, end) in enumerate(intervals) if start <= moment < end]
        if any(first <= moment < last for first, last in windows):
            for place in running:
                own[place] += 1 / len(running)
    found = shared(intervals, windows)
    assert found.own_ns == pytest.approx(own)
    assert found.busy_ns == pytest.approx(sum(own))
