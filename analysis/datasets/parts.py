"""The files of a dataset's parts: written once, sorted, in bounded row groups; rewritten without
some reports, or several as one."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ncubble.analysis.datasets import log
from ncubble.analysis.datasets.log import DatasetPart, State
from ncubble.analysis.datasets.schema import DETAILS, GROUP_ROWS, SCHEMA, SORTED, TABLES, stored
from ncubble.errors import MeasurementError
from ncubble.store import sync
from ncubble.text.values import RENAMED

SMALL_REPORTS = 16
FEW_PARTS = 16
"""From this many parts of at most ``SMALL_REPORTS`` reports on, they are merged: each small ingest
adds one."""


def encode(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, tuple[bytes, int]]:
    """Each table of all reports in ``tables`` as the bytes of one Parquet file, and its rows; none
    for no rows."""
    names = dict.fromkeys(name for by_name in tables for name in by_name)
    made: dict[str, tuple[bytes, int]] = {}
    for name in names:
        rows = _joined(name, [by_name[name] for by_name in tables if name in by_name])
        if rows.num_rows:
            sink = pa.BufferOutputStream()
            _write(rows, name, sink)
            made[name] = sink.getvalue().to_pybytes(), rows.num_rows
    return made


def _joined(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    order = [(key, "ascending") for key in SORTED.get(name, ())]
    return rows.sort_by(order) if order else rows


def _write(rows: pa.Table, name: str, where: object) -> None:
    marked = rows.cast(stored(name)).replace_schema_metadata(stored(name).metadata)
    pq.write_table(marked, where, row_group_size=GROUP_ROWS, compression="zstd", write_page_index=True)


def store(folder: Path, made: Mapping[str, tuple[bytes, int]]) -> DatasetPart:
    """Write the files of a new part to disk. It counts when it is committed. Raises
    MeasurementError."""
    name = secrets.token_hex(10)
    place = folder / "parts" / name
    try:
        place.mkdir()
        for table, (data, _) in made.items():
            file = place / f"{table}.parquet"
            file.write_bytes(data)
            sync(file)
        sync(place)
        sync(place.parent)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise MeasurementError(f"{folder}: cannot be written ({error.strerror})", "free disk space there") from error
    return DatasetPart(name, {table: rows for table, (_, rows) in made.items()})


def load(folder: Path, part: DatasetPart, table: str) -> pa.Table:
    """All rows of a part's table, in current columns."""
    rows = pq.read_table(log.file_of(folder, part.name, table))
    return current(rows, table) if part.schema < SCHEMA else rows


def current(rows: pa.Table, table: str) -> pa.Table:
    """Rows of a part of an older schema in the columns of the current one: null where it knew
    none."""
    rows = rows.rename_columns([RENAMED.get(name, name) for name in rows.column_names])
    fields = (TABLES | DETAILS)[table]
    missing = pa.nulls(rows.num_rows)
    columns = [rows[field.name] if field.name in rows.column_names else missing for field in fields]
    return pa.table([column.cast(field.type) for column, field in zip(columns, fields, strict=True)], schema=fields)


def without(folder: Path, part: DatasetPart, reports: Collection[str]) -> DatasetPart | None:
    """A new part with the rows of ``part`` but for some reports; None where nothing would be
    left."""
    dropped = pa.array(sorted(reports), pa.string())
    made: dict[str, tuple[bytes, int]] = {}
    for table in part.rows:
        rows = load(folder, part, table)
        kept = rows.filter(pc.invert(pc.is_in(rows["report"], dropped)))
        made |= encode([{table: kept}])
    return store(folder, made) if "reports" in made else None


def merged(folder: Path, parts: Sequence[DatasetPart]) -> DatasetPart:
    """A new part with the rows of several."""
    tables = [{table: load(folder, part, table) for table in part.rows} for part in parts]
    return store(folder, encode(tables))


def drop(folder: Path, parts: Sequence[DatasetPart]) -> None:
    """Delete parts that were not committed."""
    for part in parts:
        shutil.rmtree(folder / "parts" / part.name, ignore_errors=True)


class DatasetWriter:
    """Adds and removes reports. Several writers may do so at once, in one process or many: none
    undoes another's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owned: dict[str, frozenset[str]] = {}

    def put(self, made: Mapping[str, tuple[bytes, int]], reports: Collection[str]) -> State:
        """Add the rows of ``reports``, in place of those that are there."""
        part = store(self.folder, made) if made else None
        return self._replace([part] if part else [], frozenset(reports))

    def remove(self, reports: Collection[str]) -> State:
        """Remove all rows of ``reports``."""
        return self._replace([], frozenset(reports))

    def _replace(self, add: list[DatasetPart], reports: frozenset[str]) -> State:
        while True:
            state = log.read(self.folder)
            touched = [part for part in state.parts if self._reports(part) & reports]
            rest = [without(self.folder, part, reports) for part in touched]
            kept = [part for part in rest if part is not None]
            if not add and not touched:
                return state
            if after := log.commit(self.folder, state, [*add, *kept], [part.name for part in touched]):
                return after
            drop(self.folder, kept)

    def _reports(self, part: DatasetPart) -> frozenset[str]:
        """Ids of the reports of a part: what is listed never changes, so that it is read once."""
        if part.name not in self._owned:
            file = log.file_of(self.folder, part.name, "reports")
            self._owned[part.name] = frozenset(pq.read_table(file, columns=["report"])["report"].to_pylist())
        return self._owned[part.name]

    def compact(self) -> State:
        """Make one part of many small ones."""
        state = log.read(self.folder)
        small = [part for part in state.parts if part.rows.get("reports", 0) <= SMALL_REPORTS]
        if len(small) < FEW_PARTS:
            return state
        whole = merged(self.folder, small)
        after = log.commit(self.folder, state, [whole], [part.name for part in small])
        if after is None:
            drop(self.folder, [whole])  # another writer is active: it may compact
        return after or log.read(self.folder)
