"""The page of one launch's code: source and SASS side by side, with heat by cause.

The head is made from the row, so that no report is opened for it. The code comes in one piece,
once, as compressed JSON. ``assets/source.js`` draws it, and keeps only the visible rows in the
document.
"""

from __future__ import annotations

import gzip
import logging
from dataclasses import asdict
from functools import lru_cache

import orjson
from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component
from flask import Response, request

from ncubble.analysis.account.account import judged_account
from ncubble.analysis.details.source_columns import view
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.page import Page, in_browser
from ncubble.dashboard.ui.components import crumbs, neighbours
from ncubble.errors import NcubbleError
from ncubble.text import values

log = logging.getLogger(__name__)
DATA = "/_source"
"""URL of the code of KEY/LAUNCH."""
KEPT = 4
"""Launches whose compressed code is cached: about 0.3 MB for 20,000 instructions."""


def layout(store: ReportStore, entry: Entry, address: SourceAddress) -> Component:
    """The page at an address."""
    launch = str(entry.row["id"])
    return html.Div(
        [
            dcc.Store(id="source-config", data={"url": f"{DATA}/{launch}", "asked": asdict(address)}),
            dcc.Store(id="source-mounted"),
            _head(store, entry, launch),
            html.Div(id="source-viewer", className="source-viewer"),
        ],
        className="source-page",
    )


def _head(store: ReportStore, entry: Entry, launch: str) -> Component:
    row, name = entry.row, str(entry.row["name"])
    family = [str(other.row["id"]) for other in store.siblings(entry)]
    links = [
        dcc.Link("← All launches", href="/", className="button"),
        dcc.Link("← Kernel", href=f"/kernel/{launch}", className="button"),
        *neighbours(family, launch, SourceAddress().of_launch),
    ]
    lead = [*dict.fromkeys((row["label"], row["shape"])), row["device"], values.duration(row["duration_ns"])]
    return html.Div(
        [
            crumbs("Up", *links),
            html.H1(["Source of ", html.Code(values.short_name(name, 90))], title=name),
            html.P(" · ".join(str(text) for text in lead if text), className="lead"),
        ],
        className="page-head source-head",
    )


def pack(entry: Entry) -> bytes:
    """What the page of one launch shows, as compressed JSON. Fast compression: most browsers are on
    this machine."""
    source = entry.launch.source
    account = judged_account(entry.launch, entry.verdict.account, weighed=True) if len(source) else None
    return gzip.compress(orjson.dumps(view(source, entry.report.files, account)), compresslevel=1, mtime=0)


def register(app: Dash, store: ReportStore) -> None:
    """Add the address of the code, and what draws it in the browser."""

    @lru_cache(KEPT)
    def packed(key: str, launch: int) -> bytes:
        if (entry := store.find(key, launch)) is None:
            raise LookupError
        return pack(entry)

    @app.server.get(f"{DATA}/<string:key>/<int:launch>")  # type: ignore[untyped-decorator]
    def code(key: str, launch: int) -> Response:
        if store.find(key, launch) is None:
            return _refusal("This launch is not in the open reports.", 404)
        try:
            return _answer(packed(key, launch))
        except NcubbleError as error:
            return _refusal(f"{error.message}. {error.remedy}".strip(), 500)
        except Exception as error:
            log.exception("source of %s/%s", key, launch)
            return _refusal(f"The code could not be read: {type(error).__name__}: {error}", 500)

    in_browser(app, "ncubble_source", {"mount": (Output("source-mounted", "data"), Input("source-config", "data"))})


def _answer(packed: bytes) -> Response:
    headers = {"Vary": "Accept-Encoding", "Cache-Control": "no-store"}
    if request.accept_encodings.quality("gzip") > 0:
        return Response(packed, mimetype="application/json", headers=headers | {"Content-Encoding": "gzip"})
    return Response(gzip.decompress(packed), mimetype="application/json", headers=headers)


def _refusal(error: str, status: int) -> Response:
    text = error.encode("utf-8", "replace").decode("utf-8")
    headers = {"Cache-Control": "no-store"}
    return Response(orjson.dumps({"error": text}), status, mimetype="application/json", headers=headers)


PAGE = Page("Source", SourceAddress, layout, register)
