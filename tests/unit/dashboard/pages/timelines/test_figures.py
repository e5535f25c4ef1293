"""The figure of lanes, its axis, and that of streams with the warps of one launch below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.streams.account import levels_of
from ncubble.dashboard.pages.timelines import figures as lanes
from ncubble.dashboard.pages.timelines.figures import (
    MOST_DRAWN,
    TimeAxis,
    lane_names,
    lanes_figure,
    tag_looks,
    unit_of,
)
from ncubble.dashboard.pages.timelines.layout import hint
from ncubble.dashboard.pages.timelines.levels import levels_figure
from tests.helpers.lane_frames import COLUMNS, streams, two_levels, warps

_FIVE = ["group", "lane", "tag", "start_ns", "end_ns"]


def test_the_figure_has_a_row_per_lane_and_a_hatched_trace_per_wait() -> None:
    made = lanes_figure(streams())
    assert [trace.name for trace in made.figure.data] == ["copy to GPU", "gemm", "copy to host", "wait event"]
    assert made.figure.data[-1].marker.pattern.shape == "/" and made.figure.data[0].marker.pattern.shape == ""
    assert list(made.figure.layout.yaxis.categoryarray) == [
        "upload · stream 1",
        "kernel · stream 2",
        "download · stream 3",
    ]
    assert list(made.figure.data[1].base) == [10, 20, 30] and list(made.figure.data[1].x) == [8, 8, 8]
    assert (made.intervals, made.left_out) == (12, 0)
    assert made.figure.data[1].customdata[0] == "8.00 µs from 10.00 µs"


def test_a_window_shows_what_was_summed_up() -> None:
    frame = warps(50_000)
    whole = lanes_figure(frame)
    low = 1e6
    part = lanes_figure(frame, (low, low + 20_000))
    assert 1000 < whole.bars <= MOST_DRAWN and "Zoom in to see all intervals" in hint(whole)
    assert part.step_ns == 0 and part.bars == part.intervals
    assert list(part.figure.layout.xaxis.range) == [1000.0, 1020.0]
    assert min(min(trace.base) for trace in part.figure.data if len(trace.base)) >= 1000.0


def test_a_step_shows_what_took_most_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(lanes_figure(streams()).figure.data[0].x) == [10, 10, 10]
    monkeypatch.setattr(lanes, "MOST_DRAWN", 4)  # two lanes in two steps of 50 ns
    rows = [(0, 0, 0.0, 30.0), (0, 1, 30.0, 40.0), (0, 0, 45.0, 60.0), (0, 1, 60.0, 100.0), (1, 1, 70.0, 70.0)]
    bars, step = lanes.summed(pd.DataFrame(rows, columns=["lane", "tag", "start", "end"]), 2, 2, 0.0, 100.0)
    told = [(one.lane, one.tag, one.start, one.end, one.count) for one in bars.itertuples(index=False)]
    assert step == 50.0 and told == [(0, 0, 0.0, 50.0, 2), (0, 1, 50.0, 100.0, 2), (1, 1, 50.0, 100.0, 1)]
    assert list(bars["share"]) == [pytest.approx(0.7), pytest.approx(0.8), pytest.approx(0.0, abs=1e-6)]


def test_summing_up_loses_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = warps(5_000).rename(columns={"start_ns": "start", "end_ns": "end"})
    placed = frame.assign(lane=frame["lane"].factorize()[0], tag=frame["tag"].factorize()[0])
    high = float(placed["end"].max())
    took, ended = lanes.by_step(placed, (12, 3, 333), 0.0, high / 333)
    assert took.sum() == pytest.approx((placed["end"] - placed["start"]).sum()) and ended.sum() == 5_000
    assert took.sum(axis=1).max() <= high / 333 * 1.0001


def test_many_lanes_are_cut_and_counted() -> None:
    made = lanes_figure(warps(2000, 200))
    assert (made.lanes, made.left_out) == (lanes.MOST_LANES, 200 - lanes.MOST_LANES)
    assert "104 are left out" in hint(made)


def test_many_tags_become_few() -> None:
    frame = warps(400).assign(tag=lambda one: "tag " + one.index.astype(str))
    names = [trace.name for trace in lanes_figure(frame).figure.data]
    assert len(names) == lanes.MOST_TAGS and lanes.OTHER in names


def test_as_many_tags_as_are_drawn_look_different() -> None:
    for prefix in ("tag", "wait"):
        looks = tag_looks([f"{prefix} {index}" for index in range(lanes.MOST_TAGS)])
        assert len(set(looks.values())) == lanes.MOST_TAGS
    work, waits = (set(tag_looks([f"{name}{i}" for i in range(12)]).values()) for name in ("a", "wait"))
    assert not {color for color, _ in work} & {color for color, _ in waits} and all(hatch for _, hatch in waits)


def test_lanes_of_a_group_stand_together() -> None:
    frame = pd.DataFrame([("w0", "p", 0, 1, "a"), ("w1", "c", 0, 1, "a"), ("w2", "p", 0, 1, "a")], columns=COLUMNS)
    assert list(lane_names(frame).values()) == ["p · w0", "p · w2", "c · w1"]


def test_warps_stand_in_order_of_their_numbers() -> None:
    names = ["CTA 9 warp 10", "CTA 9 warp 2", "CTA 12 warp 0", "copies", "CTA 9 warp 1"]
    frame = pd.DataFrame([("a", name, "load", at, at + 1.0) for at, name in enumerate(names)], columns=_FIVE)
    assert [lane for _, lane in lane_names(frame)] == [
        "CTA 9 warp 1",
        "CTA 9 warp 2",
        "CTA 9 warp 10",
        "CTA 12 warp 0",
        "copies",
    ]


def test_tags_of_the_probe_look_the_same_in_every_run() -> None:
    one, other = (
        tag_looks(["store", "wait_mma", "load", "own"]),
        tag_looks(["load", "copy in flight", "store", "wait_mma"]),
    )
    assert all(one[tag] == other[tag] for tag in ("store", "wait_mma", "load"))
    assert len(set(one.values())) == 4


def test_lanes_without_anything_in_the_window_are_not_drawn() -> None:
    frame = pd.DataFrame([("a", f"w{at}", "load", 10.0 * at, 10.0 * at + 5) for at in range(9)], columns=_FIVE)
    made = lanes_figure(frame, (20.0, 34.0))
    assert (made.lanes, made.left_out, made.intervals) == (2, 0, 2)
    assert list(made.figure.layout.yaxis.categoryarray) == ["a · w2", "a · w3"]
    assert lanes_figure(frame, (26.0, 29.0)).lanes == 0


def test_of_thousands_of_lanes_only_the_first_are_placed() -> None:
    count = 20_000
    frame = pd.DataFrame({"lane": [f"w{i}" for i in range(count)], "group": [f"g{i}" for i in range(count)]})
    frame = frame.assign(start_ns=np.arange(count, dtype=float), end_ns=lambda one: one["start_ns"] + 5, tag="a")
    made = lanes_figure(frame)
    assert (made.lanes, made.left_out, made.intervals) == (lanes.MOST_LANES, count - lanes.MOST_LANES, lanes.MOST_LANES)


@pytest.mark.parametrize(
    ("span", "name"), [(0.5, "ns"), (1_999, "ns"), (2_000, "µs"), (1.9e6, "µs"), (95e6, "ms"), (3e9, "s")]
)
def test_the_unit_follows_the_window(span: float, name: str) -> None:
    assert unit_of(span).name == name


def test_a_place_is_told_as_finely_as_the_window_shows_it() -> None:
    axis = TimeAxis(47_100_000.0, 47_103_000.0, unit_of(3_000))
    assert axis.place(47_101_234.0) == "47,101.234 µs"
    assert TimeAxis(0.0, 95e6, unit_of(95e6)).place(47_101_234.5) == "47.10 ms"


def test_a_long_run_has_an_axis_in_ms_and_the_browser_is_told() -> None:
    frame = streams()
    frame[["start_ns", "end_ns"]] *= 1_000
    drawn = lanes_figure(frame).figure
    assert drawn.layout.xaxis.title.text.endswith("ms")
    assert list(drawn.layout.xaxis.range) == [0, 42]
    assert drawn.layout.meta == {"lanes_ns": 1e6, "whole_ns": 42e6}
    assert drawn.data[0].customdata[0].endswith("from 0.00 ms")


def drawn(launch: int | None = None, span_ns: float | None = None) -> Any:
    levels = levels_of(*two_levels())
    assert levels is not None
    return levels_figure(levels, launch, span_ns)


def test_streams_are_above_and_warps_of_one_launch_below() -> None:
    figure = drawn()
    by_axis = {axis: [trace for trace in figure.data if trace.yaxis == axis] for axis in ("y", "y2")}
    assert [trace.name for trace in by_axis["y"]] == ["H2D copy", "pipe", "D2H copy"]
    assert {trace.name for trace in by_axis["y2"]} == {"load", "compute", "wait_data"}
    assert {trace.legend for trace in by_axis["y2"]} == {"legend2"}
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    assert (
        figure.layout.xaxis2.title.text == "µs since the first warp on SM 0 CTA 5, in a kernel of 10.0 µs in stream 1"
    )
    assert list(figure.layout.yaxis2.categoryarray) == ["loader · warp 0", "math · warp 1"]


def test_lines_lead_from_the_kernel_to_the_ends_of_the_lower_part() -> None:
    figure = drawn(0)
    span_us = figure.layout.xaxis.range[1]
    left, right = 20 / span_us, 30 / span_us
    band, lines = (shape.path.split() for shape in figure.layout.shapes)
    assert [float(band[1]), float(band[4])] == pytest.approx([left, right])
    assert [float(lines[1]), float(lines[7])] == pytest.approx([left, right])
    assert [float(lines[4]), float(lines[10])] == [0, 1]


def test_bars_show_the_tile_of_the_cta() -> None:
    texts = {text for trace in drawn(2).data if trace.yaxis == "y2" for text in trace.text}
    assert texts == {"load 0", "compute 0", "wait_data"}  # the tile is 269 of the grid


def test_a_part_of_a_launch_can_be_drawn() -> None:
    assert drawn(0, 2000).layout.xaxis2.range == (0, 2)
