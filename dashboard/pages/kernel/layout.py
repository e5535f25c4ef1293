"""The page of one launch: a list of panels, each a function of the launch.

What is needed first follows from the verdict. All else comes after the page is drawn, in stages: a
stage is one request of the browser. They come one after the other: at once, each would wait for all
of them. The next one is made while the browser draws the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LAUNCH_ID, WHOLE, KernelAddress
from ncubble.dashboard.pages.kernel import account, advice, head, metrics, stalls, timeline, what_if
from ncubble.dashboard.pages.kernel.view import LaunchView
from ncubble.dashboard.pages.page import Page, in_browser, launch_at
from ncubble.dashboard.ui.components import aria, card, guarded

TIMELINE = {"type": "figure", "name": "timeline"}
DRAWN = {"type": "drawn", "name": "timeline"}
SECTIONS = {
    "account": "Account",
    "measured": "Measured",
    "timeline": "Timeline",
    "advice": "Advice",
    "what-if": "What if",
    "stalls": "Stalls",
    "limits": "Limits",
    "source": "Instructions",
    "metrics": "Metrics",
    "provenance": "Provenance",
}
"""Anchors of the page and their names in the list of sections; ``measured`` only exists if the
launch was ablated."""


class Panel(NamedTuple):
    """What comes late: its title, shown where it fails, what builds it, and the stage it comes in;
    None for what is asked for by a click."""

    title: str
    build: Callable[[LaunchView], Any]
    stage: int | None


PANELS = {
    "kernel-rules": Panel("Nsight's rules", advice.rules, 0),
    "kernel-limits": Panel("Launch and occupancy", head.occupancy, 0),
    "kernel-metrics-count": Panel("All metrics", metrics.counted, 0),
    "kernel-source": Panel("Hottest instructions", stalls.instructions, 1),
    "kernel-reasons": Panel("Stall reasons", stalls.reasons, 1),
    "kernel-provenance": Panel("Provenance", head.provenance, 2),
    "kernel-timeline": Panel("Timeline", timeline.section, 3),
    "kernel-lacking": Panel("Bubble account", account.lacking, 3),
    "kernel-classes": Panel("Stalls by what holds warps up", stalls.classes, 4),
    "kernel-what-if": Panel("What if", what_if.section, 5),
    "kernel-metrics": Panel("All metrics", metrics.grid, None),
}
"""Panels by the id of their place. The first stage reads metrics, the second code, the fourth PM
samples."""
STAGES = 6


def panel(view: LaunchView, place: str) -> Any:
    """The panel of a place; a card that says so where it fails."""
    return guarded(PANELS[place].title, lambda: PANELS[place].build(view))


def panels_of(stage: int) -> list[str]:
    """The places that one request fills."""
    return [place for place, panel in PANELS.items() if panel.stage == stage]


def layout(store: ReportStore, entry: Entry, address: KernelAddress = WHOLE) -> Component:
    """The whole page of one launch. A section that fails says so in its own place."""
    view = LaunchView(store, entry, address)
    store.ahead.begin(*_stage(view, 0))
    measured = guarded("Measured by ablation", lambda: account.measured(view))
    sections = {anchor: name for anchor, name in SECTIONS.items() if measured or anchor != "measured"}
    # Buttons that lead to the sections, which stay in sight; ``assets/kernel.js`` scrolls.
    links = [html.Li(html.Button(name, **{"data-anchor": anchor})) for anchor, name in sections.items()]  # type: ignore[arg-type]
    changes = html.Div(guarded("What to change", lambda: advice.changes(view)), id="kernel-advice")
    return html.Div(
        [
            dcc.Store(id="kernel-launch", data=view.id),
            dcc.Store(id="kernel-asked", data=address.query()),
            *(dcc.Store(id=f"kernel-stage-{number}") for number in range(1, STAGES + 1)),
            head.head(view),
            guarded("Verdict", lambda: head.verdict(view)),
            html.Nav(html.Ul(links), className="sections", **aria(label="Sections of this page")),
            html.Div(guarded("Bubble account", lambda: account.waterfall_card(view)), id="account"),
            html.Div(id="kernel-lacking"),
            *([html.Div(measured, id="measured")] if measured else []),
            html.Div(_place("kernel-timeline"), id="timeline"),
            html.Div([changes, _place("kernel-rules")], className="columns", id="advice"),
            html.Div(_place("kernel-what-if"), id="what-if"),
            html.Div([_place("kernel-reasons"), _place("kernel-classes")], className="columns", id="stalls"),
            html.Div(_place("kernel-limits"), id="limits"),
            html.Div(_place("kernel-source"), id="source"),
            html.Div(guarded("All metrics", lambda: metrics.section(view)), id="metrics"),
            html.Div(_place("kernel-provenance"), id="provenance"),
        ],
        className="kernel-page",
    )


def _place(name: str) -> Component:
    """The place of a panel until it comes, about as high as the panel (``assets/kernel.css``)."""
    waits = card(PANELS[name].title, [html.P("Reading.", className="hint")], class_name="waiting")
    return html.Div(waits, id=name, **aria(live="off"))


# --- Callbacks ---


def _stage(view: LaunchView, stage: int) -> tuple[Any, Callable[[], list[Any]]]:
    """What the panels of a stage follow from, and what makes them."""
    name = (stage, view.id, view.address, view.store.version)
    return name, lambda: [panel(view, place) for place in panels_of(stage)]


def register(app: Dash, store: ReportStore) -> None:
    """Add the page's callbacks."""
    shown = State("kernel-launch", "data"), State("kernel-asked", "data")
    for stage in range(STAGES):  # each waits for the one before: what that writes is its input
        before = Input(f"kernel-stage-{stage}", "data") if stage else Input("kernel-launch", "data")
        places = [Output(place, "children") for place in panels_of(stage)]
        app.callback(Output(f"kernel-stage-{stage + 1}", "data"), *places, before, *shown)(_filling(store, stage))

    @app.callback(
        Output("kernel-metrics", "children"),
        Output("metrics-open", "data-filled"),
        Input("metrics-open", "n_clicks"),
        State("metrics-open", "data-filled"),
        *shown,
        prevent_initial_call=True,
    )
    def open_metrics(_: int | None, filled: str | None, launch: str | None, search: str | None) -> tuple[Any, Any]:
        # A loaded section survives closing and opening; a failed one is retried at the next click.
        if filled:
            return no_update, no_update
        built = panel(view_at(store, launch, search), "kernel-metrics")
        return built, "yes" if "metrics-grid" in list(built) else ""

    span, options = State("timeline-span", "data"), ("metrics-grid", "dashGridOptions")
    numbers = Output("timeline-range", "children"), Output("timeline-from", "value"), Output("timeline-to", "value")
    measured = (*numbers, Input(TIMELINE, "relayoutData"), Input(DRAWN, "data"), span)
    in_browser(app, "ncubble_kernel", {"measure": measured})
    zoomed = partial(Output, "timeline-zoomed", "data")
    opened, ranged = Input("timeline-samples-open", "n_clicks"), Input("timeline-range", "children")
    functions = {
        "zoom": (zoomed(), Input("timeline-from", "value"), Input("timeline-to", "value"), span),
        "whole": (zoomed(allow_duplicate=True), Input("timeline-whole", "n_clicks"), span),
        "samples": (Output("timeline-samples", "children"), opened, ranged, State(DRAWN, "data")),
        "find": (Output(*options), Input("metric-search", "value"), State(*options)),
    }
    in_browser(app, "ncubble_kernel", functions, prevent_initial_call=True)


def _filling(store: ReportStore, stage: int) -> Callable[[Any, str | None, str | None], list[Any]]:
    """The callback of a stage."""

    def fill(_: Any, launch: str | None, search: str | None) -> list[Any]:
        view = view_at(store, launch, search)
        panels = store.ahead.take(*_stage(view, stage))
        if stage + 1 < STAGES:
            store.ahead.begin(*_stage(view, stage + 1))
        return [launch, *panels]

    return fill


def view_at(store: ReportStore, launch: Any, search: str | None = "") -> LaunchView:
    """The launch at ``KEY/LAUNCH``, which a browser sent; raises PreventUpdate where there is
    none."""
    entry = launch_at(store, launch) if re.fullmatch(LAUNCH_ID, str(launch)) else None
    if entry is None:
        raise PreventUpdate
    return LaunchView(store, entry, KernelAddress.parse(search))


PAGE = Page("Kernel", KernelAddress, layout, register)
