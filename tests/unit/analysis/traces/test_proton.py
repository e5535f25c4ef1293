"""Proton's traces as lanes: inner scopes interrupt outer ones, and other formats are named."""

import gzip
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.traces import proton
from ncubble.analysis.traces.lanes import LaneRun, read_lanes
from ncubble.analysis.traces.proton import read_proton
from ncubble.analysis.traces.run import lanes_facts, save_lanes
from ncubble.errors import ReportError
from tests.helpers.proton_trace import kernel, scope, text, thread


def read(tmp_path, events, **more):
    path = tmp_path / "t.chrome_trace"
    path.write_text(events if isinstance(events, str) else text(events, **more))
    return read_proton(path)


def intervals(trace, lane):
    rows = trace.lanes[trace.lanes["lane"] == lane]
    return list(zip(rows["tag"], rows["start_ns"].round(6), rows["end_ns"].round(6), strict=True))


def test_inner_scopes_interrupt_the_outer_one(tmp_path):
    events = [scope("kernel", 0, 100), scope("load", 10, 30, line=1), scope("wait_data", 30, 50, line=1)]
    trace = read(tmp_path, [*events, scope("inner", 35, 40, line=2)])
    assert trace.kind == "warps" and trace.kernels == ("matmul_kernel",)
    assert intervals(trace, "SM 0 CTA 0 warp 0") == [
        *[("kernel", 0, 10), ("load", 10, 30), ("wait_data", 30, 35), ("inner", 35, 40)],
        *[("wait_data", 40, 50), ("kernel", 50, 100)],
    ]


def test_scopes_that_overlap_without_nesting_end_where_they_end(tmp_path):
    trace = read(tmp_path, [scope("s1", 122, 162), scope("s2", 142, 182, line=1)])
    assert intervals(trace, "SM 0 CTA 0 warp 0") == [("s1", 122, 142), ("s2", 142, 182)]


def test_places_are_read_from_names_that_may_hold_anything(tmp_path):
    odd = "a Core1 CTA2 <b>\n"
    old = {"pid": "gemm Core3 CTA4 [measure in clock cycle (assume 1GHz)]", "cat": "gemm"}
    trace = read(tmp_path, [scope("x", 0, 1, warp=7, sm=5, cta=9, kernel=odd), scope("y", 0, 1, **old)])
    assert trace.kernels == (odd, "gemm")
    rows = trace.lanes[["launch", "sm", "cta", "warp", "group", "lane"]].itertuples(index=False, name=None)
    assert sorted(rows) == [
        (0, 5, 9, 7, odd, "launch 0 SM 5 CTA 9 warp 7"),
        (1, 3, 4, 0, "gemm", "launch 1 SM 3 CTA 4 warp 0"),
    ]


def test_events_of_one_warp_are_in_flight_and_flows_between_warps_are_counted(tmp_path):
    ends = {"cat": "flow", "bind_id": 1}
    events = [
        scope("kernel", 0, 100),
        scope("tma", 10, 60, line=1, cat="async"),
        scope("full", 60, 60, flow_out=True, **ends),
        scope("full", 70, 70, warp=4, flow_in=True, **ends),
    ]
    trace = read(tmp_path, events)
    assert trace.left_out == 1
    assert intervals(trace, "SM 0 CTA 0 warp 0 async") == [("tma", 10, 60)]
    facts = lanes_facts(trace.lanes, {})
    assert facts["warps"] == 1
    assert facts["busy_pct"] == {"kernel": 100.0, "tma": 50.0}


def test_kernels_and_scopes_of_the_host_are_streams(tmp_path):
    events = [thread(200_007, "GPU Stream 7"), thread(3, "CPU Thread 3"), thread(100_007, "Graph: Stream 7")]
    events += [kernel("gemm", 10, 5, stream=7), kernel("outer", 0, 9, cat="scope", tid=3)]
    trace = read(tmp_path, [*events, kernel("inner", 2, 3, cat="scope", tid=3)], unit="us")
    assert trace.kind == "streams" and trace.kernels == ("gemm",)
    assert intervals(trace, "stream 7") == [("gemm", 10_000, 15_000)]
    assert intervals(trace, "CPU Thread 3") == [("outer", 0, 2000), ("inner", 2000, 5000), ("outer", 5000, 9000)]


def test_one_object_a_line_is_read_as_before_triton_3_5(tmp_path):
    lines = [text([kernel("a", 0, 1, tid=stream)]) for stream in (0, 13)]
    assert sorted(read(tmp_path, "".join(lines)).lanes["lane"]) == ["stream 0", "stream 13"]


