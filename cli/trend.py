"""``ncubble trend``: lasting changes of kernels in the history of all checks. Kernel names are plain
text, never markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json, Kernel
from ncubble.cli.terminal import console, emit_json, has_width
from ncubble.text.markup import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.gate.history import History
    from ncubble.analysis.gate.trend import LevelShift, TrendSeries

_STYLES = {"worse": "bold red", "better": "bold green", "moved": "bold yellow"}
_SIGNS = {"worse": "▼ worse", "better": "▲ better", "moved": "◆ moved"}
_NARROWEST = 40


def trend(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="History written by `ncubble check` (default: the project's, or ./checks)."),
    ] = None,
    kernel: Kernel = "",
    everything: Annotated[bool, typer.Option("--all", help="Also show metrics that are not gated.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only series with a change.")] = False,
    as_json: Json = False,
) -> None:
    """Find lasting changes of a metric: when, at which commit, by how much, and with which
    confidence. A change of GPU, driver or ncu is reported as such and not attributed to the kernel.
    Exit code 0: the history was read, whatever changed; 2: there is no history; 3: no kernel
    matches, or a line of the history cannot be read (the rest is shown).
    """
    import ncubble
    from ncubble.analysis.gate import trend as trends

    found = ncubble.trend(folder, kernel=kernel, everything=everything)
    history = found.history
    for problem in history.problems:
        typer.echo(f"ncubble: {problem.name}: {problem.error}\n  remedy: {problem.remedy}", err=True)
    shown = [item for item in found.series if not changed or item.changes or item.boundaries or item.odd]
    if as_json:
        emit_json(trends.as_json(history, shown))
    elif found.series:
        _print(shown, found.series, history)
    if history.problems:
        raise typer.Exit(3)


def _print(shown: Sequence[TrendSeries], searched: Sequence[TrendSeries], history: History) -> None:
    """A table of the series with the last event of each, then all events in chronological order; or
    that nothing changed. Notes say what could not be determined."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    out.width = max(out.width, _NARROWEST)
    if not shown:
        out.print(Text(f"no change in {len(searched)} series"))
    for label in dict.fromkeys(map(_label, shown)):
        out.print(Text(label, style="bold"))
        own = [item for item in shown if _label(item) == label]
        out.print(Padding(_overview(own), (0, 0, 0, 2)))
    for item in shown:
        if events := list(_events(item)):
            out.print(Text(f"\n{_label(item)}: {printable(item.last.metric.name)}", style="bold"))
            for event in events:
                _print_event(event, out)
    if shown:
        out.print()
    for note in _notes(shown or searched, history):
        out.print(Text(note))


def _print_event(event: Text, out: Console) -> None:
    """One line in a pipe without COLUMNS, else wrapped."""
    from rich.padding import Padding
    from rich.text import Text

    if has_width():
        out.print(Padding(event, (0, 0, 0, 2)))
    else:
        out.print(Text("  ") + event, soft_wrap=True)


def _overview(series: Sequence[TrendSeries]) -> Table:
    """A row for each series of a kernel."""
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.gate.output import number

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("metric", "level now", "checks", "last change"):
        table.add_column(name, justify="right" if name in ("level now", "checks") else "left", overflow="fold")
    for item in series:
        metric = item.last.metric
        last = Text("none" if item.enough else "too few checks", style="dim")
        if item.changes:
            change = item.changes[-1]
            day = f"{item.checks[change.index].check.checked:%Y-%m-%d}"
            last = Text(f"{_size(item, change)} on {day}", style=_STYLES[change.direction])
        level = f"{number(item.level)} {printable(metric.unit)}".strip()
        table.add_row(printable(metric.name), level, str(len(item.checks)), last)
    return table


def _label(series: TrendSeries) -> str:
    kernel = series.last.kernel
    return printable(f"{kernel.label} · {kernel.device}" if kernel.device else kernel.label)


def _size(series: TrendSeries, change: LevelShift) -> str:
    return f"{_SIGNS[change.direction]} {printable(change.size(series.last.metric.unit))}"


def _events(series: TrendSeries) -> Iterator[Text]:
    """One line per change, boundary and outlier."""
    from rich.text import Text

    from ncubble.analysis.gate.output import number
    from ncubble.analysis.gate.trend import mean_of, short

    def commit(index: int) -> str:
        return short(series.checks[index].sha) or "an unknown commit"

    events: list[tuple[int, Text]] = []
    for change in series.changes:
        sized = Text(_size(series, change), style=_STYLES[change.direction])
        wide = f"({change.interval}) " if change.interval else ""
        between = ""
        if change.first != change.last:
            between = f"; it lies between {commit(change.first - 1)} and {commit(change.last)}"
        words = f"{wide}at {series.commits(change)}, confidence {change.confidence}{between}"
        events.append((change.index, Text.assemble(sized, " ", printable(words))))
    for boundary in series.boundaries:
        moved = "" if boundary.change_pct is None else f"; the value moved by {boundary.change_pct:+.2f} % there"
        events.append((boundary.index, Text(printable(f"│ new: {boundary.words}{moved}"))))
    for index in series.odd:
        value = f"{number(mean_of(series.checks[index]))} {series.last.metric.unit}"
        events.append((index, Text(printable(f"○ one outlier of {value} at {commit(index)}"))))
    for index, text in sorted(events, key=lambda pair: pair[0]):
        yield Text(f"{series.checks[index].check.checked:%Y-%m-%d %H:%M}  ", style="dim") + text


def _notes(series: Sequence[TrendSeries], history: History) -> Iterator[str]:
    from ncubble.analysis.gate.steps import LEAST_POINTS

    if history.left_out:
        yield f"{history.left_out:,} older checks of the history were not read"
    if again := sum(item.again for item in series):
        yield f"{again} values come from reports that were checked before, and count once"
    if few := sum(not item.enough for item in series):
        have = "has" if few == 1 else "have"
        yield f"{few} series {have} fewer than {LEAST_POINTS} checks: too few to detect a change"
    if any(item.boundaries for item in series):
        yield "changes that came with a new GPU, driver, ncu or counter are not attributed to the kernel"
