"""What a trace says in numbers: where the warps' time goes, and what happens at the same time within an SM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from ncubble.analysis.concurrency import union
from ncubble.analysis.flights import flights
from ncubble.analysis.probe_lanes import Recorded

ELSEWHERE = "elsewhere"
"""Time of a warp outside of every region."""


@dataclass(frozen=True)
class Share:
    """Time of the warps of ``group`` in regions of ``tag``: how often, in ns in all, in percent of the warps' lives."""

    group: str
    tag: str
    count: int
    ns: float
    pct: float
    median_ns: float


@dataclass(frozen=True)
class Overlap:
    """Time in which all of ``what`` happen on an SM, over all SMs: in percent of its time, and of the least of them."""

    what: tuple[str, ...]
    ns: float
    pct_of_span: float
    pct_of_least: float


@dataclass(frozen=True)
class Summary:
    """``busy``: percent of SM time in which a kind of work is under way; ``span_ns``: mean time of an SM."""

    span_ns: float
    sms: int
    warps: int
    shares: tuple[Share, ...]
    busy: dict[str, float]
    overlaps: tuple[Overlap, ...]


def summarize(recorded: Recorded) -> Summary:
    """The numbers of a trace. Kinds of work are the tags that are no waits, and what is in flight."""
    spans = _spans(recorded.warps)
    total = float(sum(end - start for start, end in spans.values()))
    lanes = pd.concat([recorded.lanes, flights(recorded.lanes)], ignore_index=True)
    work = lanes[~lanes["tag"].str.startswith("wait")]
    kinds = [str(name) for name in work.groupby("tag", sort=False)["start_ns"].min().sort_values().index]
    busy = {kind: _together(work, (kind,)) for kind in kinds}
    overlaps = []
    for size in (2, 3):
        for chosen in combinations(kinds, size):
            ns, least = _together(work, chosen), min(busy[kind] for kind in chosen)
            overlaps.append(Overlap(chosen, ns, _pct(ns, total), _pct(ns, least)))
    return Summary(
        span_ns=total / max(len(spans), 1),
        sms=int(recorded.warps["sm"].nunique()),
        warps=len(recorded.warps),
        shares=shares(recorded),
        busy={kind: _pct(ns, total) for kind, ns in busy.items()},
        overlaps=tuple(overlaps),
    )


def shares(recorded: Recorded) -> tuple[Share, ...]:
    """Where the time of the warps goes, by role and tag, in the order of the roles' and tags' first appearance."""
    found = []
    for group, warps in recorded.warps.groupby("group", sort=False):
        life = float((warps["end_ns"] - warps["start_ns"]).sum())
        own = recorded.lanes[recorded.lanes["group"] == group]
        own = own.assign(ns=own["end_ns"] - own["start_ns"])
        for tag, rows in own.groupby("tag", sort=False):
            ns = float(rows["ns"].sum())
            found.append(Share(str(group), str(tag), len(rows), ns, _pct(ns, life), float(rows["ns"].median())))
        rest = life - float(own["ns"].sum())
        found.append(Share(str(group), ELSEWHERE, 0, rest, _pct(rest, life), float("nan")))
    return tuple(found)


def _spans(warps: pd.DataFrame) -> dict[tuple[int, int], tuple[float, float]]:
    """From the first warp's begin to the last one's end, for every launch and SM."""
    return {
        (int(launch), int(sm)): (float(rows["start_ns"].min()), float(rows["end_ns"].max()))
        for (launch, sm), rows in warps.groupby(["launch", "sm"])
    }


def _together(work: pd.DataFrame, kinds: Sequence[str]) -> float:
    """ns in which all ``kinds`` are under way on one SM, summed over launches and SMs."""
    total = 0.0
    for _, rows in work.groupby(["launch", "sm"]):
        covers = [
            union(part["start_ns"].to_numpy(float), part["end_ns"].to_numpy(float))
            for kind in kinds
            for part in [rows[rows["tag"] == kind]]
        ]
        total += _common(covers)
    return total


def _common(covers: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Time that lies in a stretch of each cover; stretches of one cover are disjoint."""
    times = np.concatenate([np.concatenate(cover) for cover in covers])
    steps = np.concatenate([np.repeat([1, -1], len(cover[0])) for cover in covers])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(steps[order])[:-1]
    return float(np.diff(times[order])[level == len(covers)].sum())


def _pct(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole > 0 else 0.0
