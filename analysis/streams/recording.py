"""What a program's host and GPU did, one row per call, kernel and copy: read from what a recorder
wrote, and kept as ``activity.parquet`` of a run directory.

Columns: ``kind`` (one of ``KINDS``), ``name`` (of a kernel or call), ``process``, ``device``,
``context``, ``stream``, ``start_ns``, ``end_ns`` (one clock for host and GPU, zero is the first
record), ``bytes``, ``correlation`` (the same for a call and the work that it queued), ``thread``
(of a call), ``flags``, ``source``, ``target``, ``channel``, ``graph``, ``extra`` (as CUPTI tells
them: ``profiling.recorders.raw``). Kind ``range``: an NVTX range, ``domain@name``, of a ``thread``
(0: of the process).
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.analysis.traces.lanes import unreadable
from ncubble.errors import ReportError
from ncubble.profiling.recorders import raw

FILE = "activity.parquet"
SCHEMA = 1
RANGE = "range"
KINDS = (
    *("kernel", "copy", "set", "driver", "runtime", "sync", "stream", "context", "graph", "event", "overhead", "pool"),
    RANGE,
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
STREAM_WAIT = 2
"""``flags`` of synchronizations: a stream waits for an event. 1: the host does; 3 and 4: the host
waits for a stream, or for all."""
TRIMMED = 3
"""``flags`` of pools: unused memory was released to the device."""
START, END = 2, 4
"""``flags`` of marks: start and end of a range. All others are instants."""
FOREVER = 2**62
NONE = 2**32 - 1
"""CUPTI's "unknown" for streams, graphs and events."""
NUMBERS = (
    *("process", "device", "context", "stream", "start_ns", "end_ns", "bytes", "correlation", "thread", "flags"),
    *("source", "target", "channel", "graph", "extra"),
)
COLUMNS = ("kind", "name", *NUMBERS)
_COLUMN_TYPES = pa.schema([(name, pa.int64() if name in NUMBERS else pa.string()) for name in COLUMNS])
_TYPE = np.dtype([(name, "<u8" if 4 <= at < 8 else "<u4") for at, name in enumerate(raw.FIELDS)])
_LACKING = {
    "over": "{:,} records exceeded the limit and were not kept (see most in docs/streams.md)",
    "dropped": "CUPTI dropped {:,} records",
    "unread": "{:,} records could not be read",
    "error": "CUPTI reported at its end: {}",
}
"""What a recorder says that it could not keep, by the member of its last record."""
_REMEDY = "record the program again with `ncubble streams`"


