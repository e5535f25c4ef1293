"""Reports that open without an error and hold values that contradict each other."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
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


_parsed = lru_cache(maxsize=4)(structure.parse)


Change = Callable[[int, str, float], Sequence[float]]
"""Launch, metric and its value to the values that stand there: none, another, or several."""


def with_values(data: bytes, change: Change) -> bytes:
    """The plain report ``data`` with other numbers in its launches."""
    report = _parsed(data)
    names = [name.payload.decode() for header, _ in report.blocks for f in header if f.number == 4 for name in f.inner]
    results = [entry for header, entries in report.blocks if _number(header, 2) for entry in entries]
    changes: structure.Changes = {}
    for launch, entry in enumerate(results):
        for metric in (f for f in entry if f.number == 13):
            held = [f for f in metric.inner if f.number == 2]
            value = next((_float(f) for f in held), None)
            name = names[_number(metric.inner, 1)]
            if value is not None and (new := list(change(launch, name, value))) != [value]:
                changes[metric] = [_with(metric, held[0], number) for number in new]
    return structure.written(report, changes)


def _number(fields: Sequence[structure.Field], number: int) -> int:
    return next((structure._read_varint(f.payload, 0)[0] for f in fields if f.number == number and not f.wire), 0)


def _float(held: structure.Field) -> float | None:
    message = structure.message(held.payload)
    if len(message) != 1 or message[0].wire not in (structure.FIXED64, structure.VARINT):
        return None
    number = message[0]
    (value,) = struct.unpack("<d", number.payload) if number.wire else (float(_number(message, number.number)),)
    return float(value)


def _with(metric: structure.Field, held: structure.Field, value: float) -> structure.Field:
    new = structure.Field(2, structure.BYTES, b"\x19" + struct.pack("<d", value))
    return structure.Field(13, structure.BYTES, b"", [new if f is held else f for f in metric.inner])
