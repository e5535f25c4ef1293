"""What lanes do within a window of time: by group and tag, how often and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ncubble.analysis.traces.concurrency import percent


@dataclass(frozen=True)
class TagTime:
    """Intervals of one group and tag in a window: how many reach into it, their time within it in
    ns, its percent of the time of the group's lanes, and the median length of those that lie in it
    as a whole (None: none does)."""

    group: str
    tag: str
    count: int
    ns: float
    pct: float
    median_ns: float | None


def tag_times(lanes: pd.DataFrame, low: float, high: float) -> list[TagTime]:
    """By group and tag of ``lanes`` (times in ns as in the window), those with most time first."""
    inside = lanes[(lanes["end_ns"] > low) & (lanes["start_ns"] < high)]
    own = inside.groupby("group", observed=True)["lane"].nunique().to_dict()
    length = inside["end_ns"] - inside["start_ns"]
    within = inside["end_ns"].clip(upper=high) - inside["start_ns"].clip(lower=low)
    complete = length.where((inside["start_ns"] >= low) & (inside["end_ns"] <= high))
    groups = inside.assign(ns=within, whole=complete).groupby(["group", "tag"], observed=True, sort=False)
    times = [
        TagTime(
            str(group),
            str(tag),
            len(rows),
            float(rows["ns"].sum()),
            percent(float(rows["ns"].sum()), (high - low) * float(own[group])),
            float(rows["whole"].median()) if rows["whole"].notna().any() else None,
        )
        for (group, tag), rows in groups
    ]
    return sorted(times, key=lambda each: -each.ns)
