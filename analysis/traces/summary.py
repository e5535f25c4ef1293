"""What a trace says in numbers: where the warps' time goes, and what happens at the same time
within an SM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.traces.concurrency import Overlap, overlaps, percent, union
from ncubble.analysis.traces.flights import flights
from ncubble.analysis.traces.probe_lanes import Recorded

_Cover = dict[Any, tuple[np.ndarray, np.ndarray]]
ELSEWHERE = "elsewhere"
"""Time of a warp outside all regions."""


@dataclass(frozen=True)
class Share:
    """Time of the warps of ``group`` in regions of ``tag``: how often, in ns in all, in percent of
    the warps' lives."""

    group: str
    tag: str
    count: int
    ns: float
    pct: float
    median_ns: float | None


@dataclass(frozen=True)
class Summary:
    """``busy``: percent of SM time in which a kind of work is under way; ``span_ns``: mean time of
    an SM."""

    span_ns: float
    sms: int
    warps: int
    shares: tuple[Share, ...]
    busy: dict[str, float]
    overlaps: tuple[Overlap, ...]


def summarize(recorded: Recorded, flying: pd.DataFrame | None = None) -> Summary:
    """The numbers of a trace. Kinds of work are the tags that are no waits, and what is in flight:
    ``flying``, by default what follows from the lanes."""
    lives = recorded.warps.groupby(["launch", "sm"]).agg(start=("start_ns", "min"), end=("end_ns", "max"))
    total = float((lives["end"] - lives["start"]).sum())
    flying = flights(recorded.lanes) if flying is None else flying
    lanes = pd.concat([recorded.lanes, flying], ignore_index=True)
    covers = _covers(lanes[~lanes["tag"].str.startswith("wait")])
    busy = {kind: _together([cover]) for kind, cover in covers.items()}
    return Summary(
        span_ns=total / max(len(lives), 1),
        sms=int(recorded.warps["sm"].nunique()),
        warps=len(recorded.warps),
        shares=shares(recorded),
        busy={kind: percent(ns, total) for kind, ns in busy.items()},
        overlaps=overlaps(busy, lambda kinds: _together([covers[kind] for kind in kinds]), total),
    )


def shares(recorded: Recorded) -> tuple[Share, ...]:
    """Where the time of the warps goes, by role and tag, in the order of the roles' and tags' first
    appearance."""
    result = []
    for group, warps in recorded.warps.groupby("group", sort=False):
        life = float((warps["end_ns"] - warps["start_ns"]).sum())
        own = recorded.lanes[recorded.lanes["group"] == group]
        own = own.assign(ns=own["end_ns"] - own["start_ns"])
        for tag, rows in own.groupby("tag", sort=False):
            ns = float(rows["ns"].sum())
            result.append(Share(str(group), str(tag), len(rows), ns, percent(ns, life), float(rows["ns"].median())))
        rest = life - float(own["ns"].sum())
        result.append(Share(str(group), ELSEWHERE, 0, rest, percent(rest, life), None))
    return tuple(result)


def _covers(work: pd.DataFrame) -> dict[str, _Cover]:
    """For each kind of work, in order of its first appearance: the disjoint stretches in which it
    is under way, on each SM in each launch."""
    covers: dict[str, _Cover] = {}
    for name in work["tag"].unique():
        own = work[work["tag"] == name]
        covers[str(name)] = {
            place: union(rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float))
            for place, rows in own.groupby(["launch", "sm"])
        }
    return covers


def _together(covers: Sequence[_Cover]) -> float:
    """ns in which all are under way on one SM, summed over launches and SMs."""
    shared = set.intersection(*(set(cover) for cover in covers))
    return sum(_common([cover[place] for cover in covers]) for place in shared)


def _common(covers: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Time that lies in a stretch of each cover; stretches of one cover are disjoint."""
    times = np.concatenate([np.concatenate(cover) for cover in covers])
    steps = np.concatenate([np.repeat([1, -1], len(cover[0])) for cover in covers])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(steps[order])[:-1]
    return float(np.diff(times[order])[level == len(covers)].sum())
