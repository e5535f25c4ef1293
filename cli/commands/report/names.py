"""Long names in a narrow column."""

from __future__ import annotations

import re

from rich.text import Text

_PIECES = re.compile(r"\s*[^\s_,:<>()-]*(?:[_,:<>()-]+|(?=\s)|$)")
"""Words with the space before them, and with the marks after which a line may end."""


def folded(text: Text, cells: int) -> Text:
    """``text`` in lines of at most ``cells``, which end behind a word, ``_`` or another mark; a
    piece that is longer stays whole."""
    breaks, used = [], 0
    for piece in _PIECES.finditer(text.plain):
        if used and used + len(piece[0]) > cells:
            breaks.append(piece.start())
            used = 0
        used += len(piece[0])
    lines = text.divide(breaks)
    for line in lines[1:]:
        stripped = len(line.plain) - len(line.plain.lstrip())
        line.plain, line.spans = line.plain[stripped:], [span.move(-stripped) for span in line.spans]
    return Text("\n").join(lines)
