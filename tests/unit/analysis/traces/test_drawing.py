"""What viewers get: the same slices, in both formats, as the recordings that they were made of."""

import importlib
import json
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.streams import records
from ncubble.analysis.streams.account import accounts, drawn_lanes
from ncubble.analysis.streams.drawing import streams_drawing
from ncubble.analysis.traces import perfetto
from ncubble.analysis.traces.drawing import Sketch, lanes_drawing, running
from ncubble.analysis.traces.lanes import FILE
from ncubble.analysis.traces.perfetto import write_perfetto
from ncubble.analysis.traces.trace_events import write_trace_events
from ncubble.errors import UsageError
from ncubble.recordings import LANES, LEVELS
from tests.helpers.perfetto_reader import PerfettoTrace
from tests.helpers.stream_frames import Script

TRACES = sorted(path.parent.name for path in LANES.glob(f"trace-*/{FILE}"))
STREAMS = [LANES / "streams-torch", LANES / "streams-pageable", LEVELS / "streams-levels", LEVELS / "streams-peer"]


def times(frame):
    """(tag, start, end) of lanes in whole ns, counted."""
    rows = zip(frame["tag"], frame["start_ns"], frame["end_ns"], strict=True)
    return Counter((str(tag), round(start), round(end)) for tag, start, end in rows)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_warps_holds_every_interval_and_nothing_else(tmp_path, name):
    lanes = pd.read_parquet(LANES / name / FILE)
    write_perfetto(tmp_path / "t", lanes_drawing(lanes), {"kernel": name})
    told = PerfettoTrace(tmp_path / "t")
    assert Counter(slice_[1:4] for slice_ in told.slices) == times(lanes)
    assert {path[0][:3] for path, *_ in told.slices} == {"SM "}
    by_lane = defaultdict(int)
    for path, *_ in told.slices:
        by_lane[path] += 1
    warps = lanes[lanes["warp"] >= 0].groupby(["sm", "cta", "group", "warp"], observed=True).size()
    for (sm, cta, group, warp), count in warps.items():
        assert by_lane[f"SM {sm}", f"CTA {cta}", f"{group} warp {warp}"] == count
    assert json.loads(next(iter(told.tracks.values())).description) == {"kernel": name}


def test_flows_follow_a_tile_from_its_load_to_its_product(tmp_path):
    lanes = pd.read_parquet(LANES / "trace-gemm_ws" / FILE)
    write_perfetto(tmp_path / "t", lanes_drawing(lanes), {})
    told = PerfettoTrace(tmp_path / "t")
    index = {slice_[:3]: slice_[4]["index"] for slice_ in told.slices}
    assert len(told.flows) > 1000
    for (source, target), _ in Counter(told.flows).items():
        assert (source[1], target[1]) in {("load", "compute"), ("compute", "store")}
        assert source[2] <= target[2]
        assert index[source] == index[target]
        assert source[0][:2] == target[0][:2]
    computes = int(((lanes["tag"] == "compute") & (lanes["index"] >= 0)).sum())
    assert sum(target[1] == "compute" for _, target in told.flows) == computes


def test_counters_of_an_sm_count_what_its_lanes_show(tmp_path):
    lanes = pd.read_parquet(LANES / "trace-gemm_ws" / FILE)
    write_perfetto(tmp_path / "t", lanes_drawing(lanes), {})
    told = PerfettoTrace(tmp_path / "t")
    flying = lanes[lanes["group"] == "copies"]
    for name, most in (("copies in flight", 6), ("warps waiting", 9)):
        values = [value for _, value in told.counters["SM 0", name]]
        assert 1 <= max(values) <= most and min(values) == 0 == values[-1]
    middle = float(flying["start_ns"].median())
    here = [value for time, value in told.counters["SM 0", "copies in flight"] if time <= middle][-1]
    assert here == ((flying["start_ns"] <= middle) & (flying["end_ns"] > middle)).sum()


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_streams_hold_every_kernel_copy_and_gap(tmp_path, folder):
    recording = records.read(folder)
    devices = accounts(recording)
    write_perfetto(tmp_path / "t", streams_drawing(devices, recording), {})
    told = PerfettoTrace(tmp_path / "t")
    work = [slice_ for slice_ in told.slices if not slice_[0][0].startswith("process ")]
    lanes = pd.concat([drawn_lanes(device) for device in devices])
    zero = min(0, round(lanes["start_ns"].min()))
    assert Counter((name, start + zero, end + zero) for _, name, start, end, _ in work) == times(lanes)
    assert {path[0] for path, *_ in work} == {device.name or f"GPU {device.device}" for device in devices}


def test_a_call_leads_to_the_work_that_it_queued(tmp_path):
    script = Script()
    script.kernel(0, 10, 20, stream=1)
    script.copy((3, 6), 12, 25, stream=2)
    recording = script.recording()
    write_perfetto(tmp_path / "t", streams_drawing(accounts(recording), recording), {})
    told = PerfettoTrace(tmp_path / "t")
    assert {(source[1], target[0][1:], target[1]) for source, target in told.flows} == {
        ("cuLaunchKernel", ("SMs", "stream 1"), "square"),
        ("cudaMemcpyAsync", ("H2D", "stream 2"), "H2D copy"),
    }
    rates = told.counters["GPU 0", "H2D rate"]
    assert max(value for _, value in rates) == pytest.approx(1e6 / 13_000, rel=0.1)  # GB/s: 1 MB in 13 us
    assert [value for _, value in told.counters["GPU 0", "kernels running"]] == [1, 0]


