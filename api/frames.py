"""Frames as the library gives them: with the unit of each column, and a timeline with a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

UNITS: dict[str, dict[str, str]] = {
    "launches": {
        "registers": "registers per thread",
        "smem_static_B": "bytes per CTA",
        "smem_dynamic_B": "bytes per CTA",
        "duration_ns": "ns",
        "cycles": "elapsed SM cycles",
        "sm_clock_hz": "Hz",
        "tensor_elapsed_pct": "% of elapsed SM cycles",
        "dram_pct": "% of peak throughput",
        "bubble_pct": "% of elapsed SM cycles",
        "cause_pct": "% of kernel time",
        "gain_pct": "% of kernel time",
    },
    "timeline": {"t_ns": "ns since the launch began", "value": "as in column unit"},
    "metrics": {"value": "as in column unit"},
    "source": {
        "pc": "bytes from the first instruction",
        "samples": "warp samples",
        "executed": "warp instructions",
    },
    "rules": {"speedup_pct": "%"},
}
"""By frame and column. Further columns of ``source`` are stall reasons, in warp samples."""


def with_units(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """``frame`` with the units of its columns in ``attrs``."""
    frame.attrs["units"] = {**UNITS[name], **dict.fromkeys(reasons_of(frame, name), "warp samples")}
    return frame


def reasons_of(frame: pd.DataFrame, name: str) -> list[str]:
    """The columns of stall reasons, which only ``source`` has."""
    names = list(frame.columns)
    return names[names.index("executed") + 1 :] if name == "source" else []


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
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __reduce__(self) -> str | tuple[object, ...]:
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


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames concatenated by rows. Categories stay categories."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    categories = {
        column: pd.api.types.union_categoricals([part[column] for part in parts]).categories
        for column in parts[0].columns
        if all(isinstance(part.get(column, pd.Series()).dtype, pd.CategoricalDtype) for part in parts)
    }
    alike = [
        part.assign(**{column: part[column].cat.set_categories(names) for column, names in categories.items()})
        for part in parts
    ]
    return pd.concat(alike, ignore_index=True)
