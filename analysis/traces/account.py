"""The bubble account of a trace, without any counter: what the warps of each SM wait for, in parts
that sum to 100 %.

The trace knows what warps do, not what the units do. Definition, written down before it was
compared with any counter:

- Counted are warps that compute at all (those with a region ``compute``) and the time of each
  launch on each recorded SM. A loader's or storer's wait holds nothing up by itself.
- A warp is at work in ``compute`` and ``wait_mma``, and as long as a product that it started may be
  in flight (from ``compute`` to the end of ``wait_mma`` for the same tile).
- A sub-core (warps of the same number modulo 4) is at work while one of its warps is. Else its time
  goes to what its warps do, in equal parts: ``wait_data``, ``load`` (starting copies), ``store``,
  waiting at a barrier (``wait_sync``, ``wait_slot``, other waits), anything else. At a barrier, a
  warp waits for data while another of its CTA is in ``wait_data``, and for copying while another is
  in ``load``.
- ``ramp`` is the time before a sub-core's first work, ``tail`` that behind its last warp, and
  ``wave_gap`` time between without a warp.

Two further readings bound it: ``at_least`` takes a whole SM to be at work while any of its warps
is, ``at_most`` takes each warp by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

WORK = "compute"
"""The part in which warps work. It includes parts that only counters can separate."""
HOLDS = ("tensor_busy", "unit_busy", "smem_wait", "issue")
WAITING = {"data_wait": "wait_data", "copy_cost": "load", "sync_wait": "barrier", "epilogue": "store", "other": ""}
"""The parts of states of a warp that is not working, each with the tag that it has: all other waits
are a ``barrier``, everything else is ``other``."""
ORDER = (WORK, "ramp", "tail", "wave_gap", *WAITING)
CANNOT_TELL = (
    "how busy the tensor pipe or any other unit was (compute includes its idle time)",
    "issue slots, shared-memory waits and bank conflicts (within compute)",
    "bandwidth of L2 and DRAM, occupancy limits, source lines",
    "SMs that were not recorded, and the launch itself before the first warp",
)
SUB_CORES = 4
MOST_ROWS = 300_000
_DATA, _LOAD, _BARRIER, _, _OTHER = range(5)


@dataclass(frozen=True)
class TraceAccount:
    """``parts`` of the recorded SMs' time in percent, in the order of ``ORDER``; ``at_least`` and
    ``at_most`` bound the bubbles. ``duration_ns``: mean length of a launch. ``sms``, ``launches``:
    how many were recorded."""

    parts: Mapping[str, float]
    at_least: Mapping[str, float]
    at_most: Mapping[str, float]
    duration_ns: float
    sms: int
    launches: int
    notes: tuple[str, ...] = ()

    @property
    def bubbles(self) -> dict[str, float]:
        """The parts without work, largest first."""
        idle = {part: pct for part, pct in self.parts.items() if part != WORK and pct > 0}
        return dict(sorted(idle.items(), key=lambda item: -item[1]))


class CtaStates(NamedTuple):
    """Of one CTA, from each of ``times`` (ns) to the next: warps at work by sub-core, and warps in
    each state of ``WAITING`` by sub-core."""

    times: np.ndarray
    working: np.ndarray
    waiting: np.ndarray


def trace_account(lanes: pd.DataFrame) -> TraceAccount | None:
    """The account of lanes of warps (``lanes.COLUMNS``; what is in flight is left out). None where
    no warp has a region ``compute``."""
    warps, notes = lanes[lanes["warp"] >= 0], tuple[str, ...]()
    if len(warps) > MOST_ROWS:
        warps = warps.sort_values("start_ns", kind="stable").iloc[:MOST_ROWS]
        notes = (f"only the first {MOST_ROWS:,} intervals are counted",)
    computing = warps.loc[warps["tag"] == WORK, "lane"].unique()
    if not len(computing):
        return None
    own = _with_products(warps[warps["lane"].isin(computing)])
    total = np.zeros((3, len(ORDER)))
    spans = []
    for _, launch in own.groupby("launch", sort=False):
        begin, end = float(launch["start_ns"].min()), float(launch["end_ns"].max())
        spans.append(end - begin)
        for _, rows in launch.groupby("sm", sort=False):
            total += _of_sm(rows, begin, end)
    shares = 100.0 * total / np.where(total.sum(axis=1) > 0, total.sum(axis=1), 1.0)[:, None]
    parts, least, most = (dict(zip(ORDER, row, strict=True)) for row in shares.tolist())
    return TraceAccount(parts, least, most, float(np.mean(spans)), own["sm"].nunique(), len(spans), notes)


def _with_products(lanes: pd.DataFrame) -> pd.DataFrame:
    """``lanes`` with a column ``until_ns``: of a ``compute`` whose product is awaited by a later
    ``wait_mma`` of the same warp and tile, the end of that wait; else the end of the region."""
    key = ["lane", "index"]
    ends = lanes[lanes["tag"] == "wait_mma"].groupby(key)["end_ns"].max()
    awaited = ends.reindex(pd.MultiIndex.from_frame(lanes[key])).to_numpy()
    own = lanes["end_ns"].to_numpy(float)
    flying = (lanes["tag"] == WORK).to_numpy() & (awaited > own)
    return lanes.assign(until_ns=np.where(flying, awaited, own))


def _of_sm(rows: pd.DataFrame, begin: float, end: float) -> np.ndarray:
    """ns of one SM in one launch by reading and part."""
    ctas = [_states(cta) for _, cta in rows.groupby("cta", sort=False)]
    grid = np.unique(np.concatenate([[begin, end], *(cta.times for cta in ctas)]))
    working = np.zeros((SUB_CORES, len(grid) - 1))
    waiting = np.zeros((SUB_CORES, len(WAITING), len(grid) - 1))
    for cta in ctas:
        place = np.searchsorted(cta.times, grid[:-1], side="right") - 1
        inside = np.flatnonzero((place >= 0) & (place < len(cta.times) - 1))
        working[:, inside] += cta.working[:, place[inside]]
        waiting[:, :, inside] += cta.waiting[:, :, place[inside]]
    alive = working + waiting.sum(axis=1)
    present = np.flatnonzero(alive.max(axis=1) > 0)
    working, waiting, alive = working[present], waiting[present], alive[present]
    anywhere = np.broadcast_to(working.sum(axis=0) > 0, working.shape)
    shares = [_divided(at_work, working, waiting, alive) for at_work in (working > 0, anywhere, None)]
    return np.stack([(share * np.diff(grid)).sum(axis=2).mean(axis=0) for share in shares])


def _divided(at_work: np.ndarray | None, working: np.ndarray, waiting: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Shares of each instant by sub-core and part. ``at_work``: when a sub-core counts as working;
    None: by the share of its warps that do."""
    if at_work is None:
        work = working / np.maximum(alive, 1.0)
        divided = waiting / np.maximum(alive, 1.0)[:, None, :]
    else:
        work = at_work.astype(float)
        resting = np.maximum(waiting.sum(axis=1), 1.0)
        divided = np.where(at_work, 0.0, 1.0 / resting)[:, None, :] * waiting
    started = np.maximum.accumulate(working > 0, axis=1)
    left = np.maximum.accumulate((alive > 0)[:, ::-1], axis=1)[:, ::-1]
    ramp, empty = ~started & ~(work > 0), (alive == 0) & ~(work > 0)
    outer = np.stack([work, ramp, started & ~left & empty, started & left & empty], axis=1)
    return np.concatenate([outer, np.where(ramp[:, None, :], 0.0, divided)], axis=1)


