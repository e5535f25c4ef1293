"""Prints the tables of a validation in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from benchmarks.validation.page import MET, MISSED, NOTHING, Table
from ncubble.cli.terminal import printable, table_lines, wrapped

STYLES = {MET: "green", MISSED: "red", NOTHING: "dim"}


def print_tables(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print every table under its title, then notes."""
    out = Console(highlight=False)
    for table in tables:
        for line in wrapped(table.title, out.width):
            out.print(Text(line, style="bold"))
        for text in _lines(table, out.width) if table.rows else [Text("none")]:
            out.print(text, soft_wrap=True)
        out.print()
    for note in notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))


def _lines(table: Table, width: int) -> Iterator[Text]:
    rows = [[printable(cell) for cell in row] for row in table.rows]
    right = [index >= table.texts for index in range(len(table.header))]
    styles = [next((STYLES[word] for cell in row if (word := cell.split(" ")[0]) in STYLES), "") for row in table.rows]
    for number, line in table_lines(table.header, rows, right, width):
        text = Text(line, style="dim" if number < 0 else "")
        for word, style in STYLES.items() if number >= 0 and styles[number] else ():
            text.highlight_words([word], style)
        yield text
