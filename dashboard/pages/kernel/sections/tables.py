"""Tables and lists of the kernel page. Text from reports only ever becomes string children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import PARTS, part_color, part_label
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.analysis.report.samples import stall_columns
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.ui.components import Child, meter, table
from ncubble.text import values

TOP_LINES = 14
KINDS = {"optimization": 0, "warning": 1, "error": 1, "": 2, "ok": 3}


def as_table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Child]], numeric: Sequence[int] = ()
) -> Component:
    """The numbers of a figure, folded away below it."""
    return html.Details([html.Summary("View as table"), table(head, rows, caption, numeric)], className="as-table")


def causes_list(
    causes: Sequence[Mapping[str, Any]],
    launch: str = "",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Component:
    """Ranked causes: predicted gain, share, disease, fix, and where in the source.

    ``launch`` is the id of the launch, for links to its code; ``ranges`` are least and most gain by
    cause, in percent.
    """
    return html.Ol([_cause(cause, launch, ranges or {}) for cause in causes], className="causes")


def _cause(cause: Mapping[str, Any], launch: str, ranges: Mapping[str, tuple[float, float]]) -> Component:
    name, disease = str(cause.get("cause") or "unknown"), cause.get("disease")
    head = [_gain(cause, ranges.get(name)), html.Span(className="swatch", style={"background": part_color(name)})]
    head.append(html.Strong(part_label(name)))
    if disease:
        head.append(html.Span(disease_words(disease), className="tag"))
    head.append(html.Span(f"{values.percent(cause.get('pct'))} of the time", className="hint"))
    body: list[Component] = [html.Div(head, className="cause-head")]
    if cause.get("fix"):
        fix = str(cause["fix"])
        body.append(html.P(f"{fix[:1].upper()}{fix[1:]}." if fix[-1:] not in ".!?" else fix))
    where = [_place(place) for place in cause.get("where") or [] if _counts(place)]
    if where:
        body.append(html.Ul(where, className="places"))
    if launch and where and name in PARTS:
        href = SourceAddress(by=name).of_launch(launch)
        body.append(dcc.Link("show in the source", href=href, className="hint live-only"))
    return html.Li(body)


def _gain(cause: Mapping[str, Any], least_most: tuple[float, float] | None) -> Component:
    """What the cure gains, first in its row, so that ours and Nsight's can be held against each
    other."""
    gain = values.number(cause.get("predicted_gain_pct"))
    if gain is None:
        return html.Span("gain not identified", className="gain missing")
    span = f" ({least_most[0]:.0f} to {least_most[1]:.0f})" if least_most else ""
    return html.Span([html.Strong(f"{gain:.1f} %"), html.Span(span, className="hint")], className="gain", title="gains")


def _counts(place: Mapping[str, Any]) -> bool:
    """Whether a place holds enough of its cause to be shown as more than 0.0 %."""
    share = values.number(place.get("pct"))
    return share is None or share >= 0.05


def _place(place: Mapping[str, Any]) -> Component:
    share = values.number(place.get("pct"))
    at = values.location(place.get("file"), place.get("line"))
    parts: list[Any] = [html.Span(at, title=str(place.get("file") or ""))] if at else []
    if place.get("sass"):
        parts.append(html.Code(str(place["sass"])))
    if share is not None:
        parts.append(html.Span(f"{share:.1f} %", className="num"))
    return html.Li(parts)


def rules_list(rules: pd.DataFrame) -> Component:
    """Nsight's findings, those with an estimated speedup first, then warnings; what is fine is
    folded away."""
    ordered = sorted(
        rules.to_dict("records"),
        key=lambda rule: (KINDS.get(rule["kind"], 2), -(values.number(rule["speedup_pct"]) or 0.0)),
    )
    fine = [rule for rule in ordered if rule["kind"] == "ok"]
    shown = [html.Li(_rule(rule)) for rule in ordered if rule["kind"] != "ok"]
    blocks: list[Component] = (
        [html.Ul(shown, className="rules")] if shown else [html.P("Nsight found nothing to improve.", className="hint")]
    )
    if fine:
        items = html.Ul([html.Li(_rule(rule)) for rule in fine], className="rules")
        blocks.append(html.Details([html.Summary(f"{len(fine)} without a finding"), items]))
    return html.Div(blocks, className="scroll-list")


def _rule(rule: Mapping[Any, Any]) -> list[Component]:
    gain, scope = values.number(rule["speedup_pct"]), str(rule["speedup_kind"] or "")
    told: list[Component | str] = ["no estimate"]
    if gain is not None and gain >= 0.05:
        told = [html.Strong(f"{gain:.1f} %"), html.Span(f" ({scope})" if scope else "", className="hint")]
    head: list[Component] = [html.Span(told, className="gain" if len(told) > 1 else "gain missing")]
    head.append(html.Strong(values.plain(str(rule["title"] or rule["rule"]))))
    return [html.Div(head, className="cause-head"), html.P(values.plain(str(rule["message"] or "")))]


def source_table(source: pd.DataFrame, launch: str) -> Component:
    """The instructions with the most warp samples: share, main stall reason, place in the source,
    SASS.

    ``launch`` is the id of the launch, for links to each instruction.
    """
    whole, reasons = float(source["samples"].sum()), [name for name in stall_columns(source) if name != "selected"]
    top = source[source["samples"] > 0].nlargest(TOP_LINES, "samples")
    most = 100.0 * float(top["samples"].max()) / whole
    rows: list[list[Any]] = []
    for row in top.to_dict("records"):
        share = 100.0 * float(row["samples"]) / whole
        bar = html.Span([meter(share, most), f"{share:.1f} %"], className="metered")
        offset = f"+0x{int(row['pc']):x}"
        place = dcc.Link(
            values.location(row["file"], row["line"]) or offset,
            href=SourceAddress(pc=int(row["pc"])).of_launch(launch),
            title=str(row["file"] or "no line information"),
        )
        rows.append([bar, _main_reason(row, reasons), place, html.Code(values.text(row["sass"]), title=offset)])
    head = ["Samples", "Main stall", "Source", "SASS"]
    return table(head, rows, "Instructions with the most warp samples", numeric=(0,))


def _main_reason(row: Mapping[Any, Any], reasons: Sequence[str]) -> str:
    counts = {name: count for name in reasons if (count := values.number(row[name])) is not None}
    most = max(counts, key=lambda name: counts[name], default="")
    if not most or not counts[most] > 0:
        return "none"
    return f"{most.replace('_', ' ')} {100.0 * counts[most] / float(row['samples']):.0f} %"
