"""What removing a cause gives: from its share, and for waits for data from the depth that is
predicted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.account.account import account
from ncubble.analysis.diagnosis.brief import fixes
from ncubble.analysis.diagnosis.diagnose import depth_gain, diagnose, gain_of, gains
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT

SHARE = st.floats(0.0, 100.0)


@given(SHARE, SHARE)
def test_a_gain_lies_between_its_bounds_and_never_beyond_idle_time(pct: float, idle: float) -> None:
    pct = min(pct, idle)
    gain = gain_of(pct, idle)
    assert 0.0 <= gain.low <= gain.expected <= gain.high <= idle + 1e-9


@given(SHARE, SHARE, SHARE)
def test_a_larger_share_of_the_same_idle_time_gains_more(one: float, other: float, idle: float) -> None:
    small, large = sorted((min(one, idle), min(other, idle)))
    assert gain_of(small, idle).expected <= gain_of(large, idle).expected + 1e-9


def test_a_cause_that_is_all_idle_time_gains_just_that() -> None:
    assert gain_of(40.0, 40.0).expected == pytest.approx(40.0)


@pytest.fixture(scope="module")
def tma() -> dict[int, Report]:
    return {stages: Report.open(ROOT / "gemm_tma" / f"stages{stages}") for stages in (2, 6)}


def test_the_first_cause_of_a_shallow_ring_gains_what_the_best_depth_gives(tma: dict[int, Report]) -> None:
    found = account(tma[2].launch(0))
    assert found is not None
    gained, deeper = gains(tma[2].launch(0), found)["data_wait"], depth_gain(tma[2].launch(0))
    assert deeper is not None and 15.0 < deeper.expected < 40.0
    assert gained == deeper.at_most(gain_of(found.parts["data_wait"], 100.0 - found.parts["tensor_busy"]).high)
    first = diagnose(tma[2].launch(0), found).causes[0]
    assert (first.cause, first.predicted_gain_pct) == ("data_wait", gained.expected)


def test_a_ring_that_is_deep_enough_is_not_advised_another_stage(tma: dict[int, Report]) -> None:
    found = account(tma[6].launch(0))
    assert found is not None
    told = diagnose(tma[6].launch(0), found)
    assert not [cause for cause in told.causes if cause.disease in ("shallow_pipeline", "single_buffer")]


def test_fixes_follow_the_causes_with_what_they_gain(tma: dict[int, Report]) -> None:
    found = account(tma[2].launch(0))
    told = diagnose(tma[2].launch(0), found)
    listed = fixes(told)
    assert [fix.cause for fix in listed] == [cause.cause for cause in told.causes]
    assert all(fix.low is not None and fix.high is not None and fix.low <= fix.high for fix in listed)


def test_nothing_in_the_pipeline_is_said_to_gain_where_memory_is_the_bound() -> None:
    report = Report.open(ROOT / "softmax_online" / "default")
    found = account(report.launch(0))
    told = diagnose(report.launch(0), found)
    assert told.cause == "memory_bound" and {cause.predicted_gain_pct for cause in told.causes} == {None}
    assert {fix.predicted_gain_pct for fix in fixes(told)} == {None}


def test_the_slow_path_is_among_the_causes_and_first_only_as_the_verdict() -> None:
    for name, first in (("gemm_mma_swizzled/default", True), ("tensor_core_gemm/stages1", False)):
        report = Report.open(ROOT / name)
        causes = [cause.cause for cause in diagnose(report.launch(0), account(report.launch(0))).causes]
        assert "slow_path" in causes
        assert (causes[0] == "slow_path") is first
