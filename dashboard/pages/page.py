"""What a page is: where it stands, what it is called, and what makes its content from the store and
its address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dash import ClientsideFunction, Dash
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.address_codec import Address

OfStore = Callable[[ReportStore, Any], Component]
OfLaunch = Callable[[ReportStore, Entry, Any], Component]
LAUNCH = r"/(?P<key>[0-9a-f]{8,64})/(?P<launch>\d{1,9})"


def launch_at(store: ReportStore, launch: str) -> Entry | None:
    """The launch with an id as in ``LAUNCH_ID``, or None."""
    key, _, number = launch.partition("/")
    return store.find(key, int(number))


def in_browser(app: Dash, namespace: str, functions: Mapping[str, tuple[Any, ...]], **options: Any) -> None:
    """Have functions of ``assets``, by name, follow their inputs; each has its outputs, inputs and
    states."""
    for name, parts in functions.items():
        app.clientside_callback(ClientsideFunction(namespace, name), *parts, **options)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Page:
    """A page of the store (``of_store``) or of single launches (``of_launch``), at the path of its
    address.

    Both take the store and the parsed address, the second a launch between them: what a page shows
    follows from its address alone, so that every view can be shared. ``title`` stands in the
    window's title and, with ``in_menu``, in the header of every page. ``register`` adds callbacks
    to the app; ``table_first`` has the document fetch the code of tables early.
    """

    title: str
    address: type[Address]
    of_store: OfStore | None = None
    of_launch: OfLaunch | None = None
    register: Callable[[Dash, ReportStore], None] | None = None
    in_menu: bool = True
    table_first: bool = False

    @property
    def path(self) -> str:
        """The path of a page of the store; what the path of a page of a launch begins with."""
        return self.address.PATH

    def match(self, pathname: str) -> re.Match[str] | None:
        """The parts of a path of this page, or None."""
        return re.fullmatch(self.path + (LAUNCH if self.of_launch else ""), pathname)
