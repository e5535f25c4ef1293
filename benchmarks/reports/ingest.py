"""How fast many reports become one dataset, by the number of worker processes, and how much memory a worker holds.

    python -m benchmarks.reports.ingest [--workers 1,2,4,8,16] [--each 96] [PATH…]

PATHs are run directories or folders of them; without any, the recorded runs. They are copied, in turn, into a temporary
folder: each copy has a content of its own (an empty frame behind the report's, which zstd allows, with a number in it)
and a manifest that knows its hash. ``--each`` reports per worker are ingested by every number of workers: as much work
per worker, so that the start is the same share of all. Each ingest is a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import struct
import subprocess
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from benchmarks.harness.blocks import table
from benchmarks.harness.command import NCUBBLE
from ncubble.profiling.runs import MANIFEST, Run, find_runs
from ncubble.recordings import ROOT

SKIPPABLE = b"\x50\x2a\x4d\x18"
"""Begins a frame that every reader of zstd passes over (RFC 8878, section 3.1.2)."""


def copy(run: Run, folder: Path, number: int) -> None:
    """A run directory with the report of ``run`` and a content of its own; its launches are the same."""
    folder.mkdir(parents=True)
    data = run.report.read_bytes() + SKIPPABLE + struct.pack("<IQ", 8, number)
    (folder / "report.ncu-repz").write_bytes(data)
    manifest = json.loads((run.path / MANIFEST).read_text())
    manifest["report"] |= {"file": "report.ncu-repz", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--each", type=int, default=96)
    given = parser.parse_args()
    runs = [run for run in map(Run.load, find_runs(given.paths)) if run.report.suffix == ".ncu-repz"]
    rows: list[list[str]] = []
    for workers in map(int, given.workers.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for number, run in enumerate(islice(cycle(runs), given.each * workers)):
                copy(run, Path(folder, "reports", f"{number:06d}"), number)
            os.environ["NCUBBLE_WORKERS"] = str(workers)
            start = time.monotonic()
            subprocess.run([*NCUBBLE, "ingest", f"{folder}/reports", "-o", f"{folder}/dataset"], check=True)
            seconds = time.monotonic() - start
        rate = given.each / seconds
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        rows.append([f"{workers}", f"{given.each * workers:,}", f"{seconds:.1f}", f"{rate:.2f}", f"{memory} MiB"])
    print(table(["workers", "reports", "seconds", "reports/s of a worker", "memory of the largest process"], rows))


if __name__ == "__main__":
    main()
