"""``ncubble compare``: launches side by side, in the terminal, as Markdown or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.terminal import refuse_foreign, write_text
from ncubble.errors import UsageError
from ncubble.profiling.runs.contents import without_report

if TYPE_CHECKING:
    from ncubble.analysis.compare.sides import ComparedLaunch

STDOUT = Path("-")
MOST = 8
"""Most sides that fit into a table."""


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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show every comparison in full.")] = False,
) -> None:
    """Compare launches with those of the first path: account, utilization, time, resources, stall reasons.

    Folders written by verify --gates --out are compared as a Markdown table.

    Launches are matched by label, kernel and grid, then by order. Repeats of the first path
    separate change from noise. Exit code 3 if a file could not be read or nothing could be
    compared. A slower kernel is not an error here.
    """
    from ncubble.analysis.compare import output as compare_output
    from ncubble.analysis.compare.compare import compare_sides
    from ncubble.analysis.compare.sides import groups
    from ncubble.cli.commands.compare.render import print_outcome
    from ncubble.cli.terminal import emit_json
    from ncubble.kernels.gates.saved import is_saved

    _refuse(paths, markdown, as_json)
    if all(is_saved(path) for path in paths):
        _print_gates(paths, as_json)
        return
    errors: list[tuple[str, str]] = []
    outcome = compare_sides([groups(_subjects(path, errors)) for path in paths])
    if not outcome.comparisons and not errors:
        errors.append(("", "nothing to compare: no kernel is on more than one side"))
    if as_json:
        emit_json(compare_output.as_json(outcome, [str(path) for path in paths], errors))
    elif markdown != STDOUT:
        print_outcome(outcome, errors, details)
    if markdown is not None:
        _write(markdown, compare_output.markdown(outcome, errors))
    if errors or not outcome.comparisons:
        raise typer.Exit(3)


def _print_gates(paths: list[Path], as_json: bool) -> None:
    """Changes between gate results."""
    from ncubble.kernels.gates.saved import SavedGates, compared

    if len(paths) != 2 or as_json:
        raise UsageError("gate results are compared two at a time, as Markdown", "ncubble compare THEN NOW")
    typer.echo(compared(*(SavedGates.load(path) for path in paths)), nl=False)


def _write(file: Path, text: str) -> None:
    """Write the comment, or print it."""
    if file == STDOUT:
        typer.echo(text, nl=False)
    else:
        write_text(file, text)


def _refuse(paths: list[Path], markdown: Path | None, as_json: bool) -> None:
    if markdown == STDOUT and as_json:
        raise UsageError("--markdown - and --json both write to stdout", "name a file: --markdown FILE")
    if markdown is not None and markdown != STDOUT:
        from ncubble.analysis.compare.output import MARK

        refuse_foreign(markdown, MARK)
    if len(paths) < 2:
        raise UsageError(f"{paths[0]}: a comparison needs two sides", "name two paths or more: ncubble compare A B")
    if len(paths) > MOST:
        raise UsageError(f"{len(paths)} sides are more than {MOST}", "compare fewer at a time")


def _subjects(path: Path, errors: list[tuple[str, str]]) -> list[ComparedLaunch]:
    """Launches of one side; unreadable files are added to ``errors``."""
    from ncubble.analysis.compare.subjects import compared_launches
    from ncubble.analysis.report.report import open_reports
    from ncubble.cli.terminal import reading

    with reading() as progress:
        reports, failures = open_reports([path], progress)
    errors += [(str(failure.path), str(failure.error)) for failure in failures]
    launches, unread = compared_launches(reports)
    errors += unread
    if not reports and not failures:
        errors.append((str(path), f"no report below it\n  remedy: {without_report([path]).remedy}"))
    return launches
