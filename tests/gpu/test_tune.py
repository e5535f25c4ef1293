"""``ncubble tune`` on a real GPU: what it finds is right, and an interrupted search goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
NCUBBLE = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]
SMALL = ["-p", "m=1024,n=1024,k=1024", "--seed", "1", "--iterations", "20"]
SLOW = ["--start", "stages=1", "--start", "copy=plain", "--start", "vec=4"]


def tune(out: Path, *argv: str, code: int = 0) -> dict[str, Any]:
    words = [*NCUBBLE, "tune", "tensor_core_gemm", *SMALL, *SLOW, "--out", str(out), *argv]
    done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return dict(json.loads((out / "elites.json").read_text(encoding="utf-8")))


def test_the_best_are_verified_faster_than_the_start_and_named_by_their_causes(tmp_path: Path) -> None:
    found = tune(tmp_path / "run")
    assert found["launches"] <= 8 and found["configurations"] == 24
    assert found["elites"][0]["p50_us"] < 0.7 * found["start"]["p50_us"]
    assert all(elite["verification"]["passed"] for elite in found["elites"])
    if not found["notes"]:  # counters can be read here
        assert all(elite["cause"] for elite in found["elites"])


def test_a_larger_budget_goes_on_with_what_is_kept(tmp_path: Path) -> None:
    first = tune(tmp_path / "run", "--budget", "3", "--no-profile")
    kept = json.loads((tmp_path / "run" / "tune.json").read_text(encoding="utf-8"))["trials"]
    second = tune(tmp_path / "run", "--budget", "5", "--no-profile", "--resume")
    trials = json.loads((tmp_path / "run" / "tune.json").read_text(encoding="utf-8"))["trials"]
    assert trials[: len(kept)] == kept and len(trials) == 5
    assert second["launches"] == 5 > first["launches"]


def test_a_kernel_that_faults_costs_its_trial_and_not_the_search(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "faulty.cu").write_text(
        'extern "C" __global__ void faulty(const float* x, float* out, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "#if SAFE\n    if (i < n)\n#endif\n"
        "    out[i + (SAFE ? 0ll : 1ll << 40)] = x[i];\n}\n"
    )
    (folder / "faulty.py").write_text(
        "from ncubble.kernels.spec import Array, Dim, KernelSpec, Parameter\n"
        "SPEC = KernelSpec(name='faulty', source='faulty.cu', idea='copies', dims=(Dim('n', 1 << 20),),\n"
        "    arrays=(Array('x', ('n',)), Array('out', ('n',), output=True)), scalars=('n',),\n"
        "    parameters=(Parameter('safe', 1, (0, 1)), Parameter('threads', 128, (128, 256, 512))),\n"
        "    grid=lambda shape, parameters: (-(-shape['n'] // parameters['threads']),),\n"
        "    block=lambda shape, parameters: (parameters['threads'],),\n"
        "    reference=lambda inputs, rows: {'out': inputs['x'][rows].astype('float64')})\n"
    )
    argv = ["tune", "faulty", "--catalog", str(folder), "--budget", "6", "--no-profile", "--out", str(tmp_path / "run")]
    done = subprocess.run([*NCUBBLE, *argv], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    trials = [kept["trial"] for kept in json.loads((tmp_path / "run" / "tune.json").read_text())["trials"]]
    outcomes = {(trial["parameters"]["safe"], trial["outcome"]) for trial in trials}
    assert outcomes == {(1, "ok"), (0, "failed")}
    assert len(trials) == 6


@pytest.mark.parametrize("path", ["baseline", "candidate"])
def test_ranges_choose_the_launches_of_a_path(tmp_path: Path, path: str) -> None:
    pytest.importorskip("nvtx")
    gates = ["verify", "sdpa_fp8_stage_c_wmma", "--gates", "--seed", "0"]
    words = [
        "profile",
        "--nvtx",
        f"{path}/time/",
        "--count",
        "5",
        "--set",
        "tensor",
        "--out",
        str(tmp_path / "run"),
        "--",
        *NCUBBLE,
    ]
    done = subprocess.run([*NCUBBLE, *words, *gates], capture_output=True, text=True, timeout=300, check=False)
    manifest = tmp_path / "run" / "run.json"
    assert manifest.is_file(), done.stderr
    assert done.returncode == 0, done.stderr
    assert "Times are not judged: a profiler is active" in " ".join(done.stderr.split())
    assert len(json.loads(manifest.read_text(encoding="utf-8"))["report"]["launches"]) == 5
