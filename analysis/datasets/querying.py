"""The process that runs a query: it may run out of memory, or never end (see ``dataset``).

``python -m ncubble.analysis.datasets.querying`` answers requests (``profiling.processes``):
{"dataset": folder, "sql": one SELECT, "limit": rows or null, "out": file for the rows, in Arrow's
format}, with {"ok": true}, or {"error", "remedy"}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.schema import VIEWS
from ncubble.errors import UsageError
from ncubble.profiling.processes import answer_requests, limit_memory

MEMORY_B = 6 << 30
"""Of the process: what DuckDB takes (``_CONFIG``), and the rows that it hands over."""
LARGEST_RESULT_B = 2 << 30
MOST_ROWS = 5_000_000
_BATCH_ROWS = 10_000
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "memory_limit": "4GB",
    "threads": 4,
}
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")
_TOO_LARGE = (
    f"SQL: needs more memory than a query has ({_CONFIG['memory_limit']}, and {MEMORY_B >> 30} GiB with its rows)",
    "join on keys, or select fewer rows",
)


def select(dataset: Dataset, statement: str, limit: int | None = None) -> pa.Table:
    """The rows of ``Dataset.select``, in this process."""
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        connection.register("rows", dataset.rows())
        for view, definition in VIEWS.items():
            connection.execute(f"CREATE VIEW {view} AS {definition}")
        for lock in _LOCKS:
            connection.execute(lock)
        return _selected(connection, statement, limit)


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
            if rows > MOST_ROWS:
                raise UsageError(f"SQL: the result has more than {MOST_ROWS:,} rows", "add LIMIT, or WHERE")
        return pa.Table.from_batches(batches, reader.schema).slice(0, limit)
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise UsageError(*_TOO_LARGE) from error
    except (duckdb.Error, OSError, pa.ArrowException) as error:  # OSError: an error of DuckDB while rows are read
        raise UsageError(f"SQL: {error}", f"tables: {', '.join(VIEWS)}; DESCRIBE TABLE lists columns") from error


def _answer(request: dict[str, Any], _: Callable[[], None]) -> dict[str, Any]:
    try:
        rows = select(Dataset(Path(request["dataset"])), request["sql"], request["limit"])
        with pa.ipc.new_file(request["out"], rows.schema) as file:
            file.write_table(rows)
    except UsageError as error:
        return {"error": error.message, "remedy": error.remedy}
    except (MemoryError, pa.ArrowMemoryError):
        return dict(zip(("error", "remedy"), _TOO_LARGE, strict=True))
    except OSError as error:
        return {"error": f"SQL: the rows cannot be handed over ({error})", "remedy": "free disk space, or add LIMIT"}
    return {"ok": True}


def main() -> None:
    """Serve requests from stdin until it closes."""
    limit_memory(MEMORY_B)
    answer_requests(_answer)


if __name__ == "__main__":
    main()
