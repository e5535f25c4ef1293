"""Tracks of a timeline: what is shown, marked and said."""

from __future__ import annotations

from ncubble.analysis.details.tracks import Marks, Window, sampling_interval_ns, window
from tests.helpers import dashboard_frames as frames


def marked(phases: object, shown: Window) -> Marks:
    return Marks.of(phases, frames.PARTS, shown, "tensor")


def test_series_of_another_pass_are_left_out_and_named() -> None:
    timeline = frames.timeline(0)
    timeline.loc[timeline["metric"] == "l2", "t_ns"] += 80_000_000
    shown = window(timeline)
    assert shown is not None
    assert shown.apart == ["L2"]
    assert [track.label for track, *_ in shown.tracks] == ["tensor pipe", "SMs active", "DRAM"]


def test_the_series_of_the_account_sets_the_time_base() -> None:
    timeline = frames.timeline(0)
    timeline.loc[timeline["metric"] == "dram", "t_ns"] += 80_000_000
    shown = window(timeline, "dram")
    assert shown is not None
    assert [track.label for track, *_ in shown.tracks] == ["DRAM"]


def test_without_samples_there_is_no_window_and_no_interval() -> None:
    empty = frames.timeline(0).iloc[0:0]
    assert window(empty) is None
    assert sampling_interval_ns(empty) is None
    silent = frames.timeline(0).assign(value=0.0)
    assert window(silent) is None


def test_a_tensor_track_that_is_mere_leakage_is_left_out_where_another_unit_counts() -> None:
    timeline = frames.timeline(0)
    leaked = timeline.assign(value=timeline["value"].where(timeline["metric"] != "tensor", 2.0))
    shown = window(leaked, "dram")
    assert shown is not None
    assert [track.label for track, *_ in shown.tracks] == ["DRAM", "SMs active", "L2"]
    kept = window(timeline, "dram")
    assert kept is not None and "tensor pipe" in [track.label for track, *_ in kept.tracks]


def test_the_sampling_interval_is_that_of_the_finest_series() -> None:
    assert sampling_interval_ns(frames.timeline(0)) == 1500.0


def test_what_is_shaded_is_said_with_the_shares_of_the_account() -> None:
    shown = window(frames.timeline(0))
    assert shown is not None
    said = marked(frames.phases(), shown).words()
    assert "tensor pipe well below the steady level of 52 % (dotted)" in said
    assert said.endswith("In the account: ramp 2.4 %, 3 wave gaps 3.0 %, tail 5.5 % of kernel time.")
