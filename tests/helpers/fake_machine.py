"""A machine with an H200 whose ncu is played by a program of tests/data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ncubble.chips import Version
from ncubble.profiling import session
from ncubble.profiling.driver import Device

H200 = Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))


def install(patch: pytest.MonkeyPatch, folder: Path, player: str = "fake_ncu", options: str = "") -> Path:
    """Make ``folder/bin/ncu`` the ncu of this process, and the H200 its GPU, for this test."""
    tool = folder / "bin" / "ncu"
    tool.parent.mkdir()
    program = Path(__file__).parents[1] / "data" / f"{player}.py"
    tool.write_text(f"#!{sys.executable}{options}\n{program.read_text()}")
    tool.chmod(0o755)
    patch.setenv("NCUBBLE_NCU", str(tool))
    patch.setattr(session, "describe", lambda: H200)
    return tool
