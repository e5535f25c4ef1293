"""The Timelines page: its states, its tables, its search, and the card of streams with warps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import plotly.io
import pytest

from ncubble.analysis.traces.lanes import WARPS, concurrency, read_lanes, run_id
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines import layout as timelines
from ncubble.dashboard.pages.timelines.figures import close_up, lanes_figure
from ncubble.dashboard.pages.timelines.layout import MOST_REGIONS, find, window_table
from ncubble.dashboard.pages.timelines.levels import levels_cards
from ncubble.recordings import LANES
from tests.helpers import dashboard_frames as frames
from tests.helpers.lane_frames import COLUMNS, streams, two_levels, warps, write


def texts(component: Any) -> str:
    if isinstance(component, str | int | float):
        return str(component)
    if isinstance(component, list | tuple):
        return " ".join(texts(child) for child in component)
    return texts(getattr(component, "children", None) or [])


def page(root: Path, search: str = "") -> str:
    return texts(timelines.layout(ReportStore([root]), TimelinesAddress.parse(search)))


def test_a_run_is_found_listed_and_drawn(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "copies", streams())
    said = page(tmp_path)
    assert "Streams and copies: copies" in said
    assert "Nothing runs for 0.0 % of 42.0 µs; upload and kernel overlap for 38.1 %." in said
    assert "Warp roles" in said and "To record it" in said


def test_without_runs_the_page_says_what_comes_and_where_it_looked(tmp_path: Path) -> None:
    said = page(tmp_path)
    assert said.count("To record it:") == 2 and str(tmp_path) in said and "lanes.parquet" in said
    assert "ncubble trace NAME" in said and "ncubble streams NAME" in said


def test_a_long_run_of_warps_opens_with_some_tiles_of_its_middle(tmp_path: Path) -> None:
    write(tmp_path / "roles", warps(8_000), "warps")
    run = tmp_path / "roles"
    assert "This is the middle section of" in texts(timelines.shown(run, TimelinesAddress(run_id(run))))
    assert "This is the middle section of" not in texts(timelines.shown(run, TimelinesAddress(run_id(run), 0, 1000)))
    low, high = close_up(warps(8_000)) or (0.0, 0.0)
    assert 100 < lanes_figure(warps(8_000), (low, high)).intervals < 1000


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    frame = streams().assign(lane=frames.HOSTILE, group=frames.HOSTILE, tag=frames.HOSTILE)
    assert "<img" not in plotly.io.to_json(lanes_figure(frame).figure)
    write(tmp_path / "run", frame)
    assert frames.HOSTILE[:20] in page(tmp_path)


def test_an_address_reaches_nothing_outside_the_roots(tmp_path: Path) -> None:
    write(tmp_path / "outside", streams())
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(tmp_path / "outside")
    said = page(inside, f"run={run_id(tmp_path / 'outside')}")
    assert "No recorded run has this address" in said and " overlap for " not in said


def test_an_address_of_no_run_shows_no_other_run(tmp_path: Path) -> None:
    write(tmp_path / "run", streams())
    said = page(tmp_path, "run=foo")
    assert "No recorded run has this address" in said and " overlap for " not in said


def test_a_damaged_file_is_named_and_hides_no_other(tmp_path: Path) -> None:
    path = write(tmp_path / "a", streams())
    path.write_bytes(path.read_bytes()[:200])
    write(tmp_path / "b", streams())
    said = page(tmp_path)
    assert "2 runs" in said and "damaged" in said and "not readable" in said
    assert " overlap for " in page(tmp_path, f"run={run_id(tmp_path / 'b')}")


def test_a_window_needs_both_ends_in_order() -> None:
    windows = [TimelinesAddress(start=start, end=end).window for start, end in ((20, 10), (10, None), (10, 20))]
    assert windows == [None, None, (10.0, 20.0)]


def test_a_trace_of_warps_shows_its_account_and_says_what_it_lacks(tmp_path: Path) -> None:
    found = page(LANES / "trace-tensor_core_gemm-stages1")
    assert "Where the time of the recorded SMs goes" in found and "data wait 28.5 27.5 to 49.5" in found
    assert "Source: the probe trace, no counters. Not visible in it: how busy the tensor pipe" in found
    assert "no counters" not in page(LANES / "streams-pageable")
    write(tmp_path / "plain", warps(20, 4), "warps")
    assert "no counters" not in page(tmp_path), "lanes that name no warps have no account"


def test_the_table_names_its_window_and_what_it_leaves_out() -> None:
    lanes = streams()
    assert "In total 42.0 µs" in str(window_table(lanes, None))
    assert "In this window of 10.0 µs" in str(window_table(lanes, (0.0, 10_000.0)))
    many = pd.concat([lanes.assign(tag=lambda one, n=n: f"t{n}") for n in range(MOST_REGIONS + 3)], ignore_index=True)
    assert "more are left out" in str(window_table(many, None))


def test_idle_time_of_the_whole_run_stands_in_one_table() -> None:
    rows = read_lanes(LANES / "streams-pageable").rows
    assert "wait: pageable copy" not in str(window_table(rows, None))
    assert "wait: pageable copy" in str(window_table(rows, (0.0, 10e6)))


def test_the_page_answers_what_takes_the_time() -> None:
    assert "mostly because of: pageable copy (90.9 %)" in timelines.sentence(LANES / "streams-pageable")
    said = timelines.sentence(LANES / "trace-tensor_core_gemm-stages1")
    assert "The recorded SMs compute 62.5 % of the time, data wait takes 28.5 %." in said
    assert timelines.sentence(LANES) == ""


def test_the_verdict_of_streams_names_the_cause() -> None:
    said, tables = timelines.idle_facts(read_lanes(LANES / "streams-pageable").facts)
    assert said == ["No SM is busy for 92.7 % of the time, mostly because of: pageable copy (90.9 %)."]
    assert "use page-locked memory" in texts(tables)
    assert timelines.overlap(concurrency(streams().iloc[0:0])) == "No time is recorded."


@pytest.mark.parametrize("devices", [None, 3, [None], [{}], [{"span_us": 1, "causes": [{"cause": "none"}]}]])
def test_facts_that_no_recorder_wrote_show_nothing(devices: Any) -> None:
    assert timelines.idle_facts({"devices": devices}) == ([], [])


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
    found = find(frame, "<int> &", (0.0, 9.0), None, 1)
    assert found.to_json()["words"] == "1 of 1 intervals: f<int> & g in g · w<1> at 0 ns"
    assert find(frame, "&lt;", (0.0, 9.0)).count == 0


def cards(root: Path, search: str = "") -> list[Any]:
    return list(levels_cards(root, TimelinesAddress.parse(search)))


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
