"""The Compare page: launches side by side. Its whole state is its address."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ncubble.analysis.compare.compare import (
    ComparedLaunch,
    CompareResult,
    Comparison,
    Group,
    compare_groups,
    compared_launch,
    groups,
    letter,
)
from ncubble.analysis.compare.words import Line, about, headings, lines, markdown, sentences, share_words, spread
from ncubble.analysis.details.tracks import MIN_ACTIVE, window
from ncubble.analysis.diagnosis import words
from ncubble.analysis.launches.table import LaunchRows, Row
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.rows import labels
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.data.texts import Texts
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, MOST_SIDES, CompareAddress
from ncubble.dashboard.pages.compare import figures
from ncubble.dashboard.pages.page import Page, largest_difference, launch_at, still_loading
from ncubble.dashboard.ui import components as ui
from ncubble.dashboard.ui.figures import reason_style
from ncubble.text import values

AXES = {"in µs": False, "in % of each launch": True}
MOST_REPEATS = 32
"""Maximum launches of a report that are read as repeats of a side."""
SIGNS = {"better": "▲ better", "worse": "▼ worse", "changed": "◆ changed", "unclear": "? unclear"}
"""Outcomes of the noise test: a symbol and a word besides the colour."""


def layout(store: ReportStore, address: CompareAddress) -> Component:
    """The page at an address; while reports are being read, launches may still come."""
    launches = {launch: launch_at(store, launch) for launch in address.launches}
    entries = [entry for entry in launches.values() if entry is not None]
    if len(entries) < len(launches) and not (progress := store.progress()).finished:
        return still_loading(progress)
    lost = [launch for launch, entry in launches.items() if entry is None]
    problems = [ui.note("error", f"No launch has this address: {launch}") for launch in lost]
    if address.dropped:
        count, full = len(address.dropped), len(address.launches) == MOST_SIDES
        text = f"{count} launches of the address are left out; a comparison takes up to {MOST_SIDES}."
        unknown = f"{ui.counted(count, 'launch', 'launches')} of the address: not found."
        problems.append(ui.note("error", text if full else unknown))
    address = replace(address, launches=tuple(launch for launch in launches if launch not in lost))
    parts = [_head(address), *problems]
    if len(entries) > 1:
        found, chosen, *sections = _compared_cards(store, entries, address)
        parts += [found, chosen, chooser(store, address), *sections]
    elif entries:
        parts += [alone(told_apart(entries)[0], address), chooser(store, address)]
    else:
        parts.append(chooser(store, address))
        if address == CompareAddress() and not lost:
            parts += _example(store)
    return html.Div(parts, className="compare-page")


def _compared_cards(store: ReportStore, entries: Sequence[Entry], address: CompareAddress) -> list[Component]:
    """What differs, the sides, and all sections."""
    comparison = compare_groups(sides(store, entries))
    found = ui.guarded("Difference", lambda: _difference(comparison))
    chosen = ui.guarded("Sides", lambda: _sides(entries, comparison, address))
    return [found, chosen, *_sections(entries, comparison, address)]


def _example(store: ReportStore) -> list[Component]:
    """What stands below while nothing is chosen: the largest difference that a parameter makes."""
    found = largest_difference(store)
    pair = tuple(str(point.typical()["id"]) for point in (found[2], found[1])) if found else ()
    entries = [entry for launch in pair if (entry := launch_at(store, launch))]
    title = ui.page_head("For example", "the largest difference that one parameter makes")
    return [title, *_compared_cards(store, entries, CompareAddress(pair))] if len(entries) == 2 else []


def told_apart(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The rows of launches, with labels that tell these from each other."""
    rows = [entry.row for entry in entries]
    return [{**row, "label": label} for row, label in zip(rows, labels(rows), strict=True)]


def sides(store: ReportStore, entries: Sequence[Entry]) -> list[Group]:
    """Each chosen launch with its repeats: launches of the same report and configuration that were
    not chosen, too."""
    chosen = {(entry.key, entry.number) for entry in entries}
    compared = []
    for entry in entries:
        own = _compared(entry)
        others = [other for other in store.siblings(entry) if _may_repeat(other, entry)]
        among = any((other.key, other.number) in chosen for other in others)
        repeats = [_compared(other) for other in ([] if among else others[:MOST_REPEATS])]
        compared.append(groups([own, *(launch for launch in repeats if launch.of_repeats == own.of_repeats)])[0])
    return compared


def _compared(entry: Entry) -> ComparedLaunch:
    return compared_launch(entry.launch, entry.verdict, entry.ablation)


def _may_repeat(other: Entry, entry: Entry) -> bool:
    same = all(other.row[name] == entry.row[name] for name in ("demangled", "label", "shape"))
    return same and other.number != entry.number


