"""The Compare page: launches side by side. Its whole state is its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.compare.compare import CompareResult, Comparison, compare_groups
from ncubble.analysis.compare.output import markdown
from ncubble.analysis.compare.sides import Group, compared_launch, groups, letter
from ncubble.analysis.compare.text import about, sentences, spread
from ncubble.analysis.details.tracks import MIN_ACTIVE, window
from ncubble.analysis.diagnosis import words
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.rows import labels
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.compare.address import MOST, CompareAddress
from ncubble.dashboard.pages.compare.chooser import alone, chooser
from ncubble.dashboard.pages.compare.figures import (
    Sampled,
    accounts_figure,
    changes_figure,
    overlaid_figure,
    stalls_figure,
)
from ncubble.dashboard.pages.compare.tables import as_table, metric_tables, parts_legend, stalls_table, timelines_table
from ncubble.dashboard.pages.missing import still_loading
from ncubble.dashboard.ui.components import aria, badge, card, figure, guarded, note
from ncubble.text import values

MOST_REPEATS = 32
"""Launches of one report that are read as repeats of a side."""


def layout(store: ReportStore, address: CompareAddress) -> Component:
    """The page at an address; while reports are being read, launches may still come."""
    found = {one: entry for one in address.launches if (entry := _find(store, one)) is not None}
    if len(found) < len(address.launches) and not (progress := store.progress()).finished:
        return still_loading(progress)
    lost = [one for one in address.launches if one not in found]
    entries = list(found.values())
    problems = [note("error", f"No launch has this address: {one}") for one in lost]
    if address.dropped:
        problems.append(
            note("error", f"Left out: {len(address.dropped)} of the address; it takes up to {MOST} launches.")
        )
    address = replace(address, launches=tuple(found))
    if len(entries) < 2:
        first = [alone(told_apart(entries)[0], address)] if entries else []
        return html.Div([_head(address), *problems, *first, chooser(store, address)], className="compare-page")
    comparison = compare_groups(sides(store, entries))
    chosen = guarded("Sides", lambda: _sides(entries, comparison, address))
    sections = _sections(entries, comparison, address)
    return html.Div([_head(address), *problems, chosen, chooser(store, address), *sections], className="compare-page")


def told_apart(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The rows of launches, with labels that tell these from each other."""
    rows = [entry.row for entry in entries]
    return [row | {"label": label} for row, label in zip(rows, labels(rows), strict=True)]


def _find(store: ReportStore, name: str) -> Entry | None:
    key, _, launch = name.partition("/")
    return store.find(key, int(launch))


def sides(store: ReportStore, entries: Sequence[Entry]) -> list[Group]:
    """Each chosen launch with its repeats: launches of the same report and configuration that were
    not chosen, too."""
    chosen = {(entry.key, entry.number) for entry in entries}
    found = []
    for entry in entries:
        own = compared_launch(entry.launch, entry.verdict)
        others = [other for other in store.siblings(entry) if _may_repeat(other, entry)]
        among = any((other.key, other.number) in chosen for other in others)
        members = [] if among else others[:MOST_REPEATS]
        repeats = [compared_launch(member.launch, member.verdict) for member in members]
        found.append(groups([own, *(one for one in repeats if one.of_repeats == own.of_repeats)])[0])
    return found


def _may_repeat(other: Entry, entry: Entry) -> bool:
    same = all(other.row[name] == entry.row[name] for name in ("demangled", "label", "shape"))
    return same and other.number != entry.number


def _head(address: CompareAddress) -> Component:
    count = len(address.launches)
    lead = f"{count} launches; every difference is against A" if count > 1 else "launches side by side"
    links = [dcc.Link("← All launches", href="/", className="button")]
    if count == 2:
        links.append(dcc.Link("Swap A and B", href=address.href(launches=address.launches[::-1]), className="button"))
    if count > 1:
        links.append(dcc.Link("Choose anew", href=address.href(launches=()), className="button"))
    back = html.Nav(links, className="crumbs", **aria(label="Back, and other choices"))
    return html.Div([back, html.H1("Compare"), html.P(lead, className="lead")], className="page-head compare-head")


def _sections(entries: Sequence[Entry], comparison: Comparison, address: CompareAddress) -> list[Component]:
    return [
        guarded("Difference", lambda: _difference(comparison)),
        guarded("Bubble accounts", lambda: _accounts(entries, comparison)),
        guarded("Timelines", lambda: _timelines(entries, address)),
        html.Div(
            [
                html.Div([guarded("Measurements", lambda: _measurements(comparison))]),
                html.Div([guarded("Stall reasons", lambda: _stalls(comparison))]),
            ],
            className="" if len(entries) > 2 or spread(comparison) else "columns",
        ),
        guarded("Markdown", lambda: _markdown(comparison)),
    ]


