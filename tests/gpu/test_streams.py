"""Streams on a GPU: what was planted is what is named, by both recorders."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.streams.account import STRAY_NS, levels_of
from ncubble.analysis.traces.lanes import WARPS, read_lanes

pytestmark = pytest.mark.gpu
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAIN = "from ncubble.cli.main import main; main()"


def recorded(folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The account of the one device."""
    argv = [sys.executable, "-c", MAIN, "streams", "--json", "--out", str(folder / "run"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    (device,) = json.loads(done.stdout)["devices"]
    idle = sum(one["us"] for one in device["causes"])
    assert idle == pytest.approx(device["sm_idle_us"])
    return dict(device)


@pytest.mark.parametrize("recorder", ["python", "library"])
def test_the_pipeline_is_recorded_with_all_engines(tmp_path: Path, recorder: str) -> None:
    found = recorded(tmp_path, "--recorder", recorder, "stream_pipeline", "-p", "n=16777216")
    assert found["bytes_up"] == found["bytes_down"] == 4 * 16777216
    assert {one["engine"] for one in found["engines"]} >= {"H2D", "SMs", "D2H"}
    unknown = sum(one["us"] for one in found["causes"] if one["cause"] == "unknown")
    assert unknown <= 0.05 * found["sm_idle_us"]


def test_warps_of_a_pipeline_lie_within_its_kernels(tmp_path: Path) -> None:
    found = recorded(tmp_path, "--warps", "warp_pipeline", "-p", "n=8388608")
    assert found["kernels"] == 8
    levels = levels_of(*(read_lanes(folder).rows for folder in (tmp_path / "run", tmp_path / "run" / WARPS)))
    assert levels is not None and levels.slack_ns >= -STRAY_NS
    assert sorted(levels.launches["launch"]) == list(range(8))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example in CUDA C++."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    path = tmp_path_factory.mktemp("compiled") / "stream_causes"
    subprocess.run([nvcc, "-O2", "-arch=native", str(EXAMPLES / "stream_causes.cu"), "-o", str(path)], check=True)
    return os.fspath(path)


MODES = {
    "pageable": "pageable_copy",
    "pinned": "dependency",
    "malloc": "allocation",
    "sync": "host_sync",
    "default": "default_stream",
    "event": "dependency",
    "sleep": "launch_gap",
}


@pytest.mark.parametrize(("mode", "cause"), MODES.items())
def test_a_compiled_program_is_told_its_planted_cause(tmp_path: Path, compiled: str, mode: str, cause: str) -> None:
    found = recorded(tmp_path, "--", compiled, mode)
    assert found["causes"][0]["cause"] == cause, found["causes"]


def test_a_failed_program_is_recorded_and_its_status_told(tmp_path: Path, compiled: str) -> None:
    found = recorded(tmp_path, "--", compiled, "sync", "7", status=3)
    assert found["kernels"] == 10
