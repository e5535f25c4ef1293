"""Text from reports in Markdown: shown as it stands, never taken for markup."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` on one line, every control, bidirectional or unencodable character replaced by
    U+FFFD."""
    one_line = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one_line)


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is: everything that either could read as markup
    becomes an entity."""
    return "".join(f"&#{ord(char)};" if char in "\\`*_{}[]()<>#+!|~&$:@\"'" else char for char in printable(text))


def code(text: str) -> str:
    """Like ``escape``, in a code element: no link is made of it and nobody is mentioned."""
    return f"<code>{escape(text)}</code>"
