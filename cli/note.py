"""``ncubble note``: tags and a note of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.terminal import printable


def note(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, report files, or folders of them.")],
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Add a tag, repeatable.")] = None,
    untag: Annotated[list[str] | None, typer.Option("--untag", metavar="TAG", help="Remove a tag, repeatable.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Write a note; an empty TEXT removes it.")
    ] = None,
) -> None:
    """Tag runs and write notes on them, or show tags and notes. They are stored in notes.json
    beside the unchanged report. `ncubble report` and the kernel page show them.
    """
    from ncubble.profiling.runs import Run, RunNotes, find_runs, without_report

    runs = [Run.load(path) for path in find_runs(paths)]
    if not runs:
        raise without_report(paths)
    found = [(run, RunNotes.of(run)) for run in runs]
    if tag or untag or text is not None:
        found = [(run, notes.changed(tag or (), untag or (), text)) for run, notes in found]
        for run, notes in found:
            notes.save(run)
    for run, notes in found:
        if notes != RunNotes() or len(found) == 1:
            typer.echo(f"{printable(str(run.path))}: {', '.join(notes.tags) or 'no tags'}")
            for line in notes.note.splitlines():
                typer.echo(f"  {printable(line)}")
