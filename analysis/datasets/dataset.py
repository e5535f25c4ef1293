"""``Dataset``: a folder with one Parquet file per report, each written whole or not at all, and
SELECT statements over all of them, by DuckDB."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ncubble.analysis.datasets.schema import ROW, VERSION
from ncubble.errors import UsageError
from ncubble.profiling.processes import ServerDiedError, ServingProcess
from ncubble.store import draft_of

MARK = "dataset.json"
TIME_LIMIT_S = 600.0
_DRAFT_S = 86400.0
_SLIM = {"store_schema": False, "write_statistics": False}
"""Of thousands of small files, half the time of a query goes to what this leaves out."""


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
            elif MARK not in held:
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

        The statement reaches nothing but this dataset. Raises UsageError for any other statement,
        for a wrong one, and for one that takes longer than ``time_limit_s``, or more memory or rows
        than a query may have (``querying``).
        """
        process = ServingProcess("ncubble.analysis.datasets.querying", own_group=True)
        with tempfile.TemporaryDirectory(prefix="ncubble-query-") as folder:
            out = Path(folder) / "rows.arrow"
            request = {"dataset": str(self.folder), "sql": statement, "limit": limit, "out": str(out)}
            try:
                answer = process.ask(request, time_limit_s)
            except ServerDiedError as died:
                what = f"not finished after {time_limit_s:g} s" if died.expired else f"its process ended ({died})"
                raise UsageError(f"SQL: {what}: {statement}", "join on keys, or select fewer rows") from None
            finally:  # also after Ctrl-C
                process.close()
            if "error" in answer:
                self._refuse_damaged()
                raise UsageError(answer["error"], answer["remedy"])
            with pa.ipc.open_file(out) as reader:
                return reader.read_all()

    def _refuse_damaged(self) -> None:
        """Raise UsageError for the first file that is no Parquet."""
        for file in sorted(self.folder.glob("[!.]*.parquet")):
            try:
                pq.read_metadata(file)
            except (OSError, pa.ArrowException) as error:
                raise UsageError(f"{file}: damaged ({error})", "delete it, and ingest its reports again") from error


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
