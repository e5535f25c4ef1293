"""Choosing the sides of a comparison: a search over all launches, and suggestions that are
links."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.compare.address import MOST, CompareAddress
from ncubble.dashboard.pages.compare.search import Row, Searchable, suggest
from ncubble.dashboard.ui.components import aria, badge, card, note
from ncubble.text import values

searchable = Remembered(Searchable.of)
_LABEL = "Search kernel, parameters, shape, GPU, path"


def chooser(store: ReportStore, address: CompareAddress) -> Component:
    """The card that adds a side; folded away where there is something to compare already."""
    count = len(address.launches)
    if count >= MOST:
        return note("info", f"A comparison takes up to {MOST} launches: remove one to add another.")
    if not store.rows():
        return _nothing()
    title = ("Choose the first launch", "Choose a launch to hold against it")[min(count, 1)]
    parts = _search(store, address)
    if count < 2:
        return card(title, parts, "or select rows in the table of all launches")
    body = html.Details([html.Summary("Add another launch"), *parts])
    return html.Section(body, className="card compare-add live-only", **aria(label="Add another launch"))


def _nothing() -> Component:
    text = "No launch is here yet. Record some, or open report files; in the terminal, two are compared by"
    return note("empty", text, "ncubble compare A B")


def _search(store: ReportStore, address: CompareAddress) -> list[Component]:
    field = dcc.Input(
        id="compare-find", type="search", placeholder=_LABEL, className="search", debounce=0.15, value="", maxLength=200
    )
    listed, said = suggestions(store, "", address)
    return [
        html.Div(
            [
                html.Label(_LABEL, htmlFor="compare-find", className="visually-hidden"),
                field,
                html.Span(said, id="compare-count", className="hint", role="status"),
            ],
            className="crumbs",
        ),
        html.Ol(listed, id="compare-found", className="suggestions", **aria(label="Launches to choose")),
    ]


def suggestions(store: ReportStore, text: str, address: CompareAddress) -> tuple[list[Component], str]:
    """(links that add a launch to what is compared, how many there are in words) for what was
    typed."""
    first = find_row(store, address.launches[0]) if address.launches else None
    found = suggest(searchable.of(store), text, address.launches, first)
    if not found.total:
        return [], "No launch has all of these words. Type fewer."
    said = f"{found.total} configurations" if found.total > 1 else "1 configuration"
    if found.total > len(found.rows):
        said = f"the first {len(found.rows)} of {found.total} configurations: type to narrow them down"
    return [_suggestion(row, count, address) for row, count in zip(found.rows, found.repeats, strict=True)], said


def find_row(store: ReportStore, name: str) -> Row | None:
    """The row of the launch with this id, or None."""
    key, _, launch = name.partition("/")
    entry = store.find(key, int(launch))
    return entry.row if entry else None


def _suggestion(row: Row, count: int, address: CompareAddress) -> Component:
    name = values.short_name(str(row["name"]), 60)
    told: list[Any] = [html.Span(name, className="suggested-name")]
    if row["label"]:
        told.append(html.Span(values.short_name(str(row["label"]), 90), className="suggested-label"))
    facts = [row["gpu"] or "unknown GPU", values.duration(row["duration_ns"]), row["cause"]]
    told.append(html.Span(" · ".join(str(fact) for fact in facts if fact), className="hint"))
    launches = f"{count} launches" if count > 1 else f"launch {row['launch']}"
    told.append(html.Span(f"{row['path']}, {launches}", className="hint suggested-path"))
    href = address.href(launches=(*address.launches, str(row["id"])))
    return html.Li(dcc.Link(told, href=href, className="suggestion", title=str(row["demangled"])))


def alone(row: Row, address: CompareAddress) -> Component:
    """The first side, while it has no other."""
    facts = [row["gpu"] or "unknown GPU", values.duration(row["duration_ns"])]
    parts: list[Any] = [
        badge(0),
        dcc.Link(values.short_name(str(row["name"]), 72), href=f"/kernel/{row['id']}", className="row-link"),
        html.Span(str(row["label"]), className="side-label"),
        html.Span(" · ".join(facts), className="hint"),
        html.Span(f"{row['path']}, launch {row['launch']}", className="hint side-path"),
        html.Span(dcc.Link("remove", href=address.href(launches=()), className="button small"), className="side-links"),
    ]
    return html.Section(html.Ol(html.Li(parts), className="sides"), className="card", **aria(label="Sides"))