def _head(address: CompareAddress) -> Component:
    count = len(address.launches)
    lead = f"{count} launches; all differences are relative to A" if count > 1 else "What changed, and where time went"
    links = {"← All launches": "/"}
    if count == 2:
        links["Swap A and B"] = address.href(launches=address.launches[::-1])
    if count > 1:
        links["New comparison"] = address.href(launches=())
    buttons = [dcc.Link(text, href=href, className="button") for text, href in links.items()]
    back = ui.crumbs("Back, and other comparisons", *buttons)
    return html.Div([back, html.H1("Compare"), html.P(lead, className="lead")], className="page-head compare-head")


def _sections(entries: Sequence[Entry], comparison: Comparison, address: CompareAddress) -> list[Component]:
    measurements = ui.guarded("Measurements", lambda: _measurements(comparison))
    stalls = ui.guarded("Stall reasons", lambda: _stalls(comparison))
    return [
        ui.guarded("Bubble accounts", lambda: _accounts(entries, comparison)),
        ui.guarded("Timelines", lambda: _timelines(entries, address)),
        html.Div(
            [html.Div([measurements]), html.Div([stalls])],
            className="" if len(entries) > 2 or spread(comparison) else "columns",
        ),
        ui.guarded("Markdown", lambda: _markdown(comparison)),
    ]


def _sides(entries: Sequence[Entry], comparison: Comparison, address: CompareAddress) -> Component:
    """One line per side, with links that change who takes part and who is A."""
    lines = []
    for index, (row, group) in enumerate(zip(told_apart(entries), comparison.sides, strict=True)):
        launch = address.launches[index]
        others = tuple(other for other in address.launches if other != launch)
        remove, first = address.href(launches=others), address.href(launches=(launch, *others))
        links = [dcc.Link("remove", href=remove, className="button small", title=f"remove {letter(index)}")]
        if index:
            links.insert(0, dcc.Link("use as A", href=first, className="button small"))
        tags = [] if index else [html.Span("reference", className="tag")]
        lines.append(side_line(index, row, about(group) if group else "", str(row["path"]), links, tags))
    return html.Section(html.Ol(lines, className="sides"), className="card", **ui.aria(label="Sides"))


def _difference(comparison: Comparison) -> Component:
    parts: list[Component] = [html.P(text, className="sentence") for text in sentences(comparison)]
    parts += [ui.items(comparison.notes, "warnings")] if comparison.notes else []
    return html.Section(parts, className="card verdict", **ui.aria(label="Difference"))


def _accounts(entries: Sequence[Entry], comparison: Comparison) -> Component:
    rows = comparison.section("account")
    if not rows:
        return ui.card("Bubble accounts", [_lacking("counters for an account", "--set pipeline")])
    units = {words.unit_words(entry.verdict.unit) for entry in entries}
    unit = units.pop() if len(units) == 1 else ""
    label = f"Bubble accounts of all sides. {'; '.join(sentences(comparison))}"
    shown = [row.name for row in rows if any(value and abs(value.mean) >= 0.05 for value in row.values)]
    parts = [ui.figure("accounts", figures.accounts_figure(comparison, unit), label), ui.parts_legend(shown, unit)]
    if comparison.section("time"):
        drawn = ui.figure("changes", figures.changes_figure(comparison), "Time of each part relative to A")
        parts += [html.H3("Where the time went"), drawn]
    return ui.card("Bubble accounts", parts, share_words(comparison))


def _timelines(entries: Sequence[Entry], address: CompareAddress) -> Component:
    """The card of the timelines; which sides have none is said."""
    windows = [window(entry.launch.timeline, entry.verdict.unit or "tensor") for entry in entries]
    sampled = [figures.Sampled(side, seen) for side, seen in enumerate(windows) if seen and seen.active >= MIN_ACTIVE]
    if not sampled:
        lacking = "Not collected on any side: PM samples, or too few to draw. Profile with"
        return ui.card("Timelines", [ui.note("empty", lacking, "--set timeline")])
    axes = [ui.choice(text, address.href(relative=axis), axis == address.relative) for text, axis in AXES.items()]
    drawn = figures.overlaid_figure(sampled, address.relative)
    head = ["Track", "Side", "least", "mean", "most", "samples"]
    labels = dict.fromkeys(track.label for side in sampled for track, *_ in side.window.tracks)
    rows = [row for label in labels for side in sampled for row in _track_rows(label, side)]
    parts: list[Component] = [
        ui.crumbs("Axis of the timelines", *axes),
        ui.figure("overlaid", drawn, "Timelines of all sides, overlaid", tools=True),
        ui.as_table("Tracks of the timelines in numbers", head, rows, numeric=(2, 3, 4, 5)),
    ]
    without = [letter(side) for side in range(len(entries)) if side not in {own.side for own in sampled}]
    if without:
        parts.append(html.P(f"No samples, or too few to draw: {', '.join(without)}.", className="hint"))
    return ui.card("Timelines", parts, "PM sampling, aligned at each launch's start; drag to zoom")


