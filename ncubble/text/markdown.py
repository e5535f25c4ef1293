"""Text from reports in Markdown, escaped so that it is never markup."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` on one line, every control, bidirectional or unencodable character replaced by
    U+FFFD."""
    one_line = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one_line)


def escape(text: str) -> str:
    """``text`` escaped for Markdown and HTML: all markup characters become entities."""
    return "".join(f"&#{ord(char)};" if char in "\\`*_{}[]()<>#+!|~&$:@\"'" else char for char in printable(text))


def code(text: str) -> str:
    """Like ``escape``, in a code element: prevents links and mentions."""
    return f"<code>{escape(text)}</code>"
