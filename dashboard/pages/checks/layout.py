"""The Checks page: how every kernel did in the gate, and one of them over time. Its whole state is
its address."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.account.palette import VERDICT_STYLES
from ncubble.analysis.gate.check.result import RANKS
from ncubble.analysis.history.checked import NO_KERNEL, CheckedKernel, find, reader, subjects
from ncubble.analysis.history.file import History
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.checks.address import LONGEST_SEARCH, ChecksAddress
from ncubble.dashboard.pages.checks.detail import detail
from ncubble.dashboard.pages.checks.grid import grid
from ncubble.dashboard.pages.checks.words import style_of
from ncubble.dashboard.ui.components import aria, note

POLL_MS = 3000
_MOST_PROBLEMS = 20


def folder_of(store: ReportStore) -> Path:
    """Where this dashboard looks for results of checks; a store that names no folder has them in
    the working one."""
    return store.checks or Path("checks")


def history_of(store: ReportStore) -> History:
    """What that folder holds now."""
    return reader(folder_of(store)).read()


def layout(store: ReportStore, address: ChecksAddress) -> Component:
    """The page at an address."""
    history = history_of(store)
    return html.Div(
        [
            html.Div(body(store, history, address), id="checks-body"),
            dcc.Store(id="checks-chosen", data=chosen(address)),
            dcc.Store(id="checks-query", data=address.search),
            dcc.Store(id="checks-token", data=history.token),
            dcc.Interval(id="checks-poll", interval=POLL_MS),
        ],
        className="checks-page",
    )


def chosen(address: ChecksAddress) -> dict[str, Any]:
    """What the browser knows of the state: it writes the address, and asks for the part that
    changed."""
    return {"kernel": address.kernel, "gpu": address.gpu, "metric": address.metric, "even": address.even}


def body(store: ReportStore, history: History, address: ChecksAddress) -> list[Component]:
    """Everything that follows from the history and the address."""
    found = subjects(history)
    parts = [_head(history, found), *_problems(history)]
    if not found:
        return [*parts, _nothing(history.folder)]
    subject = find(history, address.kernel, address.gpu)
    shown = replace(address, gpu=subject.gpu) if subject else address
    return [*parts, _table(found, shown), html.Div(selected(store, history, address), id="checks-detail")]


def selected(store: ReportStore, history: History, address: ChecksAddress) -> Component:
    """The card of the chosen kernel, or how to choose one."""
    subject = find(history, address.kernel, address.gpu)
    if subject is not None:
        return detail(store, history, subject, address)
    if address.kernel:
        return note("error", "The history holds no check of this kernel and GPU model. Choose a row of the table.")
    return note("empty", "Choose a row to see its checks over time, with the baseline and the threshold.")


def _head(history: History, found: list[CheckedKernel]) -> Component:
    parts: list[Any] = [html.H1("Checks")]
    if found:
        verdicts = Counter(one.verdict for one in found)
        order = sorted(verdicts, key=lambda verdict: RANKS.index(verdict) if verdict in RANKS else len(RANKS))
        told = [f"{verdicts[verdict]} {style_of(verdict).label}" for verdict in order]
        devices = len({one.device for one in found if one.device})
        gpus = f"{devices} GPU model{'' if devices == 1 else 's'}"
        count = sum(1 for one in found if one.label != NO_KERNEL)
        kernels = f"{count} kernel{'' if count == 1 else 's'}"
        parts.append(html.P(f"{kernels} on {gpus}; at the last check {', '.join(told)}", className="lead"))
        parts.append(html.Span(["History: ", html.Code(str(history.folder))], className="hint"))
    return html.Div(parts, className="page-head")


def _problems(history: History) -> list[Component]:
    blocks: list[Component] = []
    if history.problems:
        count = len(history.problems)
        title = f"{count} file{'' if count == 1 else 's'} of the history could not be read"
        items = [
            html.Li([html.Code(one.name), f"{one.error}", html.Span(f"Remedy: {one.remedy}", className="remedy")])
            for one in history.problems[:_MOST_PROBLEMS]
        ]
        if count > _MOST_PROBLEMS:
            items.append(html.Li(f"and {count - _MOST_PROBLEMS} more"))
        blocks.append(html.Details([html.Summary(title), html.Ul(items)], className="note note-error", open=count <= 3))
    if history.left_out:
        text = f"The newest {len(history.table):,} rows are shown; {history.left_out:,} older ones are left out."
        blocks.append(note("info", text))
    return blocks


def _table(found: list[CheckedKernel], address: ChecksAddress) -> Component:
    search = dcc.Input(
        id="checks-search",
        type="search",
        value=address.search,
        placeholder="Search kernels, GPUs, verdicts ( / )",
        maxLength=LONGEST_SEARCH,
        className="search",
    )
    tools = [
        html.Label("Search", htmlFor="checks-search", className="visually-hidden"),
        search,
        html.Span(id="checks-count", className="hint", **aria(live="polite")),
        html.Button("Reset", id="checks-reset", className="button", n_clicks=0),
    ]
    key = [
        html.Span([html.Span(style.sign, style={"color": style.color}, className="sign"), style.label])
        for verdict, style in VERDICT_STYLES.items()
        if verdict in RANKS
    ]
    parts = [
        html.Div(tools, className="toolbar"),
        html.Div(grid(found, address), className="grid-place"),
        html.Div(key, className="legend", role="note", **aria(label="Signs of the verdicts")),
    ]
    style = {"--rows": str(max(min(len(found), 14), 3))}
    return html.Section(parts, className="card checks-table", style=style, **aria(label="Table of checked kernels"))


def _nothing(folder: Path) -> Component:
    """The page's state without any check: what records one, and where it was looked for."""
    steps = [
        ("Record a baseline of at least five repeats:", "ncubble baseline record RUN…"),
        ("Later, compare new repeats with it. Every check is added to the history:", "ncubble check RUN…"),
        ("The history is the folder checks beside baselines. Name another with", "ncubble dashboard --checks DIR"),
    ]
    items = [html.Li([text, " ", html.Code(command)]) for text, command in steps]
    where = html.P(["No check is recorded. Looked in ", html.Code(str(folder)), "."])
    then = html.P("This page notices the first check by itself.")
    return html.Div([where, html.Ol(items), then], className="note note-empty checks-empty", role="note")
