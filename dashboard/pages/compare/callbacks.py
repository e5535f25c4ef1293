"""Callbacks of the Compare page: suggestions for what is typed."""

from __future__ import annotations

from dash import Dash, Input, Output, State
from dash.development.base_component import Component

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.compare.address import CompareAddress
from ncubble.dashboard.pages.compare.chooser import suggestions
from ncubble.dashboard.pages.compare.search import LONGEST


def register(app: Dash, store: ReportStore) -> None:
    """Suggest launches of ``store``."""

    @app.callback(
        Output("compare-found", "children"),
        Output("compare-count", "children"),
        Input("compare-find", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def find(text: object, search: object) -> tuple[list[Component], str]:
        typed = text[:LONGEST] if isinstance(text, str) else ""
        return suggestions(store, typed, CompareAddress.parse(search if isinstance(search, str) else ""))
