"""What to do about one launch: ranked causes with their gains, Nsight's rules beside them, and
other depths of its pipeline.

Causes come from the verdict at once. The intervals of their gains take a prediction: they come once
the page stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.parts import GOOD_CAUSES, PARTS, part_color, part_label
from ncubble.analysis.diagnosis.advise import Advice, Fix
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.analysis.diagnosis.verdict import Cause, Place
from ncubble.analysis.diagnosis.words import ALONG_WORDS
from ncubble.analysis.launches.depths import measured_depth
from ncubble.analysis.model.predict import NEARLY, chosen_depth
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui.components import (
    Child,
    as_table,
    capital,
    card,
    figure,
    hint,
    items,
    not_collected,
    note,
    swatch,
)
from ncubble.dashboard.ui.figures import depth_figure, depth_rows
from ncubble.text import values

CAUSES_HINT = (
    "by the cycles that their fix saves, in % of the launch's cycles: often more than the cause's own time, as "
    f"{ALONG_WORDS}; savings overlap and do not add up"
)
LEAST_PCT = 0.05
"""Percent of kernel time; places below it would read 0.0 % and are not shown."""
KINDS = {"optimization": 0, "warning": 1, "error": 1, "": 2, "ok": 3}
_SOURCES = {"manifest": "from the run's manifest", "sass": "inferred from the code", "given": "as given"}
CLOCK = (
    "Time follows cycles if the SM clock stays the same; on many GPUs the clock drops as the tensor pipe gets busier."
)

# --- Causes ---


def causes(view: LaunchView, fixes: Sequence[Fix] = ()) -> Component:
    """The verdict's causes: predicted gain, share, disease, fix, and where in the source. With
    ``fixes`` (``analysis.diagnosis.advise``) their gains have an interval."""
    verdict, title = view.judged, "Causes and fixes"
    if not verdict.causes and verdict.cause in GOOD_CAUSES:
        return card(title, [note("empty", "No cause was found.")])
    if not verdict.causes:
        wanted = "--set pipeline" if verdict.account is None else "--set source"
        return card(title, [not_collected("the data to split its idle time", wanted)])
    known = [fix for fix in fixes if fix.low is not None and fix.high is not None]
    ranges = {fix.cause: f" ({fix.low:.0f} to {fix.high:.0f})" for fix in known}
    shown = [_cause(cause, view.id, ranges.get(cause.cause, "")) for cause in verdict.causes]
    return card(title, [html.Ol(shown, className="causes")], CAUSES_HINT)


def causes_with_ranges(view: LaunchView) -> Component:
    """The causes with the intervals of their gains; without them where the advice fails, which
    ``depths`` says."""
    with suppress(Exception):
        return causes(view, view.advice.fixes)
    return causes(view)


def _cause(cause: Cause, launch: str, interval: str) -> Component:
    """One cause; what its cure gains stands first in its row, as in those of Nsight's rules."""
    name, fix = cause.cause, cause.fix
    gain: Component = html.Span("saving not identified", className="gain missing")
    if cause.predicted_gain_pct is not None:
        gain = _gain(cause.predicted_gain_pct, interval, title="of the launch's cycles saved")
    head = [
        gain,
        swatch(part_color(name)),
        html.Strong(part_label(name)),
        *([html.Span(disease_words(cause.disease), className="tag")] if cause.disease else []),
        hint(f"{'measured ' if cause.measured else ''}{values.percent(cause.pct)} of the time"),
    ]
    body: list[Component] = [html.Div(head, className="cause-head")]
    if fix:
        body.append(html.P(fix if fix[-1:] in ".!?" else f"{capital(fix)}."))
    if places := [place for place in cause.where if place.pct >= LEAST_PCT]:
        body.append(html.Ul([_place(place) for place in places], className="places"))
        if name in PARTS:
            href = SourceAddress(by=name).of_launch(launch)
            body.append(dcc.Link("show in the source", href=href, className="hint live-only"))
    return html.Li(body)


def _gain(percent: float, more: str, **attributes: Any) -> Component:
    return html.Span([html.Strong(f"{percent:.1f} %"), hint(more)], className="gain", **attributes)


