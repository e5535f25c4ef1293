"""Callbacks of the kernel page: what comes after the first paint, and what runs in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.address import KernelAddress
from ncubble.dashboard.pages.kernel.sections.late import LATE, STAGES, LaunchStage, made

TIMELINE = {"type": "figure", "name": "timeline"}
DRAWN = {"type": "drawn", "name": "timeline"}


def register(app: Dash, store: ReportStore) -> None:
    """Add the page's callbacks."""
    _late(app, store)
    _metrics(app, store)
    _browser(app)


def entry_of(store: ReportStore, address: Any) -> Entry:
    """The launch at ``KEY/LAUNCH``, which a browser sent; raises PreventUpdate where there is
    none."""
    key, _, number = str(address or "").partition("/")
    entry = store.find(key, int(number)) if number.isdecimal() and len(number) < 10 else None
    if entry is None:
        raise PreventUpdate
    return entry


def _late(app: Dash, store: ReportStore) -> None:
    for number, places in enumerate(STAGES):
        _stage(app, store, number, places)


def _stage(app: Dash, store: ReportStore, number: int, places: Sequence[str]) -> None:
    """One stage, which waits for the one before: what that writes is its input."""
    before = Input(f"kernel-stage-{number}", "data") if number else Input("kernel-launch", "data")
    outputs = [Output(f"kernel-stage-{number + 1}", "data"), *(Output(name, "children") for name in places)]

    @app.callback(*outputs, before, State("kernel-launch", "data"), State("kernel-asked", "data"))
    def fill(_: Any, address: str | None, search: str | None) -> list[Any]:
        shown = LaunchStage(store, entry_of(store, address), KernelAddress.parse(search))
        return [address, *(made(name, shown) for name in places)]


def _metrics(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("kernel-metrics", "children"),
        Output("metrics-open", "data-filled"),
        Input("metrics-open", "n_clicks"),
        State("metrics-open", "data-filled"),
        State("kernel-launch", "data"),
        prevent_initial_call=True,
    )
    def metrics(_: int | None, filled: str | None, address: str | None) -> tuple[Any, Any]:
        # Once it is there, closing it and opening it again keeps it; what failed is tried at the
        # next click.
        if filled:
            return no_update, no_update
        built = LATE["kernel-metrics"](store, entry_of(store, address))
        return built, "yes" if "metrics-grid" in list(built) else ""


def _browser(app: Dash) -> None:
    def run(name: str, *parts: Any, **options: Any) -> None:
        app.clientside_callback(ClientsideFunction("ncubble_kernel", name), *parts, **options)  # type: ignore[no-untyped-call]

    run(
        "measure",
        Output("timeline-range", "children"),
        Output("timeline-from", "value"),
        Output("timeline-to", "value"),
        Input(TIMELINE, "relayoutData"),
        Input(DRAWN, "data"),
        State("timeline-span", "data"),
    )
    run(
        "zoom",
        Output("timeline-zoomed", "data"),
        Input("timeline-from", "value"),
        Input("timeline-to", "value"),
        State("timeline-span", "data"),
        prevent_initial_call=True,
    )
    run(
        "whole",
        Output("timeline-zoomed", "data", allow_duplicate=True),
        Input("timeline-whole", "n_clicks"),
        State("timeline-span", "data"),
        prevent_initial_call=True,
    )
    run(
        "samples",
        Output("timeline-samples", "children"),
        Input("timeline-samples-open", "n_clicks"),
        Input("timeline-range", "children"),
        State(DRAWN, "data"),
        prevent_initial_call=True,
    )
    run(
        "find",
        Output("metrics-grid", "dashGridOptions"),
        Input("metric-search", "value"),
        State("metrics-grid", "dashGridOptions"),
        prevent_initial_call=True,
    )
