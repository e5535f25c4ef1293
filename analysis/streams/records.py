"""What a program's host and GPU did, one row per call, kernel and copy: read from what a recorder
wrote, and kept.

``activity.parquet`` of a run directory. Columns: ``kind`` (one of ``KINDS``), ``name`` (of a kernel
or call), ``process``, ``device``, ``context``, ``stream``, ``start_ns``, ``end_ns`` (one clock for
host and GPU, zero is the first record), ``bytes``, ``correlation`` (the same for a call and the
work that it queued), ``thread`` (of a call), ``flags``, ``source``, ``target``, ``channel``,
``graph``, ``extra`` (as CUPTI tells them: ``profiling.recorders.raw``). Kind ``range``: an NVTX
range, ``domain@name``, of a ``thread`` (0: of the process).
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.streams.marks import RANGE, paired
from ncubble.errors import ReportError
from ncubble.profiling.recorders import raw

FILE = "activity.parquet"
SCHEMA = 1
KINDS = (
    *("kernel", "copy", "set", "driver", "runtime", "sync", "stream", "context", "graph", "event", "overhead", "pool"),
    "range",
)
WORK = ("kernel", "copy", "set", "graph")
"""Kinds executed by the GPU."""
CALLS = ("driver", "runtime")
TIMED = (*WORK, *CALLS, "sync", RANGE)
"""Kinds that have a start and an end."""
UP, DOWN, ON_DEVICE, PEER = 1, 2, 8, 10
"""``flags`` of copies: CUPTI's kinds. 3 and 6 (arrays) are uploads; 4 and 7 are downloads or stay
on the device."""
PAGEABLE, PINNED = 1, 2
"""``source`` and ``target`` of copies: CUPTI's kinds of memory."""
BLOCKING, NON_BLOCKING, NULL = 1, 2, 3
"""``flags`` of streams."""
EVENT_WAIT, STREAM_WAIT, STREAM_SYNC, DEVICE_SYNC = 1, 2, 3, 4
"""``flags`` of synchronizations: the host waits for an event, a stream for one, the host for a
stream, for all."""
TRIMMED = 3
"""``flags`` of pools: unused memory was released to the device."""
NONE = 2**32 - 1
"""CUPTI's "unknown" for streams, graphs and events."""
_NUMBERS = (
    *("process", "device", "context", "stream", "start_ns", "end_ns", "bytes", "correlation", "thread", "flags"),
    *("source", "target", "channel", "graph", "extra"),
)
COLUMNS = ("kind", "name", *_NUMBERS)
_TYPE = np.dtype([(name, "<u8" if 4 <= at < 8 else "<u4") for at, name in enumerate(raw.FIELDS)])


@dataclass(frozen=True)
class Recording:
    """All rows, in order of start, and what a reader must know: what is missing from them, in
    ``notes``. ``facts`` holds ``processes``, ``ends`` and ``symbols``, the mangled names by the
    readable ones."""

    rows: pd.DataFrame
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def empty() -> pd.DataFrame:
    """No rows, with all columns."""
    return pd.DataFrame({name: pd.Series(dtype="str" if name in ("kind", "name") else "int64") for name in COLUMNS})


def read_raw(folder: Path) -> Recording:
    """Everything that recorders wrote into ``folder``; raises ReportError for a file that no
    recorder wrote.

    Work and calls without a time, or that end before they start, are left out and named in the
    notes.
    """
    notes: list[str] = []
    ends: list[dict[str, Any]] = []
    symbols: dict[str, str] = {}
    frames = [_process(path, notes, ends, symbols) for path in sorted(folder.glob("records-*.bin"))]
    notes += _refused(folder / raw.REFUSED)
    rows = paired(pd.concat(frames, ignore_index=True)) if frames else empty()
    facts = {"processes": len(frames), "ends": ends, "symbols": symbols}
    return Recording(_normal(rows, notes), tuple(notes), facts)


