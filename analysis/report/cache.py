"""The cache of extracted reports: per schema version, content hash and part, one directory of
Parquet files.

It lies in ``cache_root()/reports/vSCHEMA``. A part appears whole or not at all (written beside,
then renamed), so readers never see half of one and two writers of the same report cannot harm each
other. It may be deleted at any time: that costs time only, so nothing here is synced to disk; what
a power loss damages is dropped and read again. Work in progress lies beside it, in ``scratch``
folders, so that what a killed process left is named and removed when the next one begins. Entries
of an older schema are not converted but read again; they stay for older versions of ncubble until
nothing was added for a month. Those of newer schemas are left alone.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.analysis.report.tables import TABLES, read_draft
from ncubble.errors import MeasurementError
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.store import cache_root, close, make_private

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger(__name__)
SCHEMA = 4
PARTS = {part: tuple(tables) for part, tables in TABLES.items()}
"""Tables that are extracted, stored and dropped together."""
DIGESTS = "digests.json"
"""File next to the tables of a part, with the SHA-256 of each. Parquet's own checksums exclude the
footer."""
GROUP_ROWS = 1 << 16
"""Rows of a row group. With smaller ones the dictionaries, which each repeats, take more room than
the rows."""
UNFINISHED = ".reading-"
_UNUSED_S = 30 * 86400.0
_ATTEMPTS = 3  # the cache may be deleted at any time, also during our work
_lock = threading.Lock()


def home(schema: int = SCHEMA) -> Path:
    """The folder for entries of this schema: in ``cache_root()``, or in a temporary folder that
    lives as long as this process where that cannot be written. Says so in the log, and cleans up
    what others left, when first asked for."""
    with _lock:
        return _usable(cache_root() / "reports" / f"v{schema}", schema)


@functools.cache
def _usable(wanted: Path, schema: int) -> Path:
    try:
        make_private(wanted)
        for folder in (wanted, wanted.parent):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission, or a read-only file system")
    except OSError as error:
        log.warning(
            (
                "the cache %s cannot be written (%s): tables are kept in a temporary folder until this "
                "command ends; set NCUBBLE_CACHE to use another place"
            ),
            cache_root(),
            error.strerror,
        )
        return _temporary() / wanted.name
    _clean(wanted.parent, schema)
    return wanted


def _temporary() -> Path:
    """A folder that ends with this process; if that is killed, the next one that needs such a
    folder removes it."""
    parent, prefix = Path(tempfile.gettempdir()), f".ncubble-cache-{os.getuid()}-"
    for _ in abandoned(parent, prefix):
        pass
    keeper = ExitStack()
    atexit.register(keeper.close)
    return keeper.enter_context(scratch(parent, prefix, {}))


def _clean(reports: Path, schema: int) -> None:
    """Remove what killed readings left, and schemas that nothing was added to for a month."""
    for left in abandoned(reports, UNFINISHED):
        for what in left.unfinished:
            log.warning("an earlier reading of %s was interrupted: it is read again when needed", what)
    for folder in reports.iterdir():
        version = re.fullmatch(r"v(\d+)", folder.name)
        with suppress(OSError):  # another process was faster
            if version and int(version[1]) < schema and time.time() - folder.lstat().st_mtime > _UNUSED_S:
                with scratch(reports, UNFINISHED, {}) as work:
                    folder.rename(work / folder.name)
    for memo in (*reports.parent.glob("seen/*"), *reports.parent.glob("index/*"), *reports.glob("v*/listings/*")):
        with suppress(OSError):
            if time.time() - memo.lstat().st_mtime > _UNUSED_S:
                memo.unlink()


def folder_of(sha256: str, part: str) -> Path:
    """Where a part of the report with this content hash is, or would be."""
    return home() / sha256[:32] / part


def file_of(sha256: str, table: str) -> Path:
    """Where one table of the report with this content hash is, or would be."""
    return folder_of(sha256, part_of(table)) / f"{table}.parquet"


def part_of(table: str) -> str:
    """The part that a table belongs to."""
    return next(part for part, tables in PARTS.items() if table in tables)


def holds(sha256: str, part: str) -> bool:
    """Whether all tables of this part are in the cache."""
    folder = folder_of(sha256, part)
    return all((folder / name).is_file() for name in (DIGESTS, *(f"{table}.parquet" for table in PARTS[part])))


@contextmanager
def staging(reading: Mapping[str, Path] | None = None) -> Iterator[Path]:
    """An empty directory on the cache's file system, gone at the end with whatever was not
    committed out of it.

    ``reading`` says, by the name of its folder in there, which report will be read: this is named
    if it is cut off.
    """
    parent = home().parent
    making = {name: str(path) for name, path in (reading or {}).items()}
    with ExitStack() as stack:
        try:
            make_private(home())
            folder = stack.enter_context(scratch(parent, UNFINISHED, making))
        except OSError as error:
            raise _unwritable(parent, error) from error
        yield folder


def _unwritable(folder: Path, error: OSError) -> MeasurementError:
    return MeasurementError(
        f"{folder}: the cache cannot be written ({error.strerror})", "set NCUBBLE_CACHE to a writable directory"
    )


def load(sha256: str, name: str, launch: int | None = None) -> pd.DataFrame:
    """One table of a stored report, or its rows of one launch. A part with a table that cannot be
    read is dropped whole, so that it is read from the report again; raises MeasurementError
    then."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = file_of(sha256, name)
    try:
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != json.loads((file.parent / DIGESTS).read_bytes())[file.name]:
            raise ValueError("its content has changed")
        table = pq.ParquetFile(pa.BufferReader(data))  # imports less than pandas does
        rows = table.read(use_threads=False) if launch is None else _of_launch(table, launch)
        frame: pd.DataFrame = rows.to_pandas(use_threads=False)
        return frame
    except (OSError, ValueError, LookupError) as error:
        discard(file.parent)
        raise MeasurementError(
            f"{file.parent}: the cached table {name!r} cannot be read ({error})",
            "it was removed from the cache: repeat the command",
        ) from error


