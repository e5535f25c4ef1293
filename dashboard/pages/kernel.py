"""The page of one launch: verdict, account, timeline, advice beside Nsight's rules, stalls, limits, metrics.

This module puts sections together; each is a module of its own (``kernel_*``). What is slow or large comes after the
page is drawn, into the places that ``LATE`` names (``kernel_callbacks``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.components import aria, guarded
from ncubble.dashboard.data import ReportStore
from ncubble.dashboard.kernel_address import asked
from ncubble.dashboard.opened import Opened
from ncubble.dashboard.pages import (
    kernel_account,
    kernel_advice,
    kernel_head,
    kernel_limits,
    kernel_metrics,
    kernel_source,
    kernel_stalls,
    kernel_timeline,
)
from ncubble.dashboard.readings import Launch

SECTIONS = {
    "account": "Account",
    "timeline": "Timeline",
    "advice": "Advice",
    "depth": "Depth",
    "stalls": "Stalls",
    "limits": "Limits",
    "source": "Instructions",
    "metrics": "Metrics",
    "provenance": "Provenance",
}
"""Anchors of the page, and what its list of sections calls them."""


def late_advice(entry: Opened) -> tuple[Component, Component]:
    """Causes with their intervals, and the depths: what one prediction gives."""
    return (
        guarded("Causes and fixes", lambda: kernel_advice.told(entry)),
        guarded("Depth of the pipeline", lambda: kernel_advice.depth(entry)),
    )


LATE: dict[str, Callable[[ReportStore, Launch], Any]] = {
    "kernel-advice": lambda store, entry: late_advice(Opened(entry))[0],
    "kernel-depth": lambda store, entry: late_advice(Opened(entry))[1],
    "kernel-metrics": lambda store, entry: guarded("All metrics", lambda: kernel_metrics.grid(Opened(entry))),
}
"""What is put into the component of each id once the page stands."""


def layout(store: ReportStore, entry: Launch, search: str = "") -> Component:
    """The whole page of one launch. A section that fails says so in its own place."""
    account = cache(lambda: store.account_of(entry))
    wanted, one = asked(search), Opened(entry)
    return html.Div(
        [
            dcc.Store(id="kernel-launch", data=str(entry.row["id"])),
            kernel_head.head(store, entry, one),
            guarded("Verdict", lambda: kernel_head.verdict(one)),
            _contents(),
            _place("account", guarded("Bubble account", lambda: kernel_account.section(one, account()))),
            _place("timeline", guarded("Timeline", lambda: kernel_timeline.section(one, account(), wanted.range_us))),
            html.Div(
                [
                    html.Div(guarded("Causes and fixes", lambda: kernel_advice.causes(one)), id="kernel-advice"),
                    html.Div(
                        [
                            guarded("Nsight's rules", lambda: kernel_advice.rules(one)),
                            html.Div(html.Div(kernel_advice.depth_waiting(), id="kernel-depth"), id="depth"),
                        ]
                    ),
                ],
                className="columns",
                id="advice",
            ),
            html.Div(
                [
                    html.Div(guarded("Stall reasons", lambda: kernel_stalls.reasons(one))),
                    html.Div(guarded("Stalls by what holds warps up", lambda: kernel_stalls.classes(one, account()))),
                ],
                className="columns",
                id="stalls",
            ),
            _place("limits", guarded("Launch and occupancy", lambda: kernel_limits.section(one))),
            _place("source", guarded("Hottest instructions", lambda: kernel_source.section(one))),
            _place("metrics", guarded("All metrics", lambda: kernel_metrics.section(one, wanted))),
            _place("provenance", guarded("Provenance", lambda: kernel_head.provenance(one))),
        ],
        className="kernel-page",
    )


def _place(anchor: str, content: Component) -> Component:
    return html.Div(content, id=anchor)


def _contents() -> Component:
    """Buttons that lead to the sections, which stay in sight; ``assets/kernel.js`` scrolls."""
    links = [html.Li(html.Button(name, **{"data-anchor": anchor})) for anchor, name in SECTIONS.items()]  # type: ignore[arg-type]
    return html.Nav(html.Ul(links), className="sections", **aria(label="Sections of this page"))
