"""How the tables of a validation look in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ncubble.analysis.validation.page import MET, MISSED, NOTHING, Table
from ncubble.cli.render import printable

LEAST_WIDTH = 120
PIPED_WIDTH = 200
STYLES = {MET: "green", MISSED: "red", NOTHING: "dim"}


def print_tables(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print every table under its title, then notes."""
    out = _console()
    for table in tables:
        out.print(Text(table.title, style="bold"))
        out.print(_rich(table) if table.rows else "none")
        out.print()
    for note in notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))


def _rich(table: Table) -> RichTable:
    rich = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(table.header):
        rich.add_column(Text(name), justify="left" if index < table.texts else "right", overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(printable(cell), style=STYLES.get(cell.split(" ")[0], "")) for cell in row))
    return rich


def _console() -> Console:
    """A console at least LEAST_WIDTH wide: a row that the terminal wraps once reads better than one letter a line."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    return console if console.width >= LEAST_WIDTH else Console(highlight=False, width=LEAST_WIDTH)
