"""The lists of the Open page: what became of added files, the folders that are watched, and what
could not be shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Failure, Reading
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.open.uploads import Upload
from ncubble.dashboard.pages.open.words import megabytes
from ncubble.dashboard.ui.components import Child, aria, card, note, table
from ncubble.text import values

LINKS = 3
"""Launches of one file that are linked here; the table has all."""
LISTED = 200
NAMED = 3
"""Files that are named while they are read."""


def added(kept: Sequence[Upload], store: ReportStore) -> list[Component]:
    """The card of the files that came through the browser, newest first; nothing where there is
    none."""
    whole = [one for one in kept if one.complete]
    if not whole:
        return []
    items = [_added(one, store.state_of(one.path), store) for one in reversed(whole)]
    hint = f"{counted(len(whole), 'file')}, {megabytes(sum(one.size for one in whole))}, newest first"
    return [card("Added files", [html.Ul(items, className="uploads")], hint)]


def _added(one: Upload, found: Reading | None, store: ReportStore) -> Component:
    """One file: its name, its state in words, what it led to, and what can be done with it."""
    state = found.state if found else "queued"
    head = [html.Strong(one.name), html.Span(megabytes(one.size), className="hint"), *_actions(one, state)]
    parts: list[Child] = [html.Div(head, className="upload-head")]
    if found is None or not found.settled:
        waits = "is being read" if state == "reading" else "waits to be read"
        parts += [html.Div(className="loading-bar"), html.P(f"Complete; it {waits}.", className="hint")]
    elif state == "duplicate":
        parts += [html.P(f"Same content as {found.twin}, which is shown already."), *_links(_twin(found, store), store)]
    elif state == "shown":
        parts += _links(found.ids, store) if found.ids else [html.P("It holds no launch: no kernel was profiled.")]
    if found and found.failures:
        parts.append(html.P(f"{_told(one, found)} ", className="upload-error"))
        parts.append(html.P(f"What to do: {found.remedy or 'profile again'}", className="hint"))
    return html.Li(parts, id=f"upload-{one.id}", className=f"upload {state}")


def _actions(one: Upload, state: str) -> list[Component]:
    """Buttons that ``assets/open.js`` answers, by their ``data-`` attributes."""
    named = [("again", "Read again")] if state == "failed" else []
    return [_button(one, action, word) for action, word in [*named, ("remove", "Remove")]]


def _button(one: Upload, action: str, word: str) -> Component:
    marks: dict[str, Any] = {"data-upload": one.id, "data-action": action, **aria(label=f"{word}: {one.name}")}
    return html.Button(word, className="button small", **marks)


def _told(one: Upload, found: Reading) -> str:
    """The error, with the name of the file in place of where it lies, and what it was of the file
    that failed."""
    why = found.error.removeprefix(f"{one.name}: ").replace(str(one.path), one.name)
    return f"Could not be shown: {why}." if found.state == "failed" else f"A launch could not be shown: {why}."


def _links(ids: Sequence[str], store: ReportStore) -> list[Component]:
    """Links to the first launches, each with what its verdict says, and to the table for the
    others."""
    items: list[Component] = []
    for name in ids[:LINKS]:
        key, _, number = name.partition("/")
        if (entry := store.find(key, int(number))) is not None:
            label = values.short_name(str(entry.row["name"]))
            said = html.Span(_verdict(entry.row), className="hint")
            items.append(html.Li([dcc.Link(label, href=f"/kernel/{name}"), said]))
    rest = len(ids) - len(items)
    if rest > 0:
        items.append(html.Li(dcc.Link(f"{counted(rest, 'more launch', 'more launches')} in the table", href="/")))
    return [html.Ul(items, className="upload-launches")]


def _verdict(row: dict[str, Any]) -> str:
    """``launch 3, 61.3 µs, DRAM busy 90.7 %, memory-bound``."""
    share = f"{row['unit']} busy {values.percent(row['busy'])}" if row["unit"] else "utilization not collected"
    return f"launch {row['launch']}, {values.duration(row['duration_ns'])}, {share}, {row['cause']}"


def _twin(found: Reading, store: ReportStore) -> tuple[str, ...]:
    """The launches of the report that a copy equals."""
    same = (one for one in store.readings() if found.twin in (one.shown_as, str(one.path)))
    return next((one.ids for one in same if one.ids), ())


def watched(store: ReportStore) -> list[Component]:
    """The card of the roots: how many reports lie there, what is being read now, and whether new
    ones are noticed."""
    readings, progress = store.readings(), store.progress()
    lines = [_root(root, readings) for root in store.paths]
    parts: list[Child] = []
    if not progress.finished:
        parts += _reading_now([one for one in readings if one.state == "reading"], progress.done, progress.total)
    if lines:
        head = ("Path", "Reports", "Launches", "Not shown")
        parts.append(table(head, lines, "Folders and files of the command line", numeric=(1, 2, 3)))
    else:
        parts.append(note("empty", "No folder was named. Start it with ", "ncubble dashboard FOLDER"))
    live = "New, changed and removed runs are noticed by themselves." if store.watch else "Not watched for new runs."
    return [card("Watched", parts, live)]


def _root(root: Path, readings: Sequence[Reading]) -> list[Child]:
    own = _absolute(root)
    below = own.rstrip("/") + "/"
    inside = [one for one in readings if (name := _absolute(one.path)) == own or name.startswith(below)]
    failed = sum(1 for one in inside if one.failures)
    return [html.Code(str(root)), str(len(inside)), str(sum(len(one.ids) for one in inside)), str(failed)]


@lru_cache(maxsize=1 << 15)
def _absolute(path: Path) -> str:
    """A path without ``.`` and ``..``, each worked out once: there can be thousands. Links stay, as
    the names do."""
    try:
        return os.path.normpath(path.absolute())
    except OSError:  # the working directory is gone
        return os.path.normpath(path)


def _reading_now(reading: Sequence[Reading], done: int, total: int) -> list[Component]:
    names = ", ".join(one.shown_as or _tail(one.path) for one in reading[:NAMED])
    said = f"{done} of {counted(total, 'report')} read" if total else "looking for reports"
    bar = html.Progress(value=str(done), max=str(max(total, 1)), **aria(label="Reports read"))
    now = [html.P(f"Being read now: {names}", className="hint")] if names else []
    return [html.Div([bar, html.Span(said)], className="open-progress", role="status"), *now]


def _tail(path: Path) -> str:
    """The last two parts of a path, which tell runs apart."""
    return "/".join(path.parts[-2:])


def failed(store: ReportStore) -> list[Component]:
    """The cards of what could not be shown and of copies; nothing where all is well."""
    failures, copies = store.failures(), store.duplicates()
    cards: list[Component] = []
    if failures:
        hint = counted(len(failures), "file or launch", "files or launches")
        cards.append(card("Could not be shown", [_reasons(failures, "Files and launches that failed")], hint))
    if copies:
        shown = html.Details([html.Summary(counted(len(copies), "copy", "copies")), _reasons(copies, "Copies")])
        cards.append(card("Left out as copies", [shown], "the same content is shown once"))
    return cards


def _reasons(failures: Sequence[Failure], caption: str) -> Component:
    rows: list[list[Child]] = [
        [html.Code(one.where), " ".join(one.error.removeprefix(f"{one.where}: ").split()), one.remedy]
        for one in failures[:LISTED]
    ]
    shown = table(("Where", "Why", "What to do"), rows, caption)
    more = len(failures) - len(rows)
    return html.Div([shown, html.P(f"and {more} more", className="hint")]) if more else shown


def counted(number: int, one: str, many: str = "") -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {one if number == 1 else many or one + 's'}"