def _of_launch(table: pq.ParquetFile, launch: int) -> pa.Table:
    """The rows of one launch. Their dictionaries hold what they use: those of a report have the
    text of all its launches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.schema.names.index("launch")
    groups = []
    for number in range(table.num_row_groups):
        ends = table.metadata.row_group(number).column(column).statistics
        if ends is None or not ends.has_min_max or ends.min <= launch <= ends.max:
            groups.append(number)
    rows = table.read_row_groups(groups)
    rows = rows.filter(pc.equal(rows["launch"], launch))
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            plain = rows[at].cast(field.type.value_type)
            rows = rows.set_column(at, field.name, plain.dictionary_encode())
    return rows


def write(rows: pa.Table, file: Path) -> None:
    """Store one table. A page reads the rows of one launch: they lie together, and other row groups
    are left out."""
    import pyarrow.parquet as pq

    pq.write_table(rows.unify_dictionaries(), file, compression="zstd", row_group_size=GROUP_ROWS)


def build(drafts: Sequence[Path], target: Path) -> Path:
    """``target``, made with the tables of the part it is named after: the rows of those that
    workers wrote into the folders ``drafts`` (``tables.write_draft``), in their order.

    Raises MeasurementError where it cannot be written.
    """
    import pyarrow as pa

    try:
        target.mkdir()
        for table in PARTS[target.name]:
            rows = pa.concat_tables([read_draft(folder / f"{table}.draft") for folder in drafts])
            write(rows, target / f"{table}.parquet")
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    except (ValueError, TypeError, LookupError, pa.ArrowException) as error:
        raise MeasurementError(
            f"{target}: the tables of the workers are inconsistent ({error})", "try again"
        ) from error
    return target


def seal(folder: Path) -> None:
    """Write down what the tables in ``folder`` are, and close it to other users; raises OSError."""
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.parquet")}
    (folder / DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
    close(folder)


def commit(folder: Path, sha256: str, part: str) -> None:
    """Make ``folder``, which is in ``staging`` or is it, the stored tables of this part of a
    report.

    Loses gracefully against a writer that was faster. Raises MeasurementError where the cache
    cannot be written.
    """
    target, failure = folder_of(sha256, part), OSError()
    try:
        seal(folder)
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    for _ in range(_ATTEMPTS):
        try:
            make_private(target.parent)
            folder.rename(target)
            return
        except OSError as error:
            if holds(sha256, part):
                return
            failure = error
            discard(target)  # remains of an incomplete one
    raise _unwritable(target.parent, failure) from failure


def discard(folder: Path) -> None:
    """Remove a directory of the cache, for its readers in one step."""
    try:
        with scratch(home().parent, UNFINISHED, {}) as work:
            folder.rename(work / folder.name)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
