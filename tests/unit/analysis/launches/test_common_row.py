"""Rows of the dashboard as one row, by the rules that ``ncubble report`` follows."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from ncubble.analysis.diagnosis.groups import folded, groups_of, main_cause
from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.launches.losses import (
    LaunchColumns,
    common_row,
    kinds_of,
    mean_of_columns,
    means,
    share_pct,
    sums,
)
from ncubble.analysis.report.report import Report
from ncubble.dashboard.data.rows import launch_row
from ncubble.dashboard.pages.overview.table import group_key
from ncubble.recordings import RANKS


def row(ns: float | None, cause: str = "data wait", **changes: Any) -> dict[str, Any]:
    base = {
        "id": "0" * 16 + "/0",
        "name": "gemm",
        "duration_ns": ns,
        "recoverable_ns": None if ns is None else ns / 2,
        "cause": cause,
        "cause_key": cause.replace(" ", "_"),
        "cause_pct": 20.0,
        "busy": 40.0,
        "account": [["tensor_busy", 40.0], ["data_wait", 60.0]],
        "measured": None,
        "parameters": {"stages": 3},
        "dims": {"m": 4096},
        "registers": 128.0,
    }
    known = base | changes
    return {"label": f"stages={known['parameters']['stages']}", "shape": "m=4096", "path": "run", **known}


def together(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return common_row(rows, kinds_of(rows)[0], LaunchColumns.of_rows(rows), np.arange(len(rows)))


def test_sums_means_and_what_differs() -> None:
    found = together([row(3e3, busy=40.0), row(1e3, busy=80.0, registers=64.0, parameters={"stages": 4})])
    assert (found["duration_ns"], found["recoverable_ns"], found["busy"], found["count"]) == (4e3, 2e3, 50.0, 2)
    assert found["registers"] is None and "registers" in found["several"] and "name" not in found["several"]
    assert (found["parameters"], found["dims"]) == ({}, {"m": 4096})
    assert found["account"] == [("tensor_busy", 40.0), ("data_wait", 60.0)]


def test_a_judged_launch_gives_the_cause_however_short_it_is() -> None:
    unknown = row(9e3, "unknown", cause_pct=None, account=[])
    measured = row(2e3, "issue (measured)", cause_key="issue", account=[["tensor_busy", 40.0], ["issue", 60.0]])
    found = together([unknown, row(1e3, "issue"), measured])
    assert (found["cause"], found["cause_pct"], found["judged"]) == ("issue (measured)", 40.0, 2)
    assert together([unknown, unknown])["cause"] == "unknown"
    assert main_cause(["unknown", "issue"], [9.0, 0.0]) == "issue"


def test_launches_without_a_duration() -> None:
    found = together([row(None), row(None)])
    assert (found["duration_ns"], found["recoverable_ns"], found["busy"]) == (None, None, 40.0)


def test_columns_sum_and_average_as_rows_do() -> None:
    values, time = np.array([40.0, np.nan, 80.0, 10.0]), np.array([3.0, 1.0, 1.0, np.nan])
    codes = np.array([0, 1, 0, 2])
    assert means(values, time, codes, 3).tolist() == pytest.approx([50.0, np.nan, 10.0], nan_ok=True)
    assert mean_of_columns(values[[0, 2], None], time[[0, 2]]).tolist() == [50.0]
    assert mean_of_columns(values[[3, 1], None], time[[3, 3]]).tolist() == [10.0]
    assert np.isnan(mean_of_columns(values[[1], None], time[[1]])).all()
    assert sums(values, codes, 3).tolist() == pytest.approx([120.0, np.nan, 10.0], nan_ok=True)
    assert sums(np.array([]), np.array([], int), 0).tolist() == []
    assert (share_pct(1.0, 4.0), share_pct(None, 4.0), share_pct(1.0, 0.0)) == (25.0, None, None)


def test_small_groups_never_hide_more_than_a_fifth_of_the_time() -> None:
    assert folded([1e6, *[100.0] * 4], [True] * 5) == {1, 2, 3, 4}
    assert folded([1e6, *[100.0] * 3], [True] * 4) == set()
    assert len(folded([1.0] * 200, [False] * 200)) == 40
    assert folded([0.0] * 10, [True] * 10) == set() and folded([], []) == set()


def test_kernels_of_the_tensor_pipe_are_small_among_their_own_only() -> None:
    assert folded([1e6, 300.0, 200.0, *[1.0] * 4], [False, True, True, *[False] * 4]) == {3, 4, 5, 6}


def test_a_recorded_report_has_the_groups_of_ncubble_report() -> None:
    report = Report.open(RANKS / "rank0")
    verdicts = judge(report)[0]
    rows = [launch_row(report, one.launch, one) for one in verdicts]
    groups = groups_of(verdicts)
    key = lambda one: group_key(one, "problem")  # noqa: E731
    made = [together(list(found)) for _, found in groupby(sorted(rows, key=key), key)]
    assert len(made) == len(groups) == 2
    for group in groups:
        same = next(one for one in made if one["kernel"] == group.verdict.kernel)
        assert same["duration_ns"] == pytest.approx(group.time_ns)
        assert same["busy"] == pytest.approx(group.busy_pct, abs=1e-3)
        known = {part: pct for part, pct in group.verdict.account.items() if pct}
        assert dict(same["account"]) == pytest.approx(known, abs=1e-3)
        assert same["recoverable_ns"] == pytest.approx(group.lost_ns, abs=1.0)