def test_ranges_within_ranges_are_rows_below_them(tmp_path):
    script = Script()
    script.kernel(0, 10, 20)
    script.row("range", "step", 0, 30, thread=5)
    script.row("range", "forward", 1, 12, thread=5)
    recording = script.recording()
    write_perfetto(tmp_path / "t", streams_drawing(accounts(recording), recording), {})
    told = {name: (path, start, end) for path, name, start, end, _ in PerfettoTrace(tmp_path / "t").slices}
    assert told["step"] == (("process 1", "NVTX, thread 5"), 0, 30_000)
    assert told["forward"] == (("process 1", "NVTX, thread 5"), 1_000, 12_000)


def test_kernels_of_one_stream_that_overlap_are_rows_of_one_lane(tmp_path):
    script = Script()
    for asked, start, end in ((0, 10, 30), (1, 15, 25), (2, 20, 40), (3, 30, 30)):
        script.kernel(asked, start, end, stream=1)
    recording = script.recording()
    drawing = streams_drawing(accounts(recording), recording)
    write_perfetto(tmp_path / "t", drawing, {})
    write_trace_events(tmp_path / "t.json", drawing, {})
    told = PerfettoTrace(tmp_path / "t")  # which refuses slices that overlap on one track
    lanes = [track for track in told.tracks.values() if track.name == "stream 1"]
    assert len(lanes) == 3 and len({track.parent_uuid for track in lanes}) == 1
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert {"SMs stream 1", "SMs stream 1 (2)", "SMs stream 1 (3)"} <= set(names)


@pytest.mark.parametrize("name", ["trace-gemm_ws", "trace-both"])
def test_both_formats_tell_the_same(tmp_path, name):
    drawing = lanes_drawing(pd.read_parquet(LANES / name / FILE))
    write_perfetto(tmp_path / "t", drawing, {})
    write_trace_events(tmp_path / "t.json", drawing, {"kernel": name})
    told, events = PerfettoTrace(tmp_path / "t"), json.loads((tmp_path / "t.json").read_text())
    assert events["otherData"] == {"kernel": name}
    events = events["traceEvents"]
    drawn = [event for event in events if event["ph"] == "X"]
    assert Counter(event["name"] for event in drawn) == Counter(slice_[1] for slice_ in told.slices)
    starts = [sorted(each) for each in ([e["ts"] * 1e3 for e in drawn], [slice_[2] for slice_ in told.slices])]
    np.testing.assert_allclose(*starts, atol=0.51)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in drawn} == named
    assert sum(event["ph"] == "s" for event in events) == len(told.flows) == sum(e["ph"] == "f" for e in events)
    assert sum(event["ph"] == "C" for event in events) == sum(map(len, told.counters.values()))
    starts = {(e["pid"], e["tid"], e["ts"]) for e in drawn}
    assert {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] in "sf"} <= starts


def test_lanes_that_tell_no_sm_have_a_track_by_group():
    lanes = pd.DataFrame(
        {"lane": ["a", "b"], "group": ["g", "g"], "tag": ["x", "wait"], "start_ns": [-5.0, 0.0], "end_ns": [1.0, 2.0]}
    )
    drawing = lanes_drawing(lanes)
    assert sorted(map(tuple, map(drawing.path, drawing.slices["track"]))) == [("g", "a"), ("g", "b")]


def test_times_before_zero_are_moved(tmp_path):
    lanes = pd.DataFrame({"lane": ["a"], "group": ["g"], "tag": ["x"], "start_ns": [-5.0], "end_ns": [1.0]})
    write_perfetto(tmp_path / "t", lanes_drawing(lanes), {})
    assert PerfettoTrace(tmp_path / "t").slices == [(("g", "a"), "x", 0, 6, {})]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=25))
def test_tracks_of_a_lane_never_overlap(spans):
    frame = pd.DataFrame(spans, columns=["start_ns", "end_ns"]).astype(float)
    frame["end_ns"] += frame["start_ns"]
    sketch = Sketch()
    numbers = sketch.lane(("root", "lane"), frame.assign(tag="x", group="g"))
    drawn = sketch.done().slices
    assert drawn.loc[numbers, "start_ns"].tolist() == frame["start_ns"].tolist()
    for _, rows in drawn.groupby("track"):
        assert (rows["start_ns"].to_numpy()[1:] >= rows["end_ns"].to_numpy()[:-1]).all()


def test_counters_of_nothing_and_of_weights():
    nothing = np.array([])
    assert [len(part) for part in running(nothing, nothing)] == [0, 0]
    at, values = running(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 5.0]), np.array([0.1, 0.2, 9.0]))
    assert at.tolist() == [0, 1, 2]
    np.testing.assert_allclose(values, [0.1, 0.3, 0.0])


def test_a_package_that_is_not_there_is_named(tmp_path, monkeypatch):
    for error, said in ((ImportError("no"), "not installed"), (TypeError("gencode 6"), "cannot be used: gencode 6")):

        def failing(name, error=error):
            raise error

        monkeypatch.setattr(importlib, "import_module", failing)
        with pytest.raises(UsageError, match=said) as refused:
            perfetto.require_perfetto()
        assert "[perfetto]'" in refused.value.remedy
