"""A sweep over kernels that fault, trap and never end, on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

BROKEN = Path(__file__).resolve().parents[2] / "examples" / "broken_kernels"
MAIN = "from ncubble.cli.main import main; main()"


def test_a_sweep_outlives_kernels_that_fault_trap_and_never_end(tmp_path: Path) -> None:
    axes = ["-g", "again=0,1", "-g", "mode=0,1,2,3"]
    argv = [sys.executable, "-c", MAIN, "sweep", "broken", "--catalog", BROKEN, *axes, "--timeout", "14"]
    done = subprocess.run([*argv, "--out", tmp_path, "--json"], capture_output=True, text=True, timeout=250)
    assert done.returncode == 3, done.stderr
    states = {
        (job["parameters"]["again"], job["parameters"]["mode"]): job["state"] for job in json.loads(done.stdout)["jobs"]
    }
    assert states == {(again, mode): "failed" if mode else "ok" for again in (0, 1) for mode in range(4)}
