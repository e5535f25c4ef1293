"""Tables of a validation as text: printed by the command, and put into the page as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ncubble.text.values import fixed

NOTHING = "–"
MET, MISSED = "met", "missed"


@dataclass(frozen=True)
class Table:
    """``name`` is its place in the page. Columns but the first ``texts`` are numbers, aligned
    right."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    texts: int = 1


def number(value: float | None, digits: int = 1) -> str:
    """``value`` rounded, without a negative zero; ``–`` where there is none."""
    return fixed(value, digits, NOTHING)


def verdict(target: dict[str, Any] | None) -> str:
    """Whether a target was met; ``–`` where there is none."""
    if target is None:
        return NOTHING
    return MET if target["met"] else MISSED


def markdown(table: Table) -> str:
    """The table in Markdown, without its title; ``None.`` where it has no rows."""
    if not table.rows:
        return "None."
    rule = ["---"] * table.texts + ["---:"] * (len(table.header) - table.texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (table.header, rule, *table.rows))
