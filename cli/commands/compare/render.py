"""Prints comparisons in a terminal. Names from reports are plain text, never markup."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.compare.compare import CompareResult, Comparison, Unmatched
from ncubble.analysis.compare.sides import letter
from ncubble.analysis.compare.text import (
    IN_FULL,
    Line,
    about,
    headings,
    lines,
    sentences,
    share_words,
    spread,
    summaries,
    titles,
)
from ncubble.cli.terminal import printable

PIPED_WIDTH = 200
_WIDEST = 10_000
STYLES = {"better": "green", "worse": "red", "unclear": "yellow", "changed": "bold", "within noise": "dim"}


def print_outcome(outcome: CompareResult, errors: Sequence[tuple[str, str]], details: bool = False) -> None:
    """Print comparisons to stdout, up to ``IN_FULL`` in full, and unreadable files to stderr."""
    out = _console()
    if details or len(outcome.comparisons) <= IN_FULL:
        for comparison in outcome.comparisons:
            print_comparison(out, comparison)
    else:
        out.print(_summary(outcome.comparisons))
        out.print(Text(f"{len(outcome.comparisons)} comparisons; --details for their tables", style="dim"))
    for left in outcome.leftovers:
        out.print(_leftover(left))
    err = Console(stderr=True, highlight=False)
    for file, error in errors:
        message = error if not file or file in error else f"{file}: {error}"
        text = "\n  remedy: ".join(printable(part) for part in message.split("\n  remedy: "))
        err.print(Text(f"ncubble: {text}", style="red"), soft_wrap=True)


def print_comparison(out: Console, comparison: Comparison) -> None:
    """Print one comparison in full: sides, sentences, table and notes."""
    for index, (side, name) in enumerate(zip(comparison.sides, titles(comparison.sides), strict=True)):
        if side is not None:
            title = Text(f"{letter(index)}  {printable(name)}", style="bold")
            out.print(title.append(f"  {printable(about(side))}", style="dim not bold"))
    for sentence in sentences(comparison):
        out.print(Text(f"→ {printable(sentence)}"))
    for table in _tables(comparison, out):
        out.print(table)
    for note in comparison.notes:
        out.print(Text(f"note: {printable(note)}", style="red" if "suspicious:" in note else "dim"))
    out.print()


def _tables(comparison: Comparison, out: Console) -> list[Table]:
    """One table, or one table per side with the first if it would be too wide: numbers are never
    cut."""
    others = [index for index, side in enumerate(comparison.sides) if index and side is not None]
    whole = _table(comparison, others)
    if len(others) < 2 or whole.__rich_measure__(out, out.options.update(width=_WIDEST)).maximum <= out.width:
        return [whole]
    return [_table(comparison, [index]) for index in others]


def _table(comparison: Comparison, others: Sequence[int]) -> Table:
    """The first side beside ``others``."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in _headings(comparison, others):
        table.add_column(name, justify="right", no_wrap=not name.endswith(" A"))
    sections = ((spread(comparison), "launch"), (share_words(comparison), "account"), ("% of warp samples", "stalls"))
    for title, section in sections:
        shown = lines(comparison, section)
        if shown and title:
            table.add_row(Text(title, style="dim italic"))
        for line in shown:
            table.add_row(Text(printable(line.name)), *_cells(line, comparison, others))
    return table


def _headings(comparison: Comparison, others: Sequence[int]) -> list[str]:
    """A, B, B - A, … of the sides that are shown."""
    wanted = {letter(index) for index in (0, *others)}
    return [name for name in headings(comparison) if name.split(" ")[0] in wanted]


def _cells(line: Line, comparison: Comparison, others: Sequence[int]) -> list[Text]:
    texts: list[Text] = []
    for index, side in enumerate(comparison.sides):
        if side is None or (index and index not in others):
            continue
        texts.append(Text(line.values[index], style="" if line.values[index] != "–" else "dim"))
        if index:
            outcome = line.outcomes[index]
            shown = f"{line.changes[index]} {outcome}".rstrip()
            texts.append(Text(shown, style="dim" if shown == "same" else STYLES.get(outcome, "")))
    return texts


def _summary(comparisons: Sequence[Comparison]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("kernel", overflow="fold", ratio=2)
    table.add_column("compared with A", overflow="fold", ratio=3)
    for title, words in summaries(comparisons):
        table.add_row(Text(printable(title), style="bold"), Text("\n".join(printable(text) for text in words)))
    return table


def _leftover(left: Unmatched) -> Text:
    title = Text(f"{letter(left.side)}: {printable(left.group.title)}", style="bold")
    return title.append(f"  {printable(about(left.group))}: {printable(left.reason)}", style="dim not bold")


def _console() -> Console:
    """Console wide enough for the table if the output is not a terminal, so that numbers are never
    cut."""
    stated = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(highlight=False, width=None if stated else PIPED_WIDTH)
