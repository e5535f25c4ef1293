"""What a trace of warps says in numbers: where their time goes, what is in flight beside them, and
what happens at the same time within an SM."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.traces.lanes import INDEX, MOST_ROWS, TIMES, Lanes, cut
from ncubble.analysis.traces.overlap import Overlap, Share, concurrency, percent
from ncubble.analysis.traces.probe import Clock, Loss, Recorded

ASYNCHRONOUS = (
    ("copies", "copy in flight", "load", "wait_data"),
    ("products", "product in flight", "compute", "wait_mma"),
)
"""Group and tag of the derived lanes, the tag that starts the work, and the tag that waits for
it."""
ELSEWHERE = "elsewhere"
"""Time of a warp outside all regions."""
FINEST_NS = 1 / 16
"""Times are rounded to this step, an eighth of a cycle; finer digits are noise and take space."""
MOST_TAGS = 60
_SM, _CTA = ["launch", "sm"], ["launch", "sm", "cta"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """``span_ns``: mean time of an SM; ``busy_pct``: percent of SM time in which a kind of work is
    under way."""

    span_ns: float
    sms: int
    warps: int
    shares: tuple[Share, ...]
    busy_pct: dict[str, float]
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True)
class ProbeCost:
    """As ``kernels.run.probe.Cost``. Traces that ship were recorded before ``chosen_pct`` was
    measured."""

    off_us: float
    idle_pct: float
    on_pct: float
    on_low_pct: float
    on_high_pct: float
    rounds: int
    kept_pct: float
    sms: int = 0
    chosen_pct: float | None = None


@dataclass(frozen=True)
class TracedKernel:
    """A kernel of the catalog that was traced."""

    name: str
    parameters: dict[str, Any]
    shape: dict[str, Any]


@dataclass(frozen=True)
class TracedResult:
    """Whether a traced kernel computed what it should."""

    passed: bool


@dataclass(frozen=True, kw_only=True)
class TraceFacts(Summary):
    """What of the facts of a trace is shown: its numbers, what was traced, what the probe costs,
    and the stretch of the whole trace (ns), if it is one."""

    clock: Clock
    loss: Loss
    kernel: TracedKernel | None = None
    argv: tuple[str, ...] = ()
    cost: ProbeCost | None = None
    verification: TracedResult | None = None
    cut_ns: tuple[float, float] | None = None


def traced_lanes(recorded: Recorded, more: Mapping[str, Any]) -> Lanes:
    """What a run directory keeps of a trace: the lanes of the warps and what is in flight, at most
    ``MOST_ROWS``, the earliest, and all numbers beside ``more``, which are facts of kernel, build,
    device and cost."""
    rows = pd.concat([recorded.lanes, flights(recorded.lanes)], ignore_index=True)
    clock = {**asdict(recorded.clock), "mhz": recorded.clock.mhz}
    facts = {**more, "clock": clock, "loss": asdict(recorded.loss), **asdict(summarize(rows, recorded.warps))}
    rows[[*TIMES]] = (rows[[*TIMES]] / FINEST_NS).round() * FINEST_NS
    return Lanes("warps", rows.sort_values("start_ns", kind="stable", ignore_index=True).iloc[:MOST_ROWS], facts)


def cut_lanes(lanes: Lanes, low_ns: float, high_ns: float) -> Lanes:
    """A stretch of a trace, with numbers of its own."""
    rows = cut(lanes.rows, low_ns, high_ns)
    stretch = {"cut_ns": [low_ns, high_ns], "whole_ns": lanes.facts.get("span_ns")}
    return Lanes(lanes.kind, rows, {**lanes.facts, **asdict(summarize(rows)), **stretch})


def summarize(rows: pd.DataFrame, lives: pd.DataFrame | None = None) -> Summary:
    """The numbers of a trace. Kinds of work are the tags that are no waits. ``lives``: one row for
    each warp; by default a warp lives from its first interval to its last."""
    warps = rows[rows["warp"] >= 0]
    if lives is None:
        own = warps.groupby([*_CTA, "warp", "group"], as_index=False, sort=False, observed=True)
        lives = own.agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    spans = lives.groupby(_SM).agg(start=("start_ns", "min"), end=("end_ns", "max"))
    total = float((spans["end"] - spans["start"]).sum())
    ordered = pd.concat([warps, rows[rows["warp"] < 0]])
    together = concurrency(ordered, "tag", _SM, total, MOST_TAGS)
    return Summary(
        span_ns=total / max(len(spans), 1),
        sms=int(lives["sm"].nunique()),
        warps=len(lives),
        shares=_shares(warps, lives),
        busy_pct={tag: percent(ns, total) for tag, ns in together.busy_ns.items()},
        overlaps=together.overlaps,
    )


def _shares(warps: pd.DataFrame, lives: pd.DataFrame) -> tuple[Share, ...]:
    """Where the time of the warps goes, by role and tag, in the order of the roles' and tags' first
    appearance."""
    shares = []
    for group, alive in lives.groupby("group", sort=False):
        rest = life = float((alive["end_ns"] - alive["start_ns"]).sum())
        own = warps[warps["group"] == group]
        for tag, lasted in (own["end_ns"] - own["start_ns"]).groupby(own["tag"], sort=False):
            ns = float(lasted.sum())
            rest -= ns
            shares.append(Share(str(group), str(tag), len(lasted), ns, percent(ns, life), float(lasted.median())))
        shares.append(Share(str(group), ELSEWHERE, 0, rest, percent(rest, life), None))
    return tuple(shares)


def flights(lanes: pd.DataFrame) -> pd.DataFrame:
    """Lanes of copies and tensor products in flight, with the columns of ``lanes`` (``warp`` is
    -1); empty where nothing is awaited.

    A copy of tile i is in flight from the begin of its ``load`` until the wait for it ends, in any
    warp of its CTA; a product from the begin of its ``compute`` until the end of ``wait_mma``. It
    may have ended before somebody looked: these are the longest times that the record allows.
    """
    several = lanes["launch"].nunique() > 1
    parts = [lanes.iloc[:0]]
    for group, tag, starts, awaits in ASYNCHRONOUS:
        begun = lanes[lanes["tag"] == starts].groupby([*_CTA, INDEX])["start_ns"].min()
        ended = lanes[lanes["tag"] == awaits].groupby([*_CTA, INDEX])["end_ns"].max()
        flying = pd.concat([begun, ended], axis=1, join="inner").reset_index()
        flying = flying[flying["end_ns"] >= flying["start_ns"]].sort_values("start_ns", kind="stable")
        for (launch, sm, cta), own in flying.groupby(_CTA, sort=False):
            name = f"{f'launch {launch} ' if several else ''}SM {sm} CTA {cta} {group}"
            places = beside(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            lane = [f"{name} {place + 1}" for place in places]
            parts.append(own.assign(lane=lane, group=group, tag=tag, warp=-1)[list(lanes.columns)])
    both = pd.concat(parts[1:] or parts, ignore_index=True)
    return both.sort_values("start_ns", kind="stable", ignore_index=True)


def beside(starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """For intervals in order of their start: the lowest lane in which each overlaps no other."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    places = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        places.append(lane)
    return places
