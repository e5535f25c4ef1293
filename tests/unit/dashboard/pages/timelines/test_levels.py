"""The figure of streams with the warps of one launch below, and its card on the Timelines page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.streams.levels import levels_of
from ncubble.analysis.traces.lanes import WARPS, LaneRun
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines.levels import levels_cards, levels_figure
from tests.helpers.lane_frames import streams, two_levels, write


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
    assert list(figure.layout.yaxis2.categoryarray) == ["loader · warp 0", "computer · warp 1"]


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


def cards(root: Path, search: str = "") -> list[Any]:
    return list(levels_cards(LaneRun(root), TimelinesAddress.parse(search)))


def saved(root: Path) -> Path:
    above, below = two_levels()
    write(root, above)
    write(root / WARPS, below, "warps")
    return root


def test_the_page_draws_both_levels_where_both_were_recorded(tmp_path: Path) -> None:
    assert cards(saved(tmp_path / "run")) and not cards(write(tmp_path / "other", streams()).parent)


def test_the_address_chooses_the_launch_and_an_unknown_one_is_the_middle(tmp_path: Path) -> None:
    root = saved(tmp_path / "run")
    assert "warps of launch 2" in str(cards(root, "launch=2")[0])
    assert "warps of launch 1" in str(cards(root, "launch=77")[0])


def test_warps_that_do_not_belong_to_the_streams_or_are_damaged_are_named(tmp_path: Path) -> None:
    root = saved(tmp_path / "run")
    write(root / WARPS, two_levels(order=(0,))[1], "warps")
    assert "do not belong to any kernel" in str(cards(root)[0])
    (root / WARPS / "lanes.parquet").write_bytes(b"nothing")
    assert "cannot be read" in str(cards(root)[0])


def test_of_many_launches_those_around_the_one_shown_can_be_chosen(tmp_path: Path) -> None:
    root = tmp_path / "run"
    above, below = two_levels(order=tuple(range(30)))
    write(root, above)
    write(root / WARPS, below, "warps")
    for search, reachable in (("launch=0", "launch=23'"), ("launch=15", "launch=26'"), ("launch=29", "launch=6'")):
        assert reachable in str(cards(root, search)[0]).replace('"', "'"), search
