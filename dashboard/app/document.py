"""The document around every page: our styles as one file; our scripts and those of Dash, less those
that no page uses, as another; the code of tables beside them."""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dash import Dash
from dash.development.base_component import Component
from dash.fingerprint import check_fingerprint
from flask import Flask, Response, abort, request

from ncubble.dashboard.app.encoding import to_json
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress

_SCRIPT = re.compile(r'<script src="([^"]*)"></script>')
_SUITES = "/_dash-component-suites/"
_UNUSED = (f"{_SUITES}dash/deps/polyfill@", f"{_SUITES}dash/dash_table/")
"""Scripts that no page needs: polyfills for unsupported browsers, and an unused table."""
_TABLES = f"{_SUITES}dash_ag_grid/"
"""The code of tables, for which ``assets/table.js`` waits."""
TABLE = f"{_TABLES}async-community.js"
"""Its other half, which Dash otherwise requests only after a page with a table has arrived."""
TOGETHER = f"{_SUITES}dash/dcc/dash-renderer"
"""How the address of all other scripts begins: what Dash's components load later lies beside it."""
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
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>"""


EARLY = (ASSETS / "early.js").read_text()


def with_styles(server: Flask) -> str:
    """The template of the document. ``server`` answers under the address of the styles in it."""
    body = b"\n".join(file.read_bytes() for file in sorted(ASSETS.glob("*.css")))
    address = f"/assets/all.{_digest(body)}.css"  # beside what styles name
    server.add_url_rule(address, "css", lambda: _sent(body, "text/css"))
    return _INDEX.replace("EARLY", EARLY).replace('"CSS"', f'"{address}"')  # others would hold EARLY up


@cache
def together(addresses: tuple[str, ...]) -> tuple[str, bytes]:
    """Our scripts and those of packages at ``addresses`` as one, and its digest: each request for a
    file costs a browser some 5 ms of processor time, and it makes few at a time."""
    ours = [file.read_bytes() for file in sorted(ASSETS.glob("*.js")) if file.name != "early.js"]
    body = b"\n;\n".join([*ours, *map(_content, addresses)])
    return _digest(body), body


def _content(address: str) -> bytes:
    package, _, name = address.removeprefix(_SUITES).partition("/")
    body = pkgutil.get_data(package, check_fingerprint(name)[0])  # type: ignore[no-untyped-call]
    if body is None:
        raise FileNotFoundError(address)
    return body


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _sent(body: bytes, mimetype: str) -> Response:
    return Response(body, mimetype=mimetype, headers={"Cache-Control": "private, max-age=31536000, immutable"})


class Document(Dash):
    """A Dash application whose document names few scripts. The layout of a page is made while the
    browser reads its document."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.index_string = with_styles(self.server)
        self.server.add_url_rule(f"{TOGETHER}.<digest>.js", "together", self._send_scripts)
        self._scripts = "", b""

    def show(self, store: ReportStore, layout: Callable[[str | None, str], Component]) -> None:
        """Have every page show ``layout`` of its path and query."""
        self.layout = lambda: layout(None, "")

        def json_of(path: str | None, search: str) -> str:
            with self.server.app_context():  # also beside a request: pages ask the app for its uploads
                return to_json(layout(path, search))

        self._store, self._json = store, json_of

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
        addresses = used(parts["scripts"])
        self._scripts = together(tuple(address for address in addresses if not address.startswith(_TABLES)))
        # Of deferred scripts, none is waited for: Dash builds the page meanwhile.
        scripts = [f'<script src="{each}" defer></script>' for each in addresses if each.startswith(_TABLES)]
        scripts.insert(0, f'<script src="{TOGETHER}.{self._scripts[0]}.js"></script>')
        if request.path == OverviewAddress.PATH:
            scripts.insert(0, f'<script src="{TABLE}" async></script>')
        parts["scripts"] = "\n".join(scripts)
        return str(super().interpolate_index(**parts))  # type: ignore[no-untyped-call]

    def _send_scripts(self, digest: str) -> Response:
        known, body = self._scripts
        return _sent(body, "text/javascript") if digest == known else abort(404)


def used(scripts: str) -> list[str]:
    """The addresses of script elements, without those that no page uses."""
    return [address for address in _SCRIPT.findall(scripts) if not address.startswith(_UNUSED)]
