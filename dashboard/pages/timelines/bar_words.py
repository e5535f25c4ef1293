"""What stands on a bar of the lanes, and what is told where the mouse is on it."""

from __future__ import annotations

from ncubble.analysis.traces.concurrency import WAIT
from ncubble.analysis.traces.lanes import NO_INDEX
from ncubble.dashboard.pages.timelines.time_axis import TimeAxis
from ncubble.dashboard.ui.figures import safe
from ncubble.text.values import duration

_NAMED = 0.06
"""Minimum share of the window for a bar to show its tag."""


def bar_text(tag: str, share: float, index: int) -> str:
    """What a bar has room for by its share of the width: tag and number (of work), one, or none."""
    number = "" if index == NO_INDEX or tag.lower().startswith(WAIT) else str(index)
    return safe(f"{tag} {number}".strip()) if share >= _NAMED else number if share >= _NAMED / 4 else ""


def hover(axis: TimeAxis, start: float, end: float, count: int, share: float, index: int) -> str:
    """How long, since when, and of what: a tile, or several intervals that were summed up."""
    where = f"{duration(end - start)} from {axis.place(start)}"
    if count == 1 and share == 1.0:
        return where if index == NO_INDEX else f"{where}, number {index:.0f}"
    return f"{100 * share:.0f} % of {where}, in which {count:.0f} intervals of this lane end"
