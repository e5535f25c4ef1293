"""SQL over the tables of a dataset, by DuckDB: one SELECT, which can neither write nor reach
anything else."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

import duckdb
import pyarrow as pa

from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.schema import DETAILS, TABLES
from ncubble.errors import UsageError
from ncubble.text.values import RENAMED, current_name

TIME_LIMIT_S = 600.0
LARGEST_RESULT_B = 2 << 30
_BATCH_ROWS = 10_000
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")


def select(dataset: Dataset, statement: str, limit: int | None = None, time_limit_s: float = TIME_LIMIT_S) -> pa.Table:
    """Return the rows of one SELECT, at most ``limit``, in columns of plain types.

    Every table of the dataset is a view of that name over the parts that its log lists. Raises
    UsageError for any other statement, for a wrong one, and for one that takes longer than
    ``time_limit_s`` or returns more than 2 GiB.
    """
    for old in RENAMED:
        statement = re.sub(rf"\b{old}\b", lambda match: current_name(match[0]), statement)
    with duckdb.connect(":memory:", config=_CONFIG) as connection, ThreadPoolExecutor(1) as pool:
        for table in (*TABLES, *DETAILS):
            connection.register(table, dataset.table(table))
        for lock in _LOCKS:
            connection.execute(lock)
        future = pool.submit(_rows, connection, statement, limit)
        try:
            return future.result(time_limit_s)
        except TimeoutError:
            raise UsageError(
                f"SQL: not finished after {time_limit_s:g} s: {statement}", "join on keys, or select fewer rows"
            ) from None
        finally:  # also after Ctrl-C, which does not reach the thread
            while not future.done():
                connection.interrupt()
                wait([future], 0.1)


def _rows(connection: duckdb.DuckDBPyConnection, statement: str, limit: int | None) -> pa.Table:
    try:
        _only_a_select(connection, statement)
        reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
        batches, rows, size = [], 0, 0
        while limit is None or rows < limit:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if size > LARGEST_RESULT_B:
                raise UsageError(f"SQL: the result is larger than {LARGEST_RESULT_B >> 30} GiB", "add LIMIT, or WHERE")
        return _plain(pa.Table.from_batches(batches, reader.schema).slice(0, limit))
    except (duckdb.Error, OSError, pa.ArrowException) as error:  # OSError: an error of DuckDB while rows are read
        tables = ", ".join((*TABLES, *DETAILS))
        raise UsageError(f"SQL: {error}", f"tables: {tables}; DESCRIBE TABLE lists columns") from error


def _only_a_select(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    kinds = [parsed.type for parsed in connection.extract_statements(statement)]
    if len(kinds) != 1:
        raise UsageError(f"SQL: {len(kinds)} statements: {statement}", "write one SELECT")
    if kinds[0] != duckdb.StatementType.SELECT:
        raise UsageError(f"SQL: {kinds[0].name}: {statement}", "datasets are read-only: use a SELECT")


def _plain(rows: pa.Table) -> pa.Table:
    """The rows with numbers, texts and booleans only, in lists, maps and structs where they are."""
    if twice := [name for name, count in Counter(rows.schema.names).items() if count > 1]:
        raise UsageError(f"SQL: duplicate column name {twice[0]!r}", "rename one with AS")
    for index, field in enumerate(rows.schema):
        try:
            rows = rows.set_column(index, field.name, rows.column(index).cast(_plain_type(field.type)))
        except pa.ArrowException as error:
            raise UsageError(
                f"SQL: column {field.name!r} of type {field.type} cannot be displayed ({error})",
                f"CAST({field.name} AS VARCHAR), or AS DOUBLE",
            ) from error
    return rows


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.int64() if kind.scale == 0 else pa.float64()
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_null)
    return kind if any(test(kind) for test in plain) else pa.string()
