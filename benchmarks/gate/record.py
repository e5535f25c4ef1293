"""Record many repeats of a few kernels on this machine's GPU: what ``docs/validation/gate.md`` is
computed from.

    python -m benchmarks.gate.record OUT [--processes 2] [--repeats 7] [--quick 4] [--only REGEX]

Writes OUT/SERIES/pPROCESS, runs of ``--repeats`` launches with the default sets, and
OUT/SERIES/qPROCESS, runs of QUICK_REPEATS launches with ``tensor`` and ``dram`` alone, which take a
third of the passes. The kernels take turns, so that what drifts over minutes falls on all of them.
Run it once per machine start: the noise between repeats, between processes, and between starts are
three things. Ends with 1 where any run failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

SERIES = {
    "tensor_core_gemm-stages2": ("tensor_core_gemm", "-p", "stages=2"),
    "tensor_core_gemm-stages3": ("tensor_core_gemm", "-p", "stages=3"),
    "gemm_mma_swizzled": ("gemm_mma_swizzled",),
    "gemm_tma-stages3": ("gemm_tma", "-p", "stages=3"),
    "gemm_ws": ("gemm_ws",),
    "attention_fwd": ("attention_fwd",),
    "softmax_online": ("softmax_online",),
    "numba_tiled_matmul": ("numba_tiled_matmul",),
}
"""By name of the series: what follows ``ncubble profile``. Six use the tensor pipe, one DRAM, one
FMA."""


QUICK = ("--set", "tensor", "--set", "dram")
QUICK_REPEATS = 10


def record(out: Path, what: tuple[str, ...], repeats: int) -> bool:
    """One process of one series; kept where it is there already."""
    if (out / "run.json").is_file():
        return True
    argv = ["ncubble", "profile", *what, "--repeat", str(repeats), "--out", str(out)]
    started = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    print(f"{'ok    ' if done.returncode == 0 else 'FAILED'} {time.monotonic() - started:5.1f} s  {out}", flush=True)
    if done.returncode:
        print(done.stderr[-1000:], flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", type=int, default=4)
    parser.add_argument("--only", default="", help="regular expression over the names of the series")
    given = parser.parse_args()
    chosen = {name: what for name, what in SERIES.items() if re.search(given.only, name)}
    results = []
    for turn in range(max(given.processes, given.quick)):
        for name, what in chosen.items():
            if turn < given.quick:
                results.append(record(given.out / name / f"q{turn}", (*what, *QUICK), QUICK_REPEATS))
            if turn < given.processes:
                results.append(record(given.out / name / f"p{turn}", what, given.repeats))
    print(f"{sum(results)} of {len(results)} runs")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
