"""Tables and lists of the kernel page. Text from reports only ever becomes string children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.samples import stall_columns
from ncubble.dashboard import words
from ncubble.dashboard.components import meter, swatch, table
from ncubble.dashboard.palette import PART_STYLES, Part, part_color, part_label

TOP_LINES = 14
KINDS = {"optimization": 0, "warning": 1, "error": 1, "": 2, "ok": 3}


def account_legend(account: Mapping[str, Any], duration_ns: float | None, unit: str) -> Component:
    """The account in numbers: colour, name, percent and time of each part; its meaning on hover."""
    entries = []
    for name, share, style in _parts(account):
        took = words.duration(duration_ns * share / 100.0) if duration_ns is not None else ""
        label = html.Dt([swatch(style.color, style.hatch), part_label(name, unit)], className="part-name")
        cells = [label, html.Dd(f"{share:.1f} %", className="num"), html.Dd(took, className="num hint")]
        entries.append(html.Div(cells, title=style.meaning))
    return html.Dl(entries, className="parts")


def account_meanings(account: Mapping[str, Any], unit: str) -> Component:
    """What each part of this account means, folded away."""
    rows = [[part_label(name, unit), style.meaning] for name, _, style in _parts(account)]
    meanings = table(["Part", "Meaning"], rows, "Meaning of the parts of the bubble account")
    return html.Details([html.Summary("What the parts mean"), meanings], className="meanings")


def _parts(account: Mapping[str, Any]) -> list[tuple[str, float, Part]]:
    """(name, percent, style) in display order; parts of less than 0.05 % are left out."""
    names = [*PART_STYLES, *(extra for extra in account if extra not in PART_STYLES)]
    known = [(name, words.number(account.get(name)) or 0.0) for name in names]
    return [(name, share, PART_STYLES.get(name, PART_STYLES["other"])) for name, share in known if share >= 0.05]


def causes_list(causes: Sequence[Mapping[str, Any]]) -> Component:
    """Ranked causes: share, disease, fix, predicted gain, and where in the source."""
    return html.Ol([_cause(cause) for cause in causes], className="causes")


def _cause(cause: Mapping[str, Any]) -> Component:
    name, disease = str(cause.get("cause") or "unknown"), cause.get("disease")
    head = [html.Span(className="swatch", style={"background": part_color(name)}), html.Strong(part_label(name))]
    head.append(html.Span(words.percent(cause.get("pct")), className="num"))
    if disease:
        head.append(html.Span(words.disease_words(disease), className="tag"))
    gain = words.number(cause.get("predicted_gain_pct"))
    if gain is not None:
        head.append(html.Span(f"predicted gain {words.percent(gain)}", className="hint"))
    body: list[Component] = [html.Div(head, className="cause-head")]
    if cause.get("fix"):
        fix = str(cause["fix"])
        body.append(html.P(f"{fix[:1].upper()}{fix[1:]}." if fix[-1:] not in ".!?" else fix))
    where = [_place(place) for place in cause.get("where") or [] if _counts(place)]
    if where:
        body.append(html.Ul(where, className="places"))
    return html.Li(body)


def _counts(place: Mapping[str, Any]) -> bool:
    """Whether a place holds enough of its cause to be shown as more than 0.0 %."""
    share = words.number(place.get("pct"))
    return share is None or share >= 0.05


def _place(place: Mapping[str, Any]) -> Component:
    share = words.number(place.get("pct"))
    at = words.location(place.get("file"), place.get("line"))
    parts: list[Any] = [html.Span(at, title=str(place.get("file") or ""))] if at else []
    if place.get("sass"):
        parts.append(html.Code(str(place["sass"])))
    if share is not None:
        parts.append(html.Span(f"{share:.1f} %", className="num"))
    return html.Li(parts)


def rules_list(rules: pd.DataFrame) -> Component:
    """Nsight's findings, those with an estimated speedup first, then warnings; what is fine is folded away."""
    ordered = sorted(
        rules.to_dict("records"),
        key=lambda rule: (KINDS.get(rule["kind"], 2), -(words.number(rule["speedup_pct"]) or 0.0)),
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
    gain, scope = words.number(rule["speedup_pct"]), str(rule["speedup_kind"] or "")
    head: list[Component] = [html.Strong(words.plain(str(rule["title"] or rule["rule"])))]
    if gain is not None and gain >= 0.05:
        head.append(html.Span(f"Nsight estimates {gain:.1f} %{f' ({scope})' if scope else ''}", className="tag"))
    return [html.Div(head, className="cause-head"), html.P(words.plain(str(rule["message"] or "")))]


def source_table(source: pd.DataFrame) -> Component:
    """The instructions with the most warp samples: share, main stall reason, place in the source, SASS."""
    whole, reasons = float(source["samples"].sum()), [name for name in stall_columns(source) if name != "selected"]
    top = source[source["samples"] > 0].nlargest(TOP_LINES, "samples")
    most = 100.0 * float(top["samples"].max()) / whole
    rows: list[list[Any]] = []
    for _, row in top.iterrows():
        share = 100.0 * float(row["samples"]) / whole
        bar = html.Span([meter(share, most), f"{share:.1f} %"], className="metered")
        offset = f"+0x{int(row['pc']):x}"
        place = html.Span(
            words.location(row["file"], row["line"]) or offset, title=str(row["file"] or "no line information")
        )
        rows.append([bar, _main_reason(row, reasons), place, html.Code(words.text(row["sass"]), title=offset)])
    head = ["Samples", "Main stall", "Source", "SASS"]
    return table(head, rows, "Instructions with the most warp samples", numeric=(0,))


def _main_reason(row: pd.Series, reasons: Sequence[str]) -> str:
    counts = row[list(reasons)].astype(float) if reasons else pd.Series(dtype=float)
    if counts.empty or not counts.max() > 0:
        return "none"
    return f"{str(counts.idxmax()).replace('_', ' ')} {100.0 * counts.max() / float(row['samples']):.0f} %"
