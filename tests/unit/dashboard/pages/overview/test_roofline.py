"""FLOPs, bytes and roofs of launches, and the figure that draws them."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest

from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.model.roofs import BUS, GUIDED, STATED
from ncubble.dashboard.pages.overview.figure import MOST_POINTS, roofline_data, worth_drawing
from ncubble.dashboard.ui.components import bare
from tests.helpers.roofline_rows import row


def test_the_roofline_draws_points_roofs_and_names_them() -> None:
    drawn = go.Figure(roofline_data([row(0), row(1, cause_key="data_wait")]))
    points = [trace for trace in drawn.data if trace.mode == "markers"]
    lines = [trace for trace in drawn.data if trace.mode == "lines"]
    assert [len(trace.x) for trace in points] == [1, 1] and len(lines) == 2
    slope = next(line for line in lines if "DRAM" in line.name)
    assert slope.y[3] == pytest.approx(slope.x[3] * 4.8)
    assert {note.text for note in drawn.layout.annotations} == {"FP32 60 TFLOP/s", "DRAM 4,800 GB/s"}
    text = json.dumps(bare(drawn), ensure_ascii=False)
    assert "H<i>200" not in text and "k<b>" not in text and BUS in text


def test_a_gpu_whose_memory_has_no_roof_keeps_those_of_its_cores() -> None:
    drawn = go.Figure(roofline_data([row(0, dram_gbs=9000.0)]))
    (line,) = [trace for trace in drawn.data if trace.mode == "lines"]
    assert set(line.y) == {60.0} and line.x[0] < 50.0 < line.x[-1]
    assert [note.text for note in drawn.layout.annotations] == ["FP32 60 TFLOP/s"]


def test_roofs_of_two_gpus_share_a_name_so_that_none_covers_another() -> None:
    slower = {"DRAM": [3350.0, BUS], "FP32": [63.0, GUIDED]}
    drawn = go.Figure(roofline_data([row(0, gpu="H200"), row(1, gpu="H100", roofs=slower)]))
    names = [note.text for note in drawn.layout.annotations]
    assert names == ["FP32 H100 63, H200 60 TFLOP/s", "DRAM H200 4,800, H100 3,350 GB/s"]


def test_a_cause_is_named_in_the_legend_as_in_the_rows() -> None:
    saturated = [row(0, cause="saturated", cause_key="none"), row(1, cause="no change known", cause_key="none")]
    points = [trace.name for trace in go.Figure(roofline_data(saturated)).data if trace.mode == "markers"]
    assert points == ["saturated or no change known"]


def test_an_empty_roofline_is_a_figure_too() -> None:
    assert not go.Figure(roofline_data([])).data


def test_names_of_roofs_that_lie_close_stand_on_both_sides_of_them() -> None:
    close = {"FP32": [60.0, GUIDED], "tensor FP16": [945.0, STATED], "tensor BF16": [915.0, STATED]}
    drawn = go.Figure(roofline_data([row(0, tflops=100.0, tensor=40.0, roofs=close)]))
    sides = {note.text.split(" TFLOP")[0]: note.yanchor for note in drawn.layout.annotations}
    assert sides == {"tensor FP16 945": "bottom", "tensor BF16 915": "top", "FP32 60": "bottom"}


def test_the_launches_with_the_most_recoverable_time_are_drawn() -> None:
    rows = LaunchRows.of([row(i) for i in range(MOST_POINTS + 500)] + [row(9, tflops=None)])
    shown, lacking = worth_drawing(rows, ("tflops", "intensity"))
    assert (len(shown), lacking) == (MOST_POINTS, 1)
    assert min(one["recoverable_ns"] for one in shown) == 500.0
