"""Lanes: what every warp, stream or engine did when. The ``lanes.parquet`` of a run directory.

One row per interval, with these columns: ``lane`` (a warp, a stream), ``group`` (its role or
engine), ``tag`` (what it did), ``start_ns`` and ``end_ns`` on one clock with any zero. Lanes of
warps also have ``index`` (which tile or chunk), ``sm``, ``cta``, ``warp`` (-1: in flight beside the
warps) and ``launch``, all whole numbers. Tags that begin with ``wait`` are time in which the lane
could do nothing. The file's metadata hold ``ncubble.lanes`` (schema, 1), ``ncubble.lanes.kind``
(``warps`` or ``streams``) and ``ncubble.trace`` (facts, a JSON object).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.errors import ReportError

FILE = "lanes.parquet"
WARPS = "warps"
"""Folder of a run of streams that holds the trace of the warps of its kernels, a run itself."""
SCHEMA = 1
KINDS = ("warps", "streams")
TEXTS, TIMES, PLACES = ("lane", "group", "tag"), ("start_ns", "end_ns"), ("index", "sm", "cta", "warp", "launch")
COLUMNS = (*TEXTS, *TIMES, *PLACES)
INDEX = "index"
NO_INDEX = -1
MOST_ROWS = 1_000_000
LARGEST_B, MOST_UNPACKED_B = 64 << 20, 512 << 20
LONGEST = 80
"""Maximum length of a lane, group or tag."""
MOST = 10**15
"""Maximum of a number in ``PLACES``."""
_REMEDY, _SHORTER = "record the run again, or delete the file", "record a shorter section"


@dataclass(frozen=True)
class Lanes:
    """``rows`` by start, with ``TEXTS``, ``TIMES`` and, where they are whole numbers, ``PLACES``.
    ``facts``: what the recorder tells beside them."""

    kind: str
    rows: pd.DataFrame
    facts: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write ``lanes.parquet`` into ``folder``; raises OSError."""
        rows = self.rows.astype(dict.fromkeys(TEXTS, "category") | dict.fromkeys(TIMES, float))
        marks = {"ncubble.lanes": str(SCHEMA), "ncubble.lanes.kind": self.kind, "ncubble.trace": json.dumps(self.facts)}
        pq.write_table(
            pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(marks),
            folder / FILE,
            compression="zstd",
            compression_level=12,
            use_dictionary=[name for name in (*TEXTS, *PLACES) if name in rows],
            column_encoding=dict.fromkeys(TIMES, "BYTE_STREAM_SPLIT"),
        )


