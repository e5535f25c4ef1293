"""Sampled warp states over time (set ``warp_states``): which reasons stalled the warps, as one
stacked track."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ncubble.analysis.details.tracks import Window, series_of

PREFIX = "stall_"
MOST = 6
"""Maximum reasons with their own band; one more band sums the others."""
REST = "others"
Stalls = dict[str, pd.Series]


def stall_series(timeline: pd.DataFrame, shown: Window) -> tuple[Stalls, str]:
    """(series by reason, their unit): sampled warp states that share the time base of ``shown``,
    largest first.

    At most ``MOST`` reasons and ``REST``; empty where none was sampled, or none on this clock. Of
    series that were sampled in several passes, those stay that lie on the times of the first.
    """
    names = sorted({str(name) for name in timeline["metric"].unique() if str(name).startswith(PREFIX)})
    sampled = {
        name.removeprefix(PREFIX): series for name in names if (series := _of(timeline, name, shown)) is not None
    }
    if not sampled:
        return {}, ""
    unit = series_of(timeline, [names[0]])
    base = next(iter(sampled.values())).index
    # Passes have different clocks: stacked series need the same times.
    on_base = {name: series.reindex(base, method="nearest") for name, series in sampled.items()}
    ranked = sorted(on_base, key=lambda name: -float(on_base[name].mean()))
    drawn = {name: on_base[name] for name in ranked[:MOST] if on_base[name].max() > 0}
    if rest := ranked[MOST:]:
        drawn[REST] = pd.Series(np.sum([on_base[name].to_numpy() for name in rest], axis=0), index=base)
    return drawn, unit[2] if unit else ""


def _of(timeline: pd.DataFrame, name: str, shown: Window) -> pd.Series | None:
    sampled = series_of(timeline, [name])
    if sampled is None:
        return None
    values = sampled[1]
    inside = values[(values.index >= shown.start_ns) & (values.index <= shown.end_ns)]
    return inside if len(inside) > 1 else None
