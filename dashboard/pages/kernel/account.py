"""Where the time of one launch went: its account as a waterfall from 100 % of elapsed time down to
what the unit worked, in numbers, and what ``ncubble ablate`` measured of it."""

from __future__ import annotations

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.ablation.result import SLACK, Ablation, MeasuredLine, MeasuredPart, ablation_of
from ncubble.analysis.account.parts import WORK, part_label, part_style
from ncubble.analysis.account.shares import REST
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.words import amount, finding
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.ui import components as ui
from ncubble.dashboard.ui.figures import SMALLEST, described, parts_of, waterfall
from ncubble.text import values

_FAITHFUL = {True: "same as the program's", False: "differ", None: "not known"}
_DIFFER = "The kernel is not deterministic, or reads more than its arguments."


def waterfall_card(view: LaunchView) -> Component:
    """The account as an ablation measured it where every set of parts was measured, else as the
    verdict has it; in numbers, both."""
    account, took, ablation = view.verdict.account or {}, view.row["duration_ns"], view.ablation
    if words.bubble_pct(account) is None:
        lacking = ui.not_collected("counters for an account of elapsed cycles", "--set pipeline")
        return ui.card("Bubble account", [lacking])
    shares = {name: share for name, share, _ in parts_of(account)}
    removed = [name for part in ablation.removed_parts for name in part.names] if ablation else []
    rows: list[list[ui.Child]] = []
    for name in sorted({*shares, *removed}, key=lambda name: (name in WORK, -shares.get(name, 0.0), name)):
        share, style = values.number(account.get(name)), part_style(name)
        estimated = ui.absent("–") if share is None else f"{share:.2f} %"
        time = values.duration(None if took is None or share is None else took * share / 100.0)
        measured = [_measured(ablation.part_of(name), name)] if ablation else []
        rows.append([ui.part_name(part_label(name, view.unit), style), estimated, time, *measured, style.meaning])
    shown, steps = account, "from 100 % of elapsed SM cycles down to work"
    head, about = ["Part", "Share", "Time", "Meaning"], f"{steps}; the parts sum to 100"
    if ablation:
        shown = ablation.account(account) or account
        head[1:3] = ["Estimated", "Time, estimated", "Measured"]
        not_whole = "estimated, because not every combination of parts could be measured"
        about = f"{'measured by ablation' if ablation.whole else not_whole}: {steps}"
    drawn = ui.figure("account", waterfall(shown, took, view.unit), described(shown, view.unit))
    notes = [
        f"“{part_label(name)}” stands for {ui.joined([*map(part_label, finer)])}, which could not be separated."
        for name, finer in view.verdict.merged.items()
        if abs(values.number(shown.get(name)) or 0.0) >= SMALLEST
    ]
    numbers = ui.as_table("The account in numbers", head, rows, numeric=range(1, len(head) - 1))
    return ui.card("Bubble account", [drawn, *(html.P(text, className="hint") for text in notes), numbers], about)


def _measured(part: MeasuredPart | None, name: str) -> ui.Child:
    """What was measured of the part ``name``, and with which others."""
    if part is None:
        return ui.absent("–", title="not removed, so not measured")
    others = [part_label(other) for other in part.names if other != name]
    return f"{amount(part)} with {ui.joined(others)}" if others else amount(part)


def lacking(view: LaunchView) -> Component:
    """Which counters would tell more."""
    names = ", ".join(view.account.missing) if view.account else ""
    text = f"Not collected, but needed for a finer account: {names}."
    return html.P(text, className="hint") if names else html.Span()


def measured(view: LaunchView) -> Component | None:
    """Parts beside their estimates, lines, and delays, as measured; None where nothing was. Raises
    NcubbleError for a damaged file."""
    ablation = view.ablation or ablation_of(view.entry.path, view.entry.number)
    if ablation is None:
        return None
    stats = [
        ui.stat(
            "Cycles", values.significant(ablation.cycles, thousands=","), f"± {values.fixed(ablation.se_pct, 2)} %"
        ),
        ui.stat("Rounds", str(ablation.rounds)),
        ui.stat("Route", ablation.route),
        ui.stat("Results of the replay", _FAITHFUL[ablation.faithful], _DIFFER if ablation.faithful is False else ""),
    ]
    failed = [variant for variant in ablation.variants if variant.status != "ok"]
    notes = [f"Without {variant.name.replace('_', ', ')}: {variant.status}." for variant in failed]
    notes += [f"{ui.capital(note)}." for note in ablation.notes]
    left = [_parts(ablation.parts), *([_slack(ablation)] if ablation.slack else [])]
    tables = [html.Div(left), *([_lines(view.id, ablation.lines)] if ablation.lines else [])]
    parts: list[ui.Child] = [
        html.P(ui.capital(finding(view.verdict, ablation)), className="measured-sentence"),
        html.Dl(stats, className="stats"),
        html.Div(tables, className="measured-tables"),
        *(html.P(note, className="hint") for note in notes),
    ]
    about = "parts removed from the machine code, in % of the kernel's cycles"
    return ui.card("Measured by ablation", parts, about, "measured-card")


def _parts(parts: list[MeasuredPart]) -> Component:
    rows: list[list[ui.Child]] = []
    for part in parts:
        label = ui.part_name(part_label(part.part), *map(part_style, part.names))
        if part.part == REST:
            label = html.Span("neither work nor removed", className="part-name hint")
        estimated = ui.absent("–") if part.estimated is None else values.fixed(part.estimated)
        alone = ui.absent("–") if part.alone is None else values.fixed(part.alone)
        rows.append([label, estimated, html.Strong(values.fixed(part.measured)), values.fixed(part.se, 1, ""), alone])
    about = "alone: time saved by removing only this part; without copies nothing waits for them"
    return _titled("Parts", about, ["Part", "Estimated", "Measured", "±", "Alone"], rows, range(1, 5))


def _lines(launch: str, lines: list[MeasuredLine]) -> Component:
    """Lines that cost most, each linked to its place on the Source page."""
    most, rows = max(line.pct for line in lines), list[list[ui.Child]]()
    for line in lines:
        place: ui.Child = html.Code(line.sass)
        if line.file and (at := values.location(line.file, line.line)):
            href = SourceAddress(file=line.file, line=line.line).of_launch(launch)
            place = dcc.Link(at, href=href, title=line.file)
        bar = ui.metered(values.fixed(line.pct), line.pct, most, part_style(line.part).color)
        rows.append([bar, part_label(line.part), place])
    about = "each part, split by stall samples of its instructions"
    return _titled("Lines", about, ["Cost", "Part", "Source"], rows, [0])


def _slack(ablation: Ablation) -> Component:
    rows: list[list[ui.Child]] = []
    for variant in ablation.slack_by_cost:
        cost = ui.absent(variant.status) if variant.costs_pct is None else values.fixed(variant.costs_pct)
        rows.append([variant.name.removeprefix(f"{SLACK} "), str(variant.rows), cost, values.fixed(variant.se, 1, "")])
    about = "cost of a delay; a delay without cost is hidden by other work"
    return _titled("Slack", about, ["Delayed in the loop", "Instructions", "Costs", "±"], rows, range(1, 4))


def _titled(title: str, about: str, head: list[str], rows: list[list[ui.Child]], numeric: Sequence[int]) -> Component:
    heading = html.Div([html.H3(title), ui.hint(about)], className="card-head")
    return html.Div([heading, ui.table(head, rows, f"{title}, measured", numeric)])
