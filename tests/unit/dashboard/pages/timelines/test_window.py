"""The window of the Timelines page: its unit, places as fine as it shows them, and what lanes do in
it."""

import pandas as pd
import pytest

from ncubble.analysis.traces.window import tag_times
from ncubble.dashboard.pages.timelines import layout
from ncubble.dashboard.pages.timelines.figures import lanes_figure
from ncubble.dashboard.pages.timelines.time_axis import TimeAxis, unit_of
from ncubble.dashboard.pages.timelines.window import MOST_ROWS, window_table
from ncubble.recordings import LANES
from tests.helpers.lane_frames import streams


@pytest.mark.parametrize(
    ("span", "name"), [(0.5, "ns"), (1_999, "ns"), (2_000, "µs"), (1.9e6, "µs"), (95e6, "ms"), (3e9, "s")]
)
def test_the_unit_follows_the_window(span, name):
    assert unit_of(span).name == name


def test_a_place_is_told_as_finely_as_the_window_shows_it():
    axis = TimeAxis(47_100_000.0, 47_103_000.0, unit_of(3_000))
    assert axis.place(47_101_234.0) == "47,101.234 µs"
    assert TimeAxis(0.0, 95e6, unit_of(95e6)).place(47_101_234.5) == "47.10 ms"


def test_a_long_run_has_an_axis_in_ms_and_the_browser_is_told():
    frame = streams()
    frame[["start_ns", "end_ns"]] *= 1_000
    drawn = lanes_figure(frame).figure
    assert drawn.layout.xaxis.title.text.endswith("ms")
    assert list(drawn.layout.xaxis.range) == [0, 42]
    assert drawn.layout.meta == {"lanes_ns": 1e6, "whole_ns": 42e6}
    assert drawn.data[0].customdata[0].endswith("from 0.00 ms")


def test_times_in_a_window_count_what_lies_in_it():
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


def test_the_table_names_its_window_and_what_it_leaves_out():
    lanes = streams()
    assert "In total 42.0 µs" in str(window_table(lanes, None))
    assert "In this window of 10.0 µs" in str(window_table(lanes, (0.0, 10_000.0)))
    many = pd.concat([lanes.assign(tag=lambda one, n=n: f"t{n}") for n in range(MOST_ROWS + 3)], ignore_index=True)
    assert "more are left out" in str(window_table(many, None))


def test_the_verdict_of_streams_names_the_cause():
    said = layout.idle_words(LANES / "streams-pageable")
    assert said == ["No SM is busy for 92.7 % of the time, mostly because of: pageable copy (90.9 %)."]
    assert layout.idle_words(LANES / "trace-gemm_ws") == []
