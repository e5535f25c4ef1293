"""The application: ``create_app`` puts pages, callbacks and headers together, ``serve`` answers on one address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dash import Dash

from ncubble.dashboard import callbacks, routes, security, shell, upload_routes
from ncubble.dashboard.data import ReportStore
from ncubble.dashboard.uploads import Limits, Uploads

HOST = "127.0.0.1"
_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{%title%}</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <noscript>The dashboard needs JavaScript. The same figures: ncubble report PATH</noscript>
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>"""


def create_app(
    paths: Iterable[Path],
    *,
    host: str = HOST,
    trusted: Sequence[str] = (),
    store: ReportStore | None = None,
    limits: Limits | None = None,
) -> Dash:
    """The dashboard of the reports at ``paths``, which load in the background from now on. Nothing is served yet.

    ``host`` and ``trusted`` are the names under which browsers may ask for it, ``limits`` those of added files.
    """
    loaded = (store or ReportStore(list(paths))).start()
    app = Dash(
        "ncubble",
        title="ncubble",
        update_title="",
        assets_folder=str(Path(__file__).resolve().parent / "assets"),
        assets_ignore=r".*\.py$|.*\.pyc$|__pycache__",
        index_string=_INDEX,
        serve_locally=True,
        suppress_callback_exceptions=True,
        use_pages=False,
        enable_mcp=False,
    )
    app.layout = shell.layout()
    upload_routes.register(app.server, Uploads(loaded, limits or Limits()))
    callbacks.register(app, loaded)
    policy = security.content_policy(app.csp_hashes())
    security.protect(
        app.server, policy, security.trusted_hosts(host, trusted), lambda path: routes.exists(loaded, path)
    )
    # Workers that meet a cold app can answer 500: the first request sets it up.
    app.server.test_client().get("/", headers={"Host": "localhost"})
    return app
