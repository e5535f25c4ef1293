"""What stands at an address that shows nothing: unknown pages, unknown launches, launches that are
still being read."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Progress
from ncubble.dashboard.ui.components import aria, note, page_head
from ncubble.errors import NcubbleError


def not_found(pathname: str) -> Component:
    """The 404 page."""
    return html.Div(
        [
            page_head("Not found", "No page or launch has this address."),
            note(
                "empty",
                (
                    "Addresses identify reports by content: a report that was recorded again has a new "
                    "address. Requested: "
                ),
                pathname,
            ),
            html.P(dcc.Link("All launches", href="/", className="button")),
        ]
    )


def unreadable(error: NcubbleError) -> Component:
    """What stands in place of a launch whose report can no longer be read."""
    return html.Div(
        [
            html.Div([html.H1("No longer readable")], className="page-head"),
            note("error", f"{error.message}. Remedy: {error.remedy or 'open the file again'}."),
            html.P(dcc.Link("All launches", href="/", className="button")),
        ]
    )


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
