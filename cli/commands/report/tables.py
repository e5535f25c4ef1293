"""The table of launches as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.diagnosis.groups import LaunchGroup
from ncubble.cli.commands.report.words import busy, duration, share, title, verdict_words
from ncubble.cli.labels import short_labels
from ncubble.text.markup import code, escape
from ncubble.text.values import fixed

COLUMNS = ("report", "launch", "launches", "label", "kernel", "device", "time_ns", "cycles", "sm_clock_hz", "unit")
VERDICT = ("busy_pct", "dram_pct", "cause", "disease")
MARK = "<!-- ncubble report -->"
LARGEST = 3
"""Bubbles listed in Markdown."""


def csv_text(groups: Sequence[LaunchGroup]) -> str:
    """A line per group: kernel and parameters, metrics, and the percent of every account part.
    Times in ns; empty if the report lacks the value."""
    text = io.StringIO()
    parts = [part for part in PARTS if any(part in (group.verdict.account or {}) for group in groups)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *VERDICT, *parts])
    for group in groups:
        verdict = group.verdict
        known = {**vars(verdict), "launches": len(group.launches), "time_ns": verdict.duration_ns}
        known["busy_pct"] = group.busy_pct
        account = verdict.account or {}
        writer.writerow([*(known[name] for name in (*COLUMNS, *VERDICT)), *(account.get(part) for part in parts)])
    return text.getvalue()


def markdown_text(groups: Sequence[LaunchGroup], rest: Sequence[LaunchGroup]) -> str:
    """A row for each of ``groups``, and one for all of ``rest`` together."""
    total = sum(group.time_ns for group in (*groups, *rest))
    lines = [
        MARK,
        "",
        "| kernel | launches | time | % of time | busy % | DRAM % | verdict | largest bubbles, % |",
        "| -- | -: | -: | -: | -: | -: | -- | -- |",
    ]
    names = short_labels([group.verdict for group in (*groups, *rest)])
    for group, name in zip(groups, names, strict=False):
        verdict = group.verdict
        bubbles = {part: pct for part, pct in (verdict.account or {}).items() if part not in WORK}
        largest = sorted(bubbles, key=lambda part: -bubbles[part])[:LARGEST]
        named = ", ".join(f"{part.replace('_', ' ')} {bubbles[part]:.1f}" for part in largest)
        cells = [
            code(title(verdict, name).plain),
            str(len(group.launches)),
            duration(verdict.duration_ns),
            share(group.time_ns, total),
            escape(busy(verdict)),
            fixed(verdict.dram_pct, 1, "–"),
            escape(verdict_words(verdict).plain),
            escape(named) or "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if rest:
        spent = sum(group.time_ns for group in rest)
        launches = sum(len(group.launches) for group in rest)
        lines.append(f"| {len(rest)} more | {launches} | | {share(spent, total)} | | | | |")
    return "\n".join(lines) + "\n"
