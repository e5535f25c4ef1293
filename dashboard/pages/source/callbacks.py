"""What the Source page asks for beyond its layout: the code of one launch, once, as compressed
JSON."""

from __future__ import annotations

import gzip
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import orjson
from dash import ClientsideFunction, Dash, Input, Output
from flask import Response, request

from ncubble.analysis.details.source_columns import view
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.source.layout import DATA
from ncubble.errors import NcubbleError

log = logging.getLogger(__name__)
KEPT = 4
"""Launches whose code is kept, compressed: one is some 0.3 MB at 20,000 instructions."""


@dataclass
class Packed:
    """Compressed JSON of the launches that were asked for last."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[str, bytes] = field(default_factory=OrderedDict)

    def of(self, store: ReportStore, entry: Entry) -> bytes:
        """The gzip of ``source_columns.view``. Raises what reading the report raises."""
        name = str(entry.row["id"])
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        packed = pack(store, entry)
        with self._lock:
            self._kept[name] = packed
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return packed


def pack(store: ReportStore, entry: Entry) -> bytes:
    """What the page of one launch shows, as compressed JSON. Fast compression: most browsers are on
    this machine."""
    report = entry.report
    source = entry.launch.source
    account = store.account_of(entry) if len(source) else None
    return gzip.compress(orjson.dumps(view(source, report.files, account)), compresslevel=1, mtime=0)


def register(app: Dash, store: ReportStore) -> None:
    """Add the address of the code, and what draws it in the browser."""
    packed = Packed()

    @app.server.get(f"{DATA}/<string:key>/<int:launch>")  # type: ignore[untyped-decorator]
    def code(key: str, launch: int) -> Response:
        entry = store.find(key, launch)
        if entry is None:
            return _said("This launch is not among the reports that are open.", 404)
        try:
            return _sent(packed.of(store, entry))
        except NcubbleError as error:
            return _said(f"{error.message}. {error.remedy}".strip(), 500)
        except Exception as error:
            log.exception("source of %s/%s", key, launch)
            return _said(f"The code could not be read: {type(error).__name__}: {error}", 500)

    app.clientside_callback(
        ClientsideFunction("ncubble_source", "mount"),
        Output("source-mounted", "data"),
        Input("source-config", "data"),
    )  # type: ignore[no-untyped-call]


def _sent(packed: bytes) -> Response:
    if request.accept_encodings.quality("gzip") > 0:
        answer = Response(packed, mimetype="application/json")
        answer.headers["Content-Encoding"] = "gzip"
    else:
        answer = Response(gzip.decompress(packed), mimetype="application/json")
    answer.headers["Vary"] = "Accept-Encoding"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _said(error: str, status: int) -> Response:
    text = error.encode("utf-8", "replace").decode("utf-8")
    answer = Response(orjson.dumps({"error": text}), status, mimetype="application/json")
    answer.headers["Cache-Control"] = "no-store"
    return answer
