"""The page that adds reports: files from the browser, what became of them, which folders are
watched, what failed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Reading
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages import uploads
from ncubble.dashboard.pages.addresses import OpenAddress
from ncubble.dashboard.pages.page import Page, in_browser, launch_at, problems
from ncubble.dashboard.pages.uploads import Upload, Uploads
from ncubble.dashboard.ui.components import Child, aria, card, counted, near, note, page_head, table
from ncubble.text import values

POLL_MS = 1000
LINKS = 3
"""Maximum launches of a file that are linked here; the table has all."""
NAMED = 3
"""Maximum files named while being read."""


def layout(store: ReportStore, address: OpenAddress) -> Component:
    """The page. What changes while reports are read is replaced by the callbacks of
    ``register``."""
    taking = uploads.current()
    lead = "Add report files here, or pass files and folders on the command line."
    rescan: Any = html.Button("Rescan now", id="open-rescan", className="button", n_clicks=0)
    parts = [
        page_head("Open reports", lead),
        _adding(taking),
        html.Div(added(taking.kept() if taking else (), store), id="open-added"),
        html.Div(watched(store), id="open-watched"),
        html.P([rescan, html.Span(" looks for new runs and retries failed ones", className="hint")]),
        html.Div(problems(store), id="open-failed"),
        dcc.Store(id="open-version", data=version(store, taking)),
        dcc.Store(id="open-touch"),
        dcc.Interval(id="open-poll", interval=POLL_MS),
    ]
    return html.Div(parts, className="open-page")


def version(store: ReportStore, taking: Uploads | None) -> list[int]:
    """Changes with everything that this page shows."""
    return [store.progress().version, taking.version if taking else 0]


def register(app: Dash, store: ReportStore) -> None:
    """Add the callbacks of the page to ``app``."""

    @app.callback(
        Output("open-added", "children"),
        Output("open-watched", "children"),
        Output("open-failed", "children"),
        Output("open-version", "data"),
        Input("open-poll", "n_intervals"),
        Input("open-touch", "data"),
        State("open-version", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int | None, __: float | None, seen: Any) -> tuple[Any, ...]:
        taking = uploads.current()
        if (now := version(store, taking)) == seen:
            return (no_update,) * 4
        return added(taking.kept() if taking else (), store), watched(store), problems(store), now

    @app.callback(Output("open-touch", "data"), Input("open-rescan", "n_clicks"), prevent_initial_call=True)
    def rescan(clicks: int | None) -> Any:
        if not clicks:
            return no_update
        store.rescan()
        return time.time()

    notice = (Output("new-launches", "children"), Output("new-launches", "className"))
    in_browser(app, "ncubble_open", {"news": (*notice, Input("store-version", "data"), Input("url", "pathname"))})


def _adding(taking: Uploads | None) -> Component:
    """The card to drop files on, or why there is none."""
    if taking is None or not taking.largest:
        text = (
            "This server does not accept files from the browser (others may reach it, or uploads are "
            "disabled). Open files with "
        )
        return card("Add files", [note("empty", text, "ncubble dashboard FILE_OR_FOLDER …")])
    choose: Any = html.Button("Choose files", id="open-choose", className="button primary", n_clicks=0)
    kinds = (
        f"Reports of Nsight Compute (.ncu-rep, .ncu-repz), up to {values.file_size(taking.largest)} "
        f"each. The server keeps at most {taking.most} files and {values.file_size(taking.total)}, "
        "until it stops. For folders of runs and larger files: "
    )
    hint = html.P([kinds, html.Code("ncubble dashboard FILE_OR_FOLDER …")], className="hint")
    title = html.P("Drop report files here, or on any page", className="drop-title")
    zone = html.Div([title, choose, hint], id="open-drop", className="drop-zone")
    return card("Add files", [zone, html.Ul(id="open-sending", className="uploads", **aria(label="Files to add"))])


def added(kept: Sequence[Upload], store: ReportStore) -> list[Component]:
    """The card of the files that came through the browser, newest first; nothing where there is
    none."""
    if not kept:
        return []
    items = [_added(upload, store.state_of(upload.path), store) for upload in reversed(kept)]
    hint = f"{counted(len(kept), 'file')}, {values.file_size(sum(upload.size for upload in kept))}, newest first"
    return [card("Added files", [html.Ul(items, className="uploads")], hint)]


def _added(upload: Upload, reading: Reading | None, store: ReportStore) -> Component:
    """One file: its name, its state in words, what it led to, and what can be done with it."""
    state = reading.state if reading else "queued"
    # ``assets/open.js`` answers it.
    remove = html.Button(
        "Remove", className="button small", **{"data-remove": upload.id, **aria(label=f"Remove: {upload.name}")}
    )
    size = html.Span(values.file_size(upload.size), className="hint")
    parts: list[Child] = [html.Div([html.Strong(upload.name), size, remove], className="upload-head")]
    if reading is None or not reading.settled:
        waits = "is being read" if state == "reading" else "waits to be read"
        parts += [html.Div(className="loading-bar"), html.P(f"Complete; it {waits}.", className="hint")]
    elif state == "duplicate":
        same = (other for other in store.readings() if reading.twin in (other.shown_as, str(other.path)))
        ids = next((other.ids for other in same if other.ids), ())
        parts += [html.P(f"Same content as {reading.twin}, which is already shown."), *_links(ids, store)]
    elif state == "shown":
        parts += _links(reading.ids, store) if reading.ids else [html.P("It has no launches: no kernel was profiled.")]
    for failure in reading.failures[:1] if reading else ():
        what = "Could not be shown" if state == "failed" else "A launch could not be shown"
        parts.append(html.P(f"{what}: {failure.error}. ", className="upload-error"))
        parts.append(html.P(f"Remedy: {failure.remedy or 'profile again'}", className="hint"))
    return html.Li(parts, id=f"upload-{upload.id}", className=f"upload {state}")


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
        total = progress.total
        summary = f"{progress.done} of {counted(total, 'report')} read" if total else "looking for reports"
        bar = html.Progress(value=str(progress.done), max=str(max(total, 1)), **aria(label="Reports read"))
        parts.append(html.Div([bar, html.Span(summary)], className="open-progress", role="status"))
        now = [reading for reading in readings if reading.state == "reading"]
        # The last two components of a path identify a run.
        names = ", ".join(reading.shown_as or "/".join(reading.path.parts[-2:]) for reading in now[:NAMED])
        parts += [html.P(f"Being read now: {names}", className="hint")] if names else []
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
    launches = sum(len(reading.ids) for reading in inside)
    return [html.Code(near(root), title=str(root)), str(len(inside)), str(launches), str(failed)]


@lru_cache(maxsize=1 << 15)
def _absolute(path: Path) -> str:
    """A path without ``.`` and ``..``, each worked out once: there can be thousands. Links stay, as
    the names do."""
    try:
        return os.path.normpath(path.absolute())
    except OSError:  # the working directory is gone
        return os.path.normpath(path)


PAGE = Page("Open", OpenAddress, layout, register)
