"""numba_tensor_core_gemm on a real GPU: right over parameters and shapes, as fast as a kernel of
tensor cores, and under the gate on tensor-core utilization."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
NAME = "numba_tensor_core_gemm"
QUICK = ("--quick", "--no-history", "--json", "--repeat", "7")


def verified(parameters, shape):
    outcome = execute(KernelRequest(NAME, parameters, shape, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("tile_k", [32, 64])
@pytest.mark.parametrize("tile_n", [128, 256])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_parameters(stages, tile_n, tile_k):
    verified({"stages": stages, "tile_n": tile_n, "tile_k": tile_k}, {"m": 384, "n": 768, "k": 320})


@pytest.mark.parametrize(
    "shape",
    [{"m": 128, "n": 256, "k": 64}, {"m": 17 * 128, "n": 256, "k": 128}, {"m": 1024, "n": 512, "k": 2048}],
    ids=str,
)
def test_shapes(shape):
    verified({}, shape)


def test_nothing_lies_in_local_memory_and_it_is_faster_than_wmma():
    outcome = execute(KernelRequest(NAME))
    assert outcome.verification.passed, outcome.verification.describe()
    assert outcome.facts["build"]["spill_B"] == 0
    assert outcome.timing.p50_us < execute(KernelRequest("tensor_core_gemm", verify=False)).timing.p50_us


def ncubble(folder, *argv):
    code = "import sys; from ncubble.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-P", "-c", code, *argv]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=280, check=False)


def test_the_gate_passes_it_and_fails_it_with_one_buffer(tmp_path):
    counters = ("--set", "tensor", "--set", "dram", "--repeat", "7")
    assert ncubble(tmp_path, "profile", NAME, *counters, "--out", "runs/before").returncode == 0
    assert ncubble(tmp_path, "baseline", "record", "runs/before").returncode == 0
    (baseline,) = (tmp_path / "baselines").rglob("*.json")
    assert json.loads(baseline.read_text())["metrics"]["tensor_elapsed_pct"]["gated"]

    floor = ("--rule", "tensor_elapsed_pct >= 60")
    same = ncubble(tmp_path, "check", "--profile", NAME, *floor, *QUICK)
    assert same.returncode == 0, same.stdout + same.stderr
    against = ("--baseline", str(baseline))
    slowed = ncubble(tmp_path, "check", "--profile", NAME, "-p", "stages=1", *against, *QUICK)
    assert slowed.returncode == 1, slowed.stdout + slowed.stderr
    found = {item["name"]: item["verdict"] for item in json.loads(slowed.stdout)["kernels"][0]["metrics"]}
    assert found["tensor_elapsed_pct"] == "regressed", found