def _process(path: Path, notes: list[str], ends: list[dict[str, Any]], symbols: dict[str, str]) -> pd.DataFrame:
    """The rows of one process; a record that was cut off is left out. ``symbols`` gets the mangled
    names."""
    data = path.read_bytes()
    if len(data) < raw.HEAD.size or raw.HEAD.unpack_from(data)[:2] != (raw.MAGIC, raw.RECORD.size):
        raise ReportError(f"{path}: not a recording of GPU activity", "record the program again")
    process = raw.HEAD.unpack_from(data)[2]
    count = (len(data) - raw.HEAD.size) // raw.RECORD.size
    records = np.frombuffer(data, _TYPE, count, raw.HEAD.size)
    end = _end(path.with_name(f"end-{process}.json"))
    if end is None:
        notes.append(f"process {process} ended without a final record: data that CUPTI had not delivered are missing")
    else:
        ends.append(end)
        notes += _lacking(process, end)
    mangled = _names(path.with_name(f"names-{process}.txt"))
    names = [readable(name) for name in mangled]
    symbols.update((name, symbol) for name, symbol in zip(names, mangled, strict=True) if name != symbol)
    return _frame(records, process, names)


def _refused(path: Path) -> list[str]:
    try:
        why = path.read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:
        return []
    return [f"a process of the program was not recorded: {why}"]


def _end(path: Path) -> dict[str, Any] | None:
    try:
        end = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return end if isinstance(end, dict) else None


def _lacking(process: int, end: dict[str, Any]) -> list[str]:
    """What one recorder said that it could not keep."""
    notes = []
    if end.get("over"):
        notes.append(f"process {process}: {end['over']:,} records exceeded the limit and were not kept (see --most)")
    if end.get("dropped"):
        notes.append(f"process {process}: CUPTI dropped {end['dropped']:,} records")
    if end.get("dropped") is None:
        notes.append(f"process {process}: CUPTI did not report whether it dropped records")
    if end.get("unread"):
        notes.append(f"process {process}: {end['unread']:,} records could not be read")
    if end.get("refused"):
        notes.append(f"process {process}: CUPTI does not record {', '.join(map(str, end['refused']))} here")
    if end.get("error"):
        notes.append(f"process {process}: CUPTI reported at its end: {end['error']}")
    return notes


