"""Writes ``lanes.parquet`` as ``analysis.lanes`` reads it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.analysis.lanes import FILE, KINDS, MOST_ROWS, SCHEMA
from ncubble.errors import ReportError


def write_lanes(frame: pd.DataFrame, kind: str, folder: Path) -> Path:
    """Writes intervals (``lane``, ``group``, ``start_ns``, ``end_ns``, ``tag``) of a kind into a run directory.

    Raises ReportError where there are more than a reader takes, OSError where the file cannot be written.
    """
    if kind not in KINDS:
        raise ValueError(f"no lanes are of the kind {kind!r}")
    if len(frame) > MOST_ROWS:
        raise ReportError(f"{len(frame):,} intervals are more than {MOST_ROWS:,}", "record a shorter stretch")
    columns = ["lane", "group", "start_ns", "end_ns", "tag"]
    table = pa.Table.from_pandas(frame[columns], preserve_index=False)
    table = table.replace_schema_metadata(
        {b"ncubble.lanes": str(SCHEMA).encode(), b"ncubble.lanes.kind": kind.encode()}
    )
    pq.write_table(table, folder / FILE, compression="zstd")
    return folder / FILE
