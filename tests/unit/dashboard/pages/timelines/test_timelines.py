"""Lanes: reading, overlap by union of intervals, the figure, and the states of the Timelines
page."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.io
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.traces.concurrency import concurrency, union
from ncubble.analysis.traces.lanes import LONGEST, LaneRun, find_lanes, lane_kind, read_lanes
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines import figures as lanes
from ncubble.dashboard.pages.timelines import layout as timelines
from ncubble.dashboard.pages.timelines.figures import MOST_DRAWN, close_up, lane_names, lanes_figure, tag_looks
from ncubble.dashboard.pages.timelines.layout import address_of
from ncubble.errors import ReportError
from ncubble.recordings import LANES
from tests.helpers import dashboard_frames as frames
from tests.helpers.lane_frames import COLUMNS, streams, warps, write

_FIVE = ["group", "lane", "tag", "start_ns", "end_ns"]


@pytest.fixture(autouse=True)
def afresh() -> None:
    timelines._runs.clear()


def texts(component: Any) -> str:
    if isinstance(component, str | int | float):
        return str(component)
    if isinstance(component, list | tuple):
        return " ".join(texts(child) for child in component)
    return texts(getattr(component, "children", None) or [])


def page(root: Path, search: str = "") -> str:
    return texts(timelines.layout(ReportStore([root]), TimelinesAddress.parse(search)))


def test_intervals_unite() -> None:
    starts, ends = union(np.array([5.0, 0, 1, 10, 3]), np.array([6.0, 4, 2, 12, 5]))
    assert list(zip(starts, ends, strict=True)) == [(0, 6), (10, 12)]
    assert union(np.array([]), np.array([]))[0].size == 0


def test_overlap_of_pairs_and_of_three() -> None:
    found = concurrency(streams())
    assert found.span_ns == 42_000 and found.idle_ns == 0
    assert found.busy_ns == {"upload": 30_000, "kernel": 24_000, "download": 12_000}
    by_name = {one.what: one for one in found.overlaps}
    assert by_name[("upload", "kernel")].ns == 16_000  # two of three kernels run beside an upload
    assert by_name[("upload", "kernel")].pct_of_least == pytest.approx(100 * 16 / 24)
    assert by_name[("kernel", "download")].ns == 4_000  # a wait is no work: 2 of 4 µs, twice
    assert by_name[("upload", "kernel", "download")].ns == 2_000
    assert by_name[("upload", "download")].pct_of_span == pytest.approx(100 * 6 / 42)


def test_overlap_agrees_with_counting_nanoseconds() -> None:
    frame = warps(300, 6).assign(group=lambda one: "g" + (one.index % 3).astype(str))
    found = concurrency(frame)
    clock = np.arange(int(frame["end_ns"].max()))
    busy = {
        name: np.any(
            [(clock >= a) & (clock < b) for a, b in zip(rows["start_ns"], rows["end_ns"], strict=True)], axis=0
        )
        for name, rows in frame[~frame["tag"].str.startswith("wait")].groupby("group")
    }
    assert found.idle_ns == (~np.any(list(busy.values()), axis=0)).sum()
    for one in found.overlaps:
        assert one.ns == np.all([busy[name] for name in one.what], axis=0).sum()


def test_nothing_overlaps_in_an_empty_frame() -> None:
    found = concurrency(streams().iloc[0:0])
    assert (found.span_ns, found.overlaps) == (0, ())
    assert timelines.overlap(found) == "No time is recorded."


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
    assert 1000 < whole.bars <= MOST_DRAWN and "Zoom in to see all intervals" in timelines.hint(whole)
    assert part.step_ns == 0 and part.bars == part.intervals
    assert list(part.figure.layout.xaxis.range) == [1000.0, 1020.0]
    assert min(float(trace.base.min()) for trace in part.figure.data if len(trace.base)) >= 1000.0


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
    took, ended = lanes._by_step(placed, (12, 3, 333), 0.0, high / 333)
    assert took.sum() == pytest.approx((placed["end"] - placed["start"]).sum()) and ended.sum() == 5_000
    assert took.sum(axis=1).max() <= high / 333 * 1.0001


def test_many_lanes_are_cut_and_counted() -> None:
    made = lanes_figure(warps(2000, 200))
    assert (made.lanes, made.left_out) == (lanes.MOST_LANES, 200 - lanes.MOST_LANES)
    assert "104 are left out" in timelines.hint(made)


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


def test_thousands_of_lanes_take_no_longer_than_what_is_drawn() -> None:
    count = 20_000
    frame = pd.DataFrame({"lane": [f"w{i}" for i in range(count)], "group": [f"g{i}" for i in range(count)]})
    frame = frame.assign(start_ns=np.arange(count, dtype=float), end_ns=lambda one: one["start_ns"] + 5, tag="a")
    started = time.process_time()
    made = lanes_figure(frame)
    assert time.process_time() - started < 2.0
    assert (made.lanes, made.left_out, made.intervals) == (lanes.MOST_LANES, count - lanes.MOST_LANES, lanes.MOST_LANES)


def test_a_long_text_in_many_rows_is_held_once(tmp_path: Path) -> None:
    frame = warps(200_000)
    table = pa.Table.from_pandas(frame.drop(columns="tag"), preserve_index=False)
    tag = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(frame), dtype=np.int32)), ["x" * 100_000])
    marks = {"ncubble.lanes": "1", "ncubble.lanes.kind": "warps"}
    table = table.append_column("tag", tag).replace_schema_metadata(marks)
    pq.write_table(table, tmp_path / "lanes.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = read_lanes(LaneRun(tmp_path))[1]
    assert set(read["tag"]) == {"x" * LONGEST} and len(read) == len(frame)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KB; repeated, the texts take 20 GB


def test_what_unpacks_to_too_much_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", warps(2000), "warps")
    monkeypatch.setattr("ncubble.analysis.traces.lanes.MOST_UNPACKED_B", 1 << 10)
    with pytest.raises(ReportError, match="unpacks to more than"):
        read_lanes(LaneRun(tmp_path / "run"))


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


def test_a_long_run_of_warps_opens_with_some_tiles_of_its_middle(tmp_path: Path) -> None:
    write(tmp_path / "roles", warps(8_000), "warps")
    run = LaneRun(tmp_path / "roles")
    assert "This is the middle section of" in texts(timelines.shown(run, TimelinesAddress(run.id)))
    assert "This is the middle section of" not in texts(timelines.shown(run, TimelinesAddress(run.id, 0, 1000)))
    low, high = close_up(warps(8_000)) or (0.0, 0.0)
    assert 100 < lanes_figure(warps(8_000), (low, high)).intervals < 1000


def test_fifty_thousand_intervals_are_drawn_quickly() -> None:
    frame = warps(50_000)
    lanes_figure(frame.head(100))
    began = time.process_time()
    concurrency(frame)
    lanes_figure(frame)
    assert time.process_time() - began < 1.0  # some 0.2 s; test machines are slow


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    frame = streams().assign(lane=frames.HOSTILE, group=frames.HOSTILE, tag=frames.HOSTILE)
    assert "<img" not in plotly.io.to_json(lanes_figure(frame).figure)
    write(tmp_path / "run", frame)
    assert frames.HOSTILE[:20] in page(tmp_path)


def test_a_run_is_found_listed_and_drawn(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "copies", streams())
    said = page(tmp_path)
    assert "Streams and copies: copies" in said
    assert "Nothing runs for 0.0 % of 42.0 µs; upload and kernel overlap for 38.1 %." in said
    assert "Warp roles" in said and "To record it" in said


def test_without_runs_the_page_says_what_comes_and_where_it_looked(tmp_path: Path) -> None:
    said = page(tmp_path)
    assert said.count("To record it") == 2 and str(tmp_path) in said and "lanes.parquet" in said
    assert "ncubble trace NAME" in said and "ncubble streams NAME" in said


def test_an_address_reaches_nothing_outside_the_roots(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, streams())
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(outside)
    (inside / "run").mkdir()
    (inside / "run" / "lanes.parquet").symlink_to(outside / "lanes.parquet")
    assert list(find_lanes([inside])) == []
    said = page(inside, f"run={LaneRun(outside).id}")
    assert "No run with lanes has this address" in said and " overlap for " not in said


@pytest.mark.parametrize(
    ("frame", "changes", "said"),
    [
        (streams(), {"schema": "2"}, "schema 2 is newer"),
        (streams(), {"kind": "other"}, "not a file of lanes"),
        (streams().drop(columns="tag"), {}, "lacks the column 'tag'"),
        (streams().assign(start_ns="now"), {}, "not readable"),
        (streams().assign(end_ns=0), {}, "ends before it starts"),
        (streams().assign(end_ns=float("nan")), {}, "is missing"),
        (streams().assign(tag=None), {}, "is missing"),
    ],
)
def test_a_file_that_is_none_is_refused(
    tmp_path: Path, frame: pd.DataFrame, changes: dict[str, str], said: str
) -> None:
    write(tmp_path / "run", frame, **changes)
    with pytest.raises(ReportError, match=said):
        read_lanes(LaneRun(tmp_path / "run"))
    assert said.split("(")[0] in page(tmp_path)


def test_a_damaged_file_is_named_and_hides_no_other(tmp_path: Path) -> None:
    path = write(tmp_path / "a", streams())
    path.write_bytes(path.read_bytes()[:200])
    write(tmp_path / "b", streams())
    assert lane_kind(LaneRun(tmp_path / "a")) == ""
    said = page(tmp_path)
    assert "2 runs" in said and "damaged" in said and "not readable" in said
    assert " overlap for " in page(tmp_path, f"run={LaneRun(tmp_path / 'b').id}")


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", TimelinesAddress()),
        ("?run=0123456789abcdef&from=10&to=20", TimelinesAddress("0123456789abcdef", 10, 20)),
        ("?run=../../etc&from=20&to=10", TimelinesAddress(start=20, end=10)),
        ("?run=0123456789ABCDEF&from=-1&to=1e9", TimelinesAddress()),
    ],
)
def test_an_address_is_checked(search: str, found: TimelinesAddress) -> None:
    assert TimelinesAddress.parse(search) == found
    assert TimelinesAddress.parse(found.query()) == found


def test_a_window_needs_both_ends_in_order() -> None:
    windows = [TimelinesAddress(start=start, end=end).window for start, end in ((20, 10), (10, None), (10, 20))]
    assert windows == [None, None, (10.0, 20.0)]


@pytest.mark.parametrize("window", [None, [], {"from": "<b>", "to": None}, {"from": 5, "to": 1}, {}])
def test_what_the_browser_sends_is_checked(window: Any) -> None:
    address = address_of(window, "0123456789abcdef")
    assert address.run == "0123456789abcdef" and address.window is None


def test_a_trace_of_warps_shows_its_account_and_says_what_it_lacks(tmp_path: Path) -> None:
    found = page(LANES / "trace-tensor_core_gemm-stages1")
    assert "Where the time of the recorded SMs goes" in found and "data wait 28.5 27.5 to 49.5" in found
    assert "Source: the probe trace, no counters. Not visible in it: how busy the tensor pipe" in found
    assert "no counters" not in page(LANES / "streams-pageable")
    write(tmp_path / "plain", warps(20, 4), "warps")
    timelines._runs.clear()
    assert "no counters" not in page(tmp_path), "lanes that name no warps have no account"
