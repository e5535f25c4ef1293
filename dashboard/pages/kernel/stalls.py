"""Where the warps of one launch wait: by stall reason, by the class of the instruction that a warp
stood at, and by instruction."""

from __future__ import annotations

from collections.abc import Mapping

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.details.source_columns import CLASSES, ClassRow, class_rows, shown_reasons
from ncubble.analysis.report.frames import stall_columns, stall_shares
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui.components import Child, as_table, card, figure, legend, metered, not_collected, table
from ncubble.dashboard.ui.figures import NO_STALL, OTHER, Drawn, Figure, reason_style, safe, stacked, stall_bar
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


def reasons(view: LaunchView) -> Component:
    """All warp samples by stall reason."""
    shares, caption = stall_shares(view.launch.source), "Warp samples by stall reason"
    if not shares:
        return card("Stall reasons", [not_collected("warp samples", "--set source")])
    largest = ", ".join(f"{reason} {share:.0f} %" for reason, share in shares[:5])
    rows = [[reason_style(reason).label, f"{share:.2f} %", reason_style(reason).meaning] for reason, share in shares]
    drawn = figure("stalls", stall_bar(shares), f"{caption}: {largest}")
    numbers = as_table(caption, ["Reason", "Samples", "Meaning"], rows, numeric=(1,))
    return card("Stall reasons", [drawn, numbers], "all warp samples")


def classes(view: LaunchView) -> Component:
    """Samples by class of instruction, the reasons inside, and the parts of the account that they
    were given to."""
    account = view.weighed
    rows = class_rows(view.launch.source, *((account.weights, account.parts) if account else ()))
    title, caption = "Stalls by what holds warps up", "Warp samples by class of instruction"
    if not rows:
        return card(title, [not_collected("warp samples per instruction", "--set source")])
    largest = ", ".join(f"{row.label} {row.share:.0f} %" for row in rows[:5])
    styles = [reason_style(reason) for reason in shown_reasons(rows)]
    head = ["Class", "Samples", "Reasons, % of all samples", "Assigned to, % of kernel time", "Instructions"]
    parts = [
        figure("stall-classes", class_figure(rows), f"{caption}: {largest}"),
        legend((style.label, style) for style in styles),
        as_table(caption, head, [_class_cells(view.id, row) for row in rows], numeric=(1,)),
    ]
    about = "by class of instruction; a wait counts for the copy, load or barrier that it waits for."
    return card(title, parts, f"{about} → part of the account")


def _class_cells(launch: str, row: ClassRow) -> list[Child]:
    label: Child = row.label
    if row.name in _ROLES:
        href = SourceAddress(op=row.name).of_launch(launch)
        label = dcc.Link(row.label, href=href, title="show these instructions")
    inside = _largest({reason_style(name).label: share for name, share in row.reasons.items()})
    given = _largest({part_label(name): share for name, share in row.parts.items()})
    return [label, f"{row.share:.1f} %", inside or "below 0.1", given or "no part", CLASSES[row.name][1]]


def _largest(shares: Mapping[str, float]) -> str:
    """The first three with their shares, without those that would read 0.0."""
    return ", ".join(f"{name} {share:.1f}" for name, share in list(shares.items())[:3] if share >= SMALL)


def class_figure(rows: list[ClassRow]) -> Figure:
    """A bar per class, stacked by stall reason, in percent of all warp samples; segments carry
    their reason where it fits.

    Beside the bar its percent, and the part of the account that most of it was given to, in percent
    of kernel time.
    """
    named, labels = shown_reasons(rows), [safe(row.label) for row in rows]
    longest = max((row.share for row in rows), default=1.0)
    layers = {reason: [row.reasons.get(reason, 0.0) for row in rows] for reason in named}
    layers[REST] = [sum(value for name, value in row.reasons.items() if name not in named) for row in rows]
    traces: list[Drawn] = []
    for reason, shares in layers.items():
        style = OTHER if reason == REST else reason_style(reason)
        texts = [safe(style.label) if share > 0 else "" for share in shares]
        hover = f"%{{y}}: <b>{safe(style.label)}</b> %{{x:.1f}} %"
        if sum(shares) > 0:
            lengths = [round(share, 3) for share in shares]
            traces.append(stacked(lengths, labels, style, safe(style.label), texts, 11, hover))
    x_axis = {"range": [0, longest * LABELLED], "fixedrange": True}
    y_axis = {"autorange": "reversed", "ticksuffix": " ", "showgrid": False, "automargin": True, "fixedrange": True}
    return Figure(
        traces,
        {
            "barmode": "stack",
            "bargap": 0.2,
            "showlegend": False,
            "height": 52 + 25 * len(rows),
            "margin": {"l": 8, "r": 8, "t": 4, "b": 40},
            "annotations": [_total(row, label) for row, label in zip(rows, labels, strict=True)],
            "xaxis": {"title": {"text": "% of warp samples", "standoff": 8}, **x_axis},
            "yaxis": y_axis,
        },
    )


def _total(row: ClassRow, label: str) -> Drawn:
    part, share = next(iter(row.parts.items()), ("", 0.0))
    given = f" → {safe(part_label(part))} <b>{share:.1f} %</b>" if share >= PART_SHOWN else ""
    place = {"x": row.share, "y": label, "xanchor": "left", "xshift": 4}
    return {"text": f"{row.share:.1f} %{given}", "showarrow": False, "font": {"size": 11}, **place}


def instructions(view: LaunchView) -> Component:
    """Instructions with the most samples, each linked to its place on the Source page."""
    source, title = view.launch.source, "Hottest instructions"
    if source.empty or not source["samples"].sum() > 0:
        return card(title, [not_collected("warp samples per instruction", "--set source")])
    reasons = [name for name in stall_columns(source) if name != NO_STALL]
    top = source[source["samples"] > 0].nlargest(TOP_LINES, "samples")
    shares = 100.0 * top["samples"].astype(float) / float(source["samples"].sum())
    rows: list[list[Child]] = []
    for row, share in zip(top.to_dict("records"), shares, strict=True):
        pc, counts = int(row["pc"]), {name: values.number(row[name]) or 0.0 for name in reasons}
        most = max(counts, key=lambda name: counts[name], default="")
        stall = "none"
        if counts.get(most, 0.0) > 0:
            stall = f"{reason_style(most).label} {100.0 * counts[most] / float(row['samples']):.0f} %"
        place = dcc.Link(
            values.location(row["file"], row["line"]) or f"+0x{pc:x}",
            href=SourceAddress(pc=pc).of_launch(view.id),
            title=str(row["file"] or "no line information"),
        )
        code = html.Code(values.text(row["sass"]), title=f"+0x{pc:x}")
        rows.append([metered(f"{share:.1f} %", share, shares.max()), stall, place, code])
    href = SourceAddress().of_launch(view.id)
    parts = [
        table(["Samples", "Main stall", "Source", "SASS"], rows, "Instructions with the most warp samples", [0]),
        dcc.Link("all instructions with their source", href=href, className="live-only"),
    ]
    return card(title, parts, "by share of warp samples")
