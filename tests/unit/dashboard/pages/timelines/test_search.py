"""The search on Timelines looks through the whole recording."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from ncubble.dashboard.pages.timelines.figures import lanes_figure
from ncubble.dashboard.pages.timelines.search import find, request_of
from tests.helpers.lane_frames import COLUMNS, streams, warps

NARROW = (0.0, 5000.0)


def test_regions_and_lanes_of_the_whole_recording_are_counted() -> None:
    frame = streams()
    assert find(frame, "GEMM", NARROW).count == 3
    assert find(frame, "download · stream 3", NARROW).count == 3, "the name that stands beside the lane"
    assert find(frame, "copy", NARROW).to_json()["words"] == "6 of 12 intervals"
    assert find(frame, "nothing like it", NARROW, None, 1).hit is None
    assert find(frame, "  ", NARROW, None, 1).count == find(frame.head(0), "copy", NARROW, None, 1).count == 0


def test_hits_come_in_order_of_time_and_around_the_ends() -> None:
    frame = streams().sample(frac=1.0, random_state=1)
    places, starts, place = [], [], None
    for _ in range(4):
        hit = find(frame, "gemm", NARROW, place, 1).hit
        assert hit is not None
        place = hit.place
        places.append(place)
        starts.append(hit.start)
    assert (places, starts) == ([1, 2, 3, 1], [10_000, 20_000, 30_000, 10_000])
    back = find(frame, "gemm", NARROW, 1, -1).hit
    after = find(frame, "gemm", (12_000.0, 17_000.0), None, 1).hit
    before = find(frame, "gemm", (12_000.0, 29_000.0), None, -1).hit
    assert [hit.place for hit in (back, after, before) if hit] == [3, 2, 2]


def test_the_window_shows_the_hit_and_stays_within_the_recording() -> None:
    frame = pd.DataFrame(
        [("w", "g", 0.0, 1e9, "long"), ("v", "g", 7e8, 7e8 + 100, "short"), ("v", "g", 1e9 - 5, 1e9, "end")],
        columns=["lane", "group", "start_ns", "end_ns", "tag"],
    )
    narrowed = find(frame, "short", (0.0, 1e9), None, 1).hit
    assert narrowed is not None and narrowed.window == (7e8 + 50 - 5000, 7e8 + 50 + 5000)
    last = find(frame, "end", (0.0, 1e9), None, 1).hit
    assert last is not None and last.window == (1e9 - 1000, 1e9)
    widened = find(frame, "long", (10.0, 20.0), None, 1).hit
    assert widened is not None and widened.window == (0.0, 1e9)
    made = lanes_figure(frame, narrowed.window)
    assert narrowed.lane in made.figure.layout.yaxis.categoryarray


def test_names_are_searched_as_they_were_written() -> None:
    frame = pd.DataFrame([("w<1>", "g", 0.0, 9.0, "f<int> & g")], columns=COLUMNS)
    hit = find(frame, "<int> &", (0.0, 9.0), None, 1).hit
    assert hit is not None and hit.words == "f<int> & g in g · w<1> at 0 ns"
    assert find(frame, "&lt;", (0.0, 9.0)).count == 0


def test_a_long_recording_is_searched_quickly() -> None:
    frame = warps(500_000)
    began = time.process_time()
    assert find(frame, "mma", (0.0, 1e6), None, 1).count > 100_000
    assert time.process_time() - began < 1.5  # some 0.2 s; test machines are slow


@pytest.mark.parametrize(
    "asked",
    [
        None,
        {},
        {"query": 3, "from": 0, "to": 9, "step": 1},
        {"query": "x", "from": 9, "to": 0, "step": 1},
        {"query": "x", "from": "0", "to": 9, "step": 1},
        {"query": "x", "from": 0, "to": 1e99, "step": 1},
        {"query": "x", "from": 0, "to": float("nan"), "step": 1},
        {"query": "x", "from": 0, "to": 9, "step": 2},
    ],
)
def test_what_no_browser_of_ours_sends_is_not_searched(asked: object) -> None:
    assert request_of(asked) is None


def test_a_request_is_taken() -> None:
    assert request_of({"query": "x", "from": 0, "to": 9, "place": -1, "step": -1}) == ("x", (0.0, 9.0), None, -1)
    assert request_of({"query": "x", "from": 0, "to": 9, "place": 2, "step": 0}) == ("x", (0.0, 9.0), 2, 0)
