"""Both levels of one run on one axis of time: its streams, and the warps of the launches in them.

Kernels are timed by CUPTI, warps by the SM's own clock (`%globaltimer` at their begin and end). The
two clocks may have different zeros. What must hold in any case: the warps of a launch begin and end
within its kernel. Over all launches this leaves a narrow range for the distance of the zeros, whose
middle is taken; where it leaves none, the two do not belong together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.streams.work import SMS
from ncubble.analysis.traces.overlap import works

_LAUNCH = r"^launch (\d+) "
"""Prefix of warp lanes if there are several launches."""
STRAY_NS = 3000.0
"""Maximum apparent offset of warps outside their kernel: the linear fit of SM clocks is accurate to
2.5 µs (docs/trace.md)."""


@dataclass(frozen=True)
class Levels:
    """``streams`` and ``warps`` are rows of lanes, ``warps`` with their ``launch``; ``launches``
    has one row for each: ``launch``, ``lane``, ``start_ns``, ``end_ns`` of its kernel. Time is
    since the first work of the streams. ``slack_ns``: width of the range that was left for the
    distance of the clocks; below 0 by how far some warps seem to lie outside of their kernel."""

    streams: pd.DataFrame
    warps: pd.DataFrame
    launches: pd.DataFrame
    slack_ns: float

    @property
    def middle(self) -> int:
        """The launch in the middle of the run, in which the pipeline is full."""
        return int(self.launches["launch"].iloc[len(self.launches) // 2])

    def of_launch(self, launch: int) -> tuple[pd.Series, pd.DataFrame]:
        """The kernel of a launch and the lanes of its warps; raises KeyError where there is
        none."""
        rows = self.launches[self.launches["launch"] == launch]
        if rows.empty:
            raise KeyError(launch)
        return rows.iloc[0], self.warps[self.warps["launch"] == launch].reset_index(drop=True)


def levels_of(streams: pd.DataFrame, warps: pd.DataFrame) -> Levels | None:
    """Both, as rows of lanes of one run, brought together; None where no kernel of the streams can
    be that of the warps."""
    zero = float(streams["start_ns"].min()) if len(streams) else 0.0
    streams = streams.assign(start_ns=streams["start_ns"] - zero, end_ns=streams["end_ns"] - zero)
    numbers = warps["lane"].str.extract(_LAUNCH, expand=False).fillna("0").astype(int)
    warps = warps.assign(launch=numbers, lane=warps["lane"].str.replace(_LAUNCH, "", regex=True))
    spans = warps.groupby("launch").agg(start=("start_ns", "min"), end=("end_ns", "max")).sort_values("start")
    work = streams[works(streams) & streams["group"].str.endswith(SMS)]
    found: list[Levels] = []
    for _, kernels in work.groupby("tag", sort=False):
        if len(kernels) != len(spans):
            continue
        kernels = kernels.sort_values("start_ns", kind="stable")
        least = float(np.max(kernels["start_ns"].to_numpy() - spans["start"].to_numpy()))
        most = float(np.min(kernels["end_ns"].to_numpy() - spans["end"].to_numpy()))
        shift = (least + most) / 2
        placed = warps.assign(start_ns=warps["start_ns"] + shift, end_ns=warps["end_ns"] + shift)
        launches = kernels[["lane", "start_ns", "end_ns"]].assign(launch=spans.index.to_numpy())
        found.append(Levels(streams, placed, launches.reset_index(drop=True), most - least))
    best = max(found, key=lambda levels: levels.slack_ns, default=None)
    return best if best is not None and best.slack_ns >= -STRAY_NS else None
