"""Where the warps of one launch wait: by stall reason, by the class of the instruction that a warp
stood at, and by instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.palette import text_color
from ncubble.analysis.account.parts import part_label
from ncubble.analysis.details.stall_classes import CLASSES, ClassRow, class_rows, shown_reasons
from ncubble.analysis.report.frames import stall_columns, stall_shares
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.ui.components import Child, as_table, card, figure, legend, meter, not_collected, table
from ncubble.dashboard.ui.figures import NO_STALL, OTHER, Drawn, Figure, filled, reason_style, safe, stall_bar
from ncubble.text import values

REST = "other"
SMALL = 0.05
PART_SHOWN = 0.5
"""Parts from this percent of kernel time on are printed beside a bar."""
LABELLED = 1.5
"""Length of the axis in units of the longest bar: leaves room for text beside the bars."""
TOP_LINES = 14
_ROLES = frozenset(CLASSES) - {"branch", "float", "convert", "integer", "move"}
"""Classes that the Source page can filter by: those of ``opcodes.role``."""


def reasons(entry: Entry) -> Component:
    """All warp samples by stall reason."""
    shares = stall_shares(entry.launch.source)
    if not shares:
        return card("Stall reasons", [not_collected("warp samples", "--set source")])
    largest = ", ".join(f"{reason} {share:.0f} %" for reason, share in shares[:5])
    rows = [[reason_style(reason).label, f"{share:.2f} %", reason_style(reason).meaning] for reason, share in shares]
    caption = "Warp samples by stall reason"
    drawn = figure("stalls", stall_bar(shares), f"{caption}: {largest}")
    numbers = as_table(caption, ["Reason", "Samples", "Meaning"], rows, numeric=(1,))
    return card("Stall reasons", [drawn, numbers], "all warp samples")


def classes(entry: Entry, account: BubbleAccount | None) -> Component:
    """Samples by class of instruction, the reasons inside, and the parts of the account that they
    were given to."""
    rows = class_rows(entry.launch.source, getattr(account, "weights", None), getattr(account, "parts", None))
    title, caption = "Stalls by what holds warps up", "Warp samples by class of instruction"
    if not rows:
        return card(title, [not_collected("warp samples per instruction", "--set source")])
    largest = ", ".join(f"{row.label} {row.share:.0f} %" for row in rows[:5])
    styles = [reason_style(reason) for reason in shown_reasons(rows)]
    head = ["Class", "Samples", "Reasons, % of all samples", "Assigned to, % of kernel time", "Instructions"]
    parts = [
        figure("stall-classes", class_figure(rows), f"{caption}: {largest}"),
        legend((style.label, style) for style in styles),
        as_table(caption, head, [_class_cells(entry, row) for row in rows], numeric=(1,)),
    ]
    hint = (
        "by class of instruction; a wait counts for the copy, load or barrier that it waits for. → part of the account"
    )
    return card(title, parts, hint)


def _class_cells(entry: Entry, row: ClassRow) -> list[Child]:
    label: Child = row.label
    if row.name in _ROLES:
        href = SourceAddress(op=row.name).of_launch(entry.row["id"])
        label = dcc.Link(row.label, href=href, title="show these instructions")
    inside = _largest({reason_style(name).label: share for name, share in row.reasons.items()})
    given = _largest({part_label(name): share for name, share in row.parts.items()})
    return [label, f"{row.share:.1f} %", inside or "below 0.1", given or "no part", CLASSES[row.name][1]]


def _largest(shares: Mapping[str, float]) -> str:
    """The first three with their shares, without those that would read 0.0."""
    return ", ".join(f"{name} {share:.1f}" for name, share in list(shares.items())[:3] if share >= SMALL)


def class_figure(rows: list[ClassRow]) -> Figure:
    """A bar per class, stacked by stall reason, in percent of all warp samples; wide segments carry
    their reason.

    Beside the bar its percent, and the part of the account that most of it was given to, in percent
    of kernel time.
    """
    named, labels = shown_reasons(rows), [safe(row.label) for row in rows]
    longest = max((row.share for row in rows), default=1.0)
    layers = [(reason, [row.reasons.get(reason, 0.0) for row in rows]) for reason in named]
    layers.append((REST, [sum(value for name, value in row.reasons.items() if name not in named) for row in rows]))
    axis = {"showgrid": False, "automargin": True, "fixedrange": True}
    return Figure(
        [_layer(reason, shares, labels, longest) for reason, shares in layers if sum(shares) > 0],
        {
            "barmode": "stack",
            "bargap": 0.2,
            "showlegend": False,
            "height": 52 + 25 * len(rows),
            "margin": {"l": 8, "r": 8, "t": 4, "b": 40},
            "annotations": [_total(row, label) for row, label in zip(rows, labels, strict=True)],
            "xaxis": {
                "title": {"text": "% of warp samples", "standoff": 8},
                "range": [0, longest * LABELLED],
                "fixedrange": True,
            },
            "yaxis": {"autorange": "reversed", "ticksuffix": " ", **axis},
        },
    )


def _layer(reason: str, shares: list[float], labels: list[str], longest: float) -> Drawn:
    """The segments of one reason; it stands in those where it fits, at about 90 characters for the
    longest bar."""
    style = OTHER if reason == REST else reason_style(reason)
    label, room = safe(style.label), len(style.label) + 3
    return {
        "type": "bar",
        "x": [round(share, 3) for share in shares],
        "y": labels,
        "orientation": "h",
        "name": label,
        "text": [label if share > 0 and 90.0 * share / longest >= room else "" for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": text_color(style.color), "size": 11},
        "marker": filled(style.color, style.hatch),
        "hovertemplate": f"%{{y}}: <b>{label}</b> %{{x:.1f}} %<br>{safe(style.meaning)}<extra></extra>",
    }


def _total(row: ClassRow, label: str) -> Drawn:
    part, share = next(iter(row.parts.items()), ("", 0.0))
    given = f" → {safe(part_label(part))} <b>{share:.1f} %</b>" if share >= PART_SHOWN else ""
    place = {"x": row.share, "y": label, "xanchor": "left", "xshift": 4}
    return {"text": f"{row.share:.1f} %{given}", "showarrow": False, "font": {"size": 11}, **place}


def instructions(entry: Entry) -> Component:
    """Instructions with the most samples, each linked to its place on the Source page."""
    source, launch = entry.launch.source, entry.row["id"]
    if source.empty or not source["samples"].sum() > 0:
        return card("Hottest instructions", [not_collected("warp samples per instruction", "--set source")])
    whole, reasons = float(source["samples"].sum()), [name for name in stall_columns(source) if name != NO_STALL]
    top = source[source["samples"] > 0].nlargest(TOP_LINES, "samples")
    most = 100.0 * float(top["samples"].max()) / whole
    rows: list[list[Child]] = []
    for row in top.to_dict("records"):
        share, offset = 100.0 * float(row["samples"]) / whole, f"+0x{int(row['pc']):x}"
        place = dcc.Link(
            values.location(row["file"], row["line"]) or offset,
            href=SourceAddress(pc=int(row["pc"])).of_launch(launch),
            title=str(row["file"] or "no line information"),
        )
        bar = html.Span([meter(share, most), f"{share:.1f} %"], className="metered")
        rows.append([bar, _main_reason(row, reasons), place, html.Code(values.text(row["sass"]), title=offset)])
    head = ["Samples", "Main stall", "Source", "SASS"]
    href = SourceAddress().of_launch(launch)
    parts = [
        table(head, rows, "Instructions with the most warp samples", numeric=(0,)),
        dcc.Link("all instructions with their source", href=href, className="live-only"),
    ]
    return card("Hottest instructions", parts, "by share of warp samples")


def _main_reason(row: Mapping[Any, Any], reasons: list[str]) -> str:
    counts = {name: count for name in reasons if (count := values.number(row[name])) is not None}
    most = max(counts, key=lambda name: counts[name], default="")
    if not most or not counts[most] > 0:
        return "none"
    return f"{most.replace('_', ' ')} {100.0 * counts[most] / float(row['samples']):.0f} %"
