"""Advice for one launch: ranked causes with their gains, and Nsight's rules beside them.

Causes come from the verdict at once. The intervals of their gains take a prediction: they come once
the page stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import GOOD_CAUSES, PARTS, part_color, part_label
from ncubble.analysis.diagnosis.advise import Advice
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.analysis.diagnosis.gains import Fix
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import Cause, Place
from ncubble.analysis.diagnosis.words import ALONG_WORDS
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.ui.components import Child, card, not_collected, note
from ncubble.text import values

CAUSES_HINT = (
    "by the cycles that their fix saves, in % of the launch's cycles: often more than the cause's own time, as "
    f"{ALONG_WORDS}; savings overlap and do not add up"
)
LEAST_PCT = 0.05
"""Percent of kernel time; places below it would read 0.0 % and are not shown."""
KINDS = {"optimization": 0, "warning": 1, "error": 1, "": 2, "ok": 3}


def causes(entry: Entry, fixes: Sequence[Fix] = ()) -> Component:
    """The verdict's causes: predicted gain, share, disease, fix, and where in the source. With
    ``fixes`` (``analysis.diagnosis.advise``) their gains have an interval."""
    verdict = as_measured(entry.verdict, entry.ablation)
    if not verdict.causes and verdict.cause in GOOD_CAUSES:
        return card("Causes and fixes", [note("empty", "No cause was found.")])
    if not verdict.causes:
        wanted = "--set pipeline" if verdict.account is None else "--set source"
        return card("Causes and fixes", [not_collected("the data to split its idle time", wanted)])
    known = [fix for fix in fixes if fix.low is not None and fix.high is not None]
    ranges = {fix.cause: f" ({fix.low:.0f} to {fix.high:.0f})" for fix in known}
    items = [_cause(cause, entry.row["id"], ranges.get(cause.cause, "")) for cause in verdict.causes]
    return card("Causes and fixes", [html.Ol(items, className="causes")], CAUSES_HINT)


def causes_with_ranges(entry: Entry, advice: Callable[[], Advice]) -> Component:
    """The causes with the intervals of their gains; without them where ``advice`` fails, which
    ``depth`` says."""
    with suppress(Exception):
        return causes(entry, advice().fixes)
    return causes(entry)


def _cause(cause: Cause, launch: str, interval: str) -> Component:
    """One cause; what its cure gains stands first in its row, as in those of Nsight's rules."""
    name, gain, fix = cause.cause, cause.predicted_gain_pct, cause.fix
    gains = html.Span("saving not identified", className="gain missing")
    if gain is not None:
        parts = [html.Strong(f"{gain:.1f} %"), html.Span(interval, className="hint")]
        gains = html.Span(parts, className="gain", title="of the launch's cycles saved")
    head = [
        gains,
        html.Span(className="swatch", style={"background": part_color(name)}),
        html.Strong(part_label(name)),
        *([html.Span(disease_words(cause.disease), className="tag")] if cause.disease else []),
        html.Span(f"{'measured ' if cause.measured else ''}{values.percent(cause.pct)} of the time", className="hint"),
    ]
    body: list[Component] = [html.Div(head, className="cause-head")]
    if fix:
        body.append(html.P(f"{fix[:1].upper()}{fix[1:]}." if fix[-1:] not in ".!?" else fix))
    if places := [place for place in cause.where if place.pct >= LEAST_PCT]:
        body.append(html.Ul([_place(place) for place in places], className="places"))
        if name in PARTS:
            href = SourceAddress(by=name).of_launch(launch)
            body.append(dcc.Link("show in the source", href=href, className="hint live-only"))
    return html.Li(body)


def _place(place: Place) -> Component:
    at = values.location(place.file, place.line)
    parts: list[Component] = [html.Span(at, title=place.file or "")] if at else []
    if place.sass:
        parts.append(html.Code(place.sass))
    return html.Li([*parts, html.Span(f"{place.pct:.1f} %", className="num")])


def rules(entry: Entry) -> Component:
    """What Nsight's own rules say, by its own estimates: those with an estimated speedup first,
    then warnings; what is fine is folded away."""
    frame: pd.DataFrame = entry.launch.rules
    if frame.empty:
        return card("Nsight's rules", [not_collected("rule results", "--set full")])
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
    return card(
        "Nsight's rules", [html.Div(blocks, className="scroll-list")], "by Nsight's own estimates, as it states them"
    )


def _rule(rule: Mapping[Any, Any]) -> Component:
    gain, scope = values.number(rule["speedup_pct"]), str(rule["speedup_kind"] or "")
    estimate = html.Span(["no estimate"], className="gain missing")
    if gain is not None and gain >= 0.05:
        parts: list[Child] = [html.Strong(f"{gain:.1f} %"), html.Span(f" ({scope})" if scope else "", className="hint")]
        estimate = html.Span(parts, className="gain")
    title = html.Strong(values.plain(str(rule["title"] or rule["rule"])))
    message = html.P(values.plain(str(rule["message"] or "")))
    return html.Li([html.Div([estimate, title], className="cause-head"), message])
