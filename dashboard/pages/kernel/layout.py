"""The page of one launch: verdict, account, timeline, advice beside Nsight's rules, stalls, limits,
metrics.

This module puts sections together; each is a module of its own (``sections``). What is needed first
follows from the verdict; all else comes after the page is drawn, into the places that ``LATE``
names (``sections.late``).
"""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.address import WHOLE, KernelAddress
from ncubble.dashboard.pages.kernel.sections import account as kernel_account
from ncubble.dashboard.pages.kernel.sections import advice as kernel_advice
from ncubble.dashboard.pages.kernel.sections import head as kernel_head
from ncubble.dashboard.pages.kernel.sections import metrics as kernel_metrics
from ncubble.dashboard.pages.kernel.sections.late import LATE as LATE
from ncubble.dashboard.pages.kernel.sections.late import STAGES, place
from ncubble.dashboard.ui.components import aria, guarded

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


def layout(store: ReportStore, entry: Entry, address: KernelAddress = WHOLE) -> Component:
    """The whole page of one launch. A section that fails says so in its own place."""
    return html.Div(
        [
            dcc.Store(id="kernel-launch", data=str(entry.row["id"])),
            dcc.Store(id="kernel-asked", data=address.query()),
            *(dcc.Store(id=f"kernel-stage-{number}") for number in range(1, len(STAGES) + 1)),
            kernel_head.head(store, entry),
            guarded("Verdict", lambda: kernel_head.verdict(entry)),
            _contents(),
            _place("account", guarded("Bubble account", lambda: kernel_account.section(entry))),
            html.Div(id="kernel-lacking"),
            _place("timeline", place("kernel-timeline")),
            html.Div(
                [
                    html.Div(guarded("Causes and fixes", lambda: kernel_advice.causes(entry)), id="kernel-advice"),
                    html.Div([place("kernel-rules"), _place("depth", place("kernel-depth"))]),
                ],
                className="columns",
                id="advice",
            ),
            html.Div([place("kernel-reasons"), place("kernel-classes")], className="columns", id="stalls"),
            _place("limits", place("kernel-limits")),
            _place("source", place("kernel-source")),
            _place("metrics", guarded("All metrics", lambda: kernel_metrics.section(entry, address))),
            _place("provenance", place("kernel-provenance")),
        ],
        className="kernel-page",
    )


def _place(anchor: str, content: Component) -> Component:
    return html.Div(content, id=anchor)


def _contents() -> Component:
    """Buttons that lead to the sections, which stay in sight; ``assets/kernel.js`` scrolls."""
    links = [html.Li(html.Button(name, **{"data-anchor": anchor})) for anchor, name in SECTIONS.items()]  # type: ignore[arg-type]
    return html.Nav(html.Ul(links), className="sections", **aria(label="Sections of this page"))
