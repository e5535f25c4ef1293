"""The page of one launch: verdict, account, timeline, advice beside Nsight's rules, stalls, limits,
metrics.

This module puts sections together; each is a module of its own. What is needed first follows from
the verdict; all else comes after the page is drawn, into the places of ``late.PARTS``.
"""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.analysis.ablation.result import Ablation
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import WHOLE, KernelAddress
from ncubble.dashboard.pages.kernel import account, advice, head, measured, metrics
from ncubble.dashboard.pages.kernel.late import STAGES, LaunchStage, place, register
from ncubble.dashboard.pages.page import Page, launch_at
from ncubble.dashboard.ui.components import aria, guarded
from ncubble.errors import NcubbleError

SECTIONS = {
    "account": "Account",
    "measured": "Measured",
    "timeline": "Timeline",
    "advice": "Advice",
    "depth": "Depth",
    "stalls": "Stalls",
    "limits": "Limits",
    "source": "Instructions",
    "metrics": "Metrics",
    "provenance": "Provenance",
}
"""Anchors of the page and their names in the list of sections; ``measured`` only exists if the
launch was ablated."""


def layout(store: ReportStore, entry: Entry, address: KernelAddress = WHOLE) -> Component:
    """The whole page of one launch. A section that fails says so in its own place."""
    ablated = measured.read(entry)
    pinned = launch_at(store, address.against) if address.against else None
    beside = None if isinstance(ablated, NcubbleError) else ablated
    LaunchStage(store, entry, address).begin(0)
    return html.Div(
        [
            dcc.Store(id="kernel-launch", data=str(entry.row["id"])),
            dcc.Store(id="kernel-asked", data=address.query()),
            *(dcc.Store(id=f"kernel-stage-{number}") for number in range(1, len(STAGES) + 1)),
            head.head(store, entry),
            guarded("Verdict", lambda: head.verdict(entry)),
            _contents(ablated is not None),
            html.Div(guarded("Bubble account", lambda: account.section(entry, beside)), id="account"),
            html.Div(id="kernel-lacking"),
            *_measured(entry, ablated),
            html.Div(place("kernel-timeline"), id="timeline"),
            html.Div(
                [
                    html.Div(guarded("Causes and fixes", lambda: advice.causes(entry)), id="kernel-advice"),
                    html.Div([place("kernel-rules"), html.Div(place("kernel-depth"), id="depth")]),
                ],
                className="columns",
                id="advice",
            ),
            html.Div([place("kernel-reasons"), place("kernel-classes")], className="columns", id="stalls"),
            html.Div(place("kernel-limits"), id="limits"),
            html.Div(place("kernel-source"), id="source"),
            html.Div(guarded("All metrics", lambda: metrics.section(entry, address, pinned)), id="metrics"),
            html.Div(place("kernel-provenance"), id="provenance"),
        ],
        className="kernel-page",
    )


def _measured(entry: Entry, ablated: Ablation | NcubbleError | None) -> list[Component]:
    """The section of what was measured; nothing where nothing was."""
    if ablated is None:
        return []
    return [html.Div(guarded(measured.TITLE, lambda: measured.section(entry, ablated)), id="measured")]


def _contents(ablated: bool) -> Component:
    """Buttons that lead to the sections, which stay in sight; ``assets/kernel.js`` scrolls."""
    shown = {anchor: name for anchor, name in SECTIONS.items() if ablated or anchor != "measured"}
    links = [html.Li(html.Button(name, **{"data-anchor": anchor})) for anchor, name in shown.items()]  # type: ignore[arg-type]
    return html.Nav(html.Ul(links), className="sections", **aria(label="Sections of this page"))


PAGE = Page("Kernel", KernelAddress, layout, register)
