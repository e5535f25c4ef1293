"""``ncubble ingest`` reads thousands of reports into one dataset, ``ncubble query`` selects rows of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json
from ncubble.cli.terminal import cell, emit_json, ended_by_signals, printable, reading, table_lines, terminal_width
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from pyarrow import Table

    from ncubble.analysis.datasets.ingest import Ingested

MOST_NAMED = 10
OVERVIEW = "SELECT report, launch, label, duration_ns, tensor_elapsed_pct, dram_pct, cause FROM launches"
HELD = "SELECT (SELECT count(*) FROM reports) AS reports, (SELECT count(*) FROM launches) AS launches"


def ingest(
    roots: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of reports, runs or report files.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DATASET", help="The dataset to create or extend.")],
    prune: Annotated[bool, typer.Option("--prune", help="Remove reports that were deleted from DIR.")] = False,
    as_json: Json = False,
) -> None:
    """Read all reports below DIR into one Parquet dataset; a second call reads only what is new or
    changed. Exit code 0: all reports were read; 3: some could not be read, or none was found.
    """
    from ncubble.analysis.datasets.dataset import Dataset
    from ncubble.analysis.datasets.ingest import ingest
    from ncubble.analysis.datasets.querying import select
    from ncubble.profiling.runs import Run, require_paths

    require_paths(roots)
    for root in filter(Path.is_file, roots):
        Run.load(root)  # raises if it is no report: it would become a row of errors
    with ended_by_signals(f"{out} keeps what was read: repeat the command to continue"):
        dataset = Dataset.create(out)
        with reading("ingesting reports") as progress:
            done = ingest(dataset, roots, progress)
        if prune:
            dataset.remove(done.gone)
    (held,) = select(dataset, HELD).to_pylist()
    if as_json:
        gone, failed = sorted(done.gone.values()), [{"report": path, "error": error} for path, error in done.failed]
        counts = {"read": done.read, "unchanged": done.unchanged, "gone": gone, "pruned": prune}
        emit_json({"schema": 2, "dataset": str(out)} | counts | {"errors": failed} | held)
    else:
        _show(out, done, held, prune)
    if done.failed or not held["reports"]:
        raise typer.Exit(3)


def _show(out: Path, done: Ingested, held: dict[str, int], pruned: bool) -> None:
    typer.echo(
        f"{done.read} read, {done.unchanged} unchanged, {len(done.failed)} errors; "
        f"{printable(str(out))} holds {held['reports']:,} reports and {held['launches']:,} launches"
    )
    gone = [f"{'removed' if pruned else 'gone (--prune removes it)'}: {path}" for path in sorted(done.gone.values())]
    for lines in ([error for _, error in done.failed], gone):
        for line in lines[:MOST_NAMED]:
            typer.echo(f"  {printable(line)}", err=True)
        if len(lines) > MOST_NAMED:
            typer.echo(f"  and {len(lines) - MOST_NAMED} more", err=True)


def query(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset written by `ncubble ingest -o`.")],
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="One SELECT over launches, reports, metrics and errors."),
    ] = OVERVIEW,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show rows of a dataset. SQL is of DuckDB's dialect, for example SELECT label, cause FROM
    launches WHERE tensor_elapsed_pct < 50. Missing values are null in JSON, empty in CSV, and – in
    the table. Exit code 0, even without rows.
    """
    from ncubble.analysis.datasets.dataset import Dataset, plain_rows

    if as_json and as_csv:
        raise UsageError("--json and --csv", "use only one of them")
    rows = Dataset.open(dataset).select(sql)
    if as_json:
        emit_json({"schema": 1, "dataset": str(dataset), "sql": sql, "rows": plain_rows(rows)})
    elif as_csv:
        _print_csv(rows)
    else:
        _print_rows(rows)


def _print_csv(rows: Table) -> None:
    import csv

    from ncubble.analysis.datasets.dataset import plain_rows
    from ncubble.text.markup import csv_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(csv_cell, rows.schema.names))
    for batch in rows.to_batches(max_chunksize=1000):
        writer.writerows(map(csv_cell, row.values()) for row in plain_rows(batch))


def _print_rows(rows: Table) -> None:
    import pyarrow as pa

    from ncubble.analysis.datasets.dataset import plain_rows

    names = list(map(cell, rows.schema.names))
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    right = [any(test(kind) for test in numeric) for kind in rows.schema.types]
    shown = [list(map(cell, row.values())) for row in plain_rows(rows)]
    for _, line in table_lines(names, shown, right, terminal_width()) if shown else ():
        typer.echo(line)
    typer.echo(f"{rows.num_rows} rows")
