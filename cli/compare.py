"""``ncubble compare``: launches side by side, in the terminal, as Markdown or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.analysis.report.launch_key import LONGEST_NAME
from ncubble.cli.command import Json
from ncubble.cli.terminal import console, cut, emit_json, printable, reading, refuse_foreign, write_text
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ncubble.analysis.compare.compare import Comparison
    from ncubble.api.comparison import ReportComparison

STDOUT = Path("-")
PIPED_WIDTH, _WIDEST = 200, 10_000
STYLES = {"better": "green", "worse": "red", "unclear": "yellow", "changed": "bold", "within noise": "dim"}


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B…", help="Run directories, report files, or folders of them; the first is the reference."
        ),
    ],
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary for a merge request; - prints it."),
    ] = None,
    as_json: Json = False,
    details: Annotated[bool, typer.Option("--details", help="Show every comparison in full.")] = False,
) -> None:
    """Compare launches with those of the first path: account, utilization, time, resources, stall
    reasons.

    Folders written by verify --gates --out are compared as a Markdown table.

    Launches are matched by label, kernel and grid, then by order. Repeats of the first path
    separate change from noise. Exit code 3 if a file could not be read or nothing could be
    compared. A slower kernel is not an error here.
    """
    import ncubble
    from ncubble.analysis.compare.words import MARK
    from ncubble.kernels.run.saved_gates import SavedGates, compared, is_saved

    if markdown == STDOUT and as_json:
        raise UsageError("--markdown - and --json both write to stdout", "name a file: --markdown FILE")
    if all(map(is_saved, paths)):
        if len(paths) != 2 or as_json:
            raise UsageError("gate results are compared two at a time, as Markdown", "ncubble compare THEN NOW")
        typer.echo(compared(*map(SavedGates.load, paths)), nl=False)
        return
    if markdown not in (None, STDOUT):
        refuse_foreign(markdown, MARK)
    with reading() as progress:
        found = ncubble.compare(*paths, strict=False, progress=progress)
    if as_json:
        emit_json(found.to_json())
    elif markdown != STDOUT:
        print_result(found, details)
    if markdown == STDOUT:
        typer.echo(found.to_markdown(), nl=False)
    elif markdown is not None:
        write_text(markdown, found.to_markdown())
    if found.errors or not found:
        raise typer.Exit(3)


def print_result(found: ReportComparison, details: bool = False) -> None:
    """Print comparisons to stdout, a few of them in full, and unreadable files to stderr. The
    console is wide enough for the table if the output is no terminal, so that numbers are never
    cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.compare.compare import letter
    from ncubble.analysis.compare.words import IN_FULL, about, summaries

    out, comparisons = console(PIPED_WIDTH), found.result.comparisons
    if details or len(comparisons) <= IN_FULL:
        for comparison in comparisons:
            print_comparison(out, comparison)
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("kernel", overflow="fold", ratio=2)
        table.add_column("compared with A", overflow="fold", ratio=3)
        for title, words in summaries(comparisons):
            table.add_row(Text(_name(title), style="bold"), Text("\n".join(map(printable, words))))
        out.print(table)
        out.print(Text(f"{len(comparisons)} comparisons; --details for their tables", style="dim"))
    for left in found.result.leftovers:
        text = Text(f"{letter(left.side)}: {_name(left.group.title)}", style="bold")
        out.print(text.append(f"  {printable(about(left.group))}: {printable(left.reason)}", style="dim not bold"))
    err = Console(stderr=True, highlight=False)
    for file, error in found.errors:
        message = error if not file or file in error else f"{file}: {error}"
        shown = "\n  remedy: ".join(printable(part) for part in message.split("\n  remedy: "))
        err.print(Text(f"ncubble: {shown}", style="red"), soft_wrap=True)


def _name(title: str) -> str:
    return cut(printable(title), LONGEST_NAME)


def print_comparison(out: Console, comparison: Comparison) -> None:
    """Print one comparison in full: sides, sentences, notes, and a table, or one for each side with
    the first if it would be too wide."""
    from rich.text import Text

    from ncubble.analysis.compare.compare import letter
    from ncubble.analysis.compare.words import about, sentences, titles

    for index, (side, name) in enumerate(zip(comparison.sides, titles(comparison.sides), strict=True)):
        if side is not None:
            title = Text(f"{letter(index)}  {_name(name)}", style="bold")
            out.print(title.append(f"  {printable(about(side))}", style="dim not bold"))
    for sentence in sentences(comparison):
        out.print(Text(f"→ {printable(sentence)}"))
    others = [index for index, side in enumerate(comparison.sides) if index and side]
    whole = _table(comparison, others)
    fits = whole.__rich_measure__(out, out.options.update(width=_WIDEST)).maximum <= out.width
    for table in [whole] if fits or len(others) < 2 else [_table(comparison, [index]) for index in others]:
        out.print(table)
    for note in comparison.notes:
        out.print(Text(f"note: {printable(note)}", style="red" if "suspicious:" in note else "dim"))
    out.print()


def _table(comparison: Comparison, others: Sequence[int]) -> Table:
    """The first side beside ``others``."""
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.compare.words import headings, lines, sections

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in headings(comparison, others):
        table.add_column(name, justify="right", no_wrap=not name.endswith(" A"))
    for section, title in sections(comparison):
        shown = lines(comparison, section)
        if shown and title:
            table.add_row(Text(title, style="dim italic"))
        for line in shown:
            texts = [Text(printable(line.name))]
            for cell in line.cells:
                if cell.side == 0 or cell.side in others:
                    texts.append(Text(cell.value, style="" if cell.value != "–" else "dim"))
                if cell.side in others:
                    change = f"{cell.change} {cell.outcome}".rstrip()
                    texts.append(Text(change, style="dim" if change == "same" else STYLES.get(cell.outcome, "")))
            table.add_row(*texts)
    return table
