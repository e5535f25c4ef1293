"""What to do about one launch: changes with their gains and where they act, and Nsight's rules
beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import PARTS, part_color, part_label
from ncubble.analysis.changes.change import MEASURED, NONE, UNKNOWN, Change
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui import components as ui
from ncubble.text import values

CHANGES_HINT = "in % of the launch's time, with an interval of 80 %; gains overlap and do not add up"
LEAST_PCT = 0.05
"""Percent of kernel time; places below it would read 0.0 % and are not shown."""
KINDS = {"optimization": 0, "warning": 1, "error": 1, "": 2, "ok": 3}

# --- Changes ---


def changes(view: LaunchView) -> Component:
    """What to change, in the order of the gain; what is not known stands behind, what is blocked
    last."""
    verdict = view.judged
    if not verdict.changes:
        wanted = "--set pipeline" if verdict.account is None else "--set source"
        return ui.card("What to change", [ui.not_collected("data to say what to change", wanted)])
    told: dict[str, Change] = {}
    for change in verdict.changes:
        told.setdefault(change.part or "", change)
    shown = [_change(one, verdict, view.id, told[one.part or ""] is one) for one in verdict.changes]
    return ui.card("What to change", [html.Ol(shown, className="changes")], CHANGES_HINT)


def _change(change: Change, verdict: LaunchVerdict, launch: str, placed: bool) -> Component:
    """One change: its gain first, as in the rows of Nsight's rules; ``placed``: with the places of
    the part that it acts on."""
    if change.kind == NONE:
        return html.Li(html.Strong(ui.capital(change.text)))
    gain: Component = html.Span("gain not known", className="gain missing")
    if change.gain_pct is not None:
        interval = "" if change.low is None or change.high is None else f" ({change.low:z.0f} to {change.high:z.0f})"
        gain = _gain(change.gain_pct, interval, title="of the launch's time saved")
    part = [ui.swatch(part_color(change.part))] if change.part else []
    tag = (
        [html.Span(words, className="tag")]
        if (words := "blocked" if change.blocked else _BASIS.get(change.basis))
        else []
    )
    body: list[Component] = [
        html.Div([gain, *part, html.Strong(ui.capital(change.text)), *tag], className="change-head")
    ]
    if change.blocked:
        body.append(html.P(f"{ui.capital(change.blocked)}."))
    body += _where(change.part, verdict, launch) if placed and change.part else []
    return html.Li(body, className="blocked" if change.blocked else "")


_BASIS = {MEASURED: "measured", UNKNOWN: "try it"}


def _where(part: str, verdict: LaunchVerdict, launch: str) -> list[Component]:
    """What a part takes, and its hottest places."""
    pct, how = verdict.pct_of(part), "measured " if part in verdict.measured else ""
    body: list[Component] = []
    if pct is not None:
        body.append(html.P(f"Acts on {part_label(part)}: {how}{values.percent(pct)} of the time.", className="hint"))
    if places := [place for place in verdict.places_of(part) if place.pct >= LEAST_PCT]:
        body.append(html.Ul([_place(place) for place in places], className="places"))
        if part in PARTS:
            href = SourceAddress(by=part).of_launch(launch)
            body.append(dcc.Link("show in the source", href=href, className="hint live-only"))
    return body


def _place(place: Place) -> Component:
    at = values.location(place.file, place.line)
    parts: list[Component] = [html.Span(at, title=place.file or "")] if at else []
    if place.sass:
        parts.append(html.Code(place.sass))
    return html.Li([*parts, html.Span(f"{place.pct:.1f} %", className="num")])


def _gain(percent: float, more: str, **attributes: Any) -> Component:
    return html.Span([html.Strong(f"{percent:.1f} %"), ui.hint(more)], className="gain", **attributes)


# --- Rules ---


def rules(view: LaunchView) -> Component:
    """What Nsight's own rules say, by its own estimates: those with an estimated speedup first,
    then warnings; each opens to its message, and what is fine is folded away."""
    frame: pd.DataFrame = view.launch.rules
    if frame.empty:
        return ui.card("Nsight's rules", [ui.not_collected("rule results", "--set full")])
    ordered = sorted(
        frame.to_dict("records"),
        key=lambda rule: (KINDS.get(rule["kind"], 2), -(values.number(rule["speedup_pct"]) or 0.0)),
    )
    findings = [_rule(rule) for rule in ordered if rule["kind"] != "ok"]
    fine = [_rule(rule) for rule in ordered if rule["kind"] == "ok"]
    blocks: list[Component] = [html.P("Nsight found nothing to improve.", className="hint")]
    if findings:
        blocks = [html.Ul(findings, className="rules")]
    if fine:
        blocks.append(html.Details([html.Summary(f"{len(fine)} without a finding"), html.Ul(fine, className="rules")]))
    about = "by Nsight's own estimates, as it states them"
    return ui.card("Nsight's rules", blocks, about)


def _rule(rule: Mapping[Any, Any]) -> Component:
    percent, scope = values.number(rule["speedup_pct"]), str(rule["speedup_kind"] or "")
    gain: Component = html.Span(["no estimate"], className="gain missing")
    if percent is not None and percent >= 0.05:
        gain = _gain(percent, f" ({scope})" if scope else "")
    title = html.Strong(values.plain(str(rule["title"] or rule["rule"])))
    message = html.P(values.plain(str(rule["message"] or "")))
    return html.Li(html.Details([html.Summary([gain, title]), message]))
