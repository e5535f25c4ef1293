"""``Dataset``: the tables that ``ncubble ingest`` wrote, opened at once and read only as far as a
question goes.

``launches``, ``metrics`` and the others return a ``pyarrow.dataset.Scanner``: nothing is read
before its ``to_table()``, ``to_batches()`` or ``head(n)``, and then the columns that were named, in
the row groups whose statistics do not rule the filter out. A dataset stays as it was when opened,
whatever is ingested meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.compute import Expression

from ncubble.analysis.datasets.log import State, file_of, read
from ncubble.analysis.datasets.parts import load
from ncubble.analysis.datasets.schema import DETAILS, SCHEMA, TABLES
from ncubble.errors import UsageError
from ncubble.text.remedies import known_names


@dataclass(frozen=True)
class Dataset:
    """One state of the dataset at ``folder``."""

    folder: Path
    state: State

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        """The latest state. Raises UsageError where there is none, ReportError where it is damaged
        or newer."""
        return cls(folder, read(folder))

    def files(self, table: str) -> list[Path]:
        """The Parquet files of a table, for other readers (DuckDB, Polars, dask.dataframe)."""
        return self.state.files(self.folder, _known(table))

    def rows(self, table: str) -> int:
        """How many rows a table has, without reading any."""
        return sum(part.rows.get(_known(table), 0) for part in self.state.parts)

    def table(self, table: str) -> ds.Dataset:
        """A table as an Arrow dataset. ``timeline``, ``source`` and ``rules`` are there after
        ``ingest --details``."""
        schema = (TABLES | DETAILS)[_known(table)]
        files = [str(file) for file in self.files(table)]
        old = [part for part in self.state.parts if part.schema < SCHEMA and table == "launches" and table in part.rows]
        if not old:
            return ds.dataset(files, schema=schema, format="parquet")
        paths = {str(file_of(self.folder, part.name, table)) for part in old}
        rows = pa.concat_tables([load(self.folder, part, table) for part in old])
        rest = [file for file in files if file not in paths]
        return ds.dataset([ds.dataset(rows), ds.dataset(rest, schema=schema, format="parquet")])

    def launches(self, columns: Sequence[str] | None = None, filters: Expression | None = None) -> ds.Scanner:
        """One row per launch: the named columns (all) of those that ``filters`` lets pass."""
        return self.table("launches").scanner(columns=list(columns) if columns else None, filter=filters)

    def metrics(
        self,
        names: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        filters: Expression | None = None,
    ) -> ds.Scanner:
        """Scalar metrics, long: report, launch, metric, value, unit; of the metrics in ``names``
        (all)."""
        wanted = ds.field("metric").isin(list(names)) if names is not None else None
        both = wanted & filters if wanted is not None and filters is not None else wanted
        chosen = both if both is not None else filters
        return self.table("metrics").scanner(columns=list(columns) if columns else None, filter=chosen)

    def reports(self, columns: Sequence[str] | None = None, filters: Expression | None = None) -> ds.Scanner:
        """One row per report."""
        return self.table("reports").scanner(columns=list(columns) if columns else None, filter=filters)

    def errors(self) -> ds.Scanner:
        """One row per thing that could not be read or judged."""
        return self.table("errors").scanner()


def _known(table: str) -> str:
    if table not in TABLES | DETAILS:
        raise UsageError(f"unknown table {table!r}", known_names(table, (*TABLES, *DETAILS), "tables"))
    return table
