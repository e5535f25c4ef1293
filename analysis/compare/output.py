"""A comparison as Markdown for a merge request, and as JSON (docs/reference/compare.md). Pure.

Names of kernels, files and stall reasons come out of reports: they stand in Markdown as text, never
as markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ncubble.analysis.compare.compare import Change, CompareResult, Comparison, Row
from ncubble.analysis.compare.sides import Group, letter
from ncubble.analysis.compare.text import (
    IN_FULL,
    Line,
    about,
    cells,
    headings,
    lines,
    sentences,
    share_words,
    spread,
    summaries,
    titles,
)
from ncubble.text.markup import code, escape

SCHEMA = 1
MARK = "<!-- ncubble compare -->"


def markdown(outcome: CompareResult, errors: Iterable[tuple[str, str]] = ()) -> str:
    """The whole comparison for a merge request; beyond ``IN_FULL`` a summary, and the tables folded
    away."""
    texts = [MARK, "### ncubble compare", ""]
    folded = len(outcome.comparisons) > IN_FULL
    summed = summaries(outcome.comparisons)
    if folded:
        texts += [*_summary(summed), ""]
    for comparison, (title, _) in zip(outcome.comparisons, summed, strict=True):
        texts += _folded(title, comparison) if folded else _full(comparison)
    for left in outcome.leftovers:
        group = left.group
        texts.append(f"- {letter(left.side)}: {code(group.title)}, {escape(about(group))}: {escape(left.reason)}")
    texts += [f"- could not read {code(file)}: {escape(error)}" for file, error in errors]
    return "\n".join(texts).rstrip() + "\n"


def _summary(summed: Sequence[tuple[str, list[str]]]) -> list[str]:
    rows = [f"| {code(title)} | {'<br>'.join(words)} |" for title, words in summed]
    return ["| kernel | compared |", "| --- | --- |", *rows]


def _folded(title: str, comparison: Comparison) -> list[str]:
    return ["<details>", f"<summary>{code(title)}</summary>", "", *_full(comparison), "</details>", ""]


def _full(comparison: Comparison) -> list[str]:
    sides = zip(comparison.sides, titles(comparison.sides), strict=True)
    parts = [
        f"- **{letter(index)}** {code(title)}, {escape(about(side))}, {code(side.first.report)}"
        for index, (side, title) in enumerate(sides)
        if side
    ]
    parts += ["", *sentences(comparison), ""]
    for name, section in ((spread(comparison), "launch"), (share_words(comparison), "account")):
        parts += _table(name, lines(comparison, section), comparison)
    if stalls := lines(comparison, "stalls"):
        parts += ["<details>", "<summary>stall reasons</summary>", "", *_table("% of warp samples", stalls, comparison)]
        parts += ["</details>", ""]
    return [*parts, *(f"- {escape(note)}" for note in comparison.notes), ""]


def _table(name: str, shown: Sequence[Line], comparison: Comparison) -> list[str]:
    if not shown:
        return []
    head = headings(comparison)
    rows = [f"| {' | '.join([name or ' ', *head])} |", f"| --- |{' ---: |' * len(head)}"]
    rows += [f"| {' | '.join((escape(line.name), *cells(line, comparison)))} |" for line in shown]
    return [*rows, ""]


def as_json(outcome: CompareResult, paths: Sequence[str], errors: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """The object of ``ncubble compare --json``; a number that does not exist is None."""
    return {
        "schema": SCHEMA,
        "sides": [{"side": letter(index), "path": path} for index, path in enumerate(paths)],
        "comparisons": [_comparison_json(comparison) for comparison in outcome.comparisons],
        "unmatched": [{**_side_json(left.side, left.group), "reason": left.reason} for left in outcome.leftovers],
        "errors": [{"report": file, "error": error} for file, error in errors],
    }


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "sides": [_side_json(index, side) for index, side in enumerate(comparison.sides) if side],
        "sentences": sentences(comparison),
        "rows": [_row_json(row) for row in comparison.rows],
        "notes": list(comparison.notes),
        "measured": comparison.measured,
    }


def _side_json(index: int, group: Group) -> dict[str, Any]:
    launch = group.first
    return {
        "side": letter(index),
        "label": launch.label,
        "kernel": launch.kernel,
        "device": launch.device or None,
        "grid": launch.grid or None,
        "block": launch.block or None,
        "cause": launch.verdict.cause,
        "disease": launch.verdict.disease,
        "launches": [{"report": subject.report, "launch": subject.launch} for subject in group.subjects],
    }


def _row_json(row: Row) -> dict[str, Any]:
    values = [{"n": item.n, "mean": item.mean, "sd": _finite(item.sd)} if item else None for item in row.values]
    return {
        "section": row.section,
        "name": row.name,
        "unit": row.unit,
        "better": row.better,
        "values": values,
        "changes": [_change_json(item) if item else None for item in row.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "difference": change.difference,
        "pct": _finite(change.pct),
        "outcome": change.outcome or None,
        "decision_pct": _finite(change.decision_pct),
        "p_value": _finite(change.p_value),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