def _track_rows(label: str, side: figures.Sampled) -> Iterator[list[str]]:
    """Least, mean and most of each track while a side is active."""
    for track, unit in side.tracks(label):
        numbers = [f"{number:,.1f} {unit}" for number in (track.min(), track.mean(), track.max())]
        yield [label, letter(side.side), *numbers, str(len(track))]


def _lacking(what: str, flag: str) -> Component:
    return ui.note("empty", f"Not collected on any side: {what}. Profile with", flag)


def _measurements(comparison: Comparison) -> Component:
    """What was measured of the launches, then the account in numbers."""
    tables = []
    for section, title in (("launch", "Measurement"), ("account", share_words(comparison))):
        if shown := lines(comparison, section):
            head = [title, *headings(comparison)]
            rows = [[line.name, *_cells(line)] for line in shown]
            tables.append(ui.table(head, rows, f"{title} on every side", numeric=range(1, len(head))))
    return ui.card("Measurements", tables, spread(comparison))


def _cells(line: Line) -> list[ui.Child]:
    """The value of each side, and its difference to A with what the noise model says of it."""
    cells: list[ui.Child] = []
    for cell in line.cells:
        cells.append(cell.value)
        if cell.outcome:
            sign = html.Span(SIGNS.get(cell.outcome, cell.outcome), className=f"outcome {cell.outcome.split()[0]}")
            cells.append(html.Span([cell.change, sign]))
        elif cell.side:
            cells.append(ui.hint(cell.change) if cell.change == "same" else cell.change)
    return cells


def _stalls(comparison: Comparison) -> Component:
    reasons = comparison.section("stalls")
    if not reasons:
        return ui.card("Stall reasons", [_lacking("warp samples", "--set source")])
    shown = [index for index, side in enumerate(comparison.sides) if side]
    head = ["% of warp samples", *(letter(index) for index in shown)]
    rows = [
        [reason_style(row.name).label, *(f"{value.mean:.1f}" if (value := row.values[i]) else "–" for i in shown)]
        for row in reasons
    ]
    caption = "Warp samples by stall reason"
    drawn = ui.figure("stalls", figures.stalls_figure(comparison), caption)
    numbers = ui.as_table(f"{caption} on every side", head, rows, numeric=range(1, len(head)))
    return ui.card("Stall reasons", [drawn, numbers], "all warp samples")


def _markdown(comparison: Comparison) -> Component:
    text = markdown(CompareResult((comparison,)))
    tools = [
        html.Button("Copy as Markdown", id="copy-markdown", className="button", n_clicks=0),
        html.Span(id="copied", className="hint", role="status"),
    ]
    label = html.Label("Markdown", htmlFor="markdown-text", className="visually-hidden")
    textarea = dcc.Textarea(id="markdown-text", value=text, readOnly=True, className="markdown-text", spellCheck=False)
    return ui.card(
        "Summary for a merge request",
        [html.Div(tools, className="crumbs"), html.Details([html.Summary("Show text"), label, textarea])],
    )


# --- Choosing sides: likely partners of a side first ---

MOST_SUGGESTED = 20
"""Maximum suggestions shown."""
_LABEL = "Search kernel, parameters, shape, GPU"


searchable = Remembered(lambda rows: Texts(LaunchRows.of(rows)))


def suggest(
    among: Texts, text: str, taken: Collection[str] = (), like: Row | None = None
) -> tuple[list[tuple[Row, int]], int]:
    """At most ``MOST_SUGGESTED`` launches that match ``text`` as in the table of launches, without
    those whose id is ``taken``, and how many fit in all.

    First other configurations of the kernel of ``like``, then the rest of that kernel, then all
    others; among equals first those of the tensor pipe, then in the order of the rows. Launches of
    one report that a comparison takes for repeats of each other are one suggestion, with their
    number.
    """
    keep, _ = among.matching(text)
    keep &= [name not in taken for name in among.rows.cells("id")]
    found = among.rows.at(np.flatnonzero(keep))
    reports = (name.partition("/")[0] for name in found.cells("id"))
    alike = found.combined(("demangled", "label", "shape"))[0].tolist()
    repeats: dict[tuple[str, int], list[int]] = {}
    for place, group in enumerate(zip(reports, alike, strict=True)):
        repeats.setdefault(group, []).append(place)
    fitting = [(found[places[0]], len(places)) for places in repeats.values()]
    kernel, label = (like["kernel"], like["label"]) if like else (None, None)
    fitting.sort(key=lambda one: (one[0]["kernel"] != kernel, one[0]["label"] == label, one[0]["unit"] != "tensor"))
    return [(row, count) for row, count in fitting[:MOST_SUGGESTED]], len(fitting)


