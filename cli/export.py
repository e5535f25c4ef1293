"""``ncubble export``: writes launch pages or a comparison into one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.terminal import reading
from ncubble.errors import MeasurementError
from ncubble.text.values import file_size


def export(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, report files, or folders of them.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The .html file to write.")],
    launch: Annotated[list[int] | None, typer.Option(min=0, help="Only the launch of this number.")] = None,
    kernel: Annotated[str, typer.Option(metavar="REGEX", help="Only kernels whose name matches.")] = "",
    compare: Annotated[bool, typer.Option("--compare", help="Compare the other paths with the first.")] = False,
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
            force=force,
            progress=progress,
        )
    for error in written.errors:
        typer.echo(f"ncubble: {error}", err=True)
    number = len(written.launches)
    typer.echo(f"{written.file}: {number} launch{'es' if number != 1 else ''}, {file_size(written.bytes)}")
    if written.left_out:
        text = f"{written.left_out} more launches were left out: choose with --launch, --kernel"
        typer.echo(f"ncubble: {text}", err=True)
    if written.errors:
        raise typer.Exit(MeasurementError.exit_code)
