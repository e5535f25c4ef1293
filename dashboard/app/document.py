"""The document around every page, and the JSON in it: our styles as one file; our scripts and those
of Dash, less those that no page uses, as another; the code of tables beside them."""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import plotly
from dash import Dash, _callback
from dash.development.base_component import Component
from dash.fingerprint import check_fingerprint
from flask import Response, abort, request
from plotly.io.json import to_json_plotly

from ncubble import __version__
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import ChecksAddress, OverviewAddress
from ncubble.dashboard.ui.plotly_js import KINDS, plotly_js

_SCRIPT = re.compile(r'<script src="([^"]*)"></script>')
_SUITES = "/_dash-component-suites/"
_UNUSED = (f"{_SUITES}dash/deps/polyfill@", f"{_SUITES}dash/dash_table/")
"""Scripts that no page needs: polyfills for unsupported browsers, and an unused table."""
_TABLES = f"{_SUITES}dash_ag_grid/"
"""The code of tables, for which ``assets/table.js`` waits."""
TABLE = f"{_TABLES}async-community.js"
"""Its other half, which Dash otherwise requests only after a page that begins with a table."""
TOGETHER = f"{_SUITES}dash/dcc/dash-renderer"
"""How the address of all other scripts begins: what Dash's components load later lies beside it."""
ASSETS = Path(__file__).resolve().parents[1] / "assets"
FIGURES = (
    f"/assets/figures.{hashlib.sha256(f'{plotly.__version__} {__version__} {KINDS}'.encode()).hexdigest()[:16]}.js"
)
"""The address of plotly.js. Named by versions: a start of the server does not wait for its text."""
EARLY = (ASSETS / "early.js").read_text().replace("FIGURES", FIGURES)
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
        <noscript>The dashboard needs JavaScript. <code>ncubble report PATH</code> prints the same figures.</noscript>
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>"""
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


class Document(Dash):
    """A Dash application whose document names few scripts. The layout of a page is made while the
    browser reads its document."""

    def __init__(self, store: ReportStore, show: Callable[[str | None, str], Component], **options: Any) -> None:
        """``show`` makes the layout of a path and query; of no path, one without a page."""
        super().__init__("ncubble", assets_folder=str(ASSETS), include_assets_files=False, **options)
        self._store, self._show, self._scripts = store, show, ("", b"")
        self.layout = lambda: show(None, "")
        styles = b"\n".join(file.read_bytes() for file in sorted(ASSETS.glob("*.css")))
        address = f"/assets/all.{_digest(styles)}.css"  # beside what styles name
        self.server.add_url_rule(address, "css", lambda: _sent(styles, "text/css"))
        self.server.add_url_rule(FIGURES, "figures", lambda: _sent(plotly_js().encode(), "text/javascript"))
        self.server.add_url_rule(f"{TOGETHER}.<digest>.js", "together", self._send_scripts)
        self.index_string = _INDEX.replace("EARLY", EARLY).replace('"CSS"', f'"{address}"')  # others would delay EARLY
        # Dash has no setting for what writes answers of callbacks.
        _callback.to_json = to_json  # type: ignore[attr-defined]

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
        tables = next(address for address in addresses if address.startswith(_TABLES))
        scripts = [f'<script src="{TOGETHER}.{self._scripts[0]}.js"></script>']
        if request.path in (OverviewAddress.PATH, ChecksAddress.PATH):
            # Of deferred scripts, none is waited for: Dash builds the page meanwhile.
            scripts = [f'<script src="{TABLE}" async></script>', *scripts, f'<script src="{tables}" defer></script>']
        else:
            scripts.append(f'<link id="tables" href="{tables}">')  # ``assets/table.js`` loads it for the first table
        parts["scripts"] = "\n".join(scripts)
        return str(super().interpolate_index(**parts))  # type: ignore[no-untyped-call]

    def _json(self, path: str | None, search: str) -> str:
        with self.server.app_context():  # also beside a request: pages ask the app for its uploads
            return to_json(self._show(path, search))

    def _send_scripts(self, digest: str) -> Response:
        known, body = self._scripts
        return _sent(body, "text/javascript") if digest == known else abort(404)


def used(scripts: str) -> list[str]:
    """The addresses of script elements, without those that no page uses."""
    return [address for address in _SCRIPT.findall(scripts) if not address.startswith(_UNUSED)]


@cache
def together(addresses: tuple[str, ...]) -> tuple[str, bytes]:
    """Our scripts and those of packages at ``addresses`` as one, and its digest: each request for a
    file costs a browser some 5 ms of processor time, and it makes few at a time."""
    parts = [file.read_bytes() for file in sorted(ASSETS.glob("*.js")) if file.name != "early.js"]
    for address in addresses:
        package, _, name = address.removeprefix(_SUITES).partition("/")
        body = pkgutil.get_data(package, check_fingerprint(name)[0])  # type: ignore[no-untyped-call]
        if body is None:
            raise FileNotFoundError(address)
        parts.append(body)
    whole = b"\n;\n".join(parts)
    return _digest(whole), whole


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _sent(body: bytes, mimetype: str) -> Response:
    return Response(body, mimetype=mimetype, headers={"Cache-Control": "private, max-age=31536000, immutable"})


def to_json(value: Any) -> str:
    """JSON of components, figures and plain values in one pass; what is not a number is null. Falls
    back to plotly's for values that it alone knows.

    Dash has plotly copy the whole page into plain dictionaries before it is written, one attribute
    of a component at a time: a third of the server's time for a page.
    """
    try:
        return orjson.dumps(value, _plain, _OPTIONS).decode()
    except TypeError:
        return str(to_json_plotly(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        names, starts = _properties(type(value), tuple(value._prop_names))
        props = {name: given for name, given in vars(value).items() if name in names or name.startswith(starts)}
        return {"props": props, "type": value._type, "namespace": value._namespace}
    if hasattr(value, "to_plotly_json"):
        return value.to_plotly_json()
    raise TypeError(f"{type(value).__name__} is no JSON")


@cache
def _properties(kind: type[Component], names: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The properties of a component by name, and how the names of its other ones begin."""
    return frozenset(names), tuple(getattr(kind, "_valid_wildcard_attributes", None) or ("data-", "aria-"))
