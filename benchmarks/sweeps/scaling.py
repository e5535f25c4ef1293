"""How a sweep scales on the GPUs of one host: the same jobs with 1, 2, 4 GPUs, with the start of the cluster.

    python -m benchmarks.sweeps.scaling [--counts 1,2] [--jobs 24]

The first sweep, which does not count, compiles everything.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time

from benchmarks.harness.blocks import table
from benchmarks.harness.command import NCUBBLE

GRID = ("tensor_core_gemm", "-g", "stages=1:6", "-g", "vec=4,16", "-g", "k=2048,4096")


def sweep(gpus: int, jobs: int) -> float:
    """Seconds of the command; raises CalledProcessError where a point fails."""
    with tempfile.TemporaryDirectory() as folder:
        given = ["--sample", str(jobs), "--gpus", ",".join(map(str, range(gpus))), "--out", f"{folder}/store", "--json"]
        begun = time.monotonic()
        subprocess.run([*NCUBBLE, "sweep", *GRID, *given], check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,2")
    parser.add_argument("--jobs", type=int, default=24)
    given = parser.parse_args()
    counts = [int(text) for text in given.counts.split(",")]
    sweep(counts[-1], given.jobs)
    measured = [sweep(count, given.jobs) for count in counts]
    rows = [
        [str(count), f"{took:.1f}", f"{given.jobs / took:.3f}", f"{measured[0] / took:.2f}"]
        for count, took in zip(counts, measured, strict=True)
    ]
    print(table(["GPUs", "seconds", "jobs/s", "speedup"], rows))


if __name__ == "__main__":
    main()
