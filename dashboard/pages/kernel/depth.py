"""Other depths of the pipeline of one launch: predictions as rows, a sentence, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.advise import Advice
from ncubble.analysis.launches.depths import measured_depth
from ncubble.analysis.model.predict import NEARLY, chosen_depth
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.ui.components import Child, as_table, card, figure, note
from ncubble.dashboard.ui.figures import depth_figure, depth_rows
from ncubble.text.values import percent

TITLE = "Depth of the pipeline"
_SOURCES = {"manifest": "from the run's manifest", "sass": "inferred from the code", "given": "as given"}


CLOCK = (
    "Time follows cycles if the SM clock stays the same; on many GPUs the clock drops as the tensor pipe gets busier."
)


def section(entry: Entry, advice: Advice, alike: Sequence[Mapping[str, Any]] = ()) -> Component:
    """Predicted utilization by stages, the best depth in words, and why a depth is not identified.
    ``alike`` are rows of other launches of the kernel: one that has that depth says how long it
    takes."""
    notes = [html.Li(f"{text[:1].upper()}{text[1:]}.") for text in advice.notes if text]
    warnings: list[Child] = [html.Ul(notes, className="warnings")] if notes else []
    rows = depth_rows(advice)
    if not any(row.busy_pct is not None for row in rows):
        return card(TITLE, [note("empty", "This report does not allow predicting other depths."), *warnings])
    unit, stages = words.unit_words(entry.verdict.unit), advice.stages
    best = best_depth(advice, unit)
    measured = measured_depth(entry.row, alike, best_stages(advice)) if best_stages(advice) else ""
    caption = "Predicted utilization by stages"
    head = ["Stages", f"{unit} busy", "Interval", "Cycles", "Cycles relative to now"]
    cells = [[str(row.depth), row.busy_words, row.interval_words, row.cycles_words, row.change_words] for row in rows]
    parts = [
        html.P(best, className="depth-sentence"),
        *([html.P(measured or CLOCK, className="hint")] if best_stages(advice) else []),
        figure("depths", depth_figure(rows, unit), f"{caption}. {best}"),
        as_table(caption, head, cells, numeric=(0, 1, 2, 3, 4)),
        *warnings,
    ]
    source = (
        f"now {stages} stages, {_SOURCES[advice.stages_from or 'given']}; predicted with the model of ncubble advise"
    )
    return card(TITLE, parts, source if stages else "")


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
        f"Use {depth} stages instead of {present}: {unit} {percent(best.busy_pct)} busy "
        f"({best.interval_words}), {-(best.change_pct or 0.0):.0f} % fewer cycles."
    )