def _place(place: Place) -> Component:
    at = values.location(place.file, place.line)
    parts: list[Component] = [html.Span(at, title=place.file or "")] if at else []
    if place.sass:
        parts.append(html.Code(place.sass))
    return html.Li([*parts, html.Span(f"{place.pct:.1f} %", className="num")])


# --- Rules ---


def rules(view: LaunchView) -> Component:
    """What Nsight's own rules say, by its own estimates: those with an estimated speedup first,
    then warnings; what is fine is folded away."""
    frame: pd.DataFrame = view.launch.rules
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
    about = "by Nsight's own estimates, as it states them"
    return card("Nsight's rules", [html.Div(blocks, className="scroll-list")], about)


def _rule(rule: Mapping[Any, Any]) -> Component:
    percent, scope = values.number(rule["speedup_pct"]), str(rule["speedup_kind"] or "")
    gain: Component = html.Span(["no estimate"], className="gain missing")
    if percent is not None and percent >= 0.05:
        gain = _gain(percent, f" ({scope})" if scope else "")
    title = html.Strong(values.plain(str(rule["title"] or rule["rule"])))
    message = html.P(values.plain(str(rule["message"] or "")))
    return html.Li([html.Div([gain, title], className="cause-head"), message])


# --- Depths of the pipeline ---


def depths(view: LaunchView) -> Component:
    """Predicted utilization by stages, the best depth in words, and why a depth is not identified.
    Another launch of the kernel that has that depth says how long it takes."""
    title, caption, advice = "Depth of the pipeline", "Predicted utilization by stages", view.advice
    notes = [f"{capital(text)}." for text in advice.notes if text]
    warnings: list[Child] = [items(notes, "warnings")] if notes else []
    rows = depth_rows(advice)
    if not any(row.predicted for row in rows):
        return card(title, [note("empty", "This report does not allow predicting other depths."), *warnings])
    best, measured = best_depth(advice, view.unit), list[Component]()
    if depth := best_stages(advice):
        known = measured_depth(view.row, [other.row for other in view.store.alike(view.entry)], depth)
        measured = [html.P(known or CLOCK, className="hint")]
    head = ["Stages", f"{view.unit} busy", "Interval", "Cycles", "Cycles relative to now"]
    parts = [
        html.P(best, className="depth-sentence"),
        *measured,
        figure("depths", depth_figure(rows, view.unit), f"{caption}. {best}"),
        as_table(caption, head, [row.cells for row in rows], numeric=range(5)),
        *warnings,
    ]
    source = _SOURCES[advice.stages_from or "given"]
    about = f"now {advice.stages} stages, {source}; predicted with the model of ncubble advise"
    return card(title, parts, about if advice.stages else "")


def best_stages(advice: Advice) -> int:
    """The depth that is worth a change; 0 where none is known to be."""
    known = {depth: predicted.tensor_elapsed_pct for depth, predicted in advice.depths.items() if predicted}
    if advice.stages not in known:
        return 0
    depth = chosen_depth(known)
    return depth if known[depth] - known[advice.stages] > NEARLY else 0


def best_depth(advice: Advice, unit: str) -> str:
    """What to do about the depth, in a sentence: the depth that ``model.predict`` chooses."""
    known = {depth: predicted.tensor_elapsed_pct for depth, predicted in advice.depths.items() if predicted}
    if advice.stages not in known:
        return "The present depth is not known, so changes cannot be computed."
    present, depth = advice.stages, best_stages(advice)
    if not depth:
        deepest = chosen_depth(known)
        same = f" Up to {deepest} stages cost only shared memory." if deepest > present else ""
        return f"Keep {present} stage{'' if present == 1 else 's'}: no other depth is predicted to be faster.{same}"
    best = next(row for row in depth_rows(advice) if row.depth == depth)
    return (
        f"Use {depth} stages instead of {present}: {unit} {values.percent(best.busy_pct)} busy "
        f"({best.interval}), {-(best.change_pct or 0.0):.0f} % fewer cycles."
    )
