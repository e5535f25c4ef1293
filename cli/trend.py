"""``ncubble trend``: where kernels changed for good, over the history of all checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.history_file import History
    from ncubble.analysis.trend import Series

HISTORY = Path("checks")


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    app.command("trend")(trend)


def trend(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="History that `ncubble check` wrote (else ./checks).")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose label or name matches.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also metrics that are shown and not gated.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only series in which something changed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show where the level of a metric moved for good: when, at which commit, by how much, and how surely.

    A change of GPU, driver or ncu is named as such and not taken for the kernel's. Exit code 0 whatever is found.
    """
    from ncubble.analysis.history_file import Reader
    from ncubble.analysis.trend_output import as_json as listed
    from ncubble.cli.render import emit_json
    from ncubble.cli.trend_render import print_nothing, print_series

    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", "name the folder that `ncubble check` wrote to")
    history = Reader(folder or HISTORY).read()
    for problem in history.problems:
        typer.echo(f"ncubble: {problem.name}: {problem.error}\n  remedy: {problem.remedy}", err=True)
    found = [
        one
        for one in _series(history, _pattern(kernel))
        if (everything or one.gated) and (not changed or one.changes or one.boundaries or one.odd)
    ]
    if as_json:
        emit_json(listed(history, found))
    elif found:
        print_series(found, history)
    else:
        print_nothing(history)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"--kernel {text!r}: not a regular expression ({error})", "escape special characters"
        ) from error


def _series(history: History, pattern: re.Pattern[str]) -> list[Series]:
    """The series of the kernels that match."""
    from rich.console import Console

    from ncubble.analysis.trend import COLUMNS, all_series

    with Console(stderr=True).status("searching for changes"):
        rows = history.table.select([*COLUMNS, "kernel"]).to_pandas()
        texts = (
            rows[["label", "kernel"]].astype(object).fillna("").agg("\n".join, axis=1) if len(rows) else rows["label"]
        )
        return all_series(rows[texts.map(lambda text: bool(pattern.search(text))).astype(bool)]) if len(rows) else []
