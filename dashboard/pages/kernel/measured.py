"""What ``ncubble ablate`` measured of a launch: parts beside their estimates, lines, and delays."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.ablation.result import SLACK, Ablation, MeasuredLine, MeasuredPart, MeasuredVariant, ablation_of
from ncubble.analysis.account.parts import part_label, part_style
from ncubble.analysis.account.shares import REST
from ncubble.analysis.diagnosis.measured import finding
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.ui.components import Child, absent, card, meter, stat, swatch, table
from ncubble.errors import NcubbleError
from ncubble.text import values

TITLE = "Measured by ablation"
_FAITHFUL = {True: "same as the program's", False: "differ", None: "not known"}
_DIFFER = "The kernel is not deterministic, or reads more than its arguments."


def read(entry: Entry) -> Ablation | NcubbleError | None:
    """What was measured of the launch; None where nothing was, the error where the file is
    damaged."""
    try:
        return ablation_of(entry.path, entry.number)
    except NcubbleError as error:
        return error


def section(entry: Entry, ablated: Ablation | NcubbleError) -> Component:
    """The card; raises NcubbleError where the file is damaged."""
    if isinstance(ablated, NcubbleError):
        raise ablated
    stats = [
        stat("Cycles", values.significant(ablated.cycles, thousands=","), f"± {values.fixed(ablated.se_pct, 2)} %"),
        stat("Rounds", str(ablated.rounds)),
        stat("Route", ablated.route),
        stat("Results of the replay", _FAITHFUL[ablated.faithful], _DIFFER if ablated.faithful is False else ""),
    ]
    sentence = finding(entry.verdict, ablated)
    notes = [f"Without {variant.name.replace('_', ', ')}: {variant.status}." for variant in _failed(ablated)]
    notes += [f"{note[:1].upper()}{note[1:]}." for note in ablated.notes]
    left = [_parts(ablated.parts), *([_slack(ablated.slack_by_cost)] if ablated.slack else [])]
    tables = [html.Div(left), *([_lines(entry, ablated.lines)] if ablated.lines else [])]
    parts: list[Child] = [
        html.P(f"{sentence[:1].upper()}{sentence[1:]}", className="measured-sentence"),
        html.Dl(stats, className="stats"),
        html.Div(tables, className="measured-tables"),
        *(html.P(note, className="hint") for note in notes),
    ]
    return card(TITLE, parts, "parts removed from the machine code, in % of the kernel's cycles", "measured-card")


def _failed(ablation: Ablation) -> list[MeasuredVariant]:
    return [variant for variant in ablation.variants if variant.status != "ok"]


def _parts(parts: list[MeasuredPart]) -> Component:
    rows: list[list[Child]] = []
    for part in parts:
        alone = absent("–") if part.alone is None else values.fixed(part.alone, 1)
        estimated = absent("–") if part.estimated is None else values.fixed(part.estimated, 1)
        measured = html.Strong(values.fixed(part.measured, 1))
        rows.append([_label(part), estimated, measured, values.fixed(part.se, 1, ""), alone])
    head = ["Part", "Estimated", "Measured", "±", "Alone"]
    return _titled(
        "Parts",
        "alone: time saved by removing only this part; without copies nothing waits for them",
        head,
        rows,
        (1, 2, 3, 4),
    )


def _label(part: MeasuredPart) -> Component:
    if part.part == REST:
        return html.Span("neither work nor removed", className="part-name hint")
    styles = [part_style(name) for name in part.names]
    return html.Span(
        [*(swatch(style.color, style.hatch) for style in styles), part_label(part.part)], className="part-name"
    )


def _lines(entry: Entry, lines: list[MeasuredLine]) -> Component:
    """Lines that cost most, each linked to its place on the Source page."""
    most = max(line.pct for line in lines)
    rows: list[list[Child]] = []
    for line in lines:
        color = part_style(line.part).color
        bar = html.Span([meter(line.pct, most, color), values.fixed(line.pct, 1)], className="metered")
        rows.append([bar, part_label(line.part), _place(entry, line)])
    hint = "each part, split by stall samples of its instructions"
    return _titled("Lines", hint, ["Cost", "Part", "Source"], rows, (0,))


def _place(entry: Entry, line: MeasuredLine) -> Child:
    at = values.location(line.file, line.line)
    if not at or not line.file:
        return html.Code(line.sass)
    href = SourceAddress(file=line.file, line=line.line).of_launch(str(entry.row["id"]))
    return dcc.Link(at, href=href, title=line.file)


def _slack(slack: list[MeasuredVariant]) -> Component:
    rows: list[list[Child]] = []
    for variant in slack:
        cost = absent(variant.status) if variant.costs_pct is None else values.fixed(variant.costs_pct, 1)
        rows.append([variant.name.removeprefix(f"{SLACK} "), str(variant.rows), cost, values.fixed(variant.se, 1, "")])
    head = ["Delayed in the loop", "Instructions", "Costs", "±"]
    return _titled("Slack", "cost of a delay; a delay without cost is hidden by other work", head, rows, (1, 2, 3))


def _titled(title: str, hint: str, head: list[str], rows: list[list[Child]], numeric: tuple[int, ...]) -> Component:
    heading = html.Div([html.H3(title), html.Span(hint, className="hint")], className="card-head")
    return html.Div([heading, table(head, rows, f"{title}, measured", numeric)])
