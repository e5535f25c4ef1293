"""The page of one launch's code: source and SASS side by side, with heat by cause.

Only its head is made here, from the row, so that no report is opened for it. The code comes in one
piece from ``callbacks`` and is drawn by ``assets/source.js``, which keeps the visible rows in the
document and no others.
"""

from __future__ import annotations

from dataclasses import asdict

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.ui.components import aria
from ncubble.text import values

DATA = "/_source"
"""Where the browser asks for the code of KEY/LAUNCH."""


def layout(store: ReportStore, entry: Entry, address: SourceAddress) -> Component:
    """The page at an address."""
    place = str(entry.row["id"])
    config = {"url": f"{DATA}/{place}", "asked": asdict(address)}
    return html.Div(
        [
            dcc.Store(id="source-config", data=config),
            dcc.Store(id="source-mounted"),
            _head(store, entry),
            html.Div(id="source-viewer", className="source-viewer"),
        ],
        className="source-page",
    )


def _head(store: ReportStore, entry: Entry) -> Component:
    name = str(entry.row["name"])
    place = str(entry.row["id"])
    crumbs = [
        dcc.Link("← All launches", href="/", className="button"),
        dcc.Link("← Kernel", href=f"/kernel/{place}", className="button"),
        *_neighbours(store, entry),
    ]
    lead = [text for text in (str(entry.row["label"] or ""), str(entry.row["shape"] or "")) if text]
    gpu = str(entry.row["device"] or "")
    said = " · ".join([*dict.fromkeys(lead), *([gpu] if gpu else []), values.duration(entry.row["duration_ns"])])
    return html.Div(
        [
            html.Nav(crumbs, className="crumbs", **aria(label="Up")),
            html.H1(["Source of ", html.Code(values.short_name(name, 90))], title=name),
            html.P(said, className="lead"),
        ],
        className="page-head source-head",
    )


def _neighbours(store: ReportStore, entry: Entry) -> list[Component]:
    """Links to the code of the launches before and after this one in its report; the keys ``[`` and
    ``]`` follow them."""
    family = store.siblings(entry)
    index = next((i for i, other in enumerate(family) if other.number == entry.number), 0)
    around = ((index - 1, "‹ previous", "previous-launch"), (index + 1, "next ›", "next-launch"))
    known = [(family[at].row["id"], text, name) for at, text, name in around if 0 <= at < len(family)]
    return [
        dcc.Link(text, href=SourceAddress().of_launch(place), className="button", id=name)
        for place, text, name in known
    ]
