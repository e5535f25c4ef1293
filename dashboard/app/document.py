"""The document around every page: our scripts and styles as one file each, the scripts of Dash less
those that no page uses, and those of a table early."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dash import Dash, get_relative_path
from dash.development.base_component import Component
from flask import Flask, Response, has_request_context, request

from ncubble.dashboard.app.encoding import to_json
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.registry import PAGES

_SCRIPT = re.compile(r'<script src="[^"]*"></script>\s*')
_UNUSED = ("/dash/deps/polyfill@", "/dash/dash_table/")
"""Scripts that no page needs: polyfills for unsupported browsers, and an unused table."""
TABLE = "/_dash-component-suites/dash_ag_grid/async-community.js"
"""The table's code, which Dash otherwise requests only after a page with a table has arrived."""
_WHOLE = ("/react-dom@", "/dash_renderer.", "/dash_ag_grid.", "/dash_core_components.")
"""Scripts of which most functions run before the first page is there."""
_HINT = b"//# allFunctionsCalledOnLoad\n"
"""Makes Chromium (136 and later) compile the whole script during loading, in parallel, instead of
each function at its first call."""
ASSETS = Path(__file__).resolve().parents[1] / "assets"
_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <script>EARLY</script>
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{%title%}</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
        {%css%}<link rel="stylesheet" href="CSS">
    </head>
    <body>
        {%app_entry%}
        <noscript>The dashboard needs JavaScript. `ncubble report PATH` prints the same figures.</noscript>
        <footer>{%config%}<script src="JS"></script>{%scripts%}{%renderer%}</footer>
    </body>
</html>"""


EARLY = (ASSETS / "early.js").read_text()


def with_bundles(server: Flask) -> str:
    """The template of the document. ``server`` answers under the addresses in it: each request for
    a file costs a browser some 5 ms of processor time."""
    index = _INDEX.replace("EARLY", EARLY)  # in the document: styles and scripts would hold it up
    for suffix, mimetype in (("css", "text/css"), ("js", "text/javascript")):
        files = [file for file in sorted(ASSETS.glob(f"*.{suffix}")) if file.name != "early.js"]
        body = b"\n".join(file.read_bytes() for file in files)
        address = f"/assets/all.{hashlib.sha256(body).hexdigest()[:16]}.{suffix}"  # beside what styles name
        server.add_url_rule(address, suffix, _sender(body, mimetype))
        index = index.replace(f'"{suffix.upper()}"', f'"{address}"')
    return index


def _sender(body: bytes, mimetype: str) -> Callable[[], Response]:
    return lambda: Response(body, mimetype=mimetype, headers={"Cache-Control": "private, max-age=31536000, immutable"})


def hinted(server: Flask) -> None:
    """Have ``server`` send the scripts of ``_WHOLE`` with a hint for the browser's compiler."""

    @server.after_request
    def hint(response: Response) -> Response:
        if (
            response.status_code == 200
            and request.path.endswith(".js")
            and any(part in request.path for part in _WHOLE)
        ):
            response.direct_passthrough = False
            response.set_data(_HINT + response.get_data())
        return response


class Document(Dash):
    """A Dash application whose document names no script that is not used.

    The layout of a page is made while the browser reads its document.
    """

    def show(self, store: ReportStore, layout: Callable[[str | None, str], Component]) -> None:
        """Have every page show ``layout`` of its path and query."""
        self.layout = lambda: layout(None, "")
        self._store, self._json = store, lambda path, search: to_json(layout(path, search))

    def serve_layout(self) -> Any:
        """The layout at the address that the request names, as ``assets/early.js`` sends it."""
        path, search = request.args.get("path"), request.args.get("search", "")
        body = self._store.ahead.take((path, search, self._store.version), lambda: self._json(path, search))
        return self.backend.make_response(body, mimetype="application/json")

    def index(self, *parts: Any, **named: Any) -> Any:
        """The document."""
        document = super().index(*parts, **named)  # type: ignore[no-untyped-call]
        query = request.query_string.decode("latin-1")
        path, search = request.path, f"?{query}" if query else ""
        self._store.ahead.begin((path, search, self._store.version), lambda: self._json(path, search))
        return document

    def interpolate_index(self, **parts: Any) -> str:  # type: ignore[override]
        """The document, of the parts that Dash collects."""
        parts["scripts"] = used(parts["scripts"])
        if has_request_context() and _table_first(request.path):
            parts["scripts"] = early(str(get_relative_path(TABLE))) + parts["scripts"]  # type: ignore[no-untyped-call]
        return str(super().interpolate_index(**parts))  # type: ignore[no-untyped-call]


def _table_first(path: str) -> bool:
    return any(page.table_first and page.path == path for page in PAGES)


def used(scripts: str) -> str:
    """Script elements without those that no page uses."""

    def kept(script: re.Match[str]) -> str:
        return "" if any(part in script[0] for part in _UNUSED) else script[0]

    return _SCRIPT.sub(kept, scripts)


def early(address: str) -> str:
    """A script that is fetched and compiled beside the others: Dash finds it loaded and does not
    ask again."""
    return f'<script src="{address}" async></script>\n'
