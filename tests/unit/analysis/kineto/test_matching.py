"""Which launch a kernel of a trace is, and what is not chosen from."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from ncubble.analysis.kineto import matching
from ncubble.analysis.kineto.matching import Matcher, launch_name
from ncubble.analysis.program.account import ProfiledLaunch
from ncubble.analysis.program.kernels import ProgramKernel
from ncubble.analysis.report.report import LaunchIdentity, open_reports
from ncubble.analysis.streams import recording as records
from ncubble.recordings import LANES, VALIDATION

NAME = "gemm<4>(float*)"
GEMM = ProgramKernel(NAME, NAME, "8,1,1", "128,1,1", 1024, 32)
IDENTITY = LaunchIdentity(
    demangled=NAME,
    grid="8,1,1",
    block="128,1,1",
    device="NVIDIA H200",
    registers=32,
    smem_static_B=24,
    smem_dynamic_B=1000,
)


def profiled(us=100.0, label="", shape=None, address="run#0", **identity):
    duration = None if us is None else us * 1e3
    verdict = SimpleNamespace(duration_ns=duration, label=label, shape=shape or {}, address=address)
    return ProfiledLaunch(replace(IDENTITY, **identity), verdict)


def found(launches, us=100.0, device="NVIDIA H200", **changed):
    kernel = replace(GEMM, **changed)
    return Matcher(launches, {0: device}).find(kernel, 0, 1e3 * us)


def test_repeats_are_one_launch_and_the_middle_one_stands_for_them():
    repeats = [profiled(us, address=f"run#{us}") for us in (104.0, 100.0, 102.0)]
    match = found(repeats)
    assert (match.outcome, match.repeats, match.profiled) == (matching.MATCHED, 3, repeats[2])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"symbol": "gemm<8>(float*)"}, matching.NOT_PROFILED),
        ({"grid": "9,1,1"}, matching.OTHER_GEOMETRY),
        ({"block": "256,1,1"}, matching.OTHER_GEOMETRY),
        ({"grid": ""}, matching.NO_GEOMETRY),
        ({"device": "NVIDIA A100"}, matching.OTHER_DEVICE),
        ({"device": ""}, matching.MATCHED),
        ({"us": 199.0}, matching.MATCHED),
        ({"us": 210.0}, matching.OTHER_TIME),
        ({"us": 51.0}, matching.MATCHED),
        ({"us": 40.0}, matching.OTHER_TIME),
    ],
)
def test_name_geometry_gpu_and_time_must_be_those_of_the_launch(changed, expected):
    match = found([profiled()], **changed)
    assert match.outcome == expected
    assert (match.profiled is None) == (expected != matching.MATCHED)


def test_a_gpu_that_is_not_told_matches_any_unless_all_have_one_name():
    for devices, expected in (({0: "NVIDIA L4", 1: "NVIDIA H200"}, matching.MATCHED), ({0: "NVIDIA L4"}, "other GPU")):
        assert Matcher([profiled()], devices).find(GEMM, -1, 1e5).outcome == expected


def test_short_kernels_may_take_several_times_as_long_under_a_profiler():
    matcher = Matcher([profiled(9.0)])
    apart, near = matcher.find(GEMM, 0, 2e3), matcher.find(GEMM, 0, 5e3)
    assert apart.outcome == near.outcome == matching.MATCHED
    assert apart.note == "profiled in 9.00 µs, which differs by more than 2 times"
    assert near.note == ""
    assert matcher.find(GEMM, 0, 3e3) is apart, "launches of one outcome share a row"


def test_a_time_decides_between_problems_that_share_a_grid():
    launches = [profiled(us, address=f"run#{us:.0f}") for us in (30.0, 64.0, 340.0)]
    assert found(launches, 342.0).profiled is launches[2]
    assert found(launches, 342.0).outcome == matching.BY_TIME
    between = found(launches, 45.0)
    assert between.outcome == matching.AMBIGUOUS
    assert "run#30 in 30.0 µs" in between.note and "run#64" in between.note
    assert found(launches, 5000.0).outcome == matching.OTHER_TIME


def test_different_problems_of_one_length_are_not_chosen_from():
    for other in ({"label": "after"}, {"shape": {"k": 2}}, {"nvtx": "step"}):
        match = found([profiled(), profiled(101.0, address="run#1", **other)])
        assert match.outcome == matching.AMBIGUOUS
        assert "run#0, run#1" in match.note


def test_registers_and_shared_memory_decide_or_are_told():
    other = profiled(label="other", registers=40)
    assert found([other, mine := profiled()]).profiled is mine
    alone = found([other])
    assert alone.outcome == matching.MATCHED
    assert alone.note == "32 registers in the trace, 40 profiled"


def test_launches_without_a_time_are_still_matched():
    assert found([profiled(None)]).outcome == matching.MATCHED


def test_a_name_from_cupti_is_the_one_from_a_report():
    """The same kernels of PyTorch, recorded through CUPTI and profiled by ncu."""
    activity = records.read(LANES / "streams-torch").rows
    traced = {launch_name(name) for name in activity.loc[activity["kind"] == "kernel", "name"].unique()}
    reports, _ = open_reports([VALIDATION / "diagnosis" / "foreign" / "base" / "library"], details=False)
    both = traced & {launch_name(name) for name in pd.concat([report.launches["mangled"] for report in reports])}
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
