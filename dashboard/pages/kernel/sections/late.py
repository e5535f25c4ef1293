"""What comes after the first paint of a kernel page: its parts, in stages that follow each other.

A stage is one request of the browser. They come one after the other: at once, each would wait for
all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from dash import html
from dash.development.base_component import Component

from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.address import WHOLE, KernelAddress
from ncubble.dashboard.pages.kernel.sections import account as kernel_account
from ncubble.dashboard.pages.kernel.sections import advice as kernel_advice
from ncubble.dashboard.pages.kernel.sections import code as kernel_source
from ncubble.dashboard.pages.kernel.sections import head as kernel_head
from ncubble.dashboard.pages.kernel.sections import limits as kernel_limits
from ncubble.dashboard.pages.kernel.sections import metrics as kernel_metrics
from ncubble.dashboard.pages.kernel.sections import stalls as kernel_stalls
from ncubble.dashboard.pages.kernel.sections import timeline as kernel_timeline
from ncubble.dashboard.ui.components import aria, card, guarded


@dataclass
class LaunchStage:
    """One launch while a stage of its page is made: what the parts of a stage share."""

    store: ReportStore
    entry: Entry
    address: KernelAddress = WHOLE

    @cached_property
    def advice(self) -> dict[str, Any]:
        """What ``ncubble advise`` says of it: a prediction, which takes a tenth of a second."""
        from ncubble.analysis.diagnosis.advise import advise

        return advise(self.entry.launch)

    @cached_property
    def account(self) -> Any | None:
        """Its ``BubbleAccount``, which the store remembers from stage to stage."""
        return self.store.account_of(self.entry)


PARTS: dict[str, tuple[str, Callable[[LaunchStage], Any]]] = {
    "kernel-rules": ("Nsight's rules", lambda shown: kernel_advice.rules(shown.entry)),
    "kernel-limits": ("Launch and occupancy", lambda shown: kernel_limits.section(shown.entry)),
    "kernel-metrics-count": ("All metrics", lambda shown: kernel_metrics.counted(shown.entry)),
    "kernel-source": ("Hottest instructions", lambda shown: kernel_source.section(shown.entry)),
    "kernel-reasons": ("Stall reasons", lambda shown: kernel_stalls.reasons(shown.entry)),
    "kernel-lacking": ("Bubble account", lambda shown: kernel_account.lacking(shown.account)),
    "kernel-timeline": (
        "Timeline",
        lambda shown: kernel_timeline.section(shown.entry, shown.account, shown.address.range_us),
    ),
    "kernel-classes": (
        "Stalls by what holds warps up",
        lambda shown: kernel_stalls.classes(shown.entry, shown.account),
    ),
    "kernel-provenance": ("Provenance", lambda shown: kernel_head.provenance(shown.entry)),
    "kernel-advice": ("Causes and fixes", lambda shown: kernel_advice.told(shown.entry, lambda: shown.advice)),
    "kernel-depth": ("Depth of the pipeline", lambda shown: kernel_advice.depth(shown.entry, shown.advice)),
    "kernel-metrics": ("All metrics", lambda shown: kernel_metrics.grid(shown.entry)),
}
"""By the id of its place: the title of a part, for where it fails, and what makes it."""

STAGES: tuple[tuple[str, ...], ...] = (
    ("kernel-rules", "kernel-limits", "kernel-metrics-count"),
    ("kernel-source", "kernel-reasons"),
    ("kernel-provenance",),
    ("kernel-timeline", "kernel-lacking"),
    ("kernel-classes",),
    ("kernel-advice", "kernel-depth"),
)
"""Places that are filled together: metrics are read by the first, code by the second, PM samples by
the third."""


def made(name: str, shown: LaunchStage) -> Any:
    """The part of one place; a card that says so where it fails."""
    title, build = PARTS[name]
    return guarded(title, lambda: build(shown))


def _alone(name: str, store: ReportStore, entry: Entry) -> Any:
    return made(name, LaunchStage(store, entry))


LATE: dict[str, Callable[[ReportStore, Entry], Any]] = {name: partial(_alone, name) for name in PARTS}
"""What is put into the component of each id once the page stands."""


def place(name: str) -> Component:
    """The place of a part until it comes, about as high as the part (``assets/kernel.css``)."""
    waits = card(PARTS[name][0], [html.P("Reading.", className="hint")], class_name="waiting")
    return html.Div(waits, id=name, **aria(live="off"))
