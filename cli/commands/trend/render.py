"""Prints trends in a terminal. Kernel names are plain text, never markup."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ncubble.analysis.gate.output import number
from ncubble.analysis.history.file import History
from ncubble.analysis.history.output import changed, commits, confidence, interval, short, size
from ncubble.analysis.history.steps import LEAST_POINTS
from ncubble.analysis.history.trend import LevelShift, TrendSeries
from ncubble.text.markup import printable

_STYLES = {"worse": "bold red", "better": "bold green", "moved": "bold yellow"}
_SIGNS = {"worse": "▼ worse", "better": "▲ better", "moved": "◆ moved"}
_PIPED_WIDTH = 150
_WIDE = 120
"""Terminal width from which kernels get a column of their own; below it, a line."""
_NARROWEST = 40


def print_series(series: Sequence[TrendSeries], history: History) -> None:
    """Print a table of the series with the last event of each; then all events in chronological
    order."""
    console = _console()
    if console.width >= _WIDE:
        console.print(_overview(series, kernels=True))
    else:
        _print_narrow(series, console)
    for item in series:
        if events := list(_events(item)):
            console.print(Text(f"\n{_label(item)}: {printable(item.metric)}", style="bold"))
            for event in events:
                _print_event(event, console)
    console.print()
    for note in _notes(series, history):
        console.print(Text(note))


def _print_event(event: Text, console: Console) -> None:
    """One line in a pipe without COLUMNS, else wrapped."""
    if _stated_width():
        console.print(Padding(event, (0, 0, 0, 2)))
    else:
        console.print(Text("  ") + event, soft_wrap=True)


def _print_narrow(series: Sequence[TrendSeries], console: Console) -> None:
    """A heading for each kernel, and its metrics below."""
    for label in dict.fromkeys(map(_label, series)):
        console.print(Text(label, style="bold"))
        console.print(
            Padding(_overview([item for item in series if _label(item) == label], kernels=False), (0, 0, 0, 2))
        )


def _overview(series: Sequence[TrendSeries], kernels: bool) -> Table:
    """A row for each series; with ``kernels`` each names its own."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    if kernels:
        table.add_column("kernel", overflow="fold", ratio=1)
    table.add_column("metric", overflow="fold", no_wrap=kernels)
    for name in ("level now", "checks"):
        table.add_column(name, justify="right", overflow="fold", no_wrap=kernels)
    table.add_column("last change", overflow="fold", no_wrap=kernels)
    for item in series:
        level = f"{number(item.level)} {printable(item.unit)}".strip()
        cells = [_label(item)] * kernels + [printable(item.metric), level, str(len(item.checks))]
        table.add_row(*map(Text, cells), _last(item))
    return table


def _label(series: TrendSeries) -> str:
    return printable(f"{series.label} · {series.device}" if series.device else series.label)


def _last(series: TrendSeries) -> Text:
    if not series.changes:
        return Text("none" if series.enough else "too few checks", style="dim")
    change = series.changes[-1]
    return Text(
        f"{_size(series, change)} on {series.checks[change.index].checked:%Y-%m-%d}", style=_STYLES[change.direction]
    )


def _size(series: TrendSeries, change: LevelShift) -> str:
    return f"{_SIGNS[change.direction]} {printable(size(change, series.unit))}"


def _events(series: TrendSeries) -> Iterator[Text]:
    """One line per change, boundary and outlier."""
    events: list[tuple[int, Text]] = []
    for change in series.changes:
        sized = Text(_size(series, change), style=_STYLES[change.direction])
        wide = f"({interval(change)}) " if interval(change) else ""
        words = f"{wide}at {commits(series, change)}, confidence {confidence(change)}{_between(series, change)}"
        events.append((change.index, Text.assemble(sized, " ", printable(words))))
    for boundary in series.boundaries:
        moved = "" if boundary.change_pct is None else f"; the value moved by {boundary.change_pct:+.2f} % there"
        events.append((boundary.index, Text(printable(f"│ new: {changed(boundary)}{moved}"))))
    for index in series.odd:
        value = f"○ one outlier of {number(series.checks[index].mean)} {series.unit} at {_commit(series, index)}"
        events.append((index, Text(printable(value))))
    for index, text in sorted(events, key=lambda pair: pair[0]):
        yield Text(f"{series.checks[index].checked:%Y-%m-%d %H:%M}  ", style="dim") + text


def _between(series: TrendSeries, change: LevelShift) -> str:
    """Other possible positions of the change; empty if its position is certain."""
    if change.first == change.last:
        return ""
    return f"; it lies between {_commit(series, change.first - 1)} and {_commit(series, change.last)}"


def _notes(series: Sequence[TrendSeries], history: History) -> Iterator[str]:
    if history.left_out:
        yield f"{history.left_out:,} older rows of the history were not read"
    if again := sum(item.again for item in series):
        yield f"{again} values come from reports that were checked before, and count once"
    if few := sum(not item.enough for item in series):
        have = "has" if few == 1 else "have"
        yield f"{few} series {have} fewer than {LEAST_POINTS} checks: too few to detect a change"
    boundaries = sum(len(item.boundaries) for item in series)
    if boundaries:
        yield "changes that came with a new GPU, driver, ncu or counter are not attributed to the kernel"


def _commit(series: TrendSeries, index: int) -> str:
    return short(series.checks[index].sha) or "an unknown commit"


def print_unchanged(series: Sequence[TrendSeries], history: History) -> None:
    """State that nothing changed in ``series``, and what could not be determined."""
    console = _console()
    console.print(Text(f"no change in {len(series)} series"))
    for note in _notes(series, history):
        console.print(Text(note))


def _stated_width() -> int:
    """Columns from ``COLUMNS``, else of the terminal; 0 in a pipe without it."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    return shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns if sys.stdout.isatty() else 0


def _console() -> Console:
    return Console(highlight=False, width=max(_stated_width() or _PIPED_WIDTH, _NARROWEST))
