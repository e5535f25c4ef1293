"""What viewers get: the same slices as the recordings that they were made of."""

from collections import Counter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from ncubble.analysis.streams.account import accounts, streams_drawing
from ncubble.analysis.streams.recording import read
from ncubble.analysis.traces import drawing
from ncubble.analysis.traces.drawing import Drawing, lanes_drawing
from ncubble.analysis.traces.lanes import FILE, read_lanes
from ncubble.recordings import LANES, LEVELS
from tests.helpers.stream_frames import Script
from tests.helpers.trace_reader import ViewerTrace

TRACES = sorted(path.parent.name for path in LANES.glob(f"trace-*/{FILE}"))
STREAMS = [LANES / "streams-torch", LANES / "streams-pageable", LEVELS / "streams-levels", LEVELS / "streams-peer"]


def viewed(folder, drawing):
    """What a viewer sees of a drawing."""
    drawing.write(folder / "t.json", {"run": "here"})
    told = ViewerTrace(folder / "t.json")
    assert told.facts == {"run": "here"}
    return told


def streams(folder, script):
    """What a viewer sees of played streams."""
    recording = script.recording()
    return viewed(folder, streams_drawing(accounts(recording), recording))


def times(*frames):
    """(tag, start, end) of lanes in whole ns, counted."""
    frame = pd.concat(frames)
    rows = zip(frame["tag"], frame["start_ns"], frame["end_ns"], strict=True)
    return Counter((str(tag), round(start), round(end)) for tag, start, end in rows)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_warps_holds_every_interval_and_nothing_else(tmp_path, name):
    lanes = read_lanes(LANES / name).rows
    told = viewed(tmp_path, lanes_drawing(lanes))
    assert Counter(slice_[2:5] for slice_ in told.slices) == times(lanes)
    assert {process[:3] for process, *_ in told.slices} == {"SM "}
    by_lane = Counter((process, thread) for process, thread, *_ in told.slices)
    for (sm, cta, group, warp), count in (
        lanes[lanes["warp"] >= 0].groupby(["sm", "cta", "group", "warp"]).size().items()
    ):
        assert by_lane[f"SM {sm}", f"CTA {cta} {group} warp {warp}"] == count


def test_flows_follow_a_tile_from_its_load_to_its_product(tmp_path):
    lanes = read_lanes(LANES / "trace-gemm_ws").rows
    told = viewed(tmp_path, lanes_drawing(lanes))
    index = {slice_[:4]: slice_[5] for slice_ in told.slices}
    assert len(told.flows) > 1000
    for source, target in told.flows:
        assert (source[2], target[2]) in {("load", "compute"), ("compute", "store")}
        assert source[3] <= target[3] and index[source] == index[target]
        assert (source[0], source[1].split()[:2]) == (target[0], target[1].split()[:2]), "within one CTA"
    computes = int(((lanes["tag"] == "compute") & (lanes["index"] >= 0)).sum())
    assert sum(target[2] == "compute" for _, target in told.flows) == computes


def test_counters_of_an_sm_count_what_its_lanes_show(tmp_path):
    lanes = read_lanes(LANES / "trace-gemm_ws").rows
    told = viewed(tmp_path, lanes_drawing(lanes))
    flying = lanes[lanes["group"] == "copies"]
    for name, most in (("copies in flight", 6), ("warps waiting", 9)):
        values = [value for _, value in told.counters["SM 0", name]]
        assert 1 <= max(values) <= most and min(values) == 0 == values[-1]
    middle = float(flying["start_ns"].median())
    here = [value for time, value in told.counters["SM 0", "copies in flight"] if time <= middle][-1]
    assert here == ((flying["start_ns"] <= middle) & (flying["end_ns"] > middle)).sum()


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_streams_hold_every_kernel_copy_and_gap(tmp_path, folder):
    recording = read(folder)
    devices = accounts(recording)
    told = viewed(tmp_path, streams_drawing(devices, recording))
    work = [slice_ for slice_ in told.slices if not slice_[0].startswith("process ")]
    lanes = [lanes for device in devices for lanes in (device.lanes, device.idle_lane)]
    assert Counter(slice_[2:5] for slice_ in work) == times(*lanes)
    assert {process for process, *_ in work} == {device.name or f"GPU {device.device}" for device in devices}


