"""Two GPUs of one host: the pipeline between them is right for every setting, and its recording
says what each waited for. Skipped where one is visible."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncubble.kernels.run.device import call_driver
from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
NAME = "peer_pipeline"
MAIN = "from ncubble.cli.main import main; main()"


@pytest.fixture(autouse=True)
def two_gpus() -> None:
    """Skips below two."""
    call_driver("cuInit", 0)
    count = int(call_driver("cuDeviceGetCount")[0])
    if count < 2:
        pytest.skip(f"needs two GPUs, {count} is visible")


@pytest.mark.parametrize("n", [1, 2**20 + 3, 2**22])
@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("via", ["copy", "read", "write"])
def test_what_arrives_is_right(via: str, slots: int, overlap: int, n: int) -> None:
    parameters = {"via": via, "slots": slots, "overlap": overlap, "chunk": 1, "work": 64}
    outcome = execute(KernelRequest(NAME, parameters, {"n": n}, iterations=0, launches=2))
    assert outcome.verification is not None
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("recorder", ["python", "library"])
@pytest.mark.parametrize("overlap", [0, 1])
def test_each_gpu_is_said_to_wait_for_the_other(tmp_path: Path, overlap: int, recorder: str) -> None:
    argv = [sys.executable, "-c", MAIN, "streams", "--json", "--recorder", recorder, "--out", str(tmp_path / "run")]
    launches = ["-m", "ncubble.kernels", NAME, "--once", "--no-verify", "--launches", "3", "-p", f"overlap={overlap}"]
    done = subprocess.run(
        [*argv, "--", sys.executable, *launches], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["devices"]
    assert first["bytes_peer"] + second["bytes_peer"] == 3 * 4 * 2**25
    assert "P2P" in {one["engine"] for device in (first, second) for one in device["engines"]}
    if overlap:
        assert second["sm_idle_pct"] < 40
        return
    for device in (first, second):
        waits = {one["cause"]: one["pct_of_idle"] for one in device["causes"]}
        assert waits["other_gpu"] > 50, waits
        assert waits.get("unknown", 0) < 5, waits


def test_two_slots_hide_what_turns_do_not() -> None:
    def ms(**parameters: Any) -> float:
        outcome = execute(KernelRequest(NAME, parameters, {}, iterations=20))
        assert outcome.timing is not None
        return float(outcome.timing.p50_us)

    assert ms(overlap=1) < 0.75 * ms(overlap=0)
