"""The application: ``create_app`` puts pages, callbacks and headers together, ``serve`` answers on
one address."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from dash import Dash

from ncubble.dashboard.app import access, callbacks, encoding, routes, security
from ncubble.dashboard.app.document import ASSETS, EARLY, Document
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.open import routes as upload_routes
from ncubble.dashboard.pages.open.limits import UploadLimits
from ncubble.dashboard.pages.open.uploads import Uploads
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.overview.query import prepare
from ncubble.dashboard.pages.overview.table import table_of

HOST = "127.0.0.1"
LONGEST_WAIT_S = 120.0
"""Reports that take longer to read than this appear one by one, by requests that rebuild the
table."""


def create_app(
    paths: Iterable[Path],
    *,
    host: str = HOST,
    trusted: Sequence[str] = (),
    store: ReportStore | None = None,
    limits: UploadLimits | None = None,
    token: str | None = None,
) -> Dash:
    """The dashboard of the reports at ``paths``, which load in the background from now on. Nothing
    is served yet.

    ``host`` and ``trusted`` are the names under which browsers may ask for it, ``limits`` those of
    added files. With a ``token``, only who knows it is answered (``access``).
    """
    loaded = (store or ReportStore(list(paths))).start()
    threading.Thread(target=_prepare, args=(loaded,), name="ncubble-prepare", daemon=True).start()
    app = Document(
        "ncubble",
        title="ncubble",
        update_title="",
        assets_folder=str(ASSETS),
        include_assets_files=False,
        serve_locally=True,
        suppress_callback_exceptions=True,
        use_pages=False,
        enable_mcp=False,
    )
    encoding.install()
    app.show(loaded, lambda path, search: callbacks.first(loaded, path, search))
    upload_routes.register(app.server, Uploads(loaded, limits or UploadLimits()))
    callbacks.register(app, loaded)
    policy = security.content_policy(app.csp_hashes(), EARLY)
    security.protect(
        app.server, policy, security.trusted_hosts(host, trusted), lambda path: routes.exists(loaded, path)
    )
    if token is not None:
        access.guard(app.server, token)
    # Workers that meet a cold app can answer 500: the first request sets it up.
    cookie = f"{access.cookie_name('localhost')}={token}"
    app.server.test_client().get("/", headers={"Host": "localhost", "Cookie": cookie})
    return app


def _prepare(store: ReportStore) -> None:
    """Build the first page before a request needs it: its parts are remembered."""
    if store.wait(LONGEST_WAIT_S):
        overview.layout(store, OverviewAddress())
        prepare(table_of(store))