def test_a_call_leads_to_the_work_that_it_queued(tmp_path):
    told = streams(tmp_path, Script().kernel(0, 10, 20, stream=1).copy((3, 6), 12, 25, stream=2))
    assert {(source[2], target[1], target[2]) for source, target in told.flows} == {
        ("cuLaunchKernel", "SMs stream 1", "square"),
        ("cudaMemcpyAsync", "H2D stream 2", "H2D copy"),
    }
    rates = told.counters["GPU 0", "H2D rate"]
    assert max(value for _, value in rates) == pytest.approx(1e6 / 13_000, rel=0.1)  # GB/s: 1 MB in 13 us
    assert [value for _, value in told.counters["GPU 0", "kernels running"]] == [1, 0]


def test_ranges_within_ranges_and_kernels_that_overlap_are_tracks_of_one_lane(tmp_path):
    script = Script().kernel(0, 10, 30).kernel(1, 15, 25).kernel(2, 20, 40).kernel(3, 30, 30)
    script.row("range", "step", 0, 30, thread=5)
    script.row("range", "forward", 1, 12, thread=5)
    told = streams(tmp_path, script)
    assert [slice_[:2] for slice_ in told.slices if slice_[2] == "square"] == [("GPU 0", "SMs stream 1")] * 4
    assert told.processes == told.pids == {1}, "streams of a GPU stand beside the threads that filled them"
    ranges = {slice_[2]: slice_ for slice_ in told.slices if slice_[1].startswith("NVTX")}
    assert ranges["step"][:2] == ("process 1", "NVTX, thread 5") and ranges["step"][3:5] == (0, 30_000)
    assert ranges["forward"][:2] == ("process 1", "NVTX, thread 5") and ranges["forward"][3:5] == (1_000, 12_000)


def test_kernels_that_overlap_have_no_metrics_as_viewers_would_mix_them(tmp_path):
    script = Script().kernel(0, 10, 20).kernel(1, 20, 30).kernel(2, 25, 40, stream=2).kernel(3, 50, 60)
    recording = script.recording()
    times = iter((11.0, 12.0, 13.0, 14.0))
    measured = lambda row: ({}, {"gpu__time_duration.sum": next(times)})  # noqa: E731
    told = viewed(tmp_path, streams_drawing(accounts(recording), recording, False, measured))
    assert told.counters["GPU 0", "gpu__time_duration.sum"] == [
        *((10_000, 11.0), (50_000, 14.0), (60_000, 0.0)),
    ], "none ends the first: the second begins then"


def test_fields_have_the_numbers_that_perfetto_gave_them():
    known = {}

    def learn(message):
        known[message.name] = {field.name: field.number for field in message.fields}
        for nested in message.nested_types:
            learn(nested)

    for message in perfetto_trace_pb2.DESCRIPTOR.message_types_by_name.values():
        learn(message)
    unknown = {
        (kind, name) for kind, fields in drawing._FIELDS.items() for name in fields if name not in known.get(kind, {})
    }
    assert unknown == {
        *(("InternedData", "compute_kernels"), ("TrackEvent", "gpu_correlation")),
        ("GpuCorrelation", "render_stage_submission_event_ids"),
    }, "extensions, which the package does not hold"
    for kind, name in {(kind, name) for kind, fields in drawing._FIELDS.items() for name in fields} - unknown:
        assert drawing._FIELDS[kind][name][0] == known[kind][name], (kind, name)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=25))
def test_tracks_of_a_lane_never_overlap(spans):
    frame = pd.DataFrame(spans, columns=["start_ns", "end_ns"]).astype(float)
    frame["end_ns"] += frame["start_ns"]
    drawing = Drawing()
    numbers = drawing.lane(("root", "lane"), frame.assign(tag="x", group="g"))
    drawn = drawing.slices
    assert drawn.loc[numbers, "start_ns"].tolist() == frame["start_ns"].tolist()
    for _, rows in drawn.groupby("track"):
        assert (rows["start_ns"].to_numpy()[1:] >= rows["end_ns"].to_numpy()[:-1]).all()
