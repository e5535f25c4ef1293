"""The lists of the Open page: what became of added files, the folders that are watched, and what
could not be shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Failure, Reading
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.open.limits import megabytes
from ncubble.dashboard.pages.open.uploads import Upload
from ncubble.dashboard.pages.page import launch_at
from ncubble.dashboard.ui.components import Child, aria, card, counted, note, table
from ncubble.text import values

LINKS = 3
"""Maximum launches of a file that are linked here; the table has all."""
LISTED = 200
NAMED = 3
"""Maximum files named while being read."""


def added(kept: Sequence[Upload], store: ReportStore) -> list[Component]:
    """The card of the files that came through the browser, newest first; nothing where there is
    none."""
    whole = [upload for upload in kept if upload.complete]
    if not whole:
        return []
    items = [_added(upload, store.state_of(upload.path), store) for upload in reversed(whole)]
    hint = f"{counted(len(whole), 'file')}, {megabytes(sum(upload.size for upload in whole))}, newest first"
    return [card("Added files", [html.Ul(items, className="uploads")], hint)]


def _added(upload: Upload, reading: Reading | None, store: ReportStore) -> Component:
    """One file: its name, its state in words, what it led to, and what can be done with it."""
    state = reading.state if reading else "queued"
    buttons = [("again", "Read again"), ("remove", "Remove")] if state == "failed" else [("remove", "Remove")]
    size = html.Span(megabytes(upload.size), className="hint")
    head = [html.Strong(upload.name), size, *(_button(upload, action, word) for action, word in buttons)]
    parts: list[Child] = [html.Div(head, className="upload-head")]
    if reading is None or not reading.settled:
        waits = "is being read" if state == "reading" else "waits to be read"
        parts += [html.Div(className="loading-bar"), html.P(f"Complete; it {waits}.", className="hint")]
    elif state == "duplicate":
        same = (other for other in store.readings() if reading.twin in (other.shown_as, str(other.path)))
        ids = next((other.ids for other in same if other.ids), ())
        parts += [html.P(f"Same content as {reading.twin}, which is already shown."), *_links(ids, store)]
    elif state == "shown":
        parts += _links(reading.ids, store) if reading.ids else [html.P("It has no launches: no kernel was profiled.")]
    if reading and reading.failures:
        # The error shows the file name instead of its path.
        why = reading.error.removeprefix(f"{upload.name}: ").replace(str(upload.path), upload.name)
        what = "Could not be shown" if state == "failed" else "A launch could not be shown"
        parts.append(html.P(f"{what}: {why}. ", className="upload-error"))
        parts.append(html.P(f"Remedy: {reading.remedy or 'profile again'}", className="hint"))
    return html.Li(parts, id=f"upload-{upload.id}", className=f"upload {state}")


def _button(upload: Upload, action: str, word: str) -> Component:
    """A button that ``assets/open.js`` answers, by its ``data-`` attributes."""
    marks = {"data-upload": upload.id, "data-action": action, **aria(label=f"{word}: {upload.name}")}
    return html.Button(word, className="button small", **marks)


def _links(ids: Sequence[str], store: ReportStore) -> list[Component]:
    """Links to the first launches, each with what its verdict says, and to the table for the
    others."""
    items: list[Component] = []
    for name in ids[:LINKS]:
        if (entry := launch_at(store, name)) is not None:
            row = entry.row
            share = f"{row['unit']} busy {values.percent(row['busy'])}" if row["unit"] else "utilization not collected"
            facts = f"launch {row['launch']}, {values.duration(row['duration_ns'])}, {share}, {row['cause']}"
            link = dcc.Link(values.short_name(str(row["name"])), href=f"/kernel/{name}")
            items.append(html.Li([link, html.Span(facts, className="hint")]))
    if rest := len(ids) - len(items):
        items.append(html.Li(dcc.Link(f"{counted(rest, 'more launch', 'more launches')} in the table", href="/")))
    return [html.Ul(items, className="upload-launches")]


def watched(store: ReportStore) -> list[Component]:
    """The card of the roots: how many reports lie there, what is being read now, and whether new
    ones are noticed."""
    readings, progress = store.readings(), store.progress()
    lines = [_root(root, readings) for root in store.paths]
    parts: list[Child] = []
    if not progress.finished:
        parts += _reading_now(
            [reading for reading in readings if reading.state == "reading"], progress.done, progress.total
        )
    if lines:
        head = ("Path", "Reports", "Launches", "Not shown")
        parts.append(table(head, lines, "Folders and files of the command line", numeric=(1, 2, 3)))
    else:
        parts.append(note("empty", "No folder was given. Start with ", "ncubble dashboard FOLDER"))
    live = "New, changed and removed runs are detected automatically." if store.watch else "Not watched for new runs."
    return [card("Watched", parts, live)]


def _root(root: Path, readings: Sequence[Reading]) -> list[Child]:
    own = _absolute(root)
    below = own.rstrip("/") + "/"
    inside = [reading for reading in readings if (name := _absolute(reading.path)) == own or name.startswith(below)]
    failed = sum(1 for reading in inside if reading.failures)
    return [html.Code(str(root)), str(len(inside)), str(sum(len(reading.ids) for reading in inside)), str(failed)]


@lru_cache(maxsize=1 << 15)
def _absolute(path: Path) -> str:
    """A path without ``.`` and ``..``, each worked out once: there can be thousands. Links stay, as
    the names do."""
    try:
        return os.path.normpath(path.absolute())
    except OSError:  # the working directory is gone
        return os.path.normpath(path)


def _reading_now(reading: Sequence[Reading], done: int, total: int) -> list[Component]:
    # The last two components of a path identify a run.
    names = ", ".join(file.shown_as or "/".join(file.path.parts[-2:]) for file in reading[:NAMED])
    summary = f"{done} of {counted(total, 'report')} read" if total else "looking for reports"
    bar = html.Progress(value=str(done), max=str(max(total, 1)), **aria(label="Reports read"))
    now = [html.P(f"Being read now: {names}", className="hint")] if names else []
    return [html.Div([bar, html.Span(summary)], className="open-progress", role="status"), *now]


def failed(store: ReportStore) -> list[Component]:
    """The cards of what could not be shown and of copies; nothing where all is well."""
    failures, copies = store.failures(), store.duplicates()
    cards: list[Component] = []
    if failures:
        hint = counted(len(failures), "file or launch", "files or launches")
        cards.append(card("Could not be shown", [_reasons(failures, "Files and launches that failed")], hint))
    if copies:
        shown = html.Details([html.Summary(counted(len(copies), "copy", "copies")), _reasons(copies, "Copies")])
        cards.append(card("Duplicates left out", [shown], "the same content is shown once"))
    return cards


def _reasons(failures: Sequence[Failure], caption: str) -> Component:
    rows: list[list[Child]] = [
        [html.Code(failure.where), " ".join(failure.error.removeprefix(f"{failure.where}: ").split()), failure.remedy]
        for failure in failures[:LISTED]
    ]
    shown = table(("Where", "Why", "What to do"), rows, caption)
    more = len(failures) - len(rows)
    return html.Div([shown, html.P(f"and {more} more", className="hint")]) if more else shown
