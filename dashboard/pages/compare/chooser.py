"""Choosing the sides of a comparison: a search over all launches, the likely partners of a side
first, and suggestions that are links."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import MOST_SIDES, CompareAddress
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.ui.components import Child, aria, badge, card, hint, note, search_field
from ncubble.text import values

Row = Mapping[str, Any]
MOST_SUGGESTED = 20
"""Maximum suggestions shown."""
LONGEST = 200
"""Maximum length of a search text."""
_FIELDS = ("name", "kernel", "label", "shape", "gpu", "device", "cause", "path")
_LABEL = "Search kernel, parameters, shape, GPU, path"


@dataclass(frozen=True)
class Searchable:
    """Rows, each behind the text in which it is found, in lower case, its id, and what repeats of
    it have in common."""

    rows: tuple[tuple[str, str, Hashable, Row], ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Searchable:
        """Of the rows of the overview, in order."""
        packed = LaunchRows.of(rows)
        ids, numbers = packed.cells("id"), packed.cells("launch")
        alike = packed.combined(("demangled", "label", "shape"))[0].tolist()
        texts = [[str(value or "") for value in packed.cells(name)] for name in _FIELDS]
        searched = (
            f"{' '.join(words)} launch {number}".lower() for *words, number in zip(*texts, numbers, strict=True)
        )
        repeated = ((name.partition("/")[0], code) for name, code in zip(ids, alike, strict=True))
        return cls(tuple(zip(searched, ids, repeated, rows, strict=True)))


@dataclass(frozen=True)
class Suggestions:
    """At most ``MOST_SUGGESTED`` launches, each for the repeats of it in its report, of which there
    are ``repeats``; and how many fit in all, without repeats."""

    rows: tuple[Row, ...]
    repeats: tuple[int, ...]
    total: int


searchable = Remembered(Searchable.of)


def suggest(among: Searchable, text: str, taken: Collection[str] = (), like: Row | None = None) -> Suggestions:
    """Launches in which every word of ``text`` occurs, without those whose id is ``taken``.

    First other configurations of the kernel of ``like``, then the rest of that kernel, then all
    others; the order of the rows decides among equals. Launches of one report that a comparison
    takes for repeats of each other are one suggestion.
    """
    words = text.lower()[:LONGEST].split()
    groups: dict[Hashable, list[Row]] = {}
    for searched, name, repeated, row in among.rows:
        if name not in taken and all(word in searched for word in words):
            groups.setdefault(repeated, []).append(row)
    fitting = list(groups.values())
    if like is not None:
        kernel, label = like["kernel"], like["label"]
        fitting.sort(key=lambda group: (group[0]["kernel"] != kernel, group[0]["label"] == label))
    shown = fitting[:MOST_SUGGESTED]
    return Suggestions(tuple(group[0] for group in shown), tuple(len(group) for group in shown), len(fitting))


def chooser(store: ReportStore, address: CompareAddress) -> Component:
    """The card that adds a side; folded away where there is something to compare already."""
    count = len(address.launches)
    if count >= MOST_SIDES:
        return note("info", f"A comparison holds up to {MOST_SIDES} launches: remove one to add another.")
    if not store.rows():
        text = "There are no launches yet. Record some, or open report files. To compare two in the terminal:"
        return note("empty", text, "ncubble compare A B")
    items, summary = suggestions(store, "", address)
    field = search_field("compare-find", _LABEL, debounce=0.15, value="", maxLength=LONGEST)
    counted = html.Span(summary, id="compare-count", className="hint", role="status")
    parts = [
        html.Div([*field, counted], className="crumbs"),
        html.Ol(items, id="compare-found", className="suggestions", **aria(label="Launches to choose")),
    ]
    if count < 2:
        title = ("Choose the first launch", "Choose a launch to compare with it")[count]
        return card(title, parts, "or select rows in the table of launches")
    body = html.Details([html.Summary("Add another launch"), *parts])
    return html.Section(body, className="card compare-add live-only", **aria(label="Add another launch"))


def suggestions(store: ReportStore, text: str, address: CompareAddress) -> tuple[list[Component], str]:
    """(links that add a launch to what is compared, how many there are in words) for what was
    typed."""
    first = launch_at(store, address.launches[0]) if address.launches else None
    fitting = suggest(searchable.of(store), text, address.launches, first.row if first else None)
    if not fitting.total:
        return [], "No launch matches all of these words. Type fewer."
    summary = f"{fitting.total} configurations" if fitting.total > 1 else "1 configuration"
    if fitting.total > len(fitting.rows):
        summary = f"the first {len(fitting.rows)} of {fitting.total} configurations: type to narrow the list"
    pairs = zip(fitting.rows, fitting.repeats, strict=True)
    return [_suggestion(row, count, address) for row, count in pairs], summary


def _suggestion(row: Row, count: int, address: CompareAddress) -> Component:
    facts = [row["gpu"] or "unknown GPU", values.duration(row["duration_ns"]), row["cause"]]
    label = values.short_name(str(row["label"]), 90)
    launches = f"{count} launches" if count > 1 else f"launch {row['launch']}"
    parts = [
        html.Span(values.short_name(str(row["name"]), 60), className="suggested-name"),
        *([html.Span(label, className="suggested-label")] if row["label"] else []),
        hint(" · ".join(str(fact) for fact in facts if fact)),
        html.Span(f"{row['path']}, {launches}", className="hint suggested-path"),
    ]
    href = address.href(launches=(*address.launches, str(row["id"])))
    return html.Li(dcc.Link(parts, href=href, className="suggestion", title=str(row["demangled"])))


def side_line(
    side: int, row: Row, about: str, path: str, links: Sequence[Component], tags: Sequence[Component] = ()
) -> Component:
    """The line of one side: its letter, kernel and parameters, where it lies, and links that change
    it."""
    name = values.short_name(str(row["name"]), 72)
    parts: list[Child] = [
        badge(side),
        dcc.Link(name, href=f"/kernel/{row['id']}", className="row-link", title=str(row["demangled"])),
        *tags,
        html.Span(str(row["label"]), className="side-label"),
        hint(about),
        html.Span(path, className="hint side-path", title=path),
        html.Span(links, className="side-links"),
    ]
    return html.Li(parts, className="" if side else "reference")


def alone(row: Row, address: CompareAddress) -> Component:
    """The first side, while it has no other."""
    about = f"{row['gpu'] or 'unknown GPU'} · {values.duration(row['duration_ns'])}"
    remove = dcc.Link("remove", href=address.href(launches=()), className="button small")
    line = side_line(0, row, about, f"{row['path']}, launch {row['launch']}", [remove])
    return html.Section(html.Ol(line, className="sides"), className="card", **aria(label="Sides"))


def register(app: Dash, store: ReportStore) -> None:
    """Suggest launches of ``store`` for what is typed."""

    @app.callback(
        Output("compare-found", "children"),
        Output("compare-count", "children"),
        Input("compare-find", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def find(text: object, search: object) -> tuple[list[Component], str]:
        typed = text[:LONGEST] if isinstance(text, str) else ""
        return suggestions(store, typed, CompareAddress.parse(search if isinstance(search, str) else ""))
