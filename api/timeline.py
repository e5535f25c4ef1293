"""The timeline as a DataFrame with a ``plot`` method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Drawing = Callable[[str], "Figure"]
"""Function that draws the timeline of one launch in a theme."""


class TimelineFrame(pd.DataFrame):
    """Samples of counters over time (PM sampling): a DataFrame whose ``plot()`` draws them as the
    dashboard does. Derived frames (a query, a pivot, a copy) are ordinary DataFrames."""

    _metadata = ("_drawings",)

    @classmethod
    def of(cls, frame: pd.DataFrame, drawings: Sequence[Drawing]) -> TimelineFrame:
        """``frame`` with the samples of launches, and ``drawings``, one per launch."""
        made = cls(frame)
        made.attrs = dict(frame.attrs)
        object.__setattr__(made, "_drawings", tuple(drawings))
        return made

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def __reduce__(self) -> Any:
        return pd.DataFrame(self).__reduce__()

    def plot(self, theme: str = "light") -> Figure:  # type: ignore[override]
        """Linked tracks on one time axis, bubbles shaded, idle time coloured by its cause.

        ``theme`` is ``light`` or ``dark``. Raises ReportError if there are no samples, or too few
        to draw, and UsageError if the frame has several launches.
        """
        drawings: tuple[Drawing, ...] = getattr(self, "_drawings", ())
        if len(drawings) != 1:
            raise UsageError(
                f"a timeline of {len(drawings)} launches cannot be drawn", "choose one: r[0].timeline.plot()"
            )
        return drawings[0](theme)
