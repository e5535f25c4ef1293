"""What the warps of a CTA are at from instant to instant, from the regions of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

SUB_CORES = 4
WORKING = ("compute", "wait_mma")
WAITING = ("wait_data", "load", "barrier", "store", "elsewhere")
"""States of a warp that is not working; all other waits are a ``barrier``."""
MOST_ROWS = 300_000
_DATA, _LOAD, _BARRIER, _ELSEWHERE = 0, 1, 2, 4


@dataclass(frozen=True)
class CtaStates:
    """Of one CTA, from each of ``times`` (ns) to the next: warps at work by sub-core, and warps in
    each of ``WAITING`` by sub-core."""

    times: np.ndarray
    working: np.ndarray
    waiting: np.ndarray


def with_products(lanes: pd.DataFrame) -> pd.DataFrame:
    """``lanes`` with a column ``until_ns``: of a ``compute`` whose product is awaited by a later
    ``wait_mma`` of the same warp and tile, the end of that wait; else the end of the region."""
    key = ["lane", "index"]
    ends = lanes[lanes["tag"] == "wait_mma"].groupby(key)["end_ns"].max()
    awaited = ends.reindex(pd.MultiIndex.from_frame(lanes[key])).to_numpy()
    own = lanes["end_ns"].to_numpy(float)
    flying = (lanes["tag"] == "compute").to_numpy() & (awaited > own)
    return lanes.assign(until_ns=np.where(flying, awaited, own))


def states_of(rows: pd.DataFrame) -> CtaStates:
    """The states of one CTA's warps (with ``until_ns``). A warp lives from its first region to its
    last."""
    codes, names = pd.factorize(rows["lane"])
    start, end = rows["start_ns"].to_numpy(float), rows["end_ns"].to_numpy(float)
    until = rows["until_ns"].to_numpy(float)
    times, place = np.unique(np.concatenate([start, end, until]), return_inverse=True)
    first, last, over = np.split(place, 3)
    states = rows["tag"].map(_state).to_numpy(int)
    warps, steps = len(names), len(times)
    core = np.zeros(warps, int)
    core[codes] = rows["warp"].to_numpy(int) % SUB_CORES
    works = _levels(codes, first, over, states < 0, warps, steps) > 0
    counts = np.stack(
        [_levels(codes, first, last, states == state, warps, steps) > 0 for state in range(len(WAITING) - 1)]
    )
    lives = _levels(codes, *_lives(codes, first, over, warps), np.ones(warps, bool), warps, steps) > 0
    counts = np.concatenate([counts, (lives & ~counts.any(axis=0))[None]]) & ~works
    counts = _blamed(counts)
    working, waiting = np.zeros((SUB_CORES, steps)), np.zeros((SUB_CORES, len(WAITING), steps))
    np.add.at(working, core, works)
    np.add.at(waiting, core, counts.transpose(1, 0, 2))
    return CtaStates(times, working, waiting)


def _state(tag: str) -> int:
    if tag in WORKING:
        return -1
    if tag in WAITING[:2] or tag == "store":
        return WAITING.index(tag)
    return _BARRIER if tag.startswith("wait") else _ELSEWHERE


def _levels(
    codes: np.ndarray, first: np.ndarray, last: np.ndarray, chosen: np.ndarray, warps: int, steps: int
) -> np.ndarray:
    """How many of the chosen intervals of each warp cover each instant."""
    changes = np.zeros((warps, steps))
    own = np.arange(warps) if len(codes) != len(first) else codes
    np.add.at(changes, (own[chosen], first[chosen]), 1)
    np.add.at(changes, (own[chosen], last[chosen]), -1)
    return np.cumsum(changes, axis=1)


def _lives(codes: np.ndarray, first: np.ndarray, last: np.ndarray, warps: int) -> tuple[np.ndarray, np.ndarray]:
    begin, end = np.full(warps, np.iinfo(int).max), np.zeros(warps, int)
    np.minimum.at(begin, codes, first)
    np.maximum.at(end, codes, last)
    return begin, end


def _blamed(counts: np.ndarray) -> np.ndarray:
    """States with barriers put down to what the others of the CTA do: for data, for copying, or for
    each other."""
    data, load = counts[_DATA].any(axis=0), counts[_LOAD].any(axis=0)
    barrier = counts[_BARRIER]
    blamed: np.ndarray = counts.copy()
    blamed[_DATA] |= barrier & data
    blamed[_LOAD] |= barrier & ~data & load
    blamed[_BARRIER] = barrier & ~data & ~load
    return blamed