def test_lanes_are_a_run_that_reads_back(tmp_path):
    trace = read(tmp_path, [scope("kernel", 0, 100), scope("load", 10, 30, line=1)])
    save_lanes(tmp_path, trace.lanes, trace.kind, lanes_facts(trace.lanes, {}))
    kind, lanes = read_lanes(LaneRun(tmp_path))
    assert kind == "warps" and list(lanes["tag"]) == ["kernel", "load", "kernel"]


def test_a_packed_trace_is_read(tmp_path):
    path = tmp_path / "t.chrome_trace.gz"
    path.write_bytes(gzip.compress(text([scope("x", 0, 1)]).encode()))
    assert len(read_proton(path).lanes) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"children": [], "frame": {"name": "ROOT"}, "metrics": {}}]', "Hatchet"),
        ("\x93\xc0\xc0", "msgpack"),
        ("", "not JSON"),
        ("{}", "neither kernels nor scopes"),
        ('{"traceEvents": []}', "neither kernels nor scopes"),
        ('{"traceEvents": {"a": 1}}', r"expected \["),
        ('{"traceEvents": [{"ph": "X"', "Expecting"),
        ('{"traceEvents": [{"ph": "X", "name": "k", "ts": 0, "dur": 1, "args": {"grid": [1,1,1]}}]}', "PyTorch"),
        (text([{**scope("x", 0, 1), "ts": "soon"}]), "neither kernels nor scopes"),
        (text([{**scope("x", 0, 1), "dur": -1}]), "neither kernels nor scopes"),
        (text([{**scope("x", 0, 1), "name": None}]), "neither kernels nor scopes"),
        (text([{**scope("x", 0, 1), "ts": 1e300}]), "neither kernels nor scopes"),
        (text([{**scope("x", 0, 1), "pid": ["a"]}]), "neither kernels nor scopes"),
        (text([7, None, "x", []]), "neither kernels nor scopes"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path, content, said):
    with pytest.raises(ReportError, match=said) as refused:
        read(tmp_path, content)
    assert "t.chrome_trace" in refused.value.message
    assert refused.value.remedy


def test_scopes_that_take_no_time_alone_are_no_lanes(tmp_path):
    with pytest.raises(ReportError, match="it has no events with a duration"):
        read(tmp_path, [scope("x", 5, 5)])


def test_more_events_than_lanes_may_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(proton, "MOST_ROWS", 10)
    with pytest.raises(ReportError, match="more than 10 events"):
        read(tmp_path, [scope("x", at, at + 1) for at in range(20)])


@pytest.mark.parametrize("tid", ["warp x", "warp 1", 7, None, "warp 99999999999999999999 (line 0)"])
def test_threads_that_are_no_warps_are_left_out(tmp_path, tid):
    trace = read(tmp_path, [scope("x", 0, 1), scope("y", 0, 1, tid=tid)])
    assert list(trace.lanes["tag"]) == ["x"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=20))
def test_intervals_of_a_warp_cover_its_scopes_and_do_not_overlap(tmp_path_factory, spans):
    events = [scope(f"s{n}", start, start + length) for n, (start, length) in enumerate(spans)]
    path = tmp_path_factory.mktemp("p") / "t.chrome_trace"
    path.write_text(json.dumps({"traceEvents": events}))
    lanes = read_proton(path).lanes
    rows = [(round(a), round(b)) for a, b in zip(lanes["start_ns"], lanes["end_ns"], strict=True)]
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(rows))
    covered = {at for start, end in rows for at in range(start, end)}
    assert covered == {at for start, length in spans for at in range(start, start + length)}


def test_halves_of_characters_and_endless_numbers_do_no_harm(tmp_path):
    name = '"name": "thread_name", "tid": 1, "args": {"name": "GPU Stream \\ud800"}'
    events = [f'{{"ph": "M", {name}}}', '{"ph": "X", "cat": "kernel", "name": "k\\udc00", "tid": 1, "ts": 1, "dur": 2}']
    events.append(f'{{"ph": "X", "cat": "kernel", "name": "far", "tid": 1, "ts": {10**400}, "dur": 2}}')
    trace = read(tmp_path, f'{{"traceEvents": [{", ".join(events)}]}}')
    assert trace.kernels == ("k?",)
    save_lanes(tmp_path, trace.lanes, trace.kind, {})
    assert len(read_lanes(LaneRun(tmp_path))[1]) == 1
