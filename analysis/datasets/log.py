"""Which parts make up a dataset: a log of commits that only grows, so that every instant leaves a
whole dataset.

``DATASET/parts/NAME/TABLE.parquet`` are written first, under names that nobody else takes, and
count from the moment when ``DATASET/log/NUMBER.json`` lists them. An entry gets its number by a
hard link, which fails where the number is taken: of two writers one comes second, reads what the
first did, and tries the next number. Nothing is locked, so this holds for several hosts that share
a file system. Files in ``parts`` never change once they are listed; what an entry removes is
deleted a day later, when no reader holds it any more. Every ``WHOLE``-th entry lists all parts.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ncubble.analysis.datasets.schema import SCHEMA
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import holding, require_paths
from ncubble.store import sync

WHOLE = 64
GRACE_S = 86400.0
LARGEST_ENTRY_B = 256 << 20
_ENTRY = re.compile(r"(\d{8})\.json")
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True)
class DatasetPart:
    """Files that were written together: ``rows`` by table, for those that have a file; ``schema``
    of their columns."""

    name: str
    rows: Mapping[str, int] = field(default_factory=dict)
    schema: int = SCHEMA


@dataclass(frozen=True)
class State:
    """What a dataset holds: its parts, and the number of the last entry (-1: none)."""

    number: int = -1
    parts: tuple[DatasetPart, ...] = ()

    def files(self, folder: Path, table: str) -> list[Path]:
        """The files of one table."""
        return [file_of(folder, part.name, table) for part in self.parts if table in part.rows]

    def after(self, add: Sequence[DatasetPart], remove: Sequence[str]) -> State:
        """The state after one more entry. Raises KeyError where a part is to be removed that is not
        there."""
        parts = {part.name: part for part in self.parts}
        for name in remove:
            del parts[name]
        return State(self.number + 1, (*parts.values(), *add))


def file_of(folder: Path, part: str, table: str) -> Path:
    """Where a part of the dataset at ``folder`` keeps a table."""
    return folder / "parts" / part / f"{table}.parquet"


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset."""
    return (folder / "log" / f"{0:08d}.json").is_file()


def create(folder: Path) -> State:
    """The dataset at ``folder``, made if there is nothing. Raises UsageError for a folder that
    holds something else."""
    if is_dataset(folder):
        return read(folder)
    if folder.exists() and (not folder.is_dir() or set(os.listdir(folder)) - {"log", "parts"}):  # noqa: PTH208
        raise UsageError(f"{folder}: neither a dataset nor an empty folder", "choose another with -o")
    try:
        for name in ("log", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        commit(folder, State(), (), ())
    except OSError as error:
        raise MeasurementError(f"{folder}: cannot be written ({error.strerror})", "choose another with -o") from error
    return read(folder)


def _remedy(folder: Path) -> str:
    return holding(folder) or f"create one with `ncubble ingest {folder if folder.is_dir() else 'DIR'} -o DATASET`"


def read(folder: Path) -> State:
    """The latest state. Raises UsageError where there is no dataset, ReportError where its log is
    damaged."""
    try:
        names = os.listdir(folder / "log")  # noqa: PTH208
    except OSError as error:
        require_paths([folder])
        raise UsageError(f"{folder}: no dataset", _remedy(folder)) from error
    numbers = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
    if not numbers:
        raise UsageError(f"{folder}: no dataset", _remedy(folder))
    last = numbers[-1]
    state = State(last - last % WHOLE - 1)
    for number in range(last - last % WHOLE, last + 1):
        entry = _entry(folder, number)
        base = State(number - 1) if number % WHOLE == 0 else state
        try:
            members = [(str(part["name"]), dict(part["rows"]), int(part.get("schema", 1))) for part in entry["add"]]
            add = [DatasetPart(*part) for part in members]
            state = base.after(add, entry["remove"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(folder, number, f"{type(error).__name__}: {error}") from error
    return state


def _entry(folder: Path, number: int) -> dict[str, Any]:
    path = folder / "log" / f"{number:08d}.json"
    try:
        if path.stat().st_size > LARGEST_ENTRY_B:
            raise ValueError("too large")
        entry = json.loads(path.read_text(encoding="utf-8"))
        schema = entry["schema"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(folder, number, str(error)) from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise ReportError(f"{folder}: dataset schema {schema} is newer than {SCHEMA}", "upgrade ncubble")
    return dict(entry)


def _damaged(folder: Path, number: int, why: str) -> ReportError:
    return ReportError(
        f"{folder}: entry {number} of its log is damaged ({why})", "restore the folder from a copy, or ingest again"
    )


def commit(folder: Path, state: State, add: Sequence[DatasetPart], remove: Sequence[str]) -> State | None:
    """Add and remove parts in one step; None where another writer was faster. Raises OSError and
    MeasurementError."""
    after = state.after(add, remove)
    whole = after.number % WHOLE == 0
    entry = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "add": [asdict(part) for part in (after.parts if whole else add)],
        "remove": [] if whole else list(remove),
    }
    log = folder / "log"
    draft = log / f".{secrets.token_hex(8)}"
    try:
        draft.write_text(json.dumps(entry), encoding="utf-8")
        sync(draft)
        os.link(draft, log / f"{after.number:08d}.json")
    except FileExistsError:
        return None
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise MeasurementError(
                f"{folder}: its file system has no hard links", "put the dataset elsewhere"
            ) from error
        raise
    finally:
        draft.unlink(missing_ok=True)
    sync(log)
    return after


def sweep(folder: Path, state: State) -> int:
    """Delete parts that are not listed and drafts, once they are a day old; returns how many."""
    listed, gone = {part.name for part in state.parts}, 0
    drafts = [path for path in (folder / "log").iterdir() if path.name.startswith(".")]
    unlisted = [path for path in (folder / "parts").iterdir() if path.name not in listed]
    for path in (*drafts, *unlisted):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime < GRACE_S:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            gone += 1
    return gone
