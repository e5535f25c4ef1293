"""``ncubble program``: where the time of a whole program goes, between its kernels and inside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Force, Json, Perfetto, Recorder, Timeout, Without
from ncubble.cli.terminal import emit_json, passing_on, printable, recording
from ncubble.errors import MeasurementError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ncubble.analysis.program.account import ProgramAccount
    from ncubble.analysis.program.output import TimeRow
    from ncubble.analysis.program.record import ProgramResult

LEAST_PCT = 0.05
"""Smaller parts are in the sums only."""
LIMIT = 12
"""Rows of kernels and ranges."""
NAMES = range(24, 65)
"""Cells of a name, as the terminal allows: what else stands in a row takes ``BESIDE``, and the
digits of launches or ``BETWEEN_CELLS``."""
BESIDE, BETWEEN_CELLS = 48, 5


def program(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="DIR|TRACE", help="A recorded program, or a trace of PyTorch's profiler; or -- CMD …."),
    ] = None,
    nvtx: Annotated[
        str, typer.Option(metavar="RANGE", help="Account for the NVTX ranges of this name ('step *': any end).")
    ] = "",
    skip_first: Annotated[
        int, typer.Option("--skip-first", min=0, metavar="N", help="Leave out N launches; with --nvtx, N ranges.")
    ] = 0,
    whole: Annotated[bool, typer.Option("--whole", help="Account for everything, warm-up included.")] = False,
    cover: Annotated[
        float, typer.Option(min=0, max=100, metavar="PCT", help="Profile kernels for this share of GPU time; 0: none.")
    ] = 95.0,
    without: Without = None,
    report: Annotated[
        list[Path] | None, typer.Option("--report", metavar="RUN", help="With DIR or TRACE: launches of another run.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The run directory to write; the TRACE with its accounts.")
    ] = None,
    force: Force = False,
    recorder: Recorder = "auto",
    timeout: Timeout = None,
    perfetto: Perfetto = None,
    json: Json = False,
) -> None:
    """Run a program twice, recorded and under ncu, and account for its time between and inside kernels.

    Imports, compilation and warm-up are left out: only what lies between cudaProfilerStart and cudaProfilerStop counts,
    else the launches that repeat. DIR shows a recorded one again; so does a TRACE of PyTorch's profiler, with the steps
    that it marks. Exit code 3 where something could not be measured, or no launch of a --report is of the TRACE.
    """
    from ncubble.analysis.program.span import SpanChoice
    from ncubble.api.programs import ProgramSettings, open_recorded, program_subject, record_program
    from ncubble.profiling.recorders.streams import StreamSettings
    from ncubble.profiling.session import Session, run_folder

    argv, choice = ctx.meta[PROGRAM], SpanChoice(nvtx, skip_first, whole)
    if (argv is None) == (path is None):
        raise UsageError("name either a recorded program or a program after --", "see `ncubble program --help`")
    if path is not None:
        if (timeout, cover, recorder, without) != (None, 95.0, "auto", None):
            raise UsageError("a recorded program is shown as it is", "leave out the options for recording")
        result = open_recorded(path, choice, report or [], out, force)
    elif report:
        raise UsageError("--report is for a recorded program", "name its directory")
    else:
        settings = ProgramSettings(choice, cover, without, streams=StreamSettings(recorder=recorder))
        subject = program_subject(argv)
        with passing_on() as observer:
            session = Session(subject, run_folder(out, subject.label), force, timeout, observer)
            result = record_program(session, settings, recording())
    if perfetto is not None:
        result.write_perfetto(perfetto)
    show(result, json)
    if argv is not None and result.failed:
        raise MeasurementError(result.failed, f"what was recorded until then is in {result.path}")
    if path is not None and path.is_file() and report and not result.matched:
        raise typer.Exit(MeasurementError.exit_code)


def show(result: ProgramResult, json: bool) -> None:
    """Print all accounts of a program to stdout, as JSON or as tables in 80 columns."""
    from rich.console import Console

    from ncubble.analysis.program.output import kernel_rows, range_rows
    from ncubble.text.values import duration

    if json:
        emit_json(result.to_json())
        return
    console = Console(highlight=False)
    for account in result.accounts:
        title = f"{account.name}: " if account.name else ""
        span = f"{title}{duration(account.span.ns)} accounted for: {printable(account.span.rule)}"
        console.print(span, markup=False, style="bold")
        for what, ns in account.span.excluded:
            console.print(f"left out: {duration(ns)} {what}", markup=False, style="dim")
        _print_parts(console, account)
        for first, rows in (("kernel", kernel_rows(account)), ("range", range_rows(account))):
            if rows:
                _print_rows(console, first, rows)
    for note in result.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim", soft_wrap="ncubble" in note)
    console.print(str(result.written or result.path), markup=False, soft_wrap=True)


def _print_parts(console: Console, account: ProgramAccount) -> None:
    from rich.table import Table

    from ncubble.analysis.program.account import KINDS
    from ncubble.analysis.program.output import DETAILED, part_fix, part_words
    from ncubble.text.values import duration

    table = Table("where the time goes", box=None, pad_edge=False)
    for title in ("time", "%"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what helps", style="dim")
    for kind, ns in account.by_kind.items():
        table.add_row(f"[bold]{KINDS[kind]}[/]", duration(ns), f"{account.pct(ns):.1f}")
        for part in account.parts:
            pct = account.pct(part.ns)
            if part.kind == kind and kind in DETAILED and pct >= LEAST_PCT:
                table.add_row(
                    f"  {part_words(part)}", duration(part.ns), f"{pct:.1f}", part_fix(part) if pct >= 1 else ""
                )
    table.add_row("sum", duration(account.span.ns), f"{sum(map(account.pct, account.by_kind.values())):.1f}")
    console.print(table)
    if account.overlapped_ns:
        shared = f"{duration(account.overlapped_ns)} ({account.pct(account.overlapped_ns):.1f} %)"
        console.print(f"several kernels ran for {shared}: split evenly among them", markup=False)


def _print_rows(console: Console, first: str, rows: list[TimeRow]) -> None:
    """A table in percent of the span. Kernels have launches, ranges have time between kernels."""
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.program.output import with_rest
    from ncubble.cli.accounts import folded

    of_kernels = rows[0].launches is not None
    beside = BESIDE + (len(f"{sum(row.launches or 0 for row in rows):,}") if of_kernels else BETWEEN_CELLS)
    cells = max(NAMES.start, min(console.width - beside, NAMES.stop - 1))
    table = Table(box=None, pad_edge=False)
    table.add_column(first, width=cells, no_wrap=True)
    for title in (*(("n",) if of_kernels else ()), "%", "tensor", "other", "inside"):
        table.add_column(title, justify="right", no_wrap=True)
    if not of_kernels:
        table.add_column("between", justify="right", no_wrap=True)
    table.add_column("mostly", style="dim", overflow="fold")
    for row in with_rest(rows, LIMIT):
        launches = [f"{row.launches:,}"] if of_kernels else []
        figures = (row.pct, row.tensor, row.work, row.inside, *(() if of_kernels else (row.between,)))
        shares = (f"{pct:.1f}" if pct >= LEAST_PCT else "–" for pct in figures)
        table.add_row(folded(Text(printable(row.name)), cells), *launches, *shares, Text(row.worst))
    console.print(table)
