"""The account of one launch as a waterfall, with its numbers and what it cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import WORK, part_label
from ncubble.analysis.diagnosis import words
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.kernel.figures.waterfall import parts_of, said, waterfall
from ncubble.dashboard.pages.kernel.sections.tables import as_table
from ncubble.dashboard.ui.components import Child, card, figure, not_collected, swatch
from ncubble.text import values


def section(entry: Entry) -> Component:
    """The card of the account, as the verdict has it."""
    account = entry.verdict.get("account") or {}
    if words.bubble_pct(account) is None:
        return card(
            "Bubble account", [not_collected("counters from which elapsed cycles can be shared out", "--set pipeline")]
        )
    unit, took = words.unit_words(entry.verdict.get("unit")), entry.row["duration_ns"]
    drawn = figure("account", waterfall(account, took, unit), said(account, unit))
    notes = [html.P(line, className="hint") for line in merged_notes(entry.verdict.get("merged") or {})]
    return card(
        "Bubble account",
        [drawn, *notes, _numbers(account, took, unit)],
        "from 100 % of elapsed SM cycles down to work; the parts sum to 100",
    )


def _numbers(account: dict[str, Any], duration_ns: float | None, unit: str) -> Component:
    """Every part with its percent, its time, and what it means."""
    ranked = sorted(parts_of(account), key=lambda part: (part[0] in WORK, -part[1]))
    rows: list[list[Child]] = []
    for name, share, style in ranked:
        took = values.duration(duration_ns * share / 100.0) if duration_ns is not None else values.NOT_COLLECTED
        label = html.Span([swatch(style.color, style.hatch), part_label(name, unit)], className="part-name")
        rows.append([label, f"{share:.2f} %", took, style.meaning])
    return as_table("The account in numbers", ["Part", "Share", "Time", "Meaning"], rows, numeric=(1, 2))


def merged_notes(merged: Mapping[str, Sequence[str]]) -> list[str]:
    """What an account cannot tell apart; empty where it tells all."""
    return [f"“{part_label(name)}” stands for {_listed(finer)} together." for name, finer in merged.items()]


def lacking(found: Any | None) -> Component:
    """Which counters would tell more; ``found`` is the ``BubbleAccount`` or None."""
    names = ", ".join(found.missing) if found is not None else ""
    return html.P(f"Not collected, and needed to tell more: {names}.", className="hint") if names else html.Span()


def _listed(parts: Sequence[str]) -> str:
    names = [part_label(name) for name in parts]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
