"""The page of a validation: its result as JSON, its tables and notes as generated blocks between the markers of
docs/validation/README.md, and its plots as small SVG files; or the tables in a terminal.

matplotlib is imported only where a figure is made. Figures are the same for the same data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from benchmarks.harness.blocks import fill
from ncubble.cli.terminal import printable, table_lines, wrapped
from ncubble.errors import UsageError
from ncubble.text.values import fixed

Result = Mapping[str, Any]
"""JSON object of a validation, or of a part of it."""
NOTHING = "–"
MET, MISSED = "met", "missed"
STYLES = {MET: "green", MISSED: "red"}
PAGE = "README.md"
DIGITS = 3
"""Decimals in the JSON file: keeps it small and stable."""


@dataclass(frozen=True)
class Table:
    """``name`` is its place in the page. Columns but the first ``texts`` are numbers, aligned right."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    texts: int = 1


def number(value: float | None, digits: int = 1) -> str:
    """``value`` rounded, without a negative zero; ``–`` where there is none."""
    return fixed(value, digits, NOTHING)


def verdict(target: Result | None) -> str:
    """Whether a target was met; ``–`` where there is none, or nothing tells."""
    if target is None or target["met"] is None:
        return NOTHING
    return MET if target["met"] else MISSED


def markdown(table: Table) -> str:
    """The table in Markdown, without its title; ``None.`` where it has no rows."""
    if not table.rows:
        return "None."
    rule = ["---"] * table.texts + ["---:"] * (len(table.header) - table.texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (table.header, rule, *table.rows))


def print_tables(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print every table under its title, then notes."""
    out = Console(highlight=False)
    for table in tables:
        for line in wrapped(table.title, out.width):
            out.print(Text(line, style="bold"))
        rows = [[printable(cell) for cell in row] for row in table.rows]
        right = [index >= table.texts for index in range(len(table.header))]
        for place, line in table_lines(table.header, rows, right, out.width):
            text = Text(line, style="dim" if place < 0 else "")
            for word, style in STYLES.items():
                text.highlight_words([word], style)
            out.print(text, soft_wrap=True)
        out.print()
    for note in notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))


def blocks(result: Result, tables: Sequence[Table], notes: Sequence[str]) -> dict[str, str]:
    """Markdown by the name of its block, ``VALIDATION-TABLE``; ``VALIDATION-origin`` says what was measured on what,
    and lists the notes. Of several sets, ``origins``, the notes say it."""
    name = result["validation"]
    head = [] if "origins" in result else [origin(result), ""]
    sources = "\n".join([*head, *(f"- {note}" for note in notes)]).rstrip()
    return {f"{name}-origin": sources, **{f"{name}-{table.name}": markdown(table) for table in tables}}


def origin(result: Result) -> str:
    """Where the measurements come from, in one sentence: of many runs, or of one."""
    device = result.get("device") or {}
    driver = f" (driver {device['driver']})" if device.get("driver") else ""
    on = f"Measured on {device.get('name') or 'an unknown GPU'}{driver}"
    by = f" with ncu {result['ncu_version']}" if result.get("ncu_version") else ""
    days, commits = list(result.get("days", ())), list(result.get("commits", ()))
    if "commits" not in result:
        days = [str(result["started"])[:10]] if result.get("started") else []
        commits = [str(sha)] if (sha := (result.get("git") or {}).get("sha")) else []
    at = f" on {' and '.join(days)}" if days else ""
    of = f", by commit{'s' if len(commits) > 1 else ''} {', '.join(sha[:12] for sha in commits)}" if commits else ""
    return f"{on}{by}{at}{of}."


def write(folder: Path, result: Result, contents: Mapping[str, str]) -> None:
    """``VALIDATION.json`` in ``folder``, and the blocks of the page there. Raises UsageError where there is no page."""
    page = folder / PAGE
    if not page.is_file():
        raise UsageError(f"{page}: no such page", "use the folder of a page with markers: docs/validation")
    text = fill(page.read_text(encoding="utf-8"), contents)
    (folder / f"{result['validation']}.json").write_text(as_json(result), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def as_json(result: Result) -> str:
    """The result as the file holds it, without ``rows``, which are what the recordings hold."""
    without_rows = rounded({key: value for key, value in result.items() if key != "rows"})
    return json.dumps(without_rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def rounded(value: Any) -> Any:
    """``value`` with every float rounded to ``DIGITS``, at any depth, and without negative zeros."""
    match value:
        case float():
            return round(value, DIGITS) + 0.0
        case Mapping():
            return {key: rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [rounded(item) for item in value]
        case _:
            return value
