"""The probe on a GPU: what it says of a kernel whose times are known, its bounds, and results that
stay right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ncubble.analysis.traces.probe import Recorded, decode, parse_dumps, read_dumps
from ncubble.kernels.build import HEADERS, find_tool
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.probe import TraceOptions, trace
from ncubble.kernels.run.session import KernelRequest

pytestmark = pytest.mark.gpu

RELAY = Path(__file__).resolve().parents[2] / "examples" / "warp_relay.cu"
ROUNDS, CYCLES, WARPS = 16, 20000, 4
KERNELS = {
    "tensor_core_gemm": {"m": 256, "n": 384, "k": 512},
    "async_pipeline": {"m": 256, "n": 384, "k": 512},
    "gemm_tma": {"m": 256, "n": 384, "k": 512},
    "gemm_ws": {"m": 512, "n": 768, "k": 512},
    "gemm_fp8": {"m": 512, "n": 768, "k": 1024},
    "warp_specialized": {"n": 2**20},
    "warp_pipeline": {"n": 2**22},
    "attention_fwd": {"batch": 1, "heads": 3, "tokens": 700},
}


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    target = tmp_path_factory.mktemp("relay") / "warp_relay"
    arch = Gpu.open().arch.rstrip("af")
    flags = ["-O3", f"-arch={arch}", "-DBUBBLE_PROBE", f"-I{HEADERS}"]
    subprocess.run([find_tool("nvcc"), *flags, RELAY, "-o", target], check=True)
    return target


def recorded(program: Path, folder: Path, **settings: int) -> Recorded:
    """What the relay recorded with ``NCUBBLE_TRACE_…`` set so."""
    path = folder / "dump"
    env = {"NCUBBLE_TRACE": str(path), **{f"NCUBBLE_TRACE_{name}": str(value) for name, value in settings.items()}}
    subprocess.run([program], check=True, env=env)
    return decode(read_dumps(path))


def test_waits_at_a_barrier_last_as_long_as_the_warp_that_is_late(relay, tmp_path):
    found = recorded(relay, tmp_path)
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)
    place = ["launch", "sm", "cta", "index"]
    late = found.lanes[found.lanes["tag"] == "relay"].set_index(place)
    waits = found.lanes[found.lanes["tag"] == "wait_sync"].join(
        late[["lane", "start_ns", "end_ns"]], on=place, rsuffix="_late"
    )
    others = waits[waits["lane"] != waits["lane_late"]]
    assert len(others) == len(late) * (WARPS - 1)
    after = (others["end_ns"] - others["end_ns_late"]) / found.clock.ns_per_cycle
    assert after.between(0, 200).all(), after.describe()
    relayed = (late["end_ns"] - late["start_ns"]) / found.clock.ns_per_cycle
    assert relayed.between(CYCLES, CYCLES + 300).all(), relayed.describe()


def test_every_warp_of_a_recorded_sm_is_there(relay, tmp_path):
    found = recorded(relay, tmp_path, SMS=2)
    assert set(found.warps["sm"]) == {0, 1}
    assert (found.warps.groupby(["launch", "cta"]).size() == WARPS).all()


def test_small_slots_lose_and_count_what_does_not_fit(relay, tmp_path):
    whole = recorded(relay, tmp_path)
    (tmp_path / "dump").unlink()
    short = recorded(relay, tmp_path, MARKS=5, WARPS=3)
    assert short.warps["kept"].tolist() == [5, 5, 5]
    assert short.loss.warps == len(whole.warps) - 3
    assert short.loss.full == 3
    assert short.loss.unseen_ns > 0


def test_processes_that_end_at_once_do_not_write_into_each_other(relay, tmp_path):
    path, count = tmp_path / "dump", 6
    running = [
        subprocess.Popen([relay], env={"NCUBBLE_TRACE": str(path), "NCUBBLE_TRACE_SMS": "64"}) for _ in range(count)
    ]
    assert [one.wait() for one in running] == [0] * count
    found = decode(read_dumps(path))
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)
    assert found.warps.groupby("dump").size().nunique() == 1
    assert found.warps["dump"].nunique() == count


@pytest.mark.parametrize("name", KERNELS)
def test_a_traced_kernel_is_right_and_whole(name):
    traced = trace(KernelRequest(name, shape=KERNELS[name]), TraceOptions(sms=132, cost=False))
    assert traced.verification is not None
    assert traced.verification.passed
    assert traced.spill_B == 0
    (dump,) = parse_dumps(traced.dump, name)
    if traced.case.launches == 1:  # a warp's slot is its number in the grid
        assert (np.diff(1000 * dump.warps["cta"].astype(int) + dump.warps["warp"]) > 0).all()
    found = decode([dump])
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)
    assert {"load", "wait_data", "compute"} <= set(found.lanes["tag"])


TWICE = """
#include "bubble_probe.cuh"
extern "C" __global__ void twice(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    {
        BUBBLE_WARP(first, loader);
        BUBBLE_STEP(first, load, 0);
        if (i < n) out[i] = x[i];
    }
    BUBBLE_WARP(second, math);
    BUBBLE_STEP(second, compute, 0);
    if (i < n) out[i] *= 2.0f;
}
"""
TWICE_SPEC = """
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec

SPEC = KernelSpec(
    name="twice",
    source="twice.cu",
    idea="two probes in a warp",
    dims=(Dim("n", 4096),),
    arrays=(Array("x", ("n",)), Array("out", ("n",), output=True)),
    scalars=("n",),
    grid=lambda shape, parameters: (-(-shape["n"] // 256),),
    block=lambda shape, parameters: (256,),
    reference=lambda inputs, rows: {"out": 2.0 * inputs["x"][rows].astype("float64")},
)
"""


def test_every_probe_of_a_warp_is_kept(tmp_path):
    (tmp_path / "twice.cu").write_text(TWICE)
    (tmp_path / "twice.py").write_text(TWICE_SPEC)
    traced = trace(KernelRequest("twice", catalog=tmp_path), TraceOptions(sms=132, cost=False))
    found = decode(parse_dumps(traced.dump, "twice"))
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)
    assert found.warps["group"].value_counts().to_dict() == {"loader": 128, "math": 128}


def test_slots_that_are_full_do_no_harm():
    traced = trace(KernelRequest("warp_specialized", shape={"n": 2**22}), TraceOptions(sms=132, marks=2, cost=False))
    assert traced.verification is not None
    assert traced.verification.passed
    assert decode(parse_dumps(traced.dump, "here")).loss.full > 0
