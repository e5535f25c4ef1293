"""Long names in a narrow column."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

_WORDS = re.compile(r"\s*\S+")
_PARTS = re.compile(r"\s*[^\s_,:<>()-]*(?:[_,:<>()-]+|$)")
"""Pieces of a word and the space before it, up to each mark that allows a line break."""


def folded(text: Text, cells: int) -> Text:
    """``text`` in lines of at most ``cells``, broken after words; longer words are broken after
    ``_`` or another mark."""
    breaks, used = [], 0
    for start, size in _pieces(text.plain, cells):
        if used and used + size > cells:
            breaks.append(start)
            used = 0
        used += size
    lines = text.divide(breaks)
    for line in lines[1:]:
        stripped = len(line.plain) - len(line.plain.lstrip())
        line.plain, line.spans = line.plain[stripped:], [span.move(-stripped) for span in line.spans]
    return Text("\n").join(lines)


def _pieces(text: str, cells: int) -> Iterator[tuple[int, int]]:
    """Start of each unbreakable piece, and its length including the space before it."""
    for word in _WORDS.finditer(text):
        parts = _PARTS.finditer(word[0]) if len(word[0].lstrip()) > cells else [re.match(r"(?s).*", word[0])]
        yield from ((word.start() + part.start(), len(part[0])) for part in parts if part and part[0])
