"""Generate a store of many launches: run directories, and what ncubble has remembered of them after
a first visit.

    NCUBBLE_CACHE=CACHE python -m benchmarks.dashboard.store OUT --launches 10000 [--detailed 60] [PATH…]

Every launch is a recorded one (of PATHs, else of the recorded runs), under its own name in a report
of its own content. One launch in ten is a run by itself, the others lie in runs of a hundred. Rows,
verdicts and frames come from the recordings through the modules that keep them. Frames are written
for ``--detailed`` runs only, spread over the store: nobody opens the others. The report files pass
the frame check and hold nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.reports.compose import LENGTH, NUM_RESULTS, PAYLOAD_SIZE, STRING_TABLE, VARINT, serialize
from ncubble.analysis.diagnosis import results
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.report import cache as store
from ncubble.analysis.report.container import MAGIC, check_frame
from ncubble.analysis.report.report import Report, open_reports
from ncubble.dashboard.data import index
from ncubble.dashboard.data.rows import launch_row
from ncubble.profiling.runs import Manifest
from ncubble.recordings import ROOT
from ncubble.store import remember

TOGETHER = 100
ALONE = 0.1
"""Launches of a large run, and the share of launches that are runs by themselves."""


@dataclass(frozen=True)
class Seed:
    """One recorded launch: its raw tables, its verdict and row, and the facts of its kernel."""

    report: Report
    launch: int
    verdict: LaunchVerdict
    row: dict[str, Any]

    def table(self, name: str, launch: int) -> pa.Table:
        """The rows of one raw table that are this launch's, under another number; source files as
        they are."""
        rows = pq.read_table(store.file_of(self.report.frame.sha256, name))
        if "launch" not in rows.column_names:
            return rows
        rows = rows.filter(pc.equal(rows["launch"], self.launch))
        number = pa.array([launch] * len(rows), pa.int32())
        return rows.set_column(rows.column_names.index("launch"), "launch", number)


def seeds(paths: Sequence[Path]) -> list[Seed]:
    """All launches at or below ``paths``, judged."""
    reports, failures = open_reports(paths)
    assert reports and not failures, failures
    found = []
    for report in reports:
        for verdict in results.judge(report)[0]:
            row = launch_row(report, verdict.launch, verdict)
            found.append(Seed(report, verdict.launch, verdict, row))
    return found


def sizes(launches: int) -> Iterator[int]:
    """How many launches each run has: first those that have one, then the large ones."""
    alone = int(launches * ALONE)
    yield from [1] * alone
    left = launches - alone
    yield from [TOGETHER] * (left // TOGETHER)
    if left % TOGETHER:
        yield left % TOGETHER


def make(out: Path, launches: int, detailed: int, chosen: Sequence[Seed]) -> list[str]:
    """Write the store below ``out``; the ids of the launches whose frames are there."""
    turn = random.Random(1)  # noqa: S311 - the same store every time
    known, opened = dict[Path, index.Known](), list[str]()
    counts = list(sizes(launches))
    whole = {len(counts) - 1 - number * len(counts) // detailed for number in range(detailed)}
    for number, count in enumerate(counts):
        members = [turn.choice(chosen) for _ in range(count)]
        folder = out / members[0].row["kernel"] / f"run{number:06d}"
        sha, manifest = _write_run(folder, number, members)
        key, rows = sha[:16], _rows(sha[:16], folder, members)
        doubted = {
            row["id"]: " ".join(seed.verdict.doubts)
            for row, seed in zip(rows, members, strict=True)
            if seed.verdict.doubts
        }
        known[folder] = index.Known(key, index.signature_of(folder), LaunchRows.of(rows), doubted)
        if number in whole:
            _write_frames(sha, members)
            _write_verdicts(sha, manifest, folder, members)
            opened += [row["id"] for row in rows]
    index.remember(index.index_file([out]), known)
    return opened


def _rows(key: str, folder: Path, members: Sequence[Seed]) -> list[dict[str, Any]]:
    return [
        one.row | {"id": f"{key}/{launch}", "launch": launch, "path": str(folder)} for launch, one in enumerate(members)
    ]


def _write_run(folder: Path, number: int, members: Sequence[Seed]) -> tuple[str, Manifest]:
    """A run directory: a report that announces its launches, and a manifest with the facts of
    each."""
    folder.mkdir(parents=True)
    facts = [seed.report.run.manifest.kernel_of(seed.launch) for seed in members]
    manifest = Manifest(
        outcome="ok", started="2026-11-21T00:00:00+00:00", kernel=facts[0], launches=facts if len(facts) > 1 else []
    )
    (folder / "run.json").write_text(manifest.to_json())
    payload = b"".join(struct.pack("<I", 1) + b"\0" for _ in members)
    header = serialize(
        [
            (STRING_TABLE, LENGTH, f"generated run {number}".encode()),
            (NUM_RESULTS, VARINT, len(members)),
            (PAYLOAD_SIZE, VARINT, len(payload)),
        ]
    )
    version = b"2025.3.1.0 (build 1)"
    start = struct.pack("<I", len(version)) + version
    (folder / "report.ncu-rep").write_bytes(MAGIC + start + struct.pack("<I", len(header)) + header + payload)
    return check_frame(folder / "report.ncu-rep").sha256, manifest


def _write_frames(sha: str, members: Sequence[Seed]) -> None:
    """The raw tables of a report, as its reading would have left them in the cache."""
    with store.staging() as folder:
        for part, names in store.PARTS.items():
            (folder / part).mkdir()
            for name in names:
                rows = [one.table(name, launch) for launch, one in enumerate(members)]
                store.write(pa.concat_tables(rows, promote_options="permissive"), folder / part / f"{name}.parquet")
            store.commit(folder / part, sha, part)


def _write_verdicts(sha: str, manifest: Manifest, folder: Path, members: Sequence[Seed]) -> None:
    verdicts = [one.verdict.to_json() | {"report": str(folder), "launch": launch} for launch, one in enumerate(members)]
    remember(results.verdicts_file(sha, manifest), {"rules": results.rules_hash(), "verdicts": verdicts})


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate a store of many launches")
    parser.add_argument("out", type=Path)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--detailed", type=int, default=60)
    parser.add_argument("--ids", type=Path, help="write the ids of the launches that have frames to this file")
    given = parser.parse_args()
    assert os.environ.get("NCUBBLE_CACHE"), "set NCUBBLE_CACHE to a folder of its own"
    shutil.rmtree(given.out, ignore_errors=True)
    opened = make(given.out, given.launches, given.detailed, seeds(given.paths))
    if given.ids:
        given.ids.write_text(json.dumps(opened))
    print(f"{given.out}: {given.launches} launches, frames of {len(opened)} of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
