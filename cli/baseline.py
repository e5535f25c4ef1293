"""``ncubble baseline`` records baselines, and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json, Kernel, NoConfig, Settings
from ncubble.cli.terminal import console, emit_json, printable, reading, terminal_width, wrapped
from ncubble.errors import MeasurementError, UsageError
from ncubble.records import JsonObject

if TYPE_CHECKING:
    from ncubble.analysis.gate.baseline import Baseline


def baseline(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Run directories, report files, or folders of them; none: show baselines."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder of baselines (else ./baselines), or one .json file."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace baselines that exist.")] = False,
    kernel: Kernel = "",
    setting: Settings = None,
    no_config: NoConfig = False,
    json: Json = False,
) -> None:
    """Record baselines from repeated launches: one readable JSON file per GPU model and kernel.

    Without PATH, show those of --out. Exit code 2: no such place, 3: it holds none, or an unusable one.
    """
    from ncubble.analysis.gate.settings import STORE, chosen
    from ncubble.api.baselines import record_baselines

    settings = chosen(Path.cwd(), setting or [], config=not no_config)
    if not paths:
        if force or kernel or setting:
            raise UsageError("no run to record baselines from", "name run directories or reports")
        _show(output or settings.baselines or STORE, json)
        return
    with reading() as progress:
        recorded = record_baselines(paths, output, settings=settings, kernel=kernel, force=force, progress=progress)
    for note in recorded.notes:
        typer.echo(note, err=True)
    _tell(recorded.paths, recorded.baselines, json)


def _tell(places: Sequence[Path], baselines: Sequence[Baseline], json: bool) -> None:
    from ncubble.analysis.gate.baseline import weaknesses

    rows: list[JsonObject] = [
        {"path": str(place), "label": item.key.label, "repeats": item.repeats, "warnings": weaknesses(item)}
        for place, item in zip(places, baselines, strict=True)
    ]
    if json:
        emit_json({"schema": 1, "recorded": rows})
        return
    width = terminal_width()
    for place, group in groupby(sorted(zip(places, rows, baselines, strict=True), key=_group), key=_group):
        _echo(f"recorded in {place}:", width)
        for _, row, _ in group:
            _echo(f"  {row['label']} ({row['repeats']} repeats)", width)
            for warning in row["warnings"]:
                _echo(f"warning: {row['label']}: {warning}", width, err=True)


def _group(entry: tuple[Path, JsonObject, Baseline]) -> Path:
    """The folder of the GPU model, or the file that ``--out`` names: only such a one lies elsewhere."""
    place, _, item = entry
    return place.parent if place.name == item.place.name else place


def _echo(text: str, width: int, err: bool = False) -> None:
    for line in wrapped(printable(text), width):
        typer.echo(line, err=err)


def _show(place: Path, json: bool) -> None:
    from ncubble.analysis.gate.baseline_file import load_store
    from ncubble.cli.gate import print_baselines

    baselines, errors = load_store(place)
    if json:
        rows = [{"path": str(item.path), **item.to_json()} for item in baselines]
        emit_json({"schema": 1, "baselines": rows, "errors": [str(error.message) for error in errors]})
    elif baselines:
        print_baselines(baselines, console())
    for error in errors:
        typer.echo(f"ncubble: {error}", err=True)
    if errors:
        raise typer.Exit(3)
    if not baselines:
        raise MeasurementError(f"{place}: no baselines", "record one with `ncubble baseline RUN…`")
