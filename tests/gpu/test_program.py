"""The account of a whole program on a GPU: both runs, choice of launches, NVTX, and the join."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.on_gpu import WAITING, compiled

pytestmark = pytest.mark.gpu
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAIN = "from ncubble.cli.main import main; main()"
NUMBA = """
import numpy as np, nvtx
from numba import cuda

@cuda.jit
def scale(x, by):
    at = cuda.grid(1)
    if at < x.size:
        x[at] *= by

x = cuda.to_device(np.ones(1 << 24, np.float32))
for step in range(8):
    with nvtx.annotate("step", domain="loop"):
        scale[1 << 16, 256](x, 2.0)
        scale[1 << 15, 512](x, 0.5)
        cuda.synchronize()
"""


def program(folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """What the command prints, of a program that has one device."""
    argv = [sys.executable, "-c", MAIN, "program", "--json", "--out", str(folder / "run"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    told = dict(json.loads(done.stdout))
    (device,) = told["devices"]
    assert sum(part["pct"] for part in device["parts"]) == pytest.approx(100.0)
    assert (told["failed"] is None) is (status == 0)
    return told


def check_covered(told: dict[str, Any]) -> dict[str, Any]:
    """Every kernel that was selected was profiled, and its launch took as long as in the
    program."""
    (device,) = told["devices"]
    profiled = [kernel for kernel in device["kernels"] if kernel["launch"]]
    assert len(profiled) == told["selected"]["kernels"]
    assert device["profiled_pct"] >= 95.0
    for kernel in profiled:
        assert kernel["grid"] and kernel["block"]
        assert 0.5 < kernel["profiled_over_median"] < 2.0, kernel["function"]
    return dict(device)


def test_a_compiled_program_is_accounted_for_by_its_ranges(tmp_path: Path) -> None:
    binary = compiled(EXAMPLES / "program_layers.cu", tmp_path)
    device = check_covered(program(tmp_path, "--nvtx", "step", "--", binary, "12"))
    assert device["windows"] >= 6
    assert {one["range"] for one in device["ranges"]} == {"step"}
    assert {kernel["function"] for kernel in device["kernels"]} == {"product", "activate", "total"}
    assert device["overlapped_us"] > 0


def test_a_python_program_is_found_to_repeat(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(NUMBA)
    device = check_covered(program(tmp_path, "--", sys.executable, str(tmp_path / "loop.py")))
    assert device["repeats"] is not None and device["repeats"] >= 4
    assert [kernel["launches"] for kernel in device["kernels"]] == [device["repeats"]] * 2
    assert "loop@step" in {one["range"] for one in device["ranges"]}


def test_a_program_that_fails_after_its_kernels_is_shown_with_their_profile(tmp_path: Path) -> None:
    told = program(tmp_path, "--", compiled(WAITING, tmp_path), "3", status=3)
    assert told["failed"] == "the program failed with exit status 3: Error: this version is refused"
    device = check_covered(told)
    assert [kernel["function"] for kernel in device["kernels"] if kernel["launch"]] == ["product"]
    assert any(note.startswith("left out: ncclDevKernel_x, ") for note in told["notes"])
    told = program(tmp_path / "all", "--without", "", "--cover", "100", "--", compiled(WAITING, tmp_path))
    profiled = {kernel["function"] for kernel in told["devices"][0]["kernels"] if kernel["launch"]}
    assert profiled == {"product", "ncclDevKernel_x"}
