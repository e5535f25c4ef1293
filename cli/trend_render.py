"""How the trend looks in a terminal. Names of kernels are shown as plain text, never as markup."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.gate_output import number
from ncubble.analysis.history_file import History
from ncubble.analysis.markdown import printable
from ncubble.analysis.steps import LEAST_POINTS
from ncubble.analysis.trend import Change, Series
from ncubble.analysis.trend_output import changed, commits, confidence, interval, short, size

_STYLES = {"worse": "bold red", "better": "bold green", "moved": "bold yellow"}
_SIGNS = {"worse": "▼ worse", "better": "▲ better", "moved": "◆ moved"}
_LEAST_WIDTH, _PIPED_WIDTH = 120, 150


def print_series(series: Sequence[Series], history: History) -> None:
    """A table of the series with what happened to each last; then everything that happened, in order of time."""
    console = _console()
    console.print(_overview(series))
    for one in series:
        if events := list(_events(one)):
            console.print(Text(f"\n{_label(one)}: {printable(one.metric)}", style="bold"))
            for event in events:
                console.print(Text("  ") + event, soft_wrap=True)
    console.print()
    for note in _notes(series, history):
        console.print(Text(note))


def _overview(series: Sequence[Series]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kernel", overflow="fold", ratio=1)
    table.add_column("metric", no_wrap=True)
    for name in ("level now", "checks"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last change", no_wrap=True)
    for one in series:
        level = f"{number(one.level)} {printable(one.unit)}".strip()
        cells = [_label(one), printable(one.metric), level, str(len(one.checks))]
        table.add_row(*map(Text, cells), _last(one))
    return table


def _label(one: Series) -> str:
    return printable(f"{one.label} · {one.device}" if one.device else one.label)


def _last(one: Series) -> Text:
    if not one.changes:
        return Text("none" if one.enough else "too few checks", style="dim")
    change = one.changes[-1]
    return Text(f"{_size(one, change)} on {one.checks[change.index].checked:%Y-%m-%d}", style=_STYLES[change.direction])


def _size(one: Series, change: Change) -> str:
    return f"{_SIGNS[change.direction]} {printable(size(change, one.unit))}"


def _events(one: Series) -> Iterator[Text]:
    """One line for each change, boundary and odd check."""
    found: list[tuple[int, Text]] = []
    for change in one.changes:
        sized = Text(_size(one, change), style=_STYLES[change.direction])
        wide = f"({interval(change)}) " if interval(change) else ""
        told = f"{wide}at {commits(one, change)}, {confidence(change)} sure{_between(one, change)}"
        found.append((change.index, Text.assemble(sized, " ", printable(told))))
    for boundary in one.boundaries:
        moved = "" if boundary.change_pct is None else f"; the value moved by {boundary.change_pct:+.2f} % there"
        found.append((boundary.index, Text(printable(f"│ new: {changed(boundary)}{moved}"))))
    for index in one.odd:
        value = f"○ one odd check of {number(one.checks[index].mean)} {one.unit} at {_commit(one, index)}"
        found.append((index, Text(printable(value))))
    for index, text in sorted(found, key=lambda pair: pair[0]):
        yield Text(f"{one.checks[index].checked:%Y-%m-%d %H:%M}  ", style="dim") + text


def _between(one: Series, change: Change) -> str:
    """Where else the change may lie, as far as checks tell; empty where its place is sure."""
    if change.first == change.last:
        return ""
    return f"; it lies between {_commit(one, change.first - 1)} and {_commit(one, change.last)}"


def _notes(series: Sequence[Series], history: History) -> Iterator[str]:
    if history.left_out:
        yield f"{history.left_out:,} older rows of the history were not read"
    if again := sum(one.again for one in series):
        yield f"{again} values came of reports that had been checked before, and count once"
    if few := sum(not one.enough for one in series):
        yield f"{few} series have fewer than {LEAST_POINTS} checks: no change can be told yet"
    boundaries = sum(len(one.boundaries) for one in series)
    if boundaries:
        yield "what moved with a new GPU, driver, ncu or counter is not put down to the kernel"


def _commit(one: Series, index: int) -> str:
    return short(one.checks[index].sha) or "an unknown commit"


def print_nothing(history: History) -> None:
    """What to do where no series is to be shown."""
    console = _console()
    if len(history.table):
        console.print(Text(f"{history.folder}: no series matches; leave out --kernel or --changed, or add --all"))
        return
    console.print(Text(f"{history.folder}: no check is recorded there"))
    console.print(Text("every `ncubble check RUN…` adds its result; name its folder with `ncubble trend DIR`"))


def _console() -> Console:
    """As wide as the terminal, and wide enough for a row where there is none."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    return console if console.width >= _LEAST_WIDTH else Console(highlight=False, width=_LEAST_WIDTH)
