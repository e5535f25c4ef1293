"""What commands print: JSON on stdout, tables and lines that fit the terminal, notes and progress on
stderr, and files beside them.

Every command may import this: nothing in it takes time to import.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ncubble.profiling.session import Observer
    from ncubble.records import JsonObject

GAP = 2
PIPED_WIDTH = 150
NARROWEST = 20
"""Columns that the values of a block have at least."""
TIED = "\N{NO-BREAK SPACE}"
"""Stands between a number and its unit while lines are broken; it is printed as a space."""
_PIECES = re.compile(r"(?:[^ \t\n_/,-]|(?<=\d)[,-](?=\d))*[ \t\n_/,-]?")
"""What stays in one line: words, or parts of a word; numbers and dates are whole."""
_DIGITS = 6
LARGEST_B = 4096
"""Maximum bytes of an answer as JSON: at most 2,000 tokens in the questions of
``benchmarks.answers``."""
LONGEST_TEXT = 300
"""Maximum length of a string, if the answer is too large."""


def emit_json(value: object) -> None:
    """Print one JSON object to stdout. NaN and infinities become null: they are not JSON."""
    from ncubble.text.values import finite

    sys.stdout.write(json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def drop_output() -> None:
    """Let stdout lead nowhere: what could not be written is tried again at the end, and would change the exit code."""
    with suppress(OSError, ValueError, AttributeError):  # a closed stdout is None
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """``text`` on one line, without control characters and not longer than any line needs to be: names in a report
    must not steer the terminal."""
    from ncubble.text.markup import LONGEST

    text = cut(text, LONGEST)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int
) -> Iterator[tuple[int, str]]:
    """The lines of a table, each with the number of its row (-1: the header), within ``width`` columns unless a single
    word is wider. ``right``: which columns stand at their right end."""
    widths = fitting([[name, *(row[index] for row in rows)] for index, name in enumerate(header)], width)
    if widths is None:
        yield from _blocks(header, rows, width)
        return
    for number, row in enumerate([header, *rows], -1):
        parts = [folded(text, size) for text, size in zip(row, widths, strict=True)]
        for line in range(max(map(len, parts), default=0)):
            texts = [part[line] if line < len(part) else "" for part in parts]
            padded = [
                text.rjust(size) if at_right else text.ljust(size)
                for text, size, at_right in zip(texts, widths, right, strict=True)
            ]
            yield number, (" " * GAP).join(padded).rstrip()


def _blocks(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[tuple[int, str]]:
    wide = max(map(len, header), default=0)
    for number, row in enumerate(rows):
        if number:
            yield number, ""
        for name, text in zip(header, row, strict=True):
            for line, part in enumerate(folded(text, max(width - wide - GAP, NARROWEST))):
                yield number, f"{name if not line else '':<{wide + GAP}}{part}".rstrip()


def fitting(columns: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """A width for each column of texts so that all fit ``width``: what they need, or less for the widest, down to
    their longest piece between blanks and ``_ / , -``. None where even these do not fit."""
    needed = [max(map(len, texts), default=0) for texts in columns]
    least = [max((len(piece) for text in texts for piece in _PIECES.findall(text)), default=0) for texts in columns]
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(needed) > room:
        spare = [index for index, low in enumerate(least) if needed[index] > low]
        needed[max(spare, key=lambda index: needed[index])] -= 1
    return needed


def folded(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width``, broken between its pieces."""
    lines = [""]
    for piece in filter(None, _PIECES.findall(text)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip().replace(TIED, " ") for line in lines]


def tied(text: str) -> str:
    """``text`` as a piece that is not broken."""
    return text.replace(" ", TIED)


def cut(text: str, cells: int, least: int = 4) -> str:
    """``text`` in at most ``cells``, with … for what is cut off; empty where fewer than ``least`` are
    left for it."""
    if len(text) <= cells:
        return text
    return text[: cells - 1].rstrip() + "…" if cells >= least else ""


def cell(value: object) -> str:
    """A value in plain digits: six of them, all of a larger number, no exponent from 0.001 on; – for nothing."""
    if value is None or value == []:
        return "–"
    if not isinstance(value, float):
        return printable(str(value))
    if value != value or abs(value) == float("inf") or 0 < abs(value) < 1e-3:
        return f"{value:.4g}"
    return f"{value:.0f}" if abs(value) >= 10**_DIGITS else f"{value:.{_DIGITS}g}"


def terminal_width() -> int:
    """Width from COLUMNS, else of the terminal; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns


def has_width() -> bool:
    """Whether COLUMNS or a terminal tells how wide stdout is; a pipe alone does not."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def console(piped: int = PIPED_WIDTH) -> Console:
    """A console as wide as the terminal, or as COLUMNS says, else ``piped``."""
    from rich.console import Console

    return Console(highlight=False, width=None if has_width() else piped)


