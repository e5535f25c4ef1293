"""What a page is: where it stands, what it is called, and what makes its content from the store and
its address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dash import ClientsideFunction, Dash, dcc, html
from dash.development.base_component import Component

from ncubble.analysis.sweeps.sweeps import Sweep, SweepPoint, sweeps
from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.data.readings import Entry, Progress
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import Address, ProgramAddress, TimelinesAddress
from ncubble.dashboard.ui.components import aria, card, counted, current, near, note, page_head, problem_list

MOST_RUNS = 200
all_sweeps = Remembered(sweeps)


def largest_difference(store: ReportStore) -> tuple[Sweep, SweepPoint, SweepPoint] | None:
    """The sweep whose parameter matters most, with its best and worst value; None without times."""
    swept = next(iter(all_sweeps.of(store)), None)
    ends = max(swept.series, key=lambda series: series.ratio).ends if swept else None
    return (swept, *ends[:2]) if swept and ends else None


class Page(NamedTuple):
    """A page of the store, or of single launches, as its address says.

    ``layout`` takes the store and the parsed address, of a launch the launch between them: what a
    page shows follows from its address alone, so that every view can be shared. ``title`` stands in
    the window's title and, but for pages of launches, in the header of every page. ``register``
    adds callbacks to the app.
    """

    title: str
    address: type[Address]
    layout: Callable[..., Component]
    register: Callable[[Dash, ReportStore], None] | None = None


def launch_at(store: ReportStore, launch: str) -> Entry | None:
    """The launch with an id as in ``LAUNCH_ID``, or None."""
    key, _, number = launch.partition("/")
    return store.find(key, int(number))


def in_browser(app: Dash, namespace: str, functions: Mapping[str, tuple[Any, ...]], **options: Any) -> None:
    """Have functions of ``assets``, by name, follow their inputs; each has its outputs, inputs and
    states."""
    for name, parts in functions.items():
        app.clientside_callback(ClientsideFunction(namespace, name), *parts, **options)  # type: ignore[no-untyped-call]


def choose_run(
    title: str, tags: Mapping[Path, str], address: TimelinesAddress | ProgramAddress
) -> tuple[Path | None, list[Component]]:
    """The run directory that an address names, else the first one; and where there are several,
    links to the first ``MOST_RUNS``, each with its tag and path."""
    chosen = next((run for run in tags if run_id(run) == address.run), None)
    if address.run and chosen is None:
        problem = [note("error", "No recorded run has this address. It may have been moved or deleted.")]
    else:
        problem, chosen = [], chosen or next(iter(tags), None)
    lines = []
    for run in list(tags)[:MOST_RUNS]:
        link = dcc.Link(run.name, href=type(address)(run_id(run)).href(), className="row-link")
        path = html.Span(near(run), title=str(run), className="hint side-path")
        lines.append(html.Li([html.Span(link, **current(run == chosen)), html.Span(tags[run], className="tag"), path]))
    more = f", the first {MOST_RUNS} are listed" if len(tags) > MOST_RUNS else ""
    listed = card(title, [html.Ul(lines, className="sides")], f"{len(tags):,} runs{more}")
    return chosen, [*problem, listed] if len(tags) > 1 else problem


def problems(store: ReportStore) -> list[Component]:
    """What could not be shown or should not be believed, and why; nothing where all is well."""
    kinds = (
        (store.failures(), ("file or launch", "files or launches"), "could not be shown", "error"),
        (store.doubtful(), ("launch holds", "launches hold"), "values that contradict each other", "error"),
        (store.duplicates(), ("duplicate", "duplicates"), "left out", "empty"),
    )
    return [
        problem_list(
            f"{counted(len(found), *noun)} {what}", [(one.where, one.error, one.remedy) for one in found], kind
        )
        for found, noun, what, kind in kinds
        if found
    ]


def still_loading(progress: Progress) -> Component:
    """Shown while the launch at this address may still be among the reports being read; looks again
    by itself."""
    return html.Div(
        [
            page_head("Reading reports", f"{progress.done} of {progress.total} read"),
            html.Div(className="loading-bar", role="progressbar", **aria(label="Reading reports")),
            dcc.Interval(id="retry", interval=700),
        ]
    )
