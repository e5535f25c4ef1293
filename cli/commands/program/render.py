"""The account of a program as tables for people, in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncubble.cli.commands.report.names import folded
from ncubble.cli.terminal import printable
from ncubble.text.values import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ncubble.analysis.program.account import ProgramAccount
    from ncubble.analysis.program.opening import RecordedProgram
    from ncubble.analysis.program.output import TimeRow

LEAST_PCT = 0.05
"""Smaller parts are in the sums only."""
NAMES = range(24, 65)
"""Cells of a name, as the terminal allows: what else stands in a row takes ``BESIDE``, and the
digits of launches or ``BETWEEN_CELLS``."""
BESIDE, BETWEEN_CELLS = 48, 5


def print_program(shown: RecordedProgram, limit: int) -> None:
    """Print all accounts of a program to stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    for account in shown.accounts:
        _print_span(console, account)
        _print_parts(console, account)
        _print_rows(console, account, limit)
    for note in shown.notes:
        console.print(f"note: {printable(note)}", markup=False, style="dim")
    console.print(str(shown.folder), markup=False, soft_wrap=True)


def _print_span(console: Console, account: ProgramAccount) -> None:
    title = f"{account.name}: " if account.name else ""
    console.print(
        f"{title}{duration(account.span.ns)} accounted for: {printable(account.span.rule)}", markup=False, style="bold"
    )
    for what, ns in account.span.excluded:
        console.print(f"left out: {duration(ns)} {what}", markup=False, style="dim")


def _print_parts(console: Console, account: ProgramAccount) -> None:
    from rich.table import Table

    from ncubble.analysis.program.account import BETWEEN, INSIDE, KINDS
    from ncubble.analysis.program.output import part_fix, part_words

    table = Table("where the time goes", box=None, pad_edge=False)
    for title in ("time", "%"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what helps", style="dim")
    for kind, ns in account.by_kind.items():
        table.add_row(f"[bold]{KINDS[kind]}[/]", duration(ns), f"{account.pct(ns):.1f}")
        for part in account.parts:
            if part.kind == kind and kind in (INSIDE, BETWEEN) and account.pct(part.ns) >= LEAST_PCT:
                fix = part_fix(part) if account.pct(part.ns) >= 1.0 else ""
                table.add_row(f"  {part_words(part)}", duration(part.ns), f"{account.pct(part.ns):.1f}", fix)
    table.add_row("sum", duration(account.span.ns), f"{sum(map(account.pct, account.by_kind.values())):.1f}")
    console.print(table)
    if account.overlapped_ns:
        shared = f"{duration(account.overlapped_ns)} ({account.pct(account.overlapped_ns):.1f} %)"
        console.print(f"several kernels ran for {shared}: split evenly among them", markup=False)


def _print_rows(console: Console, account: ProgramAccount, limit: int) -> None:
    from ncubble.analysis.program.output import kernel_rows, range_rows

    for first, rows in (("kernel", kernel_rows(account)), ("NVTX range", range_rows(account))):
        if rows:
            digits = len(f"{sum(row.launches or 0 for row in rows):,}")
            beside = BESIDE + (digits if rows[0].launches is not None else BETWEEN_CELLS)
            cells = max(NAMES.start, min(console.width - beside, NAMES.stop - 1))
            console.print(_table(first, rows, limit, cells))


def _table(first: str, rows: list[TimeRow], limit: int, cells: int) -> Table:
    """Percents are of the span. Kernels have launches, ranges have time between kernels."""
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.program.output import rest_of

    of_kernels = rows[0].launches is not None
    table = Table(box=None, pad_edge=False)
    table.add_column(first, width=cells, no_wrap=True)
    for title in (["n"] if of_kernels else []) + ["%", "tensor", "other", "inside"]:
        table.add_column(title, justify="right", no_wrap=True)
    if not of_kernels:
        table.add_column("between", justify="right", no_wrap=True)
    table.add_column("mostly", style="dim", overflow="fold")
    rest = rest_of(rows[limit:])
    for row in [*rows[:limit], *([rest] if rest else [])]:
        launches = [f"{row.launches:,}"] if of_kernels else []
        figures = (row.pct, row.tensor, row.work, row.inside, *(() if of_kernels else (row.between,)))
        name = folded(Text(printable(row.name)), cells)
        table.add_row(name, *launches, *(_pct(pct) for pct in figures), Text(row.worst))
    return table


def _pct(pct: float) -> str:
    return f"{pct:.1f}" if pct >= LEAST_PCT else "–"
