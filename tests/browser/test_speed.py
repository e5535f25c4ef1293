"""The dashboard on 10,000 launches, by the benchmark that docs/dashboard.md quotes, with room for a
busy machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
SLACK = 5
"""Tests run side by side: what this finds is a page that became several times slower."""


def test_ten_thousand_launches_stay_within_reach(repository: Path) -> None:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    seeds = [repository / "recordings" / "h200" / name for name in ("tensor_core_gemm/stages1", "softmax_online")]
    argv = [
        sys.executable,
        "-m",
        "benchmarks.dashboard.speed",
        "--rounds",
        1,
        "--pages",
        5,
        "--detailed",
        8,
    ]
    argv += ["--check", "--slack", SLACK, "--seeds", *seeds]
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
