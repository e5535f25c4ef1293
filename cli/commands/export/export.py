"""``ncubble export``: writes launch pages or a comparison into one HTML file, or a figure as a
picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.runs import require_paths
from ncubble.text.values import UnitStep, scaled

if TYPE_CHECKING:
    from ncubble.cli.commands.export.job import Exported

PAGES = (".html", ".htm")
IMAGES = (".png", ".svg", ".pdf")
THEMES = ("system", "light", "dark")
LIST = "list"
_SIZES = (UnitStep(1e6, 1e6, ".1f", "MB"), UnitStep(0.0, 1e3, ".1f", "kB"))


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
    theme: Annotated[
        str, typer.Option(metavar="THEME", help="system, light or dark; pictures are light by default.")
    ] = "system",
    width: Annotated[int, typer.Option(min=200, max=8000, help="Width of a picture in CSS pixels.")] = 1100,
    height: Annotated[
        int | None, typer.Option(min=80, max=8000, help="Height of a picture (default: the figure's own).")
    ] = None,
    scale: Annotated[float, typer.Option(min=0.5, max=8, help="Pixels of a PNG per CSS pixel.")] = 2.0,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about what was written.")] = False,
) -> None:
    """Export launches from the dashboard into one file that needs no server and no network.

    Several launches are linked from a table. Exit code 3 if a report could not be read; the others are still written.
    """
    from ncubble.cli.commands.export import job as export_job
    from ncubble.dashboard.export.images import Look

    _refuse(paths, out, theme, figure, compare, force)
    job = export_job.Job(tuple(paths), tuple(launch or ()), kernel, compare, theme)
    if figure == LIST:
        _say(export_job.list_figures(job), as_json)
        return
    if out is None:
        raise UsageError("no output file", "name a file: -o out.html")
    look = Look(width, height, scale, "dark" if theme == "dark" else "light")
    written = export_job.write_figure(job, figure, out, look) if figure else export_job.write_page(job, out)
    _say(written, as_json)
    if written.errors:
        raise typer.Exit(MeasurementError.exit_code)


def _refuse(paths: list[Path], out: Path | None, theme: str, figure: str, compare: bool, force: bool) -> None:
    """Raises UsageError for an invalid request, before any report is read."""
    if theme not in THEMES:
        raise UsageError(f"--theme {theme}: unknown theme", f"choose one of {', '.join(THEMES)}")
    if compare and len(paths) < 2:
        raise UsageError(f"{paths[0]}: a comparison needs two sides", "name two paths or more: --compare A B")
    require_paths(paths)
    if out is None:
        if figure != LIST:
            raise UsageError("no output file", "name a file: -o out.html")
        return
    if out.suffix.lower() not in (IMAGES if figure else PAGES):
        what = out.suffix or "no file extension"
        remedy = (
            f"a figure needs an ending of {', '.join(IMAGES)}"
            if figure
            else "a page ends in .html; a picture needs --figure"
        )
        raise UsageError(f"{out}: cannot be written as {what}", remedy)
    if out.is_dir():
        raise UsageError(f"{out} is a directory", "name a file in it")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", "choose another -o, or replace it with --force")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such directory", "create it first")


def _say(result: Exported, as_json: bool) -> None:
    from ncubble.cli.terminal import emit_json, printable, table_lines, terminal_width

    for error in result.errors:
        typer.echo(f"ncubble: {error}", err=True)
    if as_json:
        emit_json({"schema": 1, **asdict(result)})
        return
    rows = [[name, printable(label)] for name, label in result.figures.items()]
    for _, line in table_lines(["figure", "what it shows"], rows, [False, False], terminal_width()) if rows else ():
        typer.echo(line)
    if result.file:
        number = len(result.launches)
        label = f"{number} launch{'es' if number != 1 else ''}, {scaled(result.bytes, _SIZES)}"
        typer.echo(f"{result.file}: {label}")
    if result.left_out:
        typer.echo(f"ncubble: {result.left_out} more launches were left out: choose with --launch, --kernel", err=True)
