"""Tables in a terminal: columns fit their content without breaking words; if that is too wide, one
block per row."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ncubble.cli.render import printable

GAP = 2
NARROWEST = 20
"""Columns that the values of a block have at least."""
TIED = "\N{NO-BREAK SPACE}"
"""Stands between a number and its unit while lines are broken; it is printed as a space."""
_PIECES = re.compile(r"(?:[^ \t\n_/,-]|(?<=\d)[,-](?=\d))*[ \t\n_/,-]?")
"""What stays in one line: words, or parts of a word; numbers and dates are whole."""
_DIGITS = 6


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


def cell(value: Any) -> str:
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


def wrapped(line: str, width: int) -> list[str]:
    """``line`` in lines of at most ``width`` where it is longer; further ones are indented."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
