"""``ncubble query``: selects rows of a dataset by a condition or SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyarrow import Table as Rows


def query(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset written by `ncubble ingest -o`.")],
    sql: Annotated[
        str | None,
        typer.Argument(metavar="SQL", help='One SELECT over the tables, e.g. "SELECT label FROM launches".'),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="COND", help="Filter, e.g. tensor_elapsed_pct < 50 and cause in (data_wait, copy_cost)."
        ),
    ] = None,
    columns: Annotated[str, typer.Option(metavar="NAME,…", help="Columns to show; `all` for all.")] = "",
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Add a metric of the launch as a column, repeatable.")
    ] = None,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="launches, reports, metrics, errors; timeline, source, rules.")
    ] = "launches",
    sort: Annotated[str, typer.Option(metavar="NAME", help="Sort by this column; -NAME for the largest first.")] = "",
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Maximum rows.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show rows of a dataset. Only selected columns are read. Missing values are null in JSON,
    empty in CSV, and – in the table. Exit code 0, even without rows.
    """
    from ncubble.analysis.datasets.dataset import Dataset
    from ncubble.analysis.datasets.query import Query, run, unknown_metrics, unknown_values
    from ncubble.cli.terminal import emit_json
    from ncubble.errors import UsageError

    if as_json and as_csv:
        raise UsageError("--json and --csv", "use only one of them")
    opened = Dataset.open(dataset)
    if sql is not None:
        if where or columns or metric or sort or table != "launches":
            raise UsageError(
                "SQL together with --where, --columns, --metric, --table or --sort", "write these conditions in SQL"
            )
        from ncubble.analysis.datasets.sql import select

        rows, source, total = select(opened, sql, limit), {"sql": sql}, ""
    else:
        names = opened.table(table).schema.names if columns == "all" else [name for name in columns.split(",") if name]
        question = Query(table, where or (), names, metric or (), sort.removeprefix("-"), sort.startswith("-"), limit)
        rows, source, total = run(opened, question), {"table": table}, f" of {opened.rows(table)}"
        for text in unknown_values(opened, question) if where and not rows.num_rows else ():
            typer.echo(f"note: {text}", err=True)
        for text in unknown_metrics(opened, rows, question):
            typer.echo(f"note: {text}", err=True)
    if as_json:
        emit_json({"schema": 1, "dataset": str(dataset)} | source | {"rows": rows.to_pylist()})
    elif as_csv:
        _print_csv(rows)
    else:
        _print_rows(rows, f"{rows.num_rows}{total} rows")


def _print_csv(rows: Rows) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows.schema.names)
    for batch in rows.to_batches(max_chunksize=1000):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            writer.writerow(["" if value is None else value for value in row])


def _print_rows(rows: Rows, summary: str) -> None:
    import pyarrow as pa

    from ncubble.cli.terminal import cell, table_lines, terminal_width

    names = [cell(name) for name in rows.schema.names]
    right = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in rows.schema]
    shown = [
        [cell(value) for value in row] for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)
    ]
    for _, line in table_lines(names, shown, right, terminal_width()) if shown else ():
        typer.echo(line)
    typer.echo(summary)
