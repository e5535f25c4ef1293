"""``ncubble trend``: finds lasting changes of kernels in the history of all checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.runs import holding
from ncubble.text.values import expression

if TYPE_CHECKING:
    from ncubble.analysis.history.file import History
    from ncubble.analysis.history.trend import TrendSeries

HISTORY = Path("checks")
_MOST_NAMED = 20
_REMEDY = "`ncubble check RUN…` adds its result to ./checks, or to --history DIR: name that folder"


def trend(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="History written by `ncubble check` (default: ./checks).")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose label or name matches.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also show metrics that are not gated.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only series with a change.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find lasting changes of a metric: when, at which commit, by how much, and with which
    confidence. A change of GPU, driver or ncu is reported as such and not attributed to the kernel.
    Exit code 0: the history was read, whatever changed; 2: there is no history; 3: no kernel
    matches, or a file of the history cannot be read (the rest is shown).
    """
    from ncubble.analysis.history.output import as_json as listed
    from ncubble.cli.commands.trend.render import print_series, print_unchanged
    from ncubble.cli.terminal import emit_json

    pattern = expression(kernel, f"--kernel {kernel!r}")
    history = _history(folder or HISTORY)
    for problem in history.problems:
        typer.echo(f"ncubble: {problem.name}: {problem.error}\n  remedy: {problem.remedy}", err=True)
    searched = _chosen(history, pattern, everything) if len(history.table) else []
    shown = [series for series in searched if not changed or series.changes or series.boundaries or series.odd]
    if as_json:
        emit_json(listed(history, shown))
    elif shown:
        print_series(shown, history)
    elif searched:
        print_unchanged(searched, history)
    if history.problems:
        raise typer.Exit(3)


def _history(folder: Path) -> History:
    """The history in ``folder``; raises UsageError if there is none."""
    from ncubble.analysis.history.file import HistoryReader

    if not folder.exists():
        raise UsageError(f"{folder}: no such folder", _REMEDY)
    history = HistoryReader(folder).read() if folder.is_dir() else None
    if history is None or (not len(history.table) and not history.problems):
        raise UsageError(f"{folder}: no check is recorded there", holding(folder) or _REMEDY)
    return history


def _chosen(history: History, pattern: re.Pattern[str], everything: bool) -> list[TrendSeries]:
    """The requested series, at least one; otherwise raises MeasurementError that lists the
    available ones."""
    from ncubble.text.markup import printable

    matching = _series(history, pattern)
    if not matching:
        labels = sorted({printable(series.label) for series in _series(history, re.compile(""))})
        listed = "".join(f"\n  {label}" for label in labels[:_MOST_NAMED])
        more = f"\n  and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
        if not labels:
            raise MeasurementError(
                f"{history.folder}: no check holds a measured value", "check runs that contain launches"
            )
        raise MeasurementError(
            f"no kernel matches --kernel {pattern.pattern!r}; available:{listed}{more}",
            "name one of these, or a part of its name",
        )
    gated = [series for series in matching if everything or series.gated]
    if not gated:
        raise MeasurementError(f"{len(matching)} series match, but none has a gated metric", "add --all to see them")
    return gated


def _series(history: History, pattern: re.Pattern[str]) -> list[TrendSeries]:
    """The series of the kernels that match."""
    from rich.console import Console

    from ncubble.analysis.history.trend import COLUMNS, all_series

    with Console(stderr=True).status("searching for changes"):
        rows = history.table.select([*COLUMNS, "kernel"]).to_pandas()
        texts = (
            rows[["label", "kernel"]].astype(object).fillna("").agg("\n".join, axis=1) if len(rows) else rows["label"]
        )
        return all_series(rows[texts.map(lambda text: bool(pattern.search(text))).astype(bool)]) if len(rows) else []
