"""``ncubble export``: writes launch pages or a comparison into one HTML file, or a figure as a
picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.terminal import printable, reading, table_lines, terminal_width
from ncubble.errors import MeasurementError
from ncubble.text.values import file_size


def export(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, report files, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="File to write: .html, or .png, .svg, .pdf with --figure."),
    ] = None,
    launch: Annotated[list[int] | None, typer.Option(min=0, help="Only the launch of this number.")] = None,
    kernel: Annotated[str, typer.Option(metavar="REGEX", help="Only kernels whose name matches.")] = "",
    compare: Annotated[bool, typer.Option("--compare", help="Compare the other paths with the first.")] = False,
    figure: Annotated[
        str, typer.Option(metavar="NAME", help="Export one figure as a picture; 'list' shows the names.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file at --out.")] = False,
) -> None:
    """Export launches from the dashboard into one file that needs no server and no network.

    Several launches are linked from a table. Exit code 3 if a report could not be read; the others are still written.
    """
    import ncubble

    with reading("exporting") as progress:
        written = ncubble.export(
            paths,
            out,
            launches=launch or (),
            kernel=kernel,
            compare=compare,
            figure=figure,
            force=force,
            progress=progress,
        )
    for error in written.errors:
        typer.echo(f"ncubble: {error}", err=True)
    rows = [[name, printable(label)] for name, label in written.figures.items()]
    for _, line in table_lines(["figure", "what it shows"], rows, [False, False], terminal_width()) if rows else ():
        typer.echo(line)
    if written.file:
        number = len(written.launches)
        typer.echo(f"{written.file}: {number} launch{'es' if number != 1 else ''}, {file_size(written.bytes)}")
    if written.left_out:
        text = f"{written.left_out} more launches were left out: choose with --launch, --kernel"
        typer.echo(f"ncubble: {text}", err=True)
    if written.errors and written.file:
        raise typer.Exit(MeasurementError.exit_code)