@dataclass(frozen=True)
class Recording:
    """All rows, in order of start, and what a reader must know: what is missing from them, in
    ``notes``. ``facts`` holds ``processes`` and ``symbols``, the mangled names by the readable
    ones."""

    rows: pd.DataFrame
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Keeps the rows as ``activity.parquet`` in ``folder``; raises OSError."""
        told = {"schema": SCHEMA, "notes": list(self.notes), "facts": self.facts}
        table = pa.Table.from_pandas(self.rows[[*COLUMNS]], preserve_index=False)
        table = table.replace_schema_metadata({b"ncubble.activity": json.dumps(told).encode()})
        pq.write_table(table, folder / FILE, compression="zstd")
        return folder / FILE


def read(folder: Path) -> Recording:
    """The rows that ``Recording.write`` kept; raises ReportError naming the file and what is wrong
    with it."""
    path = folder / FILE
    try:
        table = pq.read_table(path)
        told = json.loads((table.schema.metadata or {}).get(b"ncubble.activity", b"null"))
        table = table.select([*COLUMNS]).cast(_COLUMN_TYPES)
    except (OSError, ValueError, KeyError, RecursionError, pa.ArrowException) as error:
        raise unreadable(path, error, _REMEDY) from error
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        raise ReportError(f"{path}: not a recording of GPU activity of schema {SCHEMA}", _REMEDY)
    if any(column.null_count for column in table.columns):
        raise ReportError(f"{path}: a value is missing", _REMEDY)
    rows = table.to_pandas()
    if (rows["kind"].isin(TIMED) & ((rows["start_ns"] < 0) | (rows["end_ns"] < rows["start_ns"]))).any():
        raise ReportError(f"{path}: a row ends before it starts, or starts before the recording", _REMEDY)
    notes, facts = told.get("notes"), told.get("facts")
    notes = tuple(map(str, notes)) if isinstance(notes, list) else ()
    return Recording(rows, notes, facts if isinstance(facts, dict) else {})


def read_raw(folder: Path) -> Recording:
    """Everything that recorders wrote into ``folder``; raises ReportError for a file that no
    recorder wrote.

    Work and calls without a time, or that end before they start, are left out and named in the
    notes.
    """
    notes: list[str] = []
    facts: dict[str, Any] = {"processes": 0, "symbols": {}}
    frames = [pd.DataFrame({name: pd.Series(dtype="int64" if name in NUMBERS else "str") for name in COLUMNS})]
    for path in sorted(folder.glob("records-*.bin")):
        frames.append(_process(path, notes, facts))
        facts["processes"] += 1
    with suppress(OSError):
        why = (folder / raw.REFUSED).read_text(encoding="utf-8", errors="replace")[:2000]
        notes.append(f"a process of the program was not recorded: {why}")
    rows = paired(pd.concat(frames[1:] or frames, ignore_index=True))
    return Recording(_normal(rows, notes), tuple(notes), facts)


def _process(path: Path, notes: list[str], facts: dict[str, Any]) -> pd.DataFrame:
    """The rows of one process; a record that was cut off is left out. ``facts`` gets the mangled
    names and the recorder's last record."""
    data = path.read_bytes()
    if len(data) < raw.HEAD.size or raw.HEAD.unpack_from(data)[:2] != (raw.MAGIC, raw.RECORD.size):
        raise ReportError(f"{path}: not a recording of GPU activity", "record the program again")
    process = raw.HEAD.unpack_from(data)[2]
    records = np.frombuffer(data, _TYPE, (len(data) - raw.HEAD.size) // raw.RECORD.size, raw.HEAD.size)
    end, mangled = None, list[str]()
    with suppress(OSError, ValueError):
        end = json.loads(path.with_name(f"end-{process}.json").read_text(encoding="utf-8"))
    with suppress(OSError):
        names = path.with_name(f"names-{process}.txt").read_text(encoding="utf-8", errors="replace")
        mangled = names.split("\n")[:-1]
    if isinstance(end, dict):
        lacking = [text.format(end[name]) for name, text in _LACKING.items() if end.get(name)]
        lacking += ["CUPTI did not report whether it dropped records"] if end.get("dropped") is None else []
        if end.get("refused"):
            lacking.append(f"CUPTI does not record {', '.join(map(str, end['refused']))} here")
        notes += [f"process {process}: {text}" for text in lacking]
    else:
        notes.append(f"process {process} ended without a final record: data that CUPTI had not delivered are missing")
    texts = [readable(name) for name in mangled]
    facts["symbols"].update((text, name) for text, name in zip(texts, mangled, strict=True) if text != name)
    # A name is written before the record that holds its number, but a kill may fall between their
    # flushes.
    named = np.isin(records["kind"], (raw.KERNEL, raw.DRIVER, raw.RUNTIME, raw.MARK))
    which = np.where(named, np.minimum(records["name"], len(texts)), len(texts) + 1)
    columns: dict[str, Any] = {
        "kind": np.array([*KINDS, "?"], dtype=object)[np.minimum(records["kind"] - 1, len(KINDS))],
        "name": np.array([*texts, "?", ""], dtype=object)[which],
        "process": np.full(len(records), process, np.int64),
    }
    return pd.DataFrame(columns | {name: records[name.removesuffix("_ns")].astype(np.int64) for name in NUMBERS[1:]})


def _normal(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Known kinds only, times from the first record on, in order."""
    rows = rows[rows["kind"] != "?"]
    timed = rows["kind"].isin(TIMED)
    # CUPTI reports unknown times as 0.
    wrong = timed & ((rows["start_ns"] <= 0) | (rows["end_ns"] < rows["start_ns"]))
    for kinds, what in ((WORK, "kernels and copies"), ((*CALLS, "sync"), "calls")):
        if count := int((wrong & rows["kind"].isin(kinds)).sum()):
            notes.append(f"{count:,} {what} without a usable time were dropped")
    rows, timed = rows[~wrong].copy(), timed[~wrong]
    if timed.any():
        zero = rows.loc[timed, "start_ns"].min()
        for name in ("start_ns", "end_ns"):
            rows[name] = np.where(rows[name] > 0, rows[name] - zero, 0)
    return rows.sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True)


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with one row for each NVTX range in place of its marks; marks of an instant are left
    out.

    A range that was never ended ends with the last record of its process. ``extra`` stays its
    number.
    """
    marks = rows["kind"] == RANGE
    if not marks.any():
        return rows
    begun = rows[marks & (rows["flags"] == START)].reset_index(drop=True)
    ended = rows[marks & (rows["flags"] == END)].drop_duplicates(["process", "extra"])
    ends = ended.set_index(["process", "extra"])["start_ns"]
    last = rows.groupby("process")["end_ns"].max()
    # Integers throughout: CUPTI's times exceed the exact range of a double.
    found = ends.reindex(pd.MultiIndex.from_frame(begun[["process", "extra"]]), fill_value=-1).to_numpy(np.int64)
    begun["end_ns"] = np.where(found >= 0, found, last.reindex(begun["process"]).to_numpy(np.int64))
    return pd.concat([rows[~marks], begun], ignore_index=True)


def geometry(block: int, grid: int, rest: int, shared: int) -> tuple[str, str, int] | None:
    """Grid and block of a kernel as ``x,y,z``, as reports write them, and its dynamic shared
    memory, from ``flags``, ``source``, ``target`` and ``bytes`` of its row
    (``profiling.recorders.raw``); None where the recording does not tell."""
    if not block:
        return None
    threads = f"{block & 0x7FF},{block >> 11 & 0x7FF},{block >> 22}"
    return f"{grid},{rest & 0xFFFF},{rest >> 16}", threads, shared


@functools.cache
def _cxx() -> tuple[Any, Any] | None:
    """The demangler of the C++ library, and what frees its result; None where it is not there."""
    try:
        demangle, free = ctypes.CDLL("libstdc++.so.6").__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    return demangle, free


def readable(name: str) -> str:
    """A kernel's name as its source has it: demangled where the C++ library is there, without
    ``void``."""
    if not name.startswith("_Z") or (library := _cxx()) is None:
        return name
    pointer = library[0](name.encode(), None, None, ctypes.byref(ctypes.c_int(0)))
    if not pointer:
        return name
    text = ctypes.string_at(pointer).decode(errors="replace")
    library[1](ctypes.c_void_p(pointer))
    return re.sub(r"^void ", "", text)


def within_profiled(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows between ``cudaProfilerStart`` and ``cudaProfilerStop`` of each process that calls
    them, else all.

    Work belongs to a stretch if it was queued in it, whenever it runs; what only describes
    (streams) always stays.
    """
    queued = queueing(rows, rows)["start_ns"].fillna(rows["start_ns"]).to_numpy()
    keep = rows["kind"].isin(("stream", "context")).to_numpy().copy()
    for process, own in rows.groupby("process").indices.items():
        stretches = profiled_stretches(rows, int(str(process)))
        keep[own] |= not stretches
        for begin, end in stretches:
            keep[own] |= (queued[own] >= begin) & (queued[own] < end)
    return rows[keep].reset_index(drop=True)


def profiled_stretches(rows: pd.DataFrame, process: int) -> list[tuple[int, int]]:
    """Begin and end (ns) of what a process does after each ``cudaProfilerStart``, until it calls
    ``cudaProfilerStop``."""
    calls = rows[rows["kind"].isin(CALLS) & (rows["process"] == process)]
    begins = calls.loc[calls["name"].str.contains("ProfilerStart"), "end_ns"].tolist()
    stops = calls.loc[calls["name"].str.contains("ProfilerStop"), "start_ns"].tolist()
    return [(begin, min((stop for stop in stops if stop >= begin), default=FOREVER)) for begin in begins]


def queueing(rows: pd.DataFrame, work: pd.DataFrame) -> pd.DataFrame:
    """``start_ns`` and ``thread`` of the call in ``rows`` that queued each row of ``work``; NaN
    where none was recorded."""
    calls = rows[rows["kind"].isin(CALLS)].sort_values("start_ns", kind="stable")
    first = calls.drop_duplicates(["process", "correlation"]).set_index(["process", "correlation"])
    of_work = pd.MultiIndex.from_frame(work[["process", "correlation"]])
    return first[["start_ns", "thread"]].reindex(of_work).set_axis(work.index)
