"""Reports that open without an error and hold values that contradict each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.reports import structure
from benchmarks.reports.fuzz import plain_bytes
from ncubble.analysis.report import cache
from ncubble.analysis.report.report import open_reports
from ncubble.profiling.runs import Run


def tampered_run(run: Path, copy: Path, table: str, change: Callable[[pd.DataFrame], pd.DataFrame | None]) -> Path:
    """A copy of ``run`` whose cached ``table`` was changed, in place or to what ``change`` returns.
    NCUBBLE_CACHE must be of the test's own."""
    shutil.copytree(run, copy, dirs_exist_ok=True)
    (whole,), _ = open_reports([copy])
    file = cache.file_of(whole.frame.sha256, table)
    frame = pd.read_parquet(file)
    changed = change(frame)
    (frame if changed is None else changed).to_parquet(file)
    cache.seal(file.parent)
    return copy


def doubled_report(run: Path) -> bytes:
    """The report of ``run``, not compressed, with its last block of launches twice."""
    report = structure.parse(plain_bytes(Run.load(run).report))
    report.blocks.append(report.blocks[-1])
    return structure.written(report, {})


def report_without_series(run: Path, every: bool) -> bytes:
    """The report of ``run`` without the samples of one series, or, of ``every``, without the table
    that relates them to times. Protobuf fields by number."""
    report = structure.parse(plain_bytes(Run.load(run).report))
    if every:
        return structure.written(report, {max(report.paths["result.17.5"], key=_size): []})
    metric = max((sample.outer for sample in report.paths["result.13.3"] if sample.outer), key=_size)
    return structure.written(report, {sample: [] for sample in metric.inner if sample.number == 3})


def report_without_times(run: Path, series: str) -> bytes:
    """The report of ``run`` without the tables that relate ``series`` (a metric's name) to
    times."""
    report = structure.parse(plain_bytes(Run.load(run).report))
    tables = [table for table in report.paths["result.17.5.1.113"] if series.encode() in table.payload]
    assert tables, f"{run} relates no {series} to times"
    return structure.written(report, {table: [] for table in tables})


def report_with_empty_field(run: Path, path: str) -> bytes:
    """The report of ``run`` with the first field at ``path`` empty."""
    report = structure.parse(plain_bytes(Run.load(run).report))
    field = report.paths[path][0]
    return structure.written(report, {field: [structure.Field(field.number, field.wire, b"")]})


def _size(field: structure.Field) -> int:
    return len(field.payload)
