"""Lanes: what every warp, stream or engine did when. Read from the ``lanes.parquet`` of a run
directory.

One row per interval: ``lane`` (a warp, a stream), ``group`` (its role or engine), ``start_ns`` and
``end_ns`` on one clock with any zero, ``tag`` (what it did). Tags that begin with ``wait`` are time
in which the lane could do nothing. A column ``index`` (integers: which tile, which chunk) may be
there, too. The file's metadata hold ``ncubble.lanes`` (schema, 1) and ``ncubble.lanes.kind``
(``warps`` or ``streams``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ncubble.errors import ReportError

FILE = "lanes.parquet"
WARPS = "warps"
"""Folder of a run of streams that holds the trace of the warps of its kernels, a run itself."""
SCHEMA = 1
KINDS = ("warps", "streams")
MOST_ROWS = 1_000_000
LARGEST_B = 64 << 20
MOST_UNPACKED_B = 512 << 20
LONGEST = 80
"""Maximum length of a lane, group or tag."""
_TEXTS, _TIMES = ("lane", "group", "tag"), ("start_ns", "end_ns")
INDEX = "index"
NO_INDEX = -1
_REMEDY = "record the run again, or delete the file"


@dataclass(frozen=True)
class LaneRun:
    """A run directory with lanes. ``id`` (16 hex digits of its path) stands for it in addresses."""

    path: Path

    @property
    def id(self) -> str:
        """Names the run without telling its path."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:16]


def find_lanes(roots: Iterable[Path]) -> Iterator[LaneRun]:
    """Every run directory with lanes at or below ``roots``, in order of path; links are not
    followed."""
    return map(LaneRun, folders_with(FILE, roots))


def folders_with(file: str, roots: Iterable[Path]) -> Iterator[Path]:
    """Every folder with such a file at or below ``roots``, in order of path; links are not
    followed."""
    for root in roots:
        for folder, inside, names in os.walk(root):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            if file in names and not os.path.islink(os.path.join(folder, file)):  # noqa: PTH114, PTH118 - many folders
                yield Path(folder)


def lane_kind(run: LaneRun) -> str:
    """The kind of a run's lanes, without reading them; empty where the file is none, or cannot be
    read."""
    try:
        with pq.ParquetFile(run.path / FILE) as file:
            return _kind(run.path / FILE, file)
    except (ReportError, OSError, pa.ArrowException, ValueError):
        return ""


def read_lanes(run: LaneRun) -> tuple[str, pd.DataFrame]:
    """Kind and intervals of a run, sorted by start; raises ReportError naming the file and what is
    wrong with it."""
    path = run.path / FILE
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 20} MB", "record a shorter section")
        with pq.ParquetFile(path) as file:
            kind = _kind(path, file)
        # As dictionaries: a long text in a million rows is stored once, and cut before it is
        # repeated.
        with pq.ParquetFile(path, read_dictionary=list(_TEXTS)) as file:
            indexed = INDEX in file.schema_arrow.names and pa.types.is_integer(file.schema_arrow.field(INDEX).type)
            table = file.read(columns=[*_TEXTS, *_TIMES, *([INDEX] if indexed else [])])
        frame = pd.DataFrame({name: _short(table[name]) for name in _TEXTS})
        for name in _TIMES:
            frame[name] = table[name].cast(pa.float64()).to_numpy()
        if indexed:
            frame[INDEX] = table[INDEX].cast(pa.int64()).fill_null(NO_INDEX).to_numpy()
    except (OSError, pa.ArrowException, ValueError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ReportError(f"{path}: not readable ({what})", _REMEDY) from error
    return kind, _checked(path, frame)


def _kind(path: Path, file: pq.ParquetFile) -> str:
    """The kind that a file tells; refuses what no recorder wrote before any row is read."""
    schema = file.schema_arrow
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key.startswith(b"ncubble.lanes")}
    version, kind = (
        metadata.get(b"ncubble.lanes", b""),
        str(metadata.get(b"ncubble.lanes.kind", b""), "ascii", "replace"),
    )
    if not version.isdigit() or kind not in KINDS:
        raise ReportError(f"{path}: not a file of lanes", _REMEDY)
    if int(version) > SCHEMA:
        raise ReportError(f"{path}: schema {int(version)} is newer than {SCHEMA}", "upgrade ncubble")
    lacking = [name for name in (*_TEXTS, *_TIMES) if name not in schema.names]
    if lacking:
        raise ReportError(f"{path}: lacks the column {lacking[0]!r}", _REMEDY)
    if any(pa.types.is_nested(schema.field(name).type) for name in (*_TEXTS, *_TIMES)):
        raise ReportError(f"{path}: a column has neither texts nor numbers", _REMEDY)
    _check_size(path, file.metadata)
    return kind


def _check_size(path: Path, metadata: pq.FileMetaData) -> None:
    """Refuse by its metadata what would take too much memory to read."""
    if metadata.num_rows > MOST_ROWS:
        raise ReportError(f"{path}: more than {MOST_ROWS:,} intervals", "record a shorter section")
    if sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)) > MOST_UNPACKED_B:
        raise ReportError(f"{path}: unpacks to more than {MOST_UNPACKED_B >> 20} MB", "record a shorter section")


def _short(column: pa.ChunkedArray) -> np.ndarray:
    """The texts of a column, each cut to ``LONGEST`` characters; None where one is missing."""
    cut = np.empty(len(column), dtype=object)
    start = 0
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = pc.utf8_slice_codeunits(coded.dictionary.cast(pa.string()), 0, LONGEST).to_pylist()
        places = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        cut[start : start + len(chunk)] = np.array([*texts, None], dtype=object)[places]
        start += len(chunk)
    return cut


def _checked(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, sorted; intervals that are none are refused, as nothing drawn from them would be
    true."""
    if frame[[*_TEXTS, *_TIMES]].isna().to_numpy().any():
        raise ReportError(f"{path}: a text or time is missing", _REMEDY)
    if (frame["end_ns"] < frame["start_ns"]).any() or (frame[[*_TIMES]].abs() > 1e18).to_numpy().any():
        raise ReportError(f"{path}: an interval ends before it starts", _REMEDY)
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)
