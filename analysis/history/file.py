"""The folder of a gate's history: one small Parquet file per check, merged by and by, read whole in
one go.

A check writes ``check-TIME-ID.parquet`` beside its place and renames it, so that two at once lose
nothing and a reader never meets half of one. Every ``FAN`` files of a level are merged into one of
the next (``pack1-…``, ``pack2-…``) under a lock: 10,000 checks lie in fewer than 100 files. A merge
that is cut off leaves rows twice, which readers drop by their names (``check``, ``row``). Files
that are damaged, foreign or of a newer schema are named and left alone.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ncubble.analysis.history.rows import COLUMNS, SCHEMA
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.store import make_ignored, open_lock_file, sync
from ncubble.text.values import RENAMED

FAN = 32
MOST_ROWS = 250_000
"""Maximum rows to read, newest first: about 60,000 checked kernels. The rest is only counted."""
LARGEST_B = 256 << 20
PACKED_B = 8 << 20
"""Files with a larger total size are not merged: old rows are read, or skipped, file by file."""
UNFINISHED = ".checks-"
_SCHEMA_KEY = b"ncubble.checks"
_LOCK = ".lock"
_NAME = re.compile(r"(check|pack([1-9]))-(\d{8}T\d{6})-[0-9a-f]{12}\.parquet")
_NEEDED = ("check", "row", "checked", "verdict", "kernel_verdict")


@dataclass(frozen=True)
class Problem:
    """A file that could not be read: its name in the folder, why, and what to do about it."""

    name: str
    error: str
    remedy: str = ""


@dataclass(frozen=True)
class History:
    """What a folder holds. ``table`` has ``COLUMNS`` (texts as dictionaries), oldest check first.

    ``left_out`` counts older rows beyond ``MOST_ROWS``. ``token`` changes whenever the folder does.
    """

    folder: Path
    table: pa.Table
    problems: tuple[Problem, ...] = ()
    left_out: int = 0
    token: str = ""


class _UnusableError(Exception):
    """Why a file is not read, and the remedy."""


def append(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the rows of one check as a file of its own; returns its path. Raises OSError, and
    MeasurementError, with the check written, for what is in the place of the lock."""
    make_ignored(folder)
    for _ in abandoned(folder, UNFINISHED):
        pass  # files of a killed check are removed; that check is not in the history
    path = folder / f"check-{rows[0]['check']}.parquet"
    _write(folder, path, pa.Table.from_pylist(list(rows), schema=COLUMNS))
    with suppress(OSError):  # merging only makes reading faster
        merge(folder)
    return path


def _write(folder: Path, path: Path, table: pa.Table) -> None:
    marked = table.replace_schema_metadata({_SCHEMA_KEY: str(SCHEMA).encode()})
    with scratch(folder, UNFINISHED, {path.name: "a check"}) as work:
        made = work / path.name
        pq.write_table(marked, made, compression="zstd")
        sync(made)
        made.chmod(0o644)
        made.replace(path)
    sync(folder)


def merge(folder: Path) -> int:
    """Merge what can be merged unless another process does so already; returns the number of files
    that are gone."""
    gone = 0
    with _alone(folder) as allowed:
        for level in range(9) if allowed else ():
            names = sorted(name for name, at in _levels(folder).items() if at == level)
            while len(names) >= FAN:
                if sum((folder / name).stat().st_size for name in names[:FAN]) <= PACKED_B:
                    gone += _merge_some(folder, names[:FAN], level + 1)
                names = names[FAN:]
    return gone


