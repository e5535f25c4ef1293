"""Lanes: what every warp, stream or engine did when. Read from the ``lanes.parquet`` of a run directory.

One row per interval: ``lane`` (a warp, a stream), ``group`` (its role or engine), ``start_ns`` and ``end_ns`` on one
clock with any zero, ``tag`` (what it did). Tags that begin with ``wait`` are time in which the lane could do nothing.
The file's metadata hold ``ncubble.lanes`` (schema, 1) and ``ncubble.lanes.kind`` (``warps`` or ``streams``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.errors import ReportError

FILE = "lanes.parquet"
SCHEMA = 1
KINDS = ("warps", "streams")
MOST_ROWS = 1_000_000
LARGEST_B = 64 << 20
LONGEST = 80
"""Characters of a lane, group or tag that are kept."""
_TEXTS, _TIMES = ("lane", "group", "tag"), ("start_ns", "end_ns")
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
    """Every run directory with lanes at or below ``roots``, in order of path; links are not followed."""
    for root in roots:
        for folder, inside, names in os.walk(root):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            if FILE in names and not os.path.islink(os.path.join(folder, FILE)):  # noqa: PTH114, PTH118 - many folders
                yield LaneRun(Path(folder))


def lane_kind(run: LaneRun) -> str:
    """The kind of a run's lanes, without reading them; empty where the file is none, or cannot be read."""
    try:
        with pq.ParquetFile(run.path / FILE) as file:
            return _kind(run.path / FILE, file)
    except (ReportError, OSError, pa.ArrowException, ValueError):
        return ""


def read_lanes(run: LaneRun) -> tuple[str, pd.DataFrame]:
    """Kind and intervals of a run, sorted by start; raises ReportError naming the file and what is wrong with it."""
    path = run.path / FILE
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 20} MB", "record a shorter stretch")
        with pq.ParquetFile(path) as file:
            kind = _kind(path, file)
            table = file.read(columns=[*_TEXTS, *_TIMES])
        frame = pd.DataFrame({name: table[name].cast(pa.string()).to_pandas().astype(object) for name in _TEXTS})
        for name in _TIMES:
            frame[name] = table[name].cast(pa.float64()).to_numpy()
    except (OSError, pa.ArrowException, ValueError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ReportError(f"{path}: not readable ({what})", _REMEDY) from error
    return kind, _checked(path, frame)


def _kind(path: Path, file: pq.ParquetFile) -> str:
    """The kind that a file tells; refuses what no recorder wrote before any row is read."""
    schema = file.schema_arrow
    told = {key: value for key, value in (schema.metadata or {}).items() if key.startswith(b"ncubble.lanes")}
    version, kind = told.get(b"ncubble.lanes", b""), str(told.get(b"ncubble.lanes.kind", b""), "ascii", "replace")
    if not version.isdigit() or kind not in KINDS:
        raise ReportError(f"{path}: not a file of lanes", _REMEDY)
    if int(version) > SCHEMA:
        raise ReportError(f"{path}: schema {int(version)} is newer than {SCHEMA}", "upgrade ncubble")
    lacking = [name for name in (*_TEXTS, *_TIMES) if name not in schema.names]
    if lacking:
        raise ReportError(f"{path}: lacks the column {lacking[0]!r}", _REMEDY)
    if file.metadata.num_rows > MOST_ROWS:
        raise ReportError(f"{path}: more than {MOST_ROWS:,} intervals", "record a shorter stretch")
    return kind


def _checked(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with short texts; intervals that are none are refused, as nothing drawn from them would be true."""
    if frame[[*_TEXTS, *_TIMES]].isna().to_numpy().any():
        raise ReportError(f"{path}: a text or time is missing", _REMEDY)
    if (frame["end_ns"] < frame["start_ns"]).any() or (frame[[*_TIMES]].abs() > 1e18).to_numpy().any():
        raise ReportError(f"{path}: an interval ends before it starts", _REMEDY)
    for name in _TEXTS:
        frame[name] = frame[name].str.slice(0, LONGEST)
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)
