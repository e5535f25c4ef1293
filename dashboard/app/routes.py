"""What stands at an address: the content and title of its page, and whether there is one."""

from __future__ import annotations

import re

from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages import missing
from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.registry import PAGES
from ncubble.errors import NcubbleError


def find(pathname: str) -> tuple[Page, re.Match[str]] | None:
    """The page at a path and the parts of the path, or None."""
    matches = ((page, page.match(pathname or "/")) for page in PAGES)
    return next(((page, match) for page, match in matches if match), None)


def content(store: ReportStore, pathname: str, search: str = "") -> tuple[Component, str]:
    """The content and the title at an address: a page, one whose launch may still come, or not
    found."""
    route = find(pathname)
    if route is None:
        return missing.not_found(pathname), "Not found · ncubble"
    page, match = route
    address = page.address.parse(search)
    if page.of_store is not None:
        return page.of_store(store, address), f"{page.title} · ncubble"
    launch = store.find(match["key"], int(match["launch"]))
    if launch is not None and page.of_launch is not None:
        try:
            _ = launch.report
            return page.of_launch(store, launch, address), f"{launch.row['name']} · ncubble"
        except NcubbleError as error:  # its file was moved or damaged after it was listed
            return missing.unreadable(error), "Not readable · ncubble"
    progress = store.progress()
    if not progress.finished:
        return missing.still_loading(progress), "Reading · ncubble"
    return missing.not_found(pathname), "Not found · ncubble"


def exists(store: ReportStore, pathname: str) -> bool:
    """Whether an address shows something, or may do so once loading has ended."""
    route = find(pathname)
    if route is None:
        return False
    page, match = route
    if page.of_store is not None:
        return True
    return store.find(match["key"], int(match["launch"])) is not None or not store.progress().finished
