"""How long ``ncubble`` takes from the start of its process to its end, and how much memory it needs.

    python -m benchmarks.reports.speed [--repeats 5] [--check]

Reports are composed of recorded launches of ``tensor_core_gemm`` (``reports/compose.py``): *slim* ones of the sets
``tensor`` and ``dram``, *default* ones with timeline and source, *full* ones with all that Nsight Compute offers. Each
command is a process of its own: ``ncubble report`` with an empty cache, then again; ``--help``; ``import ncubble``.
Medians, smallest and largest. ``--check`` ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.reports.compose import compose
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import FULL, REPEATS, ROOT

ENTRY = "import sys; from ncubble.cli.main import main; sys.exit(main(sys.argv[1:]))"
KINDS = {kind: place / "tensor_core_gemm" for kind, place in (("slim", REPEATS), ("default", ROOT), ("full", FULL))}
REPORTS = (("default", 1), ("default", 6), ("full", 1), ("full", 6), ("slim", 150), ("default", 150))
TARGETS = {"ncubble --help": 0.3, "again, 1 default": 0.4, "again, 6 default": 0.4, "again, 6 full": 0.4}
"""Seconds, at most."""
SETTLED_S = 3.5
"""A file that was just written is not remembered by its time stamps (``ncubble.analysis.report.container``)."""


def took(arguments: list[str], cache: Path) -> float:
    """Seconds of ``python ARGUMENTS`` with the cache of ncubble at ``cache``."""
    begun = time.perf_counter()
    environment = os.environ | {"NCUBBLE_CACHE": str(cache)}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measure(folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of every command, by name."""
    commands = {
        "python -c pass": ["-c", "pass"],
        "import ncubble": ["-c", "import ncubble"],
        "ncubble --help": ["-c", ENTRY, "--help"],
    }
    found = {name: [took(argv, folder) for _ in range(repeats + 1)][1:] for name, argv in commands.items()}
    for kind, launches in REPORTS:
        path = folder / f"{kind}-{launches}.ncu-rep"
        path.write_bytes(compose([Run.load(one).report for one in find_runs([KINDS[kind]])], launches))
        time.sleep(SETTLED_S)
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for name in ("empty cache", "again"):
                    seconds = took(["-c", ENTRY, "report", str(path)], Path(cache))
                    found.setdefault(f"{name}, {launches} {kind}", []).append(seconds)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="end with 1 where a target is missed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.repeats)
    missed = False
    for name, seconds in found.items():
        middle, target = statistics.median(seconds), TARGETS.get(name)
        missed = missed or (target is not None and middle > target)
        wanted = f"   target {target:g}" if target else ""
        print(f"{name:28} {middle:6.2f} s  ({min(seconds):.2f} to {max(seconds):.2f}){wanted}")
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{'largest process':28} {largest * 1.024e-3:6.0f} MB")
    return int(given.check and missed)


if __name__ == "__main__":
    sys.exit(main())
