"""The document around every page: the scripts of Dash less those that no page uses, and those of a
table early."""

from __future__ import annotations

import re
from typing import Any

from dash import Dash, get_relative_path
from flask import has_request_context, request

from ncubble.dashboard.pages.registry import PAGES

_SCRIPT = re.compile(r'<script src="[^"]*"></script>\s*')
_UNUSED = ("/dash/deps/polyfill@", "/dash/dash_table/")
"""Scripts that no page needs: polyfills for unsupported browsers, and an unused table."""
TABLE = "/_dash-component-suites/dash_ag_grid/async-community.js"
"""The table's code, which Dash otherwise requests only after a page with a table has arrived."""


class Document(Dash):
    """A Dash application whose document names no script that is not used."""

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