def _names(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []


def _frame(records: np.ndarray, process: int, names: list[str]) -> pd.DataFrame:
    # A name is written before the record that holds its number, but a kill may fall between their
    # flushes.
    table = np.array([*names, "?"], dtype=object)
    named = np.isin(records["kind"], (raw.KERNEL, raw.DRIVER, raw.RUNTIME, raw.MARK))
    numbers = np.where(named, np.minimum(records["name"], len(names)), len(names))
    texts = np.where(named, table[numbers], "")
    kinds = np.array([*KINDS, "?"], dtype=object)[np.minimum(records["kind"] - 1, len(KINDS))]
    columns: dict[str, Any] = {"kind": kinds, "name": texts, "process": np.full(len(records), process, np.int64)}
    for name in _NUMBERS[1:]:
        columns[name] = records[name.removesuffix("_ns")].astype(np.int64)
    return pd.DataFrame(columns)


def _normal(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Known kinds only, times from the first record on, in order."""
    rows = rows[rows["kind"] != "?"]
    timed = rows["kind"].isin(TIMED)
    # CUPTI reports unknown times as 0.
    wrong = timed & ((rows["start_ns"] <= 0) | (rows["end_ns"] < rows["start_ns"]))
    for kinds, what in ((WORK, "kernels and copies"), ((*CALLS, "sync"), "calls")):
        if count := int((wrong & rows["kind"].isin(kinds)).sum()):
            notes.append(f"{count:,} {what} without a usable time were dropped")
    rows = rows[~wrong].copy()
    timed = timed[~wrong]
    if timed.any():
        zero = rows.loc[timed, "start_ns"].min()
        for name in ("start_ns", "end_ns"):
            rows[name] = np.where(rows[name] > 0, rows[name] - zero, 0)
    return rows.sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True)


@functools.cache
def _demangler() -> Any:
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function


def readable(name: str) -> str:
    """A kernel's name as its source has it: demangled where the C++ library is there, without
    ``void``."""
    demangle = _demangler()
    if not name.startswith("_Z") or demangle is None:
        return name
    status = ctypes.c_int(0)
    pointer = demangle(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    text = ctypes.string_at(pointer).decode(errors="replace")
    _free()(ctypes.c_void_p(pointer))
    return re.sub(r"^void ", "", text)


@functools.cache
def _free() -> Any:
    return ctypes.CDLL(None).free


def within_profiled(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows between ``cudaProfilerStart`` and ``cudaProfilerStop`` of each process that calls
    them, else all.

    Work belongs to a stretch if it was queued in it, whenever it runs; what only describes
    (streams) always stays.
    """
    calls = rows[rows["kind"].isin(CALLS)]
    starts = calls[calls["name"].str.contains("ProfilerStart")]
    if starts.empty:
        return rows
    keep = np.ones(len(rows), bool)
    called = calls.groupby(["process", "correlation"])["start_ns"].min()
    keys = pd.MultiIndex.from_frame(rows[["process", "correlation"]])
    queued = called.reindex(keys).to_numpy(float)
    queued = np.where(np.isnan(queued), rows["start_ns"].to_numpy(float), queued)
    timed = ~rows["kind"].isin(("stream", "context")).to_numpy()
    for process, own in starts.groupby("process"):
        stops = calls[(calls["process"] == process) & calls["name"].str.contains("ProfilerStop")]
        inside = np.zeros(len(rows), bool)
        for begin in own["end_ns"]:
            later = stops.loc[stops["start_ns"] >= begin, "start_ns"]
            inside |= (queued >= begin) & (queued < (later.min() if len(later) else np.inf))
        keep &= ~((rows["process"] == process).to_numpy() & timed & ~inside)
    return rows[keep].reset_index(drop=True)


def write(recording: Recording, folder: Path) -> Path:
    """Keeps the rows as ``activity.parquet`` in ``folder``; raises OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(recording.rows[[*COLUMNS]], preserve_index=False)
    facts = {"schema": SCHEMA, "notes": list(recording.notes), "facts": recording.facts}
    table = table.replace_schema_metadata({b"ncubble.activity": json.dumps(facts).encode()})
    pq.write_table(table, folder / FILE, compression="zstd")
    return folder / FILE


def read(folder: Path) -> Recording:
    """The rows that ``write`` kept; raises ReportError naming the file and what is wrong with
    it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / FILE
    remedy = "record the program again with `ncubble streams`"
    try:
        table = pq.read_table(path)
        description = json.loads((table.schema.metadata or {}).get(b"ncubble.activity", b"null"))
    except (OSError, ValueError, pa.ArrowException) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ReportError(f"{path}: not readable ({what})", remedy) from error
    if not isinstance(description, dict) or type(description.get("schema")) is not int:
        raise ReportError(f"{path}: not a recording of GPU activity", remedy)
    if description["schema"] > SCHEMA:
        raise ReportError(f"{path}: schema {description['schema']} is newer than {SCHEMA}", "upgrade ncubble")
    lacking = [name for name in COLUMNS if name not in table.column_names]
    if lacking:
        raise ReportError(f"{path}: lacks the column {lacking[0]!r}", remedy)
    texts = [table.column(name) for name in ("kind", "name")]
    if any(column.null_count or column.type not in (pa.string(), pa.large_string()) for column in texts):
        raise ReportError(f"{path}: a kind or name is not text", remedy)
    rows = table.select([*COLUMNS]).to_pandas()
    if rows[[*_NUMBERS]].isna().to_numpy().any() or not all(rows[name].dtype.kind in "iu" for name in _NUMBERS):
        raise ReportError(f"{path}: a number is missing", remedy)
    rows = rows.astype(dict.fromkeys(_NUMBERS, "int64"))
    if (rows["kind"].isin(TIMED) & ((rows["start_ns"] < 0) | (rows["end_ns"] < rows["start_ns"]))).any():
        raise ReportError(f"{path}: a row ends before it starts, or starts before the recording", remedy)
    notes, facts = description.get("notes"), description.get("facts")
    notes = tuple(map(str, notes)) if isinstance(notes, list) else ()
    return Recording(rows, notes, facts if isinstance(facts, dict) else {})