def wrapped(line: str, width: int) -> list[str]:
    """``line`` in lines of at most ``width`` where it is longer; further ones are indented, as the text
    of an item is."""
    if len(line) <= width:
        return [line]
    indent = re.match(r" *(\d+\. )?", line)[0] or "  "  # type: ignore[index]
    return textwrap.wrap(
        line, width, subsequent_indent=" " * len(indent), break_long_words=False, break_on_hyphens=False
    )


def fitted(answer: JsonObject, more: str, largest: int = LARGEST_B) -> JsonObject:
    """``answer`` truncated to at most ``largest`` bytes of JSON. ``more`` states how to get the
    rest. Modifies the lists of ``answer``."""
    if size(answer) <= largest:
        return answer
    answer["more"] = more
    while size(answer) > largest and (longest := max(_lists(answer), key=size, default=None)):
        longest.pop()
    if size(answer) > largest:
        answer = {key: _shortened(value) for key, value in answer.items()}
    for key in sorted(set(answer) - {"more"}, key=lambda key: -size(answer[key])):
        if size(answer) <= largest:
            break
        del answer[key]
    return answer


def size(value: object) -> int:
    """Size of ``value`` in bytes, as sent to the client."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode(errors="replace"))


def _lists(value: object) -> Iterator[list[object]]:
    """All non-empty lists in it."""
    if isinstance(value, list) and value:
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return value[: LONGEST_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    return value


def refuse_foreign(file: Path | None, mark: str) -> None:
    """Raise UsageError if ``file`` exists without ``mark`` in its head: only earlier output of the
    same command may be replaced."""
    if file is None or not file.exists():
        return
    try:
        head = file.read_bytes()[:400] if file.is_file() else b""
    except OSError as error:
        raise UsageError(f"{file}: exists and cannot be read ({error})", "choose another name") from error
    if not file.is_file() or (head and mark.encode() not in head):
        raise UsageError(f"{file}: exists, but was not written by ncubble", "choose another name")


def write_text(file: Path, text: str) -> None:
    """Write ``text``, creating the folder if needed; raises UsageError on failure."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})", "choose another name") from error


class _Line(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """One line without control characters: the names of files and kernels are part of it."""
        return f"ncubble: {printable(record.getMessage())}"


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at that moment: a progress bar that is being drawn takes it over."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(_Line())

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def show_notes() -> None:
    """Print the warnings of all rooms from now on. A second call does nothing."""
    logger = logging.getLogger("ncubble")
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        logger.addHandler(_Stderr())


@contextmanager
def reading(what: str = "reading reports") -> Iterator[Callable[[int, int], None]]:
    """Yields what is called with the number of those that are done, and of all; ``what`` stands before the bar.
    Nothing is drawn, not even an empty line, where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _EndedError(Exception):
    """A signal ended the block; its number."""


@contextmanager
def ended_by_signals(kept: str = "nothing was kept") -> Iterator[None]:
    """Turn SIGTERM, SIGHUP and SIGINT into an exception in the block, so that it cleans up, and
    exit with 143, 129 or 130. ``kept``: what came of what it made."""

    def terminate(number: int, frame: object) -> None:
        raise _EndedError(number)

    # What nohup has silenced stays so.
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, terminate) for number in heard}
    try:
        yield
    except (KeyboardInterrupt, _EndedError) as ended:
        number = ended.args[0] if isinstance(ended, _EndedError) else signal.SIGINT
        typer.echo(f"ncubble: interrupted; {kept}", err=True)
        raise typer.Exit(128 + number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(sentence: str) -> None:
    """Write a sentence to stderr."""
    typer.echo(sentence, err=True)


@contextmanager
def passing_on() -> Iterator[Observer]:
    """Signals end the block, and leave nothing behind. Yields who writes what a recording says, and
    what its program prints, to stderr as it comes: stdout is for the result."""
    from ncubble.profiling.session import Observer

    def output(stream: str, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    with ended_by_signals():
        yield Observer(output=output, say=say)


@contextmanager
def recording(kept: str = "nothing was kept") -> Iterator[Observer]:
    """Signals end the block, and leave nothing behind. Yields who shows on stderr what a recording
    does, and what its program prints."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from ncubble.profiling.session import Observer

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with ended_by_signals(kept), shown as progress:
        task = progress.add_task("starting the program")

        def output(stream: str, text: str) -> None:
            end = "\n" if console.is_terminal and not text.endswith("\n") else ""
            console.print(text, end=end, style="dim", markup=False, highlight=False, soft_wrap=True)

        yield Observer(lambda text: progress.update(task, description=escape(text)), output, say)
