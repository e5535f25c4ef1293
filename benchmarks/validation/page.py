"""The page of a validation: its result as JSON, and its tables and notes as generated blocks
between the markers of a README.

A block stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``; what is around it is
written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.errors import UsageError
from ncubble.text.values import fixed

Result = Mapping[str, Any]
"""JSON object of a validation, or of a part of it (docs/reference/validations.md)."""
NOTHING = "–"
MET, MISSED = "met", "missed"
PAGE = "README.md"
DIGITS = 3
"""Decimals in the JSON file: keeps it small and stable."""


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


def blocks(result: Result, tables: Sequence[Table], notes: Sequence[str]) -> dict[str, str]:
    """Markdown by the name of its block, ``VALIDATION-TABLE``; ``VALIDATION-origin`` says what was
    measured on what, and lists the notes. Of several sets, ``origins``, the notes say it."""
    name = result["validation"]
    head = [] if "origins" in result else [origin(result), ""]
    sources = "\n".join([*head, *(f"- {note}" for note in notes)]).rstrip()
    return {f"{name}-origin": sources, **{f"{name}-{table.name}": markdown(table) for table in tables}}


def origin(result: Result) -> str:
    """Where the measurements come from, in one sentence."""
    device = result.get("device") or {}
    driver = f" (driver {device['driver']})" if device.get("driver") else ""
    on = f"Measured on {device.get('name') or 'an unknown GPU'}{driver}"
    by = f" with ncu {result['ncu_version']}" if result.get("ncu_version") else ""
    days, commits = _of_runs(result)
    at = f" on {' and '.join(days)}" if days else ""
    of = f", by commit{'s' if len(commits) > 1 else ''} {', '.join(sha[:12] for sha in commits)}" if commits else ""
    return f"{on}{by}{at}{of}."


def _of_runs(result: Result) -> tuple[list[str], list[str]]:
    """Days and commits of what was measured: of many runs, or of one."""
    if "commits" in result:
        return list(result["days"]), list(result["commits"])
    started, sha = result.get("started"), (result.get("git") or {}).get("sha")
    return [str(started)[:10]] if started else [], [str(sha)] if sha else []


def fill(text: str, contents: Mapping[str, str]) -> str:
    """``text`` with every block between its markers. Raises UsageError where a pair of markers is
    not there once."""
    for name, block in contents.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        head, opened, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not opened or not closed or begin in tail or end in tail:
            raise UsageError(
                f"block {name!r}: its markers are missing or repeated", f"write {begin.strip()} and {end} exactly once"
            )
        text = f"{head}{begin}{block}\n{end}{tail}"
    return text


def write(folder: Path, result: Result, contents: Mapping[str, str]) -> None:
    """``VALIDATION.json`` in ``folder``, and the blocks of the page there. Raises UsageError where
    there is no page."""
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
    """``value`` with every float rounded to ``DIGITS``, at any depth, and without negative
    zeros."""
    match value:
        case float():
            return round(value, DIGITS) + 0.0
        case Mapping():
            return {key: rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [rounded(item) for item in value]
        case _:
            return value
