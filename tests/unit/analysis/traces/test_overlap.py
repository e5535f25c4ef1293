"""Overlap of kinds of work by union of intervals, and time by tag in a window."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.traces.lanes import concurrency, tag_times
from tests.helpers.lane_frames import streams, warps


def test_overlap_of_pairs_and_of_three() -> None:
    found = concurrency(streams())
    assert found.span_ns == 42_000 and found.idle_ns == 0
    assert found.busy_ns == {"upload": 30_000, "kernel": 24_000, "download": 12_000}
    by_name = {one.what: one for one in found.overlaps}
    assert by_name[("upload", "kernel")].ns == 16_000  # two of three kernels run beside an upload
    assert by_name[("upload", "kernel")].pct_of_least == pytest.approx(100 * 16 / 24)
    assert by_name[("kernel", "download")].ns == 4_000  # a wait is no work: 2 of 4 µs, twice
    assert by_name[("upload", "kernel", "download")].ns == 2_000
    assert by_name[("upload", "download")].pct_of_span == pytest.approx(100 * 6 / 42)


def test_overlap_agrees_with_counting_nanoseconds() -> None:
    frame = warps(300, 6).assign(group=lambda one: "g" + (one.index % 3).astype(str))
    found = concurrency(frame)
    clock = np.arange(int(frame["end_ns"].max()))
    busy = {
        name: np.any(
            [(clock >= a) & (clock < b) for a, b in zip(rows["start_ns"], rows["end_ns"], strict=True)], axis=0
        )
        for name, rows in frame[~frame["tag"].str.startswith("wait")].groupby("group")
    }
    assert found.idle_ns == (~np.any(list(busy.values()), axis=0)).sum()
    for one in found.overlaps:
        assert one.ns == np.all([busy[name] for name in one.what], axis=0).sum()


def test_nothing_overlaps_without_rows() -> None:
    found = concurrency(streams().iloc[0:0])
    assert (found.span_ns, found.overlaps) == (0, ())


def test_work_that_is_kept_apart_does_not_overlap() -> None:
    rows = pd.DataFrame({"tag": ["load", "compute"], "sm": [0, 1], "start_ns": [0.0, 0.0], "end_ns": [9.0, 9.0]})
    assert [concurrency(rows, "tag", within, 18.0).overlaps[0].ns for within in ((), ("sm",))] == [9.0, 0.0]


def test_times_in_a_window_count_what_lies_in_it() -> None:
    rows = [
        ("a", "x", "load", 0, 10),
        ("a", "x", "wait", 10, 30),
        ("a", "y", "load", 5, 50),
        ("b", "z", "load", 99, 100),
    ]
    lanes = pd.DataFrame(rows, columns=["group", "lane", "tag", "start_ns", "end_ns"]).astype(
        {"start_ns": float, "end_ns": float}
    )
    load, wait = tag_times(lanes, 5.0, 25.0)
    assert (load.group, load.tag, load.count, load.ns, load.median_ns) == ("a", "load", 2, 25.0, None)
    assert load.pct == pytest.approx(100 * 25 / 40)
    assert (wait.count, wait.ns, wait.median_ns) == (1, 15.0, None)
    whole = tag_times(lanes, 0.0, 100.0)
    assert [(each.group, each.tag) for each in whole] == [("a", "load"), ("a", "wait"), ("b", "load")]
    assert whole[0].median_ns == pytest.approx((10 + 45) / 2)
    assert tag_times(lanes, 60.0, 70.0) == []
