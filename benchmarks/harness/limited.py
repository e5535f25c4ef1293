"""``ncubble`` as its users run it, but with a shorter time limit for each report, so that hangs are
soon counted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_MAIN = """
import functools, sys
from ncubble.analysis.report import reading as workers
from ncubble.cli.main import main
workers.extract_all = functools.partial(workers.extract_all, time_limit_s=float(sys.argv.pop(1)))
main()
"""


def argv(time_limit_s: float, *arguments: object) -> list[str]:
    """The command line of ``ncubble ARGUMENTS`` under a limit of so many seconds per report."""
    return [sys.executable, "-P", "-c", _MAIN, f"{time_limit_s:g}", *map(str, arguments)]


def environment(cache: Path) -> dict[str, str]:
    """The environment in which ncubble keeps what it has read in ``cache``."""
    return {**os.environ, "NCUBBLE_CACHE": str(cache)}


def run(
    arguments: Sequence[object], cache: Path, time_limit_s: float, whole_limit_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; raises TimeoutExpired where the whole of it takes longer than
    ``whole_limit_s``."""
    return subprocess.run(
        argv(time_limit_s, *arguments),
        capture_output=True,
        text=True,
        errors="backslashreplace",
        env=environment(cache),
        timeout=whole_limit_s,
        check=False,
    )
