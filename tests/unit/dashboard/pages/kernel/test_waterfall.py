"""The account as a waterfall, and idle time over the timeline by its cause."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.account.palette import contrast, text_color
from ncubble.analysis.details.tracks import MOST, REST, Marks, Window, stall_series, window
from ncubble.dashboard.pages.kernel.timeline_figure import LaunchTimeline, bands_of
from ncubble.dashboard.ui.figures import (
    OTHER,
    REASONS,
    described,
    domains,
    parts_of,
    reason_style,
    steps,
    waterfall,
    wrapped,
)
from tests.helpers import dashboard_frames as frames


def test_steps_go_from_100_down_to_work_largest_bubble_first() -> None:
    drawn = steps(frames.PARTS)
    bubbles = [step for step in drawn if step.part != "tensor_busy"]
    assert [step.part for step in bubbles][:3] == ["copy_cost", "sync_wait", "data_wait"]
    assert bubbles[0].base == pytest.approx(100.0 - 21.0)
    for before, after in pairwise(bubbles):
        assert after.base + after.share == pytest.approx(before.base)
    assert bubbles[-1].base == pytest.approx(frames.PARTS["tensor_busy"])
    assert (drawn[-1].part, drawn[-1].base, drawn[-1].share) == ("tensor_busy", 0.0, 43.1)


def test_a_step_carries_percent_and_time_and_stands_where_its_label_says() -> None:
    drawn = waterfall(frames.PARTS, 400_000.0)
    label = next(one for one in drawn.layout.annotations if one.x == "copy<br>cost")
    assert label.text == "<b>21.0 %</b><br>84.0 µs"
    bar = next(trace for trace in drawn.data if trace.customdata[0] == "copy_cost")
    assert (bar.x[0], bar.base[0], bar.y[0]) == ("copy<br>cost", pytest.approx(79.0), 21.0)
    assert bar.marker.pattern.shape == "/"
    assert drawn.data[0].name == "elapsed" and drawn.data[0].y[0] == 100.0


def test_without_a_duration_no_time_is_claimed() -> None:
    texts = [one.text for one in waterfall({"tensor_busy": 60.0, "idle": 40.0}).layout.annotations]
    assert texts == ["<b>100.0 %</b>", "<b>40.0 %</b>", "<b>60.0 %</b>"]


def test_what_would_read_zero_is_not_drawn() -> None:
    assert [name for name, *_ in parts_of({"tensor_busy": 99.97, "other": 0.03, "tail": None})] == ["tensor_busy"]
    assert [step.part for step in steps({"tensor_busy": 100.0})] == ["tensor_busy"]


def test_the_words_name_every_part_and_its_unit() -> None:
    assert described({"unit_busy": 91.0, "idle": 9.0}, "DRAM").endswith("idle, not split 9.0 %, DRAM busy 91.0 %")


@pytest.mark.parametrize(
    ("label", "lines"), [("tail", 1), ("wave gap", 1), ("busiest unit busy", 2), ("idle, not split", 2)]
)
def test_labels_are_broken_where_twelve_would_not_fit(label: str, lines: int) -> None:
    assert len(wrapped(label).split("\n")) == lines
    assert wrapped(label).replace("\n", " ") == label


def test_hostile_parts_are_text() -> None:
    assert "<img" not in str(waterfall({frames.HOSTILE: 100.0}, 1.0, frames.HOSTILE).to_plotly_json())


def _shown(timeline: pd.DataFrame) -> Window:
    shown = window(timeline)
    assert shown is not None
    return shown


def _bands(timeline: pd.DataFrame) -> tuple[Window, dict[str, np.ndarray]]:
    shown = _shown(timeline)
    marks = Marks.of(frames.phases(), frames.PARTS, shown, "tensor")
    return shown, bands_of(shown, marks, frames.phases(), frames.PARTS)


def test_busy_and_idle_fill_every_sample_of_the_launch() -> None:
    shown, bands = _bands(frames.timeline(0))
    busy = shown.tracks[0][2].to_numpy()
    times = shown.tracks[0][2].index.to_numpy()
    inside = (times >= 0) & (times <= frames.phases().end_ns)
    total = busy + sum(bands.values())
    assert total[inside] == pytest.approx(100.0, abs=1e-6)
    assert all((band >= 0).all() for band in bands.values())


def test_phases_take_their_loss_only_inside_their_stretches() -> None:
    shown, bands = _bands(frames.timeline(0))
    times = shown.tracks[0][2].index.to_numpy()
    assert (bands["ramp"][times >= 12_000] == 0).all() and bands["ramp"][0] > 40
    assert (bands["tail"][times <= 372_000] == 0).all()
    in_gap = (times >= 99_000) & (times < 106_500)
    assert bands["wave_gap"][in_gap] == pytest.approx(52.0 - 18.0)
    assert (bands["wave_gap"][(times > 20_000) & (times < 98_000)] == 0).all()


def test_steady_idle_time_is_split_as_the_account_splits_it() -> None:
    shown, bands = _bands(frames.timeline(0))
    steady = int(np.argmin(np.abs(shown.tracks[0][2].index.to_numpy() - 50_000)))
    assert bands["copy_cost"][steady] / bands["sync_wait"][steady] == pytest.approx(21.0 / 6.5)


def test_bands_need_phases_that_were_found_on_the_series_of_the_first_track() -> None:
    shown = _shown(frames.timeline(0))
    marks = Marks.of(frames.phases(), frames.PARTS, shown, "alu")
    assert bands_of(shown, marks, frames.phases(), frames.PARTS) == {}


def _with_stalls(count: int = 3) -> pd.DataFrame:
    timeline = frames.timeline(0)
    one = timeline[timeline["metric"] == "tensor"]
    reasons = ["long_scoreboard", "barrier", "wait", *(f"extra_{index}" for index in range(20))][:count]
    more = [one.assign(metric=f"stall_{name}", value=float(count - i), unit="warp") for i, name in enumerate(reasons)]
    return pd.concat([timeline, *more], ignore_index=True)


def test_sampled_warp_states_become_one_stacked_track_on_the_same_axis() -> None:
    timeline = _with_stalls()
    shown = _shown(timeline)
    stalls, unit = stall_series(timeline, shown)
    assert (list(stalls), unit) == (["long_scoreboard", "barrier", "wait"], "warp")
    drawn = LaunchTimeline(shown, None, {}, stalls, unit).figure()
    traces = [trace for trace in drawn.data if trace.meta.get("reason")]
    assert len({trace.stackgroup for trace in traces}) == 1
    assert {trace.xaxis for trace in drawn.data} == {"x"}
    assert "warps stalled<br>warp" in {label.text for label in drawn.layout.annotations}


def test_many_reasons_are_drawn_as_the_largest_and_the_rest() -> None:
    timeline = _with_stalls(12)
    stalls, _ = stall_series(timeline, _shown(timeline))
    assert len(stalls) == MOST + 1 and list(stalls)[-1] == REST
    total = sum(float(values.iloc[5]) for values in stalls.values())
    assert total == pytest.approx(sum(range(1, 13)))


def test_warp_states_on_another_clock_are_left_out() -> None:
    timeline = _with_stalls()
    apart = timeline["metric"].str.startswith("stall_")
    timeline.loc[apart, "t_ns"] += 90_000_000
    assert stall_series(timeline, _shown(frames.timeline(0))) == ({}, "")
    assert stall_series(frames.timeline(0), _shown(frames.timeline(0))) == ({}, "")


def test_the_asked_range_is_what_the_axis_shows_and_zooming_is_in_time_alone() -> None:
    shown, bands = _bands(frames.timeline(0))
    drawn = LaunchTimeline(shown, None, bands).figure((10.0, 60.0))
    assert list(drawn.layout.xaxis.range) == [10.0, 60.0]
    assert drawn.layout.yaxis.fixedrange and drawn.layout.yaxis2.fixedrange
    assert drawn.layout.hoversubplots == "axis"


def test_rows_fill_the_height_without_touching() -> None:
    places = domains([2.3, 1.0, 1.0], 0.1)
    assert places[0][1] == 1.0 and places[-1][0] == pytest.approx(0.0, abs=1e-9)
    assert all(below[1] < above[0] for above, below in pairwise(places))
    assert places[0][1] - places[0][0] == pytest.approx(2.3 * (places[1][1] - places[1][0]))


@pytest.mark.parametrize("reason", [*REASONS, "not_known_yet"])
def test_a_reason_stands_out_from_both_surfaces_and_its_text_from_it(reason: str) -> None:
    color = reason_style(reason).color
    assert contrast(color, "#ffffff") >= 3.0 and contrast(color, "#17202b") >= 3.0
    assert contrast(color, text_color(color)) >= 4.5


def test_reasons_differ_in_colour_or_hatching() -> None:
    styles = [(style.label, style.color, style.hatch) for style in [*REASONS.values(), OTHER]]
    assert len({style[1:] for style in styles}) == len({style[0] for style in styles})


def test_a_part_without_which_the_kernel_is_slower_rises() -> None:
    drawn = steps({"tensor_busy": 60.0, "copy_cost": 30.0, "remainder": 15.0, "sync_wait": -5.0})
    assert [(step.part, step.base, step.top, step.end) for step in drawn] == [
        ("copy_cost", 70.0, 100.0, 70.0),
        ("remainder", 55.0, 70.0, 55.0),
        ("sync_wait", 55.0, 60.0, 60.0),
        ("tensor_busy", 0.0, 60.0, 0.0),
    ]
    figure = waterfall({"tensor_busy": 60.0, "copy_cost": 45.0, "sync_wait": -5.0}, 100_000.0)
    (rising,) = [trace for trace in figure.data if trace.customdata[0] == "sync_wait"]
    assert (rising.base[0], rising.y[0]) == (55.0, 5.0)
    assert any(note.text == "<b>-5.0 %</b><br>-5.00 µs" for note in figure.layout.annotations)
