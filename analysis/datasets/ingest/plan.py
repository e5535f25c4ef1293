"""What an ingest has to read: reports that a dataset lacks, or that changed since; and those that
are gone."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.ingest.process import WantedReport
from ncubble.analysis.datasets.rows import report_id, text
from ncubble.analysis.diagnosis.results import rules_hash
from ncubble.profiling.runs import MANIFEST, SUFFIXES, find_runs

BATCH = 64
BATCH_B = 16 << 20
"""Maximum reports of a batch, and their stored bytes: limits what a crash costs and what a process
holds."""
TURNS = 4
"""Minimum batches per worker, so that no worker waits long for the last."""
SETTLED_NS = 3 * 10**9


class IngestedReport(NamedTuple):
    """What a dataset says of a report: the columns of ``reports`` that tell whether it is read
    again."""

    report: str
    path: str
    stamp: str
    sha256: str | None
    facts: str
    rules: str
    complete: bool
    details: bool | None


@dataclass(frozen=True)
class IngestPlan:
    """``wanted`` is to be read; ``unchanged`` reports are as the dataset has them; ``gone`` are
    paths of the dataset below the roots that are not there now; ``stale`` counts unchanged ones
    that other rules judged."""

    wanted: tuple[WantedReport, ...] = ()
    unchanged: int = 0
    gone: dict[str, str] = field(default_factory=dict)
    stale: int = 0


def plan(
    dataset: Dataset, roots: Sequence[Path], rejudge: bool = False, retry: bool = False, details: bool = False
) -> IngestPlan:
    """Compare what lies below ``roots`` with what ``dataset`` holds. Reads no report.

    A report counts as unchanged while sizes and times of its file and its manifest are. With
    ``rejudge``, those that other rules judged are wanted again, with ``retry`` those that could not
    be read, with ``details`` those that were ingested without.
    """
    rows = (IngestedReport(**row) for row in dataset.reports(IngestedReport._fields).to_table().to_pylist())
    known = {row.report: row for row in rows}
    rules, now = rules_hash(), time.time_ns()
    wanted: list[WantedReport] = []
    seen: set[str] = set()
    unchanged = stale = 0
    for path in find_runs(Path(os.path.abspath(root)) for root in roots):  # noqa: PTH100 - links stay as they are
        name = report_id(str(path))
        if name in seen:
            continue
        seen.add(name)
        stamp, size = stamp_of(path, now)
        row = known.get(name)
        if row is None or _again(row, rules, rejudge, retry, details):
            wanted.append(WantedReport(str(path), stamp, size=size))
        elif stamp and row.stamp == stamp:
            unchanged, stale = unchanged + 1, stale + (row.rules != rules)
        else:
            sha256, facts = (row.sha256, row.facts) if row.complete else (None, None)
            wanted.append(WantedReport(str(path), stamp, sha256, facts, size))
    gone = {name: row.path for name, row in known.items() if name not in seen and _below(row.path, roots)}
    return IngestPlan(tuple(wanted), unchanged, gone, stale)


def _again(row: IngestedReport, rules: str, rejudge: bool, retry: bool, details: bool) -> bool:
    """Whether a report is to be read again, even if nothing of it changed."""
    if not row.complete:
        return retry
    return (rejudge and row.rules != rules) or (details and not row.details)


def stamp_of(path: Path, now_ns: int) -> tuple[str, int]:
    """Sizes and times of the report at ``path`` and of its manifest as one text, and the size of
    the report.

    "" where one changed a moment ago: the clock of a file system may be as coarse as two seconds.
    """
    folder = path if path.is_dir() else path.parent
    files = [folder / f"report{suffix}" for suffix in SUFFIXES] if folder == path else [path]
    parts, size, newest = [], 0, 0
    for file in (*files, *([folder / MANIFEST] if folder == path or path.stem == "report" else [])):
        try:
            status = file.stat()
        except OSError:
            parts.append("-")
            continue
        parts.append(f"{status.st_size}.{status.st_mtime_ns}")
        newest = max(newest, status.st_mtime_ns)
        size += status.st_size
    return ("" if now_ns - newest < SETTLED_NS else " ".join(parts)), size


def _below(path: str, roots: Sequence[Path]) -> bool:
    """Whether a path lies below one of ``roots`` that can be listed: what cannot be looked at is
    not gone."""
    for root in roots:
        whole = text(os.path.abspath(root)) or ""  # noqa: PTH100
        if (path == whole and root.parent.is_dir()) or (path.startswith(whole.rstrip("/") + "/") and root.is_dir()):
            return True
    return False


def batches(wanted: Sequence[WantedReport], workers: int) -> list[tuple[WantedReport, ...]]:
    """Cut what is wanted into batches, in its order: up to ``BATCH`` reports of up to
    ``BATCH_B``."""
    most = max(1, min(BATCH, -(-len(wanted) // (TURNS * max(workers, 1)))))
    cut: list[tuple[WantedReport, ...]] = []
    batch: list[WantedReport] = []
    for report in wanted:
        if batch and (len(batch) == most or sum(each.size for each in batch) + report.size > BATCH_B):
            cut.append(tuple(batch))
            batch = []
        batch.append(report)
    return [*cut, *([tuple(batch)] if batch else [])]