def _states(rows: pd.DataFrame) -> CtaStates:
    """The states of one CTA's warps (with ``until_ns``). A warp lives from its first region to its
    last."""
    codes, names = pd.factorize(rows["lane"])
    ends = [rows[name].to_numpy(float) for name in ("start_ns", "end_ns", "until_ns")]
    times, place = np.unique(np.concatenate(ends), return_inverse=True)
    first, last, over = np.split(place, 3)

    def during(owners: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Whether an interval of each warp covers each instant."""
        changes = np.zeros((len(names), len(times)))
        np.add.at(changes, (owners, begin), 1)
        np.add.at(changes, (owners, end), -1)
        return np.cumsum(changes, axis=1) > 0

    states = rows["tag"].map(_state).to_numpy(int)
    works = during(codes[states < 0], first[states < 0], over[states < 0])
    waits = [during(codes[own], first[own], last[own]) for own in (states == number for number in range(_OTHER))]
    born, gone = np.full(len(names), len(times)), np.zeros(len(names), int)
    np.minimum.at(born, codes, first)
    np.maximum.at(gone, codes, over)
    lives = during(np.arange(len(names)), born, gone)
    counts = np.stack([*waits, lives & ~np.any(waits, axis=0)]) & ~works
    # Barriers are put down to what the others of the CTA do: for data, for copying, or for each
    # other.
    data, load, barrier = counts[_DATA].any(axis=0), counts[_LOAD].any(axis=0), counts[_BARRIER].copy()
    counts[_DATA] |= barrier & data
    counts[_LOAD] |= barrier & ~data & load
    counts[_BARRIER] = barrier & ~data & ~load
    core = np.zeros(len(names), int)
    core[codes] = rows["warp"].to_numpy(int) % SUB_CORES
    working, waiting = np.zeros((SUB_CORES, len(times))), np.zeros((SUB_CORES, len(WAITING), len(times)))
    np.add.at(working, core, works)
    np.add.at(waiting, core, counts.transpose(1, 0, 2))
    return CtaStates(times, working, waiting)


def _state(tag: str) -> int:
    """The place of a region's state in ``WAITING``; -1 for work."""
    if tag in (WORK, "wait_mma"):
        return -1
    tags = list(WAITING.values())
    return tags.index(tag) if tag in tags and tag != "barrier" else _BARRIER if tag.startswith("wait") else _OTHER
