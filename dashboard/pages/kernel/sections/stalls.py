"""Stall reasons of one launch: over all instructions, and by the class of the instruction that a
warp stood at."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.details.stall_classes import CLASSES, ClassRow, class_rows, shown_reasons
from ncubble.analysis.report.samples import stall_shares
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.kernel.figures.stall_classes import SMALL, class_figure
from ncubble.dashboard.pages.kernel.sections.tables import as_table
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.ui.components import Child, card, figure, not_collected, swatch
from ncubble.dashboard.ui.figures import stall_bar
from ncubble.dashboard.ui.reasons import reason_style


def reasons(entry: Entry) -> Component:
    """All warp samples by stall reason."""
    shares = stall_shares(entry.launch.source)
    if not shares:
        return card("Stall reasons", [not_collected("warp samples", "--set source")])
    said = ", ".join(f"{reason} {share:.0f} %" for reason, share in shares[:5])
    rows = [[reason_style(reason).label, f"{share:.2f} %", reason_style(reason).meaning] for reason, share in shares]
    drawn = figure("stalls", stall_bar(shares), f"Warp samples by stall reason: {said}")
    numbers = as_table("Warp samples by stall reason", ["Reason", "Samples", "Meaning"], rows, numeric=(1,))
    return card("Stall reasons", [drawn, numbers], "all warp samples")


def classes(entry: Entry, account: Any | None) -> Component:
    """Samples by class of instruction, the reasons inside, and the parts of the account that they
    were given to."""
    weights, parts = getattr(account, "weights", None), getattr(account, "parts", None)
    rows = class_rows(entry.launch.source, weights, parts)
    title = "Stalls by what holds warps up"
    if not rows:
        return card(title, [not_collected("warp samples per instruction", "--set source")])
    said = ", ".join(f"{row.label} {row.share:.0f} %" for row in rows[:5])
    drawn = figure("stall-classes", class_figure(rows), f"Warp samples by class of instruction: {said}")
    hint = "by class of instruction: a wait counts at the copy, load or barrier that it is for. → part of the account"
    return card(title, [drawn, _legend(rows), _numbers(entry, rows)], hint)


def _legend(rows: list[ClassRow]) -> Component:
    styles = [reason_style(reason) for reason in shown_reasons(rows)]
    named = [html.Span([swatch(one.color, one.hatch), one.label], title=one.meaning) for one in styles]
    return html.Div(named, className="legend bare")


def _numbers(entry: Entry, rows: list[ClassRow]) -> Component:
    lines: list[list[Child]] = []
    for row in rows:
        address = SourceAddress(op=row.name).of_launch(entry.row["id"]) if row.name in _ROLES else ""
        label: Child = dcc.Link(row.label, href=address, title="show these instructions") if address else row.label
        lines.append([label, f"{row.share:.1f} %", _shares(row.reasons), _parts(row.parts), CLASSES[row.name][1]])
    head = ["Class", "Samples", "Reasons, % of all samples", "Given to, % of kernel time", "What it holds"]
    return as_table("Warp samples by class of instruction", head, lines, numeric=(1,))


_ROLES = frozenset(CLASSES) - {"branch", "float", "convert", "integer", "move"}
"""Classes that the Source page can filter by: those of ``opcodes.role``."""


def _shares(reasons: dict[str, float]) -> str:
    shown = [f"{reason_style(name).label} {share:.1f}" for name, share in list(reasons.items())[:3] if share >= SMALL]
    return ", ".join(shown) or "below 0.1"


def _parts(parts: dict[str, float]) -> str:
    shown = [f"{part_label(name)} {share:.1f}" for name, share in list(parts.items())[:3] if share >= SMALL]
    return ", ".join(shown) or "no part"