def _sides(entries: Sequence[Entry], comparison: Comparison, address: CompareAddress) -> Component:
    """One line per side, with links that change who takes part and who is A."""
    items, rows = [], told_apart(entries)
    for index, (entry, group) in enumerate(zip(entries, comparison.sides, strict=True)):
        one = address.launches[index]
        others = [other for other in address.launches if other != one]
        name = values.short_name(str(entry.row["name"]), 72)
        parts: list[Any] = [
            badge(index),
            dcc.Link(name, href=f"/kernel/{entry.row['id']}", className="row-link", title=str(entry.row["demangled"])),
            html.Span(str(rows[index]["label"]), className="side-label"),
            html.Span(about(group) if group else "", className="hint"),
            html.Span(str(entry.row["path"]), className="hint side-path", title=str(entry.row["path"])),
        ]
        links = (
            [dcc.Link("make it A", href=address.href(launches=(one, *others)), className="button small")]
            if index
            else []
        )
        links.append(
            dcc.Link(
                "remove",
                href=address.href(launches=tuple(others)),
                className="button small",
                title=f"remove {letter(index)}",
            )
        )
        items.append(html.Li([*parts, html.Span(links, className="side-links")]))
    return html.Section(html.Ol(items, className="sides"), className="card", **aria(label="Sides"))


def _difference(comparison: Comparison) -> Component:
    said: list[Component] = [html.P(text, className="sentence") for text in sentences(comparison)]
    if comparison.notes:
        said.append(html.Ul([html.Li(text) for text in comparison.notes], className="warnings"))
    return html.Section(said, className="card verdict", **aria(label="Difference"))


def _accounts(entries: Sequence[Entry], comparison: Comparison) -> Component:
    if not comparison.section("account"):
        return card("Bubble accounts", [_lacking("counters for an account", "--set pipeline")])
    units = {words.unit_words(entry.verdict.get("unit")) for entry in entries}
    unit = units.pop() if len(units) == 1 else ""
    said = "; ".join(sentences(comparison))
    parts = [
        figure("accounts", accounts_figure(comparison, unit), f"Bubble accounts of all sides. {said}"),
        parts_legend(comparison, unit),
    ]
    if comparison.section("time"):
        label = "Time of each part against A"
        parts += [html.H3("Where the time went"), figure("changes", changes_figure(comparison), label)]
    return card("Bubble accounts", parts, "percent of each launch's elapsed SM cycles")


def _timelines(entries: Sequence[Entry], address: CompareAddress) -> Component:
    sampled, without = [], []
    for index, entry in enumerate(entries):
        frame = entry.launch.timeline
        seen = window(frame, str(entry.verdict.get("unit") or "tensor"))
        if seen is None or seen.active < MIN_ACTIVE:
            without.append(letter(index))
        else:
            sampled.append(Sampled(index, seen))
    if not sampled:
        return card("Timelines", [_lacking("PM samples, or too few to draw", "--set timeline")])
    drawn = figure(
        "overlaid", overlaid_figure(sampled, address.relative), "Timelines of all sides, overlaid", tools=True
    )
    parts: list[Component] = [_axis_choice(address), drawn, as_table(timelines_table(sampled))]
    if without:
        parts.append(html.P(f"Not sampled, or too briefly to draw: {', '.join(without)}.", className="hint"))
    return card("Timelines", parts, "PM sampling, overlaid from each launch's start; drag to zoom")


def _lacking(what: str, flag: str) -> Component:
    return note("empty", f"Not collected on any side: {what}. Profile with", flag)


def _axis_choice(address: CompareAddress) -> Component:
    """Two links that stand for the two axes; the one in use says so."""
    links = []
    for text, relative in (("in µs", False), ("in % of each launch", True)):
        current: dict[str, Any] = {"aria-current": "true"} if relative == address.relative else {}
        name = f"button small {'current' if current else ''}".strip()
        links.append(html.Span(dcc.Link(text, href=address.href(relative=relative), className=name), **current))
    return html.Nav(links, className="crumbs", **aria(label="Axis of the timelines"))


def _measurements(comparison: Comparison) -> Component:
    return card("Measurements", metric_tables(comparison), spread(comparison))


def _stalls(comparison: Comparison) -> Component:
    if not comparison.section("stalls"):
        return card("Stall reasons", [_lacking("warp samples", "--set source")])
    drawn = stalls_figure(comparison)
    parts = [figure("stalls", drawn, "Warp samples by stall reason"), as_table(stalls_table(comparison))]
    return card("Stall reasons", parts, "all warp samples")


def _markdown(comparison: Comparison) -> Component:
    text = markdown(CompareResult((comparison,), ()))
    tools = [
        html.Button("Copy as Markdown", id="copy-markdown", className="button", n_clicks=0),
        html.Span(id="copied", className="hint", role="status"),
    ]
    label = html.Label("Markdown", htmlFor="markdown-text", className="visually-hidden")
    textarea = dcc.Textarea(id="markdown-text", value=text, readOnly=True, className="markdown-text", spellCheck=False)
    return card(
        "For a merge request",
        [html.Div(tools, className="crumbs"), html.Details([html.Summary("Show the text"), label, textarea])],
    )