def chooser(store: ReportStore, address: CompareAddress) -> Component:
    """The card that adds a side; folded away where there is something to compare already."""
    count = len(address.launches)
    if count >= MOST_SIDES:
        return ui.note("info", f"A comparison holds up to {MOST_SIDES} launches: remove one to add another.")
    if not store.rows():
        text = "There are no launches yet. Record some, or open report files. To compare two in the terminal:"
        return ui.note("empty", text, "ncubble compare A B")
    items, summary = suggestions(store, "", address)
    field = ui.search_field("compare-find", _LABEL, debounce=0.15, value="", maxLength=LONGEST_SEARCH)
    count_words = html.Span(summary, id="compare-count", className="hint", role="status")
    parts = [
        html.Div([*field, count_words], className="crumbs"),
        html.Ol(items, id="compare-found", className="suggestions", **ui.aria(label="Launches to choose")),
    ]
    if count < 2:
        title = ("Choose the first launch", "Choose a launch to compare with it")[count]
        return ui.card(title, parts, "or select rows in the table of launches")
    body = html.Details([html.Summary("Add another launch"), *parts])
    return html.Section(body, className="card compare-add live-only", **ui.aria(label="Add another launch"))


def suggestions(store: ReportStore, text: str, address: CompareAddress) -> tuple[list[Component], str]:
    """(links that add a launch to what is compared, how many there are in words) for what was
    typed."""
    first = launch_at(store, address.launches[0]) if address.launches else None
    fitting, total = suggest(searchable.of(store), text, address.launches, first.row if first else None)
    if not total:
        return [], "No launch matches all of these words. Type fewer."
    summary = ui.counted(total, "configuration")
    if total > len(fitting):
        summary = f"the first {len(fitting)} of {total} configurations: type to narrow the list"
    return [_suggestion(row, count, address) for row, count in fitting], summary


def _suggestion(row: Row, count: int, address: CompareAddress) -> Component:
    facts = [row["gpu"] or "unknown GPU", values.duration(row["duration_ns"]), row["cause"]]
    label = values.short_name(str(row["label"]), 90)
    launches = f"{count} launches" if count > 1 else f"launch {row['launch']}"
    parts = [
        html.Span(values.short_name(str(row["name"]), 60), className="suggested-name"),
        *([html.Span(label, className="suggested-label")] if row["label"] else []),
        ui.hint(" · ".join(str(fact) for fact in facts if fact)),
        html.Span(f"{ui.near(row['path'])}, {launches}", className="hint suggested-path"),
    ]
    href = address.href(launches=(*address.launches, str(row["id"])))
    return html.Li(dcc.Link(parts, href=href, className="suggestion", title=str(row["demangled"])))


def side_line(
    side: int, row: Row, about: str, path: str, links: Sequence[Component], tags: Sequence[Component] = ()
) -> Component:
    """The line of one side: its letter, kernel and parameters, where it lies, and links that change
    it."""
    name = values.short_name(str(row["name"]), 72)
    parts: list[ui.Child] = [
        ui.badge(side),
        dcc.Link(name, href=f"/kernel/{row['id']}", className="row-link", title=str(row["demangled"])),
        *tags,
        html.Span(str(row["label"]), className="side-label"),
        ui.hint(about),
        html.Span(ui.near(path), className="hint side-path", title=path),
        html.Span(links, className="side-links"),
    ]
    return html.Li(parts, className="" if side else "reference")


def alone(row: Row, address: CompareAddress) -> Component:
    """The first side, while it has no other."""
    about = f"{row['gpu'] or 'unknown GPU'} · {values.duration(row['duration_ns'])}"
    remove = dcc.Link("remove", href=address.href(launches=()), className="button small")
    line = side_line(0, row, about, f"{row['path']}, launch {row['launch']}", [remove])
    return html.Section(html.Ol(line, className="sides"), className="card", **ui.aria(label="Sides"))


def register(app: Dash, store: ReportStore) -> None:
    """Suggest launches of ``store`` for what is typed."""

    @app.callback(
        Output("compare-found", "children"),
        Output("compare-count", "children"),
        Input("compare-find", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def find(text: str | None, search: str | None) -> tuple[list[Component], str]:
        return suggestions(store, (text or "")[:LONGEST_SEARCH], CompareAddress.parse(search))


PAGE = Page("Compare", CompareAddress, layout, register)
