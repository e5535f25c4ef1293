"""What comes after the first paint of a kernel page: its parts, in stages that follow each other,
and what runs in the browser.

A stage is one request of the browser. They come one after the other: at once, each would wait for
all of them. The next one is made while the browser draws the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dash import Dash, Input, Output, State, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from ncubble.analysis.account.account import BubbleAccount, judged_account
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LAUNCH_ID, WHOLE, KernelAddress
from ncubble.dashboard.pages.kernel import account, advice, depth, head, limits, metrics, stalls, timeline
from ncubble.dashboard.pages.page import in_browser, launch_at
from ncubble.dashboard.ui.components import aria, card, guarded

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.advise import Advice

TIMELINE = {"type": "figure", "name": "timeline"}
DRAWN = {"type": "drawn", "name": "timeline"}


@dataclass
class LaunchStage:
    """One launch while a stage of its page is made: what the parts of a stage share."""

    store: ReportStore
    entry: Entry
    address: KernelAddress = WHOLE

    @cached_property
    def advice(self) -> Advice:
        """What ``ncubble advise`` says of it: a prediction, which takes a tenth of a second."""
        from ncubble.analysis.diagnosis.advise import advise

        return advise(self.entry.launch)

    @cached_property
    def alike(self) -> list[Mapping[str, Any]]:
        """The rows of other launches of the kernel."""
        return [other.row for other in self.store.alike(self.entry)]

    @property
    def pinned(self) -> Entry | None:
        """The launch that the address holds this one against."""
        return launch_at(self.store, self.address.against) if self.address.against else None

    @cached_property
    def account(self) -> BubbleAccount | None:
        """Its account as the verdict has it, without weights."""
        return judged_account(self.entry.launch, self.entry.verdict.account, weighed=False)

    @property
    def weighed(self) -> BubbleAccount | None:
        """The same, with the weights of its samples."""
        return judged_account(self.entry.launch, self.entry.verdict.account, weighed=True)

    def part(self, place: str) -> Any:
        """The part of one place; a card that says so where it fails."""
        title, build = PARTS[place]
        return guarded(title, lambda: build(self))

    def parts(self, number: int) -> list[Any]:
        """The parts of a stage."""
        return [self.part(place) for place in STAGES[number]]

    def name(self, number: int) -> tuple[int, str, KernelAddress, int]:
        """What the parts of a stage follow from."""
        return number, str(self.entry.row["id"]), self.address, self.store.version

    def begin(self, number: int) -> None:
        """Have the parts of a stage made before they are asked for."""
        self.store.ahead.begin(self.name(number), lambda: self.parts(number))


PARTS: dict[str, tuple[str, Callable[[LaunchStage], Any]]] = {
    "kernel-rules": ("Nsight's rules", lambda stage: advice.rules(stage.entry)),
    "kernel-limits": ("Launch and occupancy", lambda stage: limits.section(stage.entry)),
    "kernel-metrics-count": ("All metrics", lambda stage: metrics.counted(stage.entry)),
    "kernel-source": ("Hottest instructions", lambda stage: stalls.instructions(stage.entry)),
    "kernel-reasons": ("Stall reasons", lambda stage: stalls.reasons(stage.entry)),
    "kernel-lacking": ("Bubble account", lambda stage: account.lacking(stage.account)),
    "kernel-timeline": (
        "Timeline",
        lambda stage: timeline.section(stage.entry, stage.account, stage.address.range_us),
    ),
    "kernel-classes": ("Stalls by what holds warps up", lambda stage: stalls.classes(stage.entry, stage.weighed)),
    "kernel-provenance": ("Provenance", lambda stage: head.provenance(stage.entry)),
    "kernel-advice": (
        "Causes and fixes",
        lambda stage: advice.causes_with_ranges(stage.entry, lambda: stage.advice),
    ),
    "kernel-depth": ("Depth of the pipeline", lambda stage: depth.section(stage.entry, stage.advice, stage.alike)),
    "kernel-metrics": ("All metrics", lambda stage: metrics.grid(stage.entry, pinned=stage.pinned)),
}
"""Sections by the id of their place: the title, shown on failure, and the function that builds the
section."""

STAGES: tuple[tuple[str, ...], ...] = (
    ("kernel-rules", "kernel-limits", "kernel-metrics-count"),
    ("kernel-source", "kernel-reasons"),
    ("kernel-provenance",),
    ("kernel-timeline", "kernel-lacking"),
    ("kernel-classes",),
    ("kernel-advice", "kernel-depth"),
)
"""Places filled by one request: the first reads metrics, the second code, the third PM samples."""


def place(name: str) -> Component:
    """The place of a part until it comes, about as high as the part (``assets/kernel.css``)."""
    waits = card(PARTS[name][0], [html.P("Reading.", className="hint")], class_name="waiting")
    return html.Div(waits, id=name, **aria(live="off"))


def register(app: Dash, store: ReportStore) -> None:
    """Add the page's callbacks."""
    for number in range(len(STAGES)):
        _stage(app, store, number)
    _metrics(app, store)
    span, once = State("timeline-span", "data"), {"prevent_initial_call": True}
    ends = Input("timeline-from", "value"), Input("timeline-to", "value")
    zoomed = Output("timeline-zoomed", "data"), Output("timeline-zoomed", "data", allow_duplicate=True)
    numbers = Output("timeline-range", "children"), Output("timeline-from", "value"), Output("timeline-to", "value")
    options = "metrics-grid", "dashGridOptions"
    measured = (*numbers, Input(TIMELINE, "relayoutData"), Input(DRAWN, "data"), span)
    in_browser(app, "ncubble_kernel", {"measure": measured})
    functions = {
        "zoom": (zoomed[0], *ends, span),
        "whole": (zoomed[1], Input("timeline-whole", "n_clicks"), span),
        "samples": (
            Output("timeline-samples", "children"),
            Input("timeline-samples-open", "n_clicks"),
            Input("timeline-range", "children"),
            State(DRAWN, "data"),
        ),
        "find": (Output(*options), Input("metric-search", "value"), State(*options)),
    }
    in_browser(app, "ncubble_kernel", functions, **once)


