"""Which page stands at which address. One table: adding a page is adding a line.

A page is a module with ``layout``: of the store and the query (``Route.of_store``), or of the store, a launch and the
query (``Route.of_launch``). What it shows follows from its address alone, so that every view can be shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Launch
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages import missing
from ncubble.dashboard.pages.checks import layout as checks
from ncubble.dashboard.pages.checks.address import PATH as CHECKS
from ncubble.dashboard.pages.compare import layout as compare
from ncubble.dashboard.pages.compare.address import PATH as COMPARE
from ncubble.dashboard.pages.kernel import layout as kernel
from ncubble.dashboard.pages.open import layout as open_page
from ncubble.dashboard.pages.open.layout import PATH as OPEN
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.ranks import layout as ranks
from ncubble.dashboard.pages.ranks.address import PATH as RANKS
from ncubble.dashboard.pages.source import layout as source
from ncubble.dashboard.pages.source.address import PATH as SOURCE
from ncubble.dashboard.pages.sweep import layout as sweep
from ncubble.dashboard.pages.sweep.address import PATH as SWEEP
from ncubble.dashboard.pages.timelines import layout as timelines
from ncubble.dashboard.pages.timelines.address import PATH as TIMELINES
from ncubble.errors import NcubbleError

OfStore = Callable[[ReportStore, str], Component]
OfLaunch = Callable[[ReportStore, Launch, str], Component]
LAUNCH = r"/(?P<key>[0-9a-f]{8,64})/(?P<launch>\d{1,9})"


@dataclass(frozen=True)
class Route:
    """One address, or one family of them: ``path`` is what a page of the store has, what one of a launch begins with.

    ``name`` is what the title says; a route with ``in_menu`` stands in the header of every page.
    """

    path: str
    name: str
    of_store: OfStore | None = None
    of_launch: OfLaunch | None = None
    in_menu: bool = True

    def match(self, pathname: str) -> re.Match[str] | None:
        """The parts of an address of this route, or None."""
        return re.fullmatch(self.path + (LAUNCH if self.of_launch else ""), pathname)


ROUTES: tuple[Route, ...] = (
    Route("/", "Launches", of_store=overview.layout),
    Route(COMPARE, "Compare", of_store=compare.layout),
    Route(SWEEP, "Sweep", of_store=sweep.layout),
    Route(TIMELINES, "Timelines", of_store=timelines.layout),
    Route(RANKS, "Ranks", of_store=ranks.layout),
    Route(CHECKS, "Checks", of_store=checks.layout),
    Route("/kernel", "Kernel", of_launch=kernel.layout, in_menu=False),
    Route(SOURCE, "Source", of_launch=source.layout, in_menu=False),
    Route(OPEN, "Open", of_store=open_page.layout),
)


def find(pathname: str) -> tuple[Route, re.Match[str]] | None:
    """The route of an address and its parts, or None."""
    matches = ((route, route.match(pathname or "/")) for route in ROUTES)
    return next(((route, match) for route, match in matches if match), None)


def page(store: ReportStore, pathname: str, search: str = "") -> tuple[Component, str]:
    """The content and the title at an address: a page, one whose launch may still come, or not found."""
    found = find(pathname)
    if found is None:
        return missing.not_found(pathname), "Not found · ncubble"
    route, match = found
    if route.of_store is not None:
        return route.of_store(store, search), f"{route.name} · ncubble"
    entry = store.find(match["key"], int(match["launch"]))
    if entry is not None and route.of_launch is not None:
        try:
            _ = entry.report
            return route.of_launch(store, entry, search), f"{entry.row['name']} · ncubble"
        except NcubbleError as error:  # its file was moved or damaged since it was listed
            return missing.unreadable(error), "Not readable · ncubble"
    progress = store.progress()
    if not progress.finished:
        return missing.still_loading(progress), "Reading · ncubble"
    return missing.not_found(pathname), "Not found · ncubble"


def exists(store: ReportStore, pathname: str) -> bool:
    """Whether an address shows something, or may do so once loading has ended."""
    found = find(pathname)
    if found is None:
        return False
    route, match = found
    if route.of_store is not None:
        return True
    return store.find(match["key"], int(match["launch"])) is not None or not store.progress().finished