def run_id(folder: Path) -> str:
    """16 hex digits that stand for a run directory in addresses, without telling its path."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def folders_with(file: str, roots: Iterable[Path]) -> Iterator[Path]:
    """Every folder with such a file at or below ``roots``, in order of path; links are not
    followed."""
    for root in roots:
        for folder, inside, names in os.walk(root):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            if file in names and not os.path.islink(os.path.join(folder, file)):  # noqa: PTH114, PTH118 - many folders
                yield Path(folder)


def lane_kind(folder: Path) -> str:
    """The kind of a run's lanes, without reading them; empty where the file is none, or cannot be
    read."""
    try:
        with pq.ParquetFile(folder / FILE) as file:
            return _kind(folder / FILE, file)
    except (ReportError, OSError, pa.ArrowException, ValueError):
        return ""


def read_lanes(folder: Path) -> Lanes:
    """The lanes of a run; raises ReportError naming the file and what is wrong with it."""
    path = folder / FILE
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 20} MB", _SHORTER)
        with pq.ParquetFile(path) as file:
            kind, schema = _kind(path, file), file.schema_arrow
        whole = [name for name in PLACES if name in schema.names and pa.types.is_integer(schema.field(name).type)]
        # As dictionaries: a long text in a million rows is stored once, and cut before it is
        # repeated.
        with pq.ParquetFile(path, read_dictionary=[*TEXTS]) as file:
            table = file.read(columns=[*TEXTS, *TIMES, *whole])
        texts = {name: table[name].to_pandas().astype("category") for name in TEXTS}
        rows = pd.DataFrame({name: text.map(_shortened, na_action="ignore") for name, text in texts.items()})
        rows = rows.astype(dict.fromkeys(TEXTS, object))
        for name in TIMES:
            rows[name] = table[name].cast(pa.float64()).to_numpy()
        for name in whole:
            rows[name] = table[name].cast(pa.int64()).fill_null(NO_INDEX).to_numpy()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise unreadable(path, error, _REMEDY) from error
    # Nothing drawn from intervals that are none would be true.
    if rows[[*TEXTS, *TIMES]].isna().to_numpy().any():
        raise ReportError(f"{path}: a text or time is missing", _REMEDY)
    if (rows["end_ns"] < rows["start_ns"]).any() or (rows[[*TIMES]].abs() > 1e18).to_numpy().any():
        raise ReportError(f"{path}: an interval ends before it starts", _REMEDY)
    return Lanes(kind, rows.sort_values("start_ns", kind="stable", ignore_index=True), _facts(schema))


def read_warps(folder: Path) -> Lanes:
    """Lanes of warps that tell whose they are; raises ReportError for all others."""
    lanes = read_lanes(folder)
    lacking = [name for name in PLACES if name not in lanes.rows or (lanes.rows[name].abs() > MOST).any()]
    if lanes.kind != "warps" or lacking:
        why = f"{lacking[0]} lacks, or holds a number that cannot be" if lanes.kind == "warps" else "but of streams"
        raise ReportError(f"{folder / FILE}: not a trace of warps ({why})", "record it again")
    return lanes


def unreadable(path: Path, error: Exception, remedy: str) -> ReportError:
    """The error for a file that Arrow or the system could not read."""
    what = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return ReportError(f"{path}: not readable ({what})", remedy)


def _kind(path: Path, file: pq.ParquetFile) -> str:
    """The kind that a file tells; refuses what no recorder wrote, and by its metadata what would
    take too much memory, before any row is read."""
    schema, size = file.schema_arrow, file.metadata
    marks = schema.metadata or {}
    version, kind = marks.get(b"ncubble.lanes", b""), marks.get(b"ncubble.lanes.kind", b"").decode(errors="replace")
    if not version.isdigit() or kind not in KINDS:
        raise ReportError(f"{path}: not a file of lanes", _REMEDY)
    if int(version) > SCHEMA:
        raise ReportError(f"{path}: schema {int(version)} is newer than {SCHEMA}", "upgrade ncubble")
    for name in (*TEXTS, *TIMES):
        if name not in schema.names:
            raise ReportError(f"{path}: lacks the column {name!r}", _REMEDY)
        if pa.types.is_nested(schema.field(name).type):
            raise ReportError(f"{path}: a column has neither texts nor numbers", _REMEDY)
    if size.num_rows > MOST_ROWS:
        raise ReportError(f"{path}: more than {MOST_ROWS:,} intervals", _SHORTER)
    if sum(size.row_group(group).total_byte_size for group in range(size.num_row_groups)) > MOST_UNPACKED_B:
        raise ReportError(f"{path}: unpacks to more than {MOST_UNPACKED_B >> 20} MB", _SHORTER)
    return str(kind)


def _shortened(text: object) -> str:
    return str(text)[:LONGEST]


def _facts(schema: pa.Schema) -> dict[str, Any]:
    try:
        facts = json.loads((schema.metadata or {}).get(b"ncubble.trace", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def cut(rows: pd.DataFrame, low_ns: float, high_ns: float) -> pd.DataFrame:
    """What lanes show from ``low_ns`` to ``high_ns``, times as they are; intervals that reach out
    are cut there."""
    start, end = rows["start_ns"].clip(lower=low_ns), rows["end_ns"].clip(upper=high_ns)
    return rows.assign(start_ns=start, end_ns=end)[start < end].reset_index(drop=True)
