"""Choosing the sides of a comparison: a search over all launches, the likely partners of a side
first, and suggestions that are links."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LONGEST_SEARCH, MOST_SIDES, CompareAddress
from ncubble.dashboard.pages.overview.table import LaunchTable, Row, matching, table_of
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.ui.components import Child, aria, badge, card, counted, hint, note, search_field
from ncubble.text import values

MOST_SUGGESTED = 20
"""Maximum suggestions shown."""
_LABEL = "Search kernel, parameters, shape, GPU, path"


def suggest(
    table: LaunchTable, text: str, taken: Collection[str] = (), like: Row | None = None
) -> tuple[list[tuple[Row, int]], int]:
    """At most ``MOST_SUGGESTED`` launches that match ``text`` as in the table of launches, without
    those whose id is ``taken``, and how many fit in all.

    First other configurations of the kernel of ``like``, then the rest of that kernel, then all
    others; the order of the rows decides among equals. Launches of one report that a comparison
    takes for repeats of each other are one suggestion, with their number.
    """
    keep, _ = matching(table, text)
    keep[[table.places[name] for name in taken if name in table.places]] = False
    found = table.rows.at(np.flatnonzero(keep))
    reports = (name.partition("/")[0] for name in found.cells("id"))
    alike = found.combined(("demangled", "label", "shape"))[0].tolist()
    repeats: dict[tuple[str, int], list[int]] = {}
    for place, group in enumerate(zip(reports, alike, strict=True)):
        repeats.setdefault(group, []).append(place)
    fitting = [(found[places[0]], len(places)) for places in repeats.values()]
    if like is not None:
        kernel, label = like["kernel"], like["label"]
        fitting.sort(key=lambda one: (one[0]["kernel"] != kernel, one[0]["label"] == label))
    return [(row, count) for row, count in fitting[:MOST_SUGGESTED]], len(fitting)


def chooser(store: ReportStore, address: CompareAddress) -> Component:
    """The card that adds a side; folded away where there is something to compare already."""
    count = len(address.launches)
    if count >= MOST_SIDES:
        return note("info", f"A comparison holds up to {MOST_SIDES} launches: remove one to add another.")
    if not store.rows():
        text = "There are no launches yet. Record some, or open report files. To compare two in the terminal:"
        return note("empty", text, "ncubble compare A B")
    items, summary = suggestions(store, "", address)
    field = search_field("compare-find", _LABEL, debounce=0.15, value="", maxLength=LONGEST_SEARCH)
    count_words = html.Span(summary, id="compare-count", className="hint", role="status")
    parts = [
        html.Div([*field, count_words], className="crumbs"),
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
    fitting, total = suggest(table_of(store), text, address.launches, first.row if first else None)
    if not total:
        return [], "No launch matches all of these words. Type fewer."
    summary = counted(total, "configuration")
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
    def find(text: str | None, search: str | None) -> tuple[list[Component], str]:
        return suggestions(store, (text or "")[:LONGEST_SEARCH], CompareAddress.parse(search))
