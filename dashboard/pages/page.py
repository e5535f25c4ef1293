"""What a page is: where it stands, what it is called, and what makes its content from the store and
its address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dash import ClientsideFunction, Dash, dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry, Progress
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import Address
from ncubble.dashboard.ui.components import aria, page_head


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