def _stage(app: Dash, store: ReportStore, number: int) -> None:
    """One stage, which waits for the one before: what that writes is its input."""
    before = Input(f"kernel-stage-{number}", "data") if number else Input("kernel-launch", "data")
    outputs = [Output(f"kernel-stage-{number + 1}", "data"), *(Output(name, "children") for name in STAGES[number])]

    @app.callback(*outputs, before, State("kernel-launch", "data"), State("kernel-asked", "data"))
    def fill(_: Any, address: str | None, search: str | None) -> list[Any]:
        stage = LaunchStage(store, entry_of(store, address), KernelAddress.parse(search))
        parts = store.ahead.take(stage.name(number), lambda: stage.parts(number))
        if number + 1 < len(STAGES):
            stage.begin(number + 1)
        return [address, *parts]


def _metrics(app: Dash, store: ReportStore) -> None:
    @app.callback(
        Output("kernel-metrics", "children"),
        Output("metrics-open", "data-filled"),
        Input("metrics-open", "n_clicks"),
        State("metrics-open", "data-filled"),
        State("kernel-launch", "data"),
        State("kernel-asked", "data"),
        prevent_initial_call=True,
    )
    def fill(_: int | None, filled: str | None, address: str | None, search: str | None = None) -> tuple[Any, Any]:
        # A loaded section survives closing and opening; a failed one is retried at the next click.
        if filled:
            return no_update, no_update
        stage = LaunchStage(store, entry_of(store, address), KernelAddress.parse(search))
        built = stage.part("kernel-metrics")
        return built, "yes" if "metrics-grid" in list(built) else ""


def entry_of(store: ReportStore, address: Any) -> Entry:
    """The launch at ``KEY/LAUNCH``, which a browser sent; raises PreventUpdate where there is
    none."""
    entry = launch_at(store, str(address)) if re.fullmatch(LAUNCH_ID, str(address)) else None
    if entry is None:
        raise PreventUpdate
    return entry
