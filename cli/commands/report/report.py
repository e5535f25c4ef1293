"""``ncubble report``: the bubble account of every launch, in the terminal or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ncubble.analysis.report.report import Report, ReportFailure


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    app.command("report")(report)


def report(
    paths: Annotated[
        list[Path], typer.Argument(help="Run directories, .ncu-rep or .ncu-repz files, or folders of them.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show every launch in full, however many.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each part was computed from: counters, timeline, instructions.")
    ] = False,
    by_rank: Annotated[
        bool, typer.Option("--by-rank", help="Put the ranks of a program on many GPUs side by side.")
    ] = False,
) -> None:
    """Show where the time of every launch went: the bubble account, its causes and their source lines.

    Exit code 3 where a file could not be read or nothing was found; the others are reported all the same.
    """
    from ncubble.analysis.diagnosis.results import as_json as to_json
    from ncubble.cli.commands.report.render import print_result
    from ncubble.cli.render import emit_json

    if by_rank:
        _by_rank(paths, as_json)
        return
    result = to_json(*_open(paths), explained=explain)
    _say_if_empty(result, paths)
    if as_json:
        emit_json(result)
    else:
        print_result(result, details or explain)
    if result["errors"] or not result["launches"]:
        raise typer.Exit(3)


def _by_rank(paths: list[Path], as_json: bool) -> None:
    """Match the launches of all ranks; raises Exit where a file could not be read or no rank is known."""
    from ncubble.analysis.compare import ranks as by_rank
    from ncubble.analysis.diagnosis.results import as_json as to_json
    from ncubble.cli.commands.report.ranks import print_ranks
    from ncubble.cli.render import emit_json

    reports, failures = _open(paths)
    result = to_json(reports, failures)
    _say_if_empty(result, paths)
    verdicts: dict[str, list[dict[str, Any]]] = {}
    for launch in result["launches"]:
        verdicts.setdefault(launch["report"], []).append(launch)
    found = by_rank.by_rank(*by_rank.place(reports, verdicts))
    if as_json:
        emit_json(by_rank.as_json(found, result["errors"]))
    else:
        print_ranks(found, result["errors"])
    if result["errors"] or not found.programs:
        raise typer.Exit(3)


def print_report(paths: list[Path], details: bool = False) -> dict[str, Any]:
    """Print the accounts of all reports at ``paths`` for a person; returns what was printed, as data."""
    from ncubble.analysis.diagnosis.results import as_json as to_json
    from ncubble.cli.commands.report.render import print_result

    result = to_json(*_open(paths))
    _say_if_empty(result, paths)
    print_result(result, details)
    return result


def _say_if_empty(result: dict[str, Any], paths: list[Path]) -> None:
    """Folders without a report are no error of any file, so nothing else would name them."""
    if not result["launches"] and not result["errors"]:
        named = ", ".join(str(path) for path in paths)
        error = f"no report below {named}\n  remedy: reports end in .ncu-rep or .ncu-repz"
        result["errors"].append({"report": named, "error": error})


def _open(paths: list[Path]) -> tuple[list[Report], list[ReportFailure]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ncubble.analysis.report.report import open_reports

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading reports", total=None)
        return open_reports(paths, lambda done, total: progress.update(task, completed=done, total=total))
