"""Accounts over time: what runs together counts alike, and rows sum to 100 or 0."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.kineto.counters import over_time, shares

ACCOUNTS = [None, {"tensor_busy": 80.0, "data_wait": 20.0}, {"tensor_busy": 40.0, "issue": 60.0}]


def rows(slices):
    """(time, percent by part) of (start, end, account)."""
    parts, table = shares(ACCOUNTS)
    arrays = [np.array(column, dtype=kind) for column, kind in zip(zip(*slices, strict=True), "ddq", strict=True)]
    times, percent = over_time(*arrays, table)
    return [
        (time, dict(zip(parts, row, strict=True))) for time, row in zip(times.tolist(), percent.tolist(), strict=True)
    ]


def test_parts_stand_in_the_order_of_the_account():
    assert shares(ACCOUNTS)[0] == ["tensor_busy", "data_wait", "issue", "no account"]


def test_one_kernel_after_the_other():
    told = rows([(0, 10, 1), (10, 20, 2), (30, 31, 0)])
    assert [time for time, _ in told] == [0, 10, 20, 30, 31]
    assert told[0][1] == {"tensor_busy": 80, "data_wait": 20, "issue": 0, "no account": 0}
    assert told[1][1]["issue"] == 60
    assert set(told[2][1].values()) == {0} == set(told[4][1].values())
    assert told[3][1]["no account"] == 100


def test_kernels_at_the_same_time_count_alike():
    told = dict(rows([(0, 10, 1), (5, 15, 2)]))
    assert told[5] == {"tensor_busy": 60, "data_wait": 10, "issue": 30, "no account": 0}
    assert told[10]["tensor_busy"] == 40


def test_what_takes_no_time_is_left_out_and_equal_rows_are_written_once():
    assert [time for time, _ in rows([(3, 3, 1), (4, 5, 1), (5, 6, 1)])] == [4, 6]
    assert rows([(3, 3, 1)]) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=30))
def test_every_row_sums_to_100_where_something_runs(slices):
    spans = [(start, start + length, account) for start, length, account in slices]
    told = rows(spans)
    for time, row in told:
        runs = any(start <= time < end for start, end, _ in spans)
        assert round(sum(row.values()), 6) == (100 if runs else 0)
    if told:
        assert sum(told[-1][1].values()) == 0
