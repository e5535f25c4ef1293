"""Changes that are made and timed on a GPU: `ncubble try`."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.analysis.changes.tried import OK, Tried
from ncubble.api.trying import TriedRun, try_changes
from ncubble.profiling.session import Observer

PROGRAM = Path(__file__).with_name("triton_program.py")
SCALE = r"""
#include <cstdio>
__global__ void scale(float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < WORK; ++k) x[i] = x[i] * 1.0001f + 0.5f;
}
int main() {
    float *x;
    int n = 1 << 22;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    for (int k = 0; k < 5; ++k) scale<<<CTAS, 256>>>(x, n);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
"""

triton = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")), reason="torch or triton is missing"
)


def tried(kernel: str, out: Path, skip: int = 0, repeat: bool = False) -> tuple[TriedRun, str]:
    """The run, and what the program printed."""
    lines: list[str] = []
    observer = Observer.of_lines(lines.append)
    run = try_changes(
        [sys.executable, str(PROGRAM)], kernel=kernel, skip=skip, repeat=repeat, out=out, observer=observer
    )
    return run, next(line for line in lines if line.startswith("results"))


@pytest.fixture(scope="module")
def plain() -> str:
    """What the program prints by itself."""
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.gpu
@triton
def test_a_triton_program_keeps_its_results_and_gains_by_stages_or_tiles(tmp_path: Path, plain: str) -> None:
    run, printed = tried("^gemm$", tmp_path / "run")
    assert printed == plain
    assert run.tried.base.best is not None
    assert {change.kind for change in run.tried.base.changes} >= {"stages", "warps", "tile_m", "tile_n", "tile_k"}
    assert all(change.difference is not None for change in run.tried.base.changes if change.outcome == OK)
    assert run.predicted, "the launch is profiled, too"
    assert Tried.load(run.path) == run.tried


@pytest.mark.gpu
@triton
@pytest.mark.parametrize(("kernel", "skip"), [("^scale_all$", 0), ("^add_in_place$", 1)])
def test_results_stay_bit_by_bit(kernel: str, skip: int, tmp_path: Path, plain: str) -> None:
    """Tensors found by their addresses, and an autotuned launch that adds in place."""
    run, printed = tried(kernel, tmp_path / "run", skip)
    assert printed == plain
    assert any(change.difference == 0.0 for change in run.tried.base.changes)


@pytest.mark.gpu
@triton
def test_the_best_change_becomes_the_base_until_none_gains(tmp_path: Path) -> None:
    run, _ = tried("^gemm$", tmp_path / "run", repeat=True)
    assert len(run.tried.rounds) > 1
    elites = json.loads((run.path / "elites.json").read_text())["elites"]
    assert len(elites) == 3
    assert elites[0]["gain_pct"] > 2.0


@pytest.mark.gpu
def test_parameters_of_a_catalog_kernel_are_tried(tmp_path: Path) -> None:
    settings = ["stages=1", "m=1024", "n=1024", "k=1024"]
    run = try_changes("tensor_core_gemm", parameters=settings, out=tmp_path / "run")
    stages = [change for change in run.tried.base.changes if change.kind == "stages" and change.outcome == OK]
    assert stages
    assert max(change.gain_pct or 0.0 for change in stages) > 5.0


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is missing")
def test_any_program_is_built_and_timed_for_each_value(tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    build = f"nvcc -arch=native -DCTAS={{CTAS}} -DWORK={{WORK}} -o {{OUT}}/scale {source}"
    run = try_changes(
        ["{OUT}/scale"], vary=["CTAS=1,264", "WORK=8,4"], build=build, kernel="scale", out=tmp_path / "run"
    )
    gains = {change.name: change.gain_pct or 0.0 for change in run.tried.base.changes}
    assert gains["CTAS"] > 50.0
    assert run.tried.compared == "not compared"
