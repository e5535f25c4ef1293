"""What stands at an address: the content and title of its page, and whether there is one."""

from __future__ import annotations

import re

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LaunchAddress
from ncubble.dashboard.pages.page import Page, still_loading
from ncubble.dashboard.pages.registry import PAGES
from ncubble.dashboard.ui.components import note, page_head
from ncubble.errors import NcubbleError


def find(pathname: str) -> tuple[Page, re.Match[str]] | None:
    """The page at a path and the parts of the path, or None."""
    matches = ((page, page.address.match(pathname or "/")) for page in PAGES)
    return next(((page, match) for page, match in matches if match), None)


def content(store: ReportStore, pathname: str, search: str = "") -> tuple[Component, str]:
    """The content and the title at an address: a page, one whose launch may still come, or not
    found."""
    route = find(pathname)
    if route is None:
        return not_found(pathname), "Not found · ncubble"
    page, match = route
    address = page.address.parse(search)
    if not issubclass(page.address, LaunchAddress):
        return page.layout(store, address), f"{page.title} · ncubble"
    launch = store.find(match["key"], int(match["launch"]))
    if launch is not None:
        try:
            _ = launch.report
            return page.layout(store, launch, address), f"{launch.row['name']} · ncubble"
        except NcubbleError as error:  # its file was moved or damaged after it was listed
            return unreadable(error), "Not readable · ncubble"
    progress = store.progress()
    if not progress.finished:
        return still_loading(progress), "Reading · ncubble"
    return not_found(pathname), "Not found · ncubble"


def exists(store: ReportStore, pathname: str) -> bool:
    """Whether an address shows something, or may do so once loading has ended."""
    route = find(pathname)
    if route is None:
        return False
    page, match = route
    if not issubclass(page.address, LaunchAddress):
        return True
    return store.find(match["key"], int(match["launch"])) is not None or not store.progress().finished


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
