"""Warps find their launch among the kernels of the streams, whatever the zero of their clock."""

from __future__ import annotations

import pytest

from ncubble.analysis.streams.account import STRAY_NS, levels_of
from tests.helpers.lane_frames import two_levels


@pytest.mark.parametrize("zero_ns", [0.0, 5e9, -7e5])
def test_warps_lie_within_their_kernels_on_the_clock_of_the_streams(zero_ns):
    streams, warps = two_levels(zero_ns)
    found = levels_of(streams, warps)
    assert found is not None and found.slack_ns == pytest.approx(2000.0)
    for launch in found.launches["launch"]:
        kernel, inside = found.of_launch(launch)
        assert inside["start_ns"].min() == pytest.approx(kernel["start_ns"] + 1000)
        assert inside["end_ns"].max() == pytest.approx(kernel["end_ns"] - 1000)
    assert set(found.warps["lane"]) == {"SM 0 CTA 5 warp 0", "SM 0 CTA 5 warp 1"}
    assert found.streams["start_ns"].min() == 0.0


def test_launches_are_matched_by_time_not_by_their_number():
    streams, warps = two_levels(order=(2, 0, 1))
    found = levels_of(streams, warps)
    assert found is not None and found.launches["launch"].tolist() == [2, 0, 1]
    assert found.middle == 0
    with pytest.raises(KeyError):
        found.of_launch(3)
    streams, warps = two_levels(order=(0,))
    alone = levels_of(streams, warps.assign(lane=warps["lane"].str.removeprefix("launch 0 ")))
    assert alone is not None and alone.launches["launch"].tolist() == [0], "one launch needs no number"


def test_warps_of_another_run_are_refused():
    streams, warps = two_levels()
    assert levels_of(streams, two_levels(order=(0, 1))[1]) is None
    late = warps.assign(end_ns=warps["end_ns"] + 2000 + STRAY_NS + 1)
    assert levels_of(streams, late) is None
    assert levels_of(streams.iloc[:0], warps) is None


def test_clocks_that_stray_a_little_are_told():
    streams, warps = two_levels()
    found = levels_of(streams, warps.assign(end_ns=warps["end_ns"] + 2000 + STRAY_NS / 2))
    assert found is not None and found.slack_ns == pytest.approx(-STRAY_NS / 2)
