"""The account of one launch: a waterfall from 100 % of elapsed time, one step per bubble, down to
what the unit worked; the same in numbers, and what the account cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.parts import WORK, part_label, part_style
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.measured import amount
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.ui.components import Child, absent, as_table, card, figure, joined, not_collected, swatch
from ncubble.dashboard.ui.figures import described, parts_of, waterfall
from ncubble.text.values import duration, number

_HEAD = ("Part", "Share", "Time", "Meaning")


def section(entry: Entry, ablation: Ablation | None = None) -> Component:
    """The card of the account: as ``ablation`` measured it where every set of parts was measured,
    else as the verdict has it; in numbers, both."""
    account, took = entry.verdict.account or {}, entry.row["duration_ns"]
    if words.bubble_pct(account) is None:
        lacking = not_collected("counters for an account of elapsed cycles", "--set pipeline")
        return card("Bubble account", [lacking])
    unit = words.unit_words(entry.verdict.unit)
    head, rows = list(_HEAD), list[list[Child]]()
    if ablation is not None:
        head[1:3] = ["Estimated", "Time, estimated", "Measured"]
    shares = {name: share for name, share, _ in parts_of(account)}
    removed = [name for part in ablation.removed_parts for name in part.names] if ablation else []
    for name in sorted({*shares, *removed}, key=lambda name: (name in WORK, -shares.get(name, 0.0), name)):
        share, style = number(account.get(name)), part_style(name)
        label = html.Span([swatch(style.color, style.hatch), part_label(name, unit)], className="part-name")
        time = duration(None if took is None or share is None else took * share / 100.0)
        measured = [] if ablation is None else [_measured(ablation.part_of(name), name)]
        estimated = absent("–") if share is None else f"{share:.2f} %"
        rows.append([label, estimated, time, *measured, style.meaning])
    notes = [html.P(line, className="hint") for line in merged_notes(entry.verdict.merged)]
    shown = (ablation.account(account) if ablation else None) or account
    return card(
        "Bubble account",
        [
            figure("account", waterfall(shown, took, unit), described(shown, unit)),
            *notes,
            as_table("The account in numbers", head, rows, numeric=range(1, len(head) - 1)),
        ],
        _hint(ablation),
    )


def _hint(ablation: Ablation | None) -> str:
    """What the steps of the figure are."""
    steps = "from 100 % of elapsed SM cycles down to work"
    if ablation is None:
        return f"{steps}; the parts sum to 100"
    how = (
        "measured by ablation"
        if ablation.whole
        else "estimated, because not every combination of parts could be measured"
    )
    return f"{how}: {steps}"


def _measured(part: MeasuredPart | None, name: str) -> Child:
    """What was measured of the part ``name``, and with which others."""
    if part is None:
        return absent("–", title="not removed, so not measured")
    others = [part_label(other) for other in part.names if other != name]
    return f"{amount(part)} with {joined(others)}" if others else amount(part)


def merged_notes(merged: Mapping[str, Sequence[str]]) -> list[str]:
    """What an account cannot tell apart; empty where it tells all."""
    return [
        f"“{part_label(name)}” stands for {joined([part_label(part) for part in finer])}, which could not be separated."
        for name, finer in merged.items()
    ]


def lacking(account: BubbleAccount | None) -> Component:
    """Which counters would tell more."""
    names = ", ".join(account.missing) if account is not None else ""
    return (
        html.P(f"Not collected, but needed for a finer account: {names}.", className="hint") if names else html.Span()
    )
