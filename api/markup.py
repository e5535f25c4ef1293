"""HTML of objects for notebooks, and their text for terminals. Texts from reports are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ncubble.analysis.account.parts import display_order, part_label, part_style
from ncubble.text.markup import printable

CELL = "text-align:left;white-space:nowrap"
NUMBER = "text-align:right;white-space:nowrap"


def safe(text: object) -> str:
    """``text`` escaped for HTML, without control characters."""
    return escape(printable(str(text)), quote=True)


def paragraph(text: str) -> str:
    """One paragraph of plain text."""
    return f"<p>{safe(text)}</p>"


def account_bar(account: Mapping[str, float], unit: str = "") -> str:
    """The account as a stacked bar, each part with its share as a tooltip; negative parts are
    omitted."""
    parts = [(name, account[name]) for name in display_order(account) if account[name] > 0]
    spans = "".join(
        f'<span title="{safe(part_label(name, unit))} {share:.1f} %" '
        f'style="flex:{share:.3f};background:{part_style(name).color}"></span>'
        for name, share in parts
    )
    return f'<div style="display:flex;height:14px;min-width:220px">{spans}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """HTML table of cells that are already HTML, with a plain-text head."""
    styles = [NUMBER if index in numeric else CELL for index in range(len(head))]
    top = "".join(f'<th style="{style}">{safe(text)}</th>' for text, style in zip(head, styles, strict=True))
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> str:
    return "".join(f'<td style="{style}">{cell}</td>' for cell, style in zip(row, styles, strict=True))


def columns(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = (), wide: int = 0) -> str:
    """Lines of a table for a terminal of 80 columns; the column ``wide`` is cut to the remaining
    width."""
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    sizes = [max(len(row[index]) for row in cells) for index in range(len(head))]
    sizes[wide] = max(8, min(sizes[wide], 80 - sum(sizes) + sizes[wide] - 2 * (len(sizes) - 1)))
    return "\n".join(
        "  ".join(
            _cut(cell, size).rjust(size) if index in numeric else _cut(cell, size).ljust(size)
            for index, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ).rstrip()
        for row in cells
    )


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
