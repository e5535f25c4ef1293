"""Advice for one launch: ranked causes with their gains, other depths of the pipeline, and Nsight's
rules beside them.

Causes come from the verdict at once. Intervals and depths take a prediction: they come once the
page stands.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import GOOD_CAUSES
from ncubble.analysis.diagnosis import words
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.kernel.figures.depth import best_depth, depth_figure, depth_rows
from ncubble.dashboard.pages.kernel.sections.tables import as_table, causes_list, rules_list
from ncubble.dashboard.ui.components import Child, card, figure, not_collected, note

CAUSES_HINT = "by what their cure gains, in % of kernel time; gains overlap and do not add up"


def causes(entry: Entry, fixes: list[dict[str, Any]] | None = None) -> Component:
    """The verdict's causes; with ``fixes`` (``analysis.diagnosis.advise``) their gains have an
    interval."""
    verdict = entry.verdict
    found = verdict.get("causes") or []
    if not found and verdict.get("cause") in GOOD_CAUSES:
        return card("Causes and fixes", [note("empty", "Nothing to remove: no cause was found.")])
    if not found:
        wanted = "--set pipeline" if verdict.get("account") is None else "--set source"
        return card("Causes and fixes", [not_collected("data that would split its idle time", wanted)])
    ranges = {fix["cause"]: (fix["low"], fix["high"]) for fix in fixes or [] if fix.get("low") is not None}
    return card("Causes and fixes", [causes_list(found, entry.row["id"], ranges)], CAUSES_HINT)


def told(entry: Entry, advice: Callable[[], dict[str, Any]]) -> Component:
    """The causes with the intervals of their gains; without them where ``advice`` fails, which
    ``depth`` says."""
    with suppress(Exception):
        return causes(entry, advice()["fixes"])
    return causes(entry)


def rules(entry: Entry) -> Component:
    """What Nsight's own rules say, by its own estimates."""
    found = entry.launch.rules
    if found.empty:
        return card("Nsight's rules", [not_collected("rule results", "--set full")])
    return card("Nsight's rules", [rules_list(found)], "by Nsight's own estimates, as it states them")


def depth(entry: Entry, advice: dict[str, Any]) -> Component:
    """Predicted utilization by stages, the best depth in words, and why a depth is not
    identified."""
    title = "Depth of the pipeline"
    notes = [html.Li(f"{text[:1].upper()}{text[1:]}.") for text in advice["notes"] if text]
    known = depth_rows(advice)
    listed: list[Child] = [html.Ul(notes, className="warnings")] if notes else []
    if not any(row.busy_pct is not None for row in known):
        return card(title, [note("empty", "No other depth can be predicted from this report."), *listed])
    unit = words.unit_words(entry.verdict.get("unit"))
    said = best_depth(known, advice["stages"], unit)
    lines: list[list[Child]] = [
        [str(row.depth), row.busy_words, row.interval_words, row.cycles_words, row.change_words] for row in known
    ]
    head = ["Stages", f"{unit} busy", "Interval", "Cycles", "Time against now"]
    drawn = figure("depths", depth_figure(known, unit), f"Predicted utilization by stages. {said}")
    numbers = as_table("Predicted utilization by stages", head, lines, numeric=(0, 1, 2, 3, 4))
    parts = [html.P(said, className="depth-sentence"), drawn, numbers, *listed]
    return card(title, parts, _source(advice))


def _source(advice: dict[str, Any]) -> str:
    told_by = {"manifest": "as the run's manifest says", "sass": "read off the code", "given": "as given"}
    known = advice["stages"]
    return (
        f"now {known} stages, {told_by.get(advice['stages_from'], '')}; predicted as by ncubble advise" if known else ""
    )
