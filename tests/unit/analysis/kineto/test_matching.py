"""Which launch a kernel of a trace is, and what is not chosen from."""

from types import SimpleNamespace

import pandas as pd
import pytest

from ncubble.analysis.kineto import matching
from ncubble.analysis.kineto.kernels import TracedLaunch, device_names, kernel_slice, launch_name
from ncubble.analysis.kineto.matching import AccountedLaunch, Matcher
from ncubble.analysis.report.report import open_reports
from ncubble.analysis.streams import recording as records
from ncubble.recordings import LANES, VALIDATION

GEMM = TracedLaunch("gemm<4>(float*)", "8,1,1", "128,1,1", 32, 1024, "NVIDIA H200")


def profiled(traced=GEMM, us=100.0, label="", shape=None, nvtx="", address="run#0"):
    verdict = SimpleNamespace(
        duration_ns=None if us is None else us * 1e3, label=label, shape=shape or {}, address=address
    )
    return AccountedLaunch(SimpleNamespace(identity=SimpleNamespace(nvtx=nvtx)), verdict, traced)


def changed(**members):
    return TracedLaunch(**{**vars(GEMM), **members})


def outcome(launches, traced=GEMM, us=100.0):
    return Matcher(launches).find(traced, us)


def test_repeats_are_one_launch_and_the_middle_one_stands_for_them():
    repeats = [profiled(us=us, address=f"run#{us}") for us in (104.0, 100.0, 102.0)]
    match = outcome(repeats)
    assert (match.outcome, match.repeats, match.profiled) == (matching.MATCHED, 3, repeats[2])


@pytest.mark.parametrize(
    ("traced", "us", "expected"),
    [
        (changed(name="gemm<8>(float*)"), 100.0, matching.NOT_PROFILED),
        (changed(grid="9,1,1"), 100.0, matching.OTHER_GEOMETRY),
        (changed(block="256,1,1"), 100.0, matching.OTHER_GEOMETRY),
        (changed(grid=""), 100.0, matching.NO_GEOMETRY),
        (changed(device="NVIDIA A100"), 100.0, matching.OTHER_DEVICE),
        (changed(device=""), 100.0, matching.MATCHED),
        (GEMM, 199.0, matching.MATCHED),
        (GEMM, 210.0, matching.OTHER_TIME),
        (GEMM, 51.0, matching.MATCHED),
        (GEMM, 40.0, matching.OTHER_TIME),
    ],
)
def test_name_geometry_gpu_and_time_must_be_those_of_the_launch(traced, us, expected):
    match = outcome([profiled()], traced, us)
    assert match.outcome == expected
    assert (match.profiled is None) == (expected != matching.MATCHED)


def test_short_kernels_may_take_several_times_as_long_under_a_profiler():
    matcher = Matcher([profiled(us=9.0)])
    apart, near = matcher.find(GEMM, 2.0), matcher.find(GEMM, 5.0)
    assert apart.outcome == near.outcome == matching.MATCHED
    assert apart.note == "profiled in 9.00 µs, which differs by more than 2 times"
    assert near.note == ""
    assert matcher.find(GEMM, 3.0) is apart, "slices of one outcome share a row"


def test_a_time_decides_between_problems_that_share_a_grid():
    launches = [profiled(us=us, address=f"run#{us:.0f}") for us in (30.0, 64.0, 340.0)]
    assert outcome(launches, us=342.0).profiled is launches[2]
    assert outcome(launches, us=342.0).outcome == matching.BY_TIME
    between = outcome(launches, us=45.0)
    assert between.outcome == matching.AMBIGUOUS
    assert "run#30 in 30.0 µs" in between.note and "run#64" in between.note
    assert outcome(launches, us=5000.0).outcome == matching.OTHER_TIME


def test_different_problems_of_one_length_are_not_chosen_from():
    for other in ({"label": "after"}, {"shape": {"k": 2}}, {"nvtx": "step"}):
        match = outcome([profiled(), profiled(us=101.0, address="run#1", **other)])
        assert match.outcome == matching.AMBIGUOUS
        assert "run#0, run#1" in match.note


def test_registers_and_shared_memory_decide_or_are_told():
    other = profiled(changed(registers=40), label="other")
    assert outcome([other, mine := profiled()]).profiled is mine
    alone = outcome([other])
    assert alone.outcome == matching.MATCHED
    assert alone.note == "32 registers in the trace, 40 profiled"


def test_launches_without_a_time_are_still_matched():
    assert outcome([profiled(us=None)]).outcome == matching.MATCHED


def test_a_name_from_cupti_is_the_one_from_a_report():
    """The same kernels of PyTorch, recorded through CUPTI and profiled by ncu."""
    activity = records.read(LANES / "streams-torch").rows
    traced = {launch_name(name) for name in activity.loc[activity["kind"] == "kernel", "name"].unique()}
    reports, _ = open_reports([VALIDATION / "diagnosis" / "foreign" / "base" / "library"], details=False)
    mangled = pd.concat([report.launches["mangled"] for report in reports])
    both = traced & {launch_name(name) for name in mangled}
    assert len(both) == 2
    assert any(name.startswith("at::native::reduce_kernel<512,1,at::native::ReduceOp<float") for name in both)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("void gemm<4, float>(float*)", "gemm<4,float>(float *)"),
        ("_Z4gemmPfi", "gemm(float*, int)"),
        ("_ZN1a1bB2v1B3xyzE", "a::b[abi:v7][abi:xyq]"),
    ],
)
def test_spellings_of_one_name(first, second):
    assert launch_name(first) == launch_name(second)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "kernel",
        {"ph": "X", "cat": "kernel"},
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 0, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": 3, "pid": 0, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": float("nan"), "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": 1, "dur": -1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": 10**400, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": [], "ts": 1, "dur": 1},
        {"ph": "X", "cat": ["kernel"], "name": "a", "pid": 0, "ts": "1e999", "dur": 1},
    ],
)
def test_what_is_no_kernel_is_left_alone(event):
    assert kernel_slice(event, {}) is None


@pytest.mark.parametrize(
    "args", [None, [], {"grid": "8"}, {"grid": [1, 2]}, {"grid": [1, -2, 3]}, {"grid": [1, "x", 2]}]
)
def test_a_kernel_without_a_usable_grid_is_one_all_the_same(args):
    event = {"ph": "X", "cat": "Kernel", "name": "a", "pid": "GPU 0", "ts": 1, "dur": 2.5, "args": args}
    found = kernel_slice(event, {0: "NVIDIA H200"})
    assert (found.launch.grid, found.launch.device, found.time_us) == ("", "NVIDIA H200", 2.5)


def test_devices_of_anything():
    assert device_names([{"id": 1, "name": "B"}, {"id": "x"}, 3, {"id": 2, "name": None}]) == {1: "B"}
    assert device_names({"id": 0}) == {}


def test_the_length_keeps_its_digits_where_times_count_from_1970():
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "ts": 1712195495505583.0, "dur": 4.928}
    assert kernel_slice(event, {}).time_us == 4.928


def test_a_gpu_that_is_not_told_is_not_the_first_one():
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": "GPU", "ts": 1, "dur": 2}
    assert kernel_slice(event, {0: "NVIDIA H200", 1: "NVIDIA L4"}).launch.device == ""
