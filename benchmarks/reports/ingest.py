"""How fast many reports become one dataset, by the number of worker processes, and how much memory
a worker holds.

    python -m benchmarks.reports.ingest [--workers 1,2,4,8,16] [--each 96] [--reports 10000] [--out FILE.json] [PATH…]

PATHs are run directories or folders of them; without any, the recorded runs with the default sets.
They are copied, in turn, into a temporary folder: each copy has a content of its own (an empty
frame behind the report's, which zstd allows, with a number in it) and a manifest that knows its
hash. First ``--each`` reports per worker are ingested by every number of workers: as much work per
worker, so that the start is the same share of all. Then all ``--reports`` by the most workers, and
the same again, which has to read nothing.

Linear is (reports per second of one worker) x workers; ``efficiency`` is what came of that. Each
ingest is a process of its own: ``ncubble ingest --json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.harness.command import NCUBBLE
from ncubble.profiling.runs import MANIFEST, Run, find_runs
from ncubble.recordings import ROOT

SKIPPABLE = b"\x50\x2a\x4d\x18"
"""Begins a frame that every reader of zstd passes over (RFC 8878, section 3.1.2)."""


def copy(run: Run, folder: Path, number: int) -> None:
    """A run directory with the report of ``run`` and a content of its own; its launches are the
    same."""
    if run.report.suffix != ".ncu-repz":
        raise ValueError(f"{run.report}: only compressed reports can be told apart")
    folder.mkdir(parents=True)
    data = run.report.read_bytes() + SKIPPABLE + struct.pack("<IQ", 8, number)
    (folder / "report.ncu-repz").write_bytes(data)
    manifest = json.loads((run.path / MANIFEST).read_text())
    manifest["report"] |= {"file": "report.ncu-repz", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def copies(runs: Sequence[Run], folder: Path, count: int) -> Path:
    """``count`` runs below ``folder``, 100 to a folder."""
    for number, run in enumerate(islice(cycle(runs), count)):
        copy(run, folder / f"{number // 100:04d}" / f"{number:06d}", number)
    return folder


def ingest(reports: Path, dataset: Path, workers: int) -> dict[str, Any]:
    """What ``ncubble ingest --json`` says; ends all with what it said where it fails."""
    argv = [*NCUBBLE, "ingest", str(reports), "-o", str(dataset)]
    done = subprocess.run([*argv, "--workers", str(workers), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ncubble ingest ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return dict(json.loads(done.stdout))


def scaling(
    runs: Sequence[Run],
    counts: Sequence[int],
    each: int,
    work: Path,
    rows: list[dict[str, Any]],
    save: Callable[[], None],
) -> None:
    """One row per number of workers."""
    for workers in counts:
        reports = copies(runs, work / f"reports-{workers}", each * workers)
        told = ingest(reports, work / f"dataset-{workers}", workers)
        shutil.rmtree(reports)
        rows.append(row(workers, told, rows[0] if rows else None))
        show(rows[-1])
        save()


def row(workers: int, told: dict[str, Any], first: dict[str, Any] | None) -> dict[str, Any]:
    """What is kept of one ingest; the first one is what linear is reckoned from."""
    rate = told["read"] / told["seconds"]
    linear = first["reports_per_s"] / first["workers"] * workers if first else rate if workers == 1 else None
    return {
        "workers": workers,
        "reports": told["read"],
        "launches": told["launches"],
        "errors": told["errors"],
        "seconds": told["seconds"],
        "reports_per_s": round(rate, 3),
        "efficiency": round(rate / linear, 4) if linear else None,
        "peak_worker_MiB": round((told["peak_worker_B"] or 0) / (1 << 20), 1),
    }


def show(one: dict[str, Any]) -> None:
    print(
        f"{one['workers']:>3} workers  {one['reports']:>6} reports  {one['seconds']:8.1f} s  "
        f"{one['reports_per_s']:8.2f} reports/s  {one['efficiency'] or 1.0:6.2f} x linear  "
        f"{one['peak_worker_MiB']:.0f} MiB",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="How ingest scales with worker processes")
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--each", type=int, default=96, help="0 leaves the scaling out")
    parser.add_argument("--reports", type=int, default=10_000, help="0 leaves the large ingest out")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    counts = [int(text) for text in given.workers.split(",")]
    runs = [run for run in map(Run.load, find_runs(given.paths)) if run.path != run.report]
    if not runs:
        parser.error("no run directory below the paths")
    found: dict[str, Any] = {"schema": 1, "cores": len(os.sched_getaffinity(0)), "runs": len(runs), "each": given.each}

    def save() -> None:
        if given.out:
            given.out.write_text(json.dumps(found, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found["scaling"] = list[dict[str, Any]]()
        if given.each:
            scaling(runs, counts, given.each, work, found["scaling"], save)
        if given.reports:
            reports = copies(runs, work / "reports", given.reports)
            told = ingest(reports, work / "dataset", counts[-1])
            found["large"] = row(counts[-1], told, next(iter(found["scaling"]), None))
            show(found["large"])
            again = ingest(reports, work / "dataset", counts[-1])
            found["again_s"], found["again_read"] = again["seconds"], again["read"]
            size = sum(file.stat().st_size for file in (work / "dataset").rglob("*") if file.is_file())
            found["dataset_B"] = size
            print(f"again: {again['read']} read in {again['seconds']:.1f} s; dataset of {size:,} bytes")
    save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
