"""``Dataset``: a folder with one Parquet file per report, each written whole or not at all, and
SELECT statements over all of them, by DuckDB."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ncubble.analysis.datasets.schema import ROW, VERSION, VIEWS
from ncubble.errors import UsageError
from ncubble.store import draft_of
from ncubble.text.values import RENAMED, current_name

MARK = "dataset.json"
TIME_LIMIT_S = 600.0
LARGEST_RESULT_B = 2 << 30
_DRAFT_S = 86400.0
_BATCH_ROWS = 10_000
_SLIM = {"store_schema": False, "write_statistics": False}
"""Of thousands of small files, half the time of a query goes to what this leaves out."""
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "memory_limit": "8GB",
}
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")


@dataclass(frozen=True)
class Dataset:
    """The dataset in ``folder``. Several processes may write to it at once."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Dataset:
        """The dataset in ``folder``, made if it is missing. Raises UsageError where there is
        something else, or it cannot be written."""
        try:
            held = {path.name for path in folder.iterdir()} if folder.exists() else set()
            if not (named := [name for name in held if not name.startswith(".")]):
                folder.mkdir(parents=True, exist_ok=True)
                with draft_of(folder / MARK, shared=True) as draft:
                    draft.write_text(json.dumps({"schema": VERSION}))
            elif not held & {MARK, "parts"}:
                raise UsageError(f"{folder}: no dataset, and not empty ({min(named)})", "name a new or an empty folder")
            for draft in folder.glob(".*.parquet"):  # of a process that was killed
                with suppress(OSError):
                    if time.time() - draft.lstat().st_mtime > _DRAFT_S:
                        draft.unlink()
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written ({error.strerror})", "choose another place") from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        """The dataset in ``folder``. Raises UsageError where there is none of this version."""
        if (folder / "log").is_dir() and (folder / "parts").is_dir():
            raise UsageError(f"{folder}: made by an older ncubble", "ingest the reports again, into another folder")
        try:
            version = json.loads((folder / MARK).read_bytes())["schema"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{folder}: no dataset", "`ncubble ingest DIR -o DATASET` makes one") from error
        if version != VERSION:
            raise UsageError(f"{folder}: made by another version of ncubble", "ingest the reports again with this one")
        return cls(folder)

    def put(self, name: str, rows: pa.Table) -> None:
        """Write the rows of a report, in place of those that are there. Raises OSError."""
        with draft_of(self.folder / f"{name}.parquet", shared=True) as draft:
            pq.write_table(rows, draft, compression="zstd", use_dictionary=False, **_SLIM)

    def remove(self, names: Iterable[str]) -> None:
        """Delete the rows of reports; a name that is none leads nowhere."""
        for name in names:
            if Path(name).name == name:
                (self.folder / f"{name}.parquet").unlink(missing_ok=True)

    def rows(self) -> ds.Dataset:
        """The rows of all reports, as an Arrow dataset that reads what is asked for."""
        return ds.dataset([str(file) for file in sorted(self.folder.glob("[!.]*.parquet"))], ROW, format="parquet")

    def select(self, statement: str, limit: int | None = None, time_limit_s: float = TIME_LIMIT_S) -> pa.Table:
        """The rows of one SELECT over ``VIEWS``, at most ``limit``.

        The statement reaches nothing but this dataset, and has 8 GB of memory. Raises UsageError
        for any other statement, for a wrong one, and for one that takes longer than
        ``time_limit_s`` or returns more than 2 GiB.
        """
        for old in RENAMED:
            statement = re.sub(rf"\b{old}\b", lambda match: current_name(match[0]), statement)
        with duckdb.connect(":memory:", config=_CONFIG) as connection, ThreadPoolExecutor(1) as pool:
            connection.register("rows", self.rows())
            for view, definition in VIEWS.items():
                connection.execute(f"CREATE VIEW {view} AS {definition}")
            for lock in _LOCKS:
                connection.execute(lock)
            future = pool.submit(_selected, connection, statement, limit)
            try:
                return future.result(time_limit_s)
            except UsageError:
                self._refuse_damaged()
                raise
            except TimeoutError:
                raise UsageError(
                    f"SQL: not finished after {time_limit_s:g} s: {statement}", "join on keys, or select fewer rows"
                ) from None
            finally:  # also after Ctrl-C, which does not reach the thread
                while not future.done():
                    connection.interrupt()
                    wait([future], 0.1)

    def _refuse_damaged(self) -> None:
        """Raise UsageError for the first file that is no Parquet."""
        for file in sorted(self.folder.glob("[!.]*.parquet")):
            try:
                pq.read_metadata(file)
            except (OSError, pa.ArrowException) as error:
                raise UsageError(f"{file}: damaged ({error})", "delete it, and ingest its reports again") from error


def _selected(connection: duckdb.DuckDBPyConnection, statement: str, limit: int | None) -> pa.Table:
    try:
        kinds = [parsed.type for parsed in connection.extract_statements(statement)]
        if kinds != [duckdb.StatementType.SELECT]:
            named = ", ".join(kind.name for kind in kinds) or "none"
            raise UsageError(f"SQL: statements: {named}: {statement}", "datasets are read-only: write one SELECT")
        reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
        if twice := [name for name, count in Counter(reader.schema.names).items() if count > 1]:
            raise UsageError(f"SQL: duplicate column name {twice[0]!r}", "rename one with AS")
        batches, rows, size = [], 0, 0
        for batch in reader:
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if size > LARGEST_RESULT_B:
                raise UsageError(f"SQL: the result is larger than {LARGEST_RESULT_B >> 30} GiB", "add LIMIT, or WHERE")
            if limit is not None and rows >= limit:
                break
        return pa.Table.from_batches(batches, reader.schema).slice(0, limit)
    except (duckdb.Error, OSError, pa.ArrowException) as error:  # OSError: an error of DuckDB while rows are read
        raise UsageError(f"SQL: {error}", f"tables: {', '.join(VIEWS)}; DESCRIBE TABLE lists columns") from error


def plain(value: object) -> object:
    """A value of a selected row as JSON has it: dates and the like as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def plain_rows(rows: pa.Table) -> list[dict[str, object]]:
    """Selected rows as JSON has them; raises UsageError for a date that Python cannot hold."""
    try:
        return [{name: plain(value) for name, value in row.items()} for row in rows.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise UsageError(f"SQL: a value cannot be shown ({error})", "cast it: CAST(… AS VARCHAR)") from error
