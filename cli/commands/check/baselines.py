"""Commands ``ncubble baseline record|update|show``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.commands.check.io import console, open_all
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.runs import without_report

if TYPE_CHECKING:
    from ncubble.analysis.gate.baseline import Baseline
    from ncubble.analysis.report.report import ReportFailure

STORE = Path("baselines")
app = typer.Typer(help="Record and show baselines.", no_args_is_help=True)

Paths = Annotated[list[Path], typer.Argument(help="Run directories, report files, or folders of them.")]
Kernel = Annotated[str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose name or label matches.")]
NoNvtx = Annotated[bool, typer.Option("--no-nvtx", help="Treat launches in different NVTX ranges as repeats.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Ignore the settings in pyproject.toml or ncubble.toml.")]
Store = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Folder of baselines (else ./baselines), or one .json file."),
]
AllowSuspicious = Annotated[
    bool, typer.Option("--allow-suspicious", help="Accept launches whose values contradict each other.")
]
MinRepeats = Annotated[int, typer.Option(help="Launches needed of each kernel; below 5 the gate is weak.")]


def store_of(given: Path | None, no_config: bool) -> Path:
    """The folder of baselines: as given, else as the project's settings say, else ``baselines``."""
    from ncubble.analysis.gate.settings import load

    return given or (None if no_config else load(Path.cwd()).baselines) or STORE


@app.command()
def record(
    paths: Paths,
    output: Store = None,
    force: Annotated[bool, typer.Option("--force", help="Replace baselines that exist.")] = False,
    min_repeats: MinRepeats = 5,
    kernel: Kernel = "",
    no_nvtx: NoNvtx = False,
    allow_suspicious: AllowSuspicious = False,
    no_config: NoConfig = False,
    json: Json = False,
) -> None:
    """Record baselines from repeated launches: one readable JSON file per GPU model and kernel."""
    from ncubble.analysis.gate import baseline_file

    measured = _measured(paths, min_repeats, kernel, no_nvtx, allow_suspicious)
    store = store_of(output, no_config)
    places = _places(store, measured)
    with baseline_file.locked(store):
        baseline_file.save(zip(places, measured, strict=True), force=force)
    _tell("recorded", places, measured, json)


@app.command()
def update(
    paths: Paths,
    because: Annotated[str, typer.Option("--because", help="Why the new values are right; kept in the file.")],
    output: Store = None,
    min_repeats: MinRepeats = 5,
    kernel: Kernel = "",
    no_nvtx: NoNvtx = False,
    allow_suspicious: AllowSuspicious = False,
    no_config: NoConfig = False,
    json: Json = False,
) -> None:
    """Replace existing baselines. The new ones keep the old values and the reason for the replacement."""
    from ncubble.analysis.gate import baseline_file
    from ncubble.analysis.gate.baseline import check_reason, replaced

    check_reason(because)
    measured = _measured(paths, min_repeats, kernel, no_nvtx, allow_suspicious)
    store = store_of(output, no_config)
    places = _places(store, measured)
    missing = [
        f"{item.key.label} ({place})" for place, item in zip(places, measured, strict=True) if not place.is_file()
    ]
    if missing:
        raise UsageError(f"no baseline to update: {'; '.join(missing)}", "record it by `ncubble baseline record`")
    with baseline_file.locked(store):
        new = [replaced(baseline_file.load(place), item, because) for place, item in zip(places, measured, strict=True)]
        baseline_file.save(zip(places, new, strict=True), force=True)
    _tell("updated", places, new, json)


def _measured(
    paths: list[Path], min_repeats: int, kernel: str, no_nvtx: bool, allow_suspicious: bool
) -> list[Baseline]:
    """A baseline of every kernel in the runs; raises where a report is unreadable or, unless that is allowed,
    suspicious, and then nothing was written."""
    from ncubble.analysis.gate import baseline, repeats
    from ncubble.analysis.gate.repeats import listed as suspicious_texts

    reports, failures = open_all(paths, kernel)
    if failures:
        listed = "\n  ".join(_located(failure) for failure in failures)
        several = f"{len(failures)} reports are" if len(failures) > 1 else "1 report is"
        first = failures[0].error.remedy
        remedy = f"{first[:1].lower()}{first[1:]}, or leave it out" if len(failures) == 1 else "fix or leave them out"
        raise MeasurementError(f"nothing recorded, {several} unreadable:\n  {listed}", remedy)
    if not reports:
        raise without_report(paths)
    groups, notes = repeats.collect(reports, nvtx=not no_nvtx, kernel=kernel)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    for text in (
        suspicious_texts([launch for group in groups for launch in group.suspicious]) if allow_suspicious else ()
    ):
        typer.echo(f"warning: accepted although suspicious: {text}", err=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return baseline.record(groups, now, min_repeats, allow_suspicious=allow_suspicious)


def _located(failure: ReportFailure) -> str:
    """The message of a report that could not be read, with its path once."""
    message = failure.error.message
    return message if message.startswith(str(failure.path)) else f"{failure.path}: {message}"


def _tell(what: str, places: Sequence[Path], baselines: Sequence[Baseline], json: bool) -> None:
    from ncubble.analysis.gate.baseline import change_words, weaknesses
    from ncubble.cli.terminal import emit_json, terminal_width

    rows: list[dict[str, Any]] = [
        {"path": str(place), "label": item.key.label, "repeats": item.repeats, "warnings": weaknesses(item)}
        for place, item in zip(places, baselines, strict=True)
    ]
    if json:
        emit_json({"schema": 1, what: rows})
        return
    width = terminal_width()
    for place, group in groupby(sorted(zip(places, rows, baselines, strict=True), key=_group), key=_group):
        _echo(f"{what} in {place}:", width)
        for _, row, item in group:
            _echo(f"  {row['label']} ({row['repeats']} repeats){change_words(item)}", width)
            for warning in row["warnings"]:
                _echo(f"warning: {row['label']}: {warning}", width, err=True)


def _group(entry: tuple[Path, dict[str, Any], Baseline]) -> Path:
    """The folder of the GPU model, or the file that ``--out`` names: only such a one lies elsewhere."""
    place, _, item = entry
    return place.parent if place.name == item.place.name else place


def _echo(text: str, width: int, err: bool = False) -> None:
    from ncubble.cli.terminal import printable, wrapped

    for line in wrapped(printable(text), width):
        typer.echo(line, err=err)


def _places(output: Path, baselines: list[Baseline]) -> list[Path]:
    if output.suffix != ".json":
        return [output / item.place for item in baselines]
    if len(baselines) != 1:
        raise UsageError(
            f"--out {output}: one file cannot hold {len(baselines)} baselines", "name a folder, or use --kernel"
        )
    return [output]


@app.command()
def show(
    path: Annotated[Path | None, typer.Argument(help="Folder of baselines (else ./baselines), or one file.")] = None,
    no_config: NoConfig = False,
    json: Json = False,
) -> None:
    """Show recorded baselines. Exit code 2: no such place, 3: it holds none, or an unusable one."""
    from ncubble.analysis.gate.baseline_file import load_store
    from ncubble.cli.commands.check.render import print_baselines
    from ncubble.cli.terminal import emit_json

    place = store_of(path, no_config)
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
        raise MeasurementError(f"{place}: no baselines", "record one with `ncubble baseline record RUN…`")