def _merge_some(folder: Path, names: Sequence[str], level: int) -> int:
    """Merge the files ``names`` into one, then remove them; unreadable ones stay."""
    tables, merged = [], []
    for name in names:
        with suppress(_UnusableError, OSError):
            tables.append(_read(folder / name))
            merged.append(name)
    if len(merged) < 2:
        return 0
    match = _NAME.fullmatch(merged[-1])
    newest = match[3] if match else ""
    path = folder / f"pack{level}-{newest}-{secrets.token_hex(6)}.parquet"
    _write(folder, path, _joined(tables).cast(COLUMNS))
    for name in merged:
        (folder / name).unlink(missing_ok=True)
    return len(merged)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether this process may merge: the lock is free, on a file system that has locks."""
    descriptor = open_lock_file(folder / _LOCK, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _levels(folder: Path) -> dict[str, int]:
    """Level by name of the files that this module wrote, 0 for a single check."""
    with os.scandir(folder) as entries:
        matches = {entry.name: _NAME.fullmatch(entry.name) for entry in entries if entry.is_file(follow_symlinks=False)}
    return {name: int(match[2] or 0) for name, match in matches.items() if match}


def _read(path: Path) -> pa.Table:
    """The rows of one file. Raises _UnusableError with the reason, or FileNotFoundError."""
    try:
        with pq.ParquetFile(path) as file:
            there = set(_examined(file).names)
            known = [name for name in COLUMNS.names if name in there]
            table = file.read(columns=known)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        raise _UnusableError(
            f"not readable as Parquet: {_first_line(error)}", "delete it, or restore it from a copy"
        ) from error
    columns = []
    for item in COLUMNS:
        columns.append(_column(table, item) if item.name in known else pa.nulls(len(table), _stored(item)))
    return pa.table(dict(zip(COLUMNS.names, columns, strict=True)))


def _examined(file: pq.ParquetFile) -> pa.Schema:
    """The schema of a file that a check wrote; anything else is refused before any row is read."""
    schema = file.schema_arrow
    schema_version = (schema.metadata or {}).get(_SCHEMA_KEY, b"")
    if not schema_version.isdigit():
        raise _UnusableError("not a history of checks", "move it out of this folder")
    if int(schema_version) > SCHEMA:
        raise _UnusableError(f"schema {int(schema_version)} is newer than {SCHEMA}", "upgrade ncubble")
    if file.metadata.num_rows > 10 * MOST_ROWS:
        raise _UnusableError(f"{file.metadata.num_rows} rows: more than any check writes", "delete it")
    lacking = [name for name in _NEEDED if name not in schema.names]
    if lacking:
        raise _UnusableError(f"lacks the column {lacking[0]!r}", "delete it, or restore it from a copy")
    return schema


def _column(table: pa.Table, item: pa.Field) -> pa.ChunkedArray:
    try:
        plain = table[item.name].cast(item.type)
        if item.name == "metric":
            for old, name in RENAMED.items():
                plain = pc.if_else(pc.fill_null(pc.equal(plain, old), False), name, plain)
        return plain.dictionary_encode() if item.type == pa.string() else plain
    except pa.ArrowException as error:
        raise _UnusableError(
            f"column {item.name!r} has the wrong type ({table[item.name].type})",
            "delete it, or restore it from a copy",
        ) from error


def _stored(item: pa.Field) -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.string()) if item.type == pa.string() else item.type


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, each once, oldest check first."""
    if not tables:
        empty = {item.name: pa.nulls(0, _stored(item)) for item in COLUMNS}
        return pa.table(empty)
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    names = pa.table({"checked": table["checked"], "check": table["check"].cast(pa.string()), "row": table["row"]})
    order = pc.sort_indices(names, [(name, "ascending") for name in names.column_names])
    check, row = (names[name].take(order) for name in ("check", "row"))
    again = pc.and_(pc.equal(check[1:], check[:-1]), pc.equal(row[1:], row[:-1]))
    first = pa.chunked_array([[True], *pc.invert(pc.fill_null(again, False)).chunks])
    return table.take(order.filter(first))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@dataclass
class HistoryReader:
    """Reads a folder repeatedly; unchanged files are read once. Safe to use from threads."""

    folder: Path
    _lock: Lock = field(default_factory=Lock)
    _known: dict[tuple[str, int, int], pa.Table | Problem] = field(default_factory=dict)
    _history: History | None = None

    def read(self) -> History:
        """What the folder holds now; a folder that is not there holds nothing."""
        with self._lock:
            for _ in range(3):  # a merge may remove files between listing and reading
                with suppress(FileNotFoundError):
                    return self._read()
            return self._history or History(self.folder, _joined([]))

    def _read(self) -> History:
        files, refused = _listed(self.folder)
        token = str(hash((tuple(files), tuple(refused))))
        if self._history is not None and self._history.token == token:
            return self._history
        self._known = {file: known for file, known in self._known.items() if file in files}
        tables, problems, rows, left_out = [], list(refused), 0, 0
        for file in files:
            content = self._known.get(file) or self._one(file, rows >= MOST_ROWS)
            if isinstance(content, int):
                left_out += content
                continue
            self._known[file] = content
            if isinstance(content, Problem):
                problems.append(content)
            else:
                tables.append(content)
                rows += len(content)
        self._history = History(self.folder, _joined(tables), tuple(problems), left_out, token)
        return self._history

    def _one(self, file: tuple[str, int, int], enough: bool) -> pa.Table | Problem | int:
        """The rows of a file, why it has none, or only their number where there are ``enough``
        already."""
        name, size, _ = file
        if size > LARGEST_B:
            return Problem(name, f"{size} bytes: more than any check writes", "delete it")
        try:
            return int(pq.read_metadata(self.folder / name).num_rows) if enough else _read(self.folder / name)
        except FileNotFoundError:
            raise
        except _UnusableError as error:
            return Problem(name, *map(str, error.args))
        except (OSError, pa.ArrowException) as error:
            return Problem(name, f"not readable as Parquet: {_first_line(error)}", "delete it")


def _listed(folder: Path) -> tuple[list[tuple[str, int, int]], list[Problem]]:
    """(name, bytes, time of change) of all Parquet files, newest check first by name; and what is
    no plain file.

    Links are not followed: they could lead out of the folder.
    """
    files, refused = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.endswith(".parquet"):
                    continue
                if not entry.is_file(follow_symlinks=False):
                    refused.append(Problem(entry.name, "not a regular file", "replace it with a regular file"))
                    continue
                seen = entry.stat(follow_symlinks=False)
                files.append((entry.name, seen.st_size, seen.st_mtime_ns))
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [Problem(str(folder), f"cannot be read ({error.strerror})", "check its permissions")]
    files.sort(key=lambda file: file[0].partition("-")[2], reverse=True)
    return files, refused
