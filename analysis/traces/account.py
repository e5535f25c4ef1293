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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ncubble.analysis.traces.waiting import MOST_ROWS, SUB_CORES, CtaStates, states_of, with_products

WORK = "compute"
"""The part in which warps work. It includes parts that only counters can separate."""
HOLDS = ("tensor_busy", "unit_busy", "smem_wait", "issue")
PARTS_OF_STATES = ("data_wait", "copy_cost", "sync_wait", "epilogue", "other")
"""The parts of waiting states, in the order of ``waiting.WAITING``."""
ORDER = (WORK, "ramp", "tail", "wave_gap", *PARTS_OF_STATES)
CANNOT_TELL = (
    "how busy the tensor pipe or any other unit was (compute includes its idle time)",
    "issue slots, shared-memory waits and bank conflicts (within compute)",
    "bandwidth of L2 and DRAM, occupancy limits, source lines",
    "SMs that were not recorded, and the launch itself before the first warp",
)


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
    notes: tuple[str, ...] = field(default=())

    @property
    def bubbles(self) -> dict[str, float]:
        """The parts without work, largest first."""
        idle = {part: pct for part, pct in self.parts.items() if part != WORK and pct > 0}
        return dict(sorted(idle.items(), key=lambda item: -item[1]))


def trace_account(lanes: pd.DataFrame) -> TraceAccount | None:
    """The account of lanes of warps (columns as ``probe_lanes.COLUMNS``; what is in flight is left
    out). None where no warp has a region ``compute``."""
    warps = lanes[lanes["warp"] >= 0]
    notes = []
    if len(warps) > MOST_ROWS:
        warps = warps.sort_values("start_ns", kind="stable").iloc[:MOST_ROWS]
        notes.append(f"only the first {MOST_ROWS:,} intervals are counted")
    computing = warps.loc[warps["tag"] == WORK, "lane"].unique()
    if not len(computing):
        return None
    own = with_products(warps[warps["lane"].isin(computing)])
    total: dict[str, np.ndarray] = {name: np.zeros(len(ORDER)) for name in ("parts", "at_least", "at_most")}
    spans = []
    for _, launch in own.groupby("launch", sort=False):
        begin, end = float(launch["start_ns"].min()), float(launch["end_ns"].max())
        spans.append(end - begin)
        for _, rows in launch.groupby("sm", sort=False):
            for name, ns in _of_sm(rows, begin, end):
                total[name] += ns
    shares = {name: _percent(ns) for name, ns in total.items()}
    sms, launches = int(own["sm"].nunique()), int(own["launch"].nunique())
    return TraceAccount(**shares, duration_ns=float(np.mean(spans)), sms=sms, launches=launches, notes=tuple(notes))


def _percent(ns: np.ndarray) -> dict[str, float]:
    whole = float(ns.sum())
    return dict(zip(ORDER, (100.0 * ns / whole if whole > 0 else ns).tolist(), strict=True))


def _of_sm(rows: pd.DataFrame, begin: float, end: float) -> Iterator[tuple[str, np.ndarray]]:
    """ns of one SM in one launch by part, for each reading."""
    ctas = [states_of(cta) for _, cta in rows.groupby("cta", sort=False)]
    grid = np.unique(np.concatenate([[begin, end], *(cta.times for cta in ctas)]))
    length = np.diff(grid)
    working, waiting = _on_grid(ctas, grid)
    alive = working + waiting.sum(axis=1)
    present = np.flatnonzero(alive.max(axis=1) > 0)
    working, waiting, alive = working[present], waiting[present], alive[present]
    yield "parts", _shared(working > 0, working, waiting, alive, length).mean(axis=0)
    anywhere = np.broadcast_to(working.sum(axis=0) > 0, working.shape)
    yield "at_least", _shared(anywhere, working, waiting, alive, length).mean(axis=0)
    yield "at_most", _shared(None, working, waiting, alive, length).mean(axis=0)


def _on_grid(ctas: list[CtaStates], grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Warps at work, and those in each waiting state, by sub-core from each instant to the next."""
    working = np.zeros((SUB_CORES, len(grid) - 1))
    waiting = np.zeros((SUB_CORES, len(PARTS_OF_STATES), len(grid) - 1))
    for cta in ctas:
        place = np.searchsorted(cta.times, grid[:-1], side="right") - 1
        inside = np.flatnonzero((place >= 0) & (place < len(cta.times) - 1))
        working[:, inside] += cta.working[:, place[inside]]
        waiting[:, :, inside] += cta.waiting[:, :, place[inside]]
    return working, waiting


def _shared(
    at_work: np.ndarray | None, working: np.ndarray, waiting: np.ndarray, alive: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """ns by sub-core and part. ``at_work``: when a sub-core counts as working; None: by the share
    of its warps that do."""
    if at_work is None:
        work = working / np.maximum(alive, 1.0)
        divided = waiting / np.maximum(alive, 1.0)[:, None, :]
    else:
        work = at_work.astype(float)
        resting = waiting.sum(axis=1)
        divided = np.where(at_work, 0.0, 1.0 / np.maximum(resting, 1.0))[:, None, :] * waiting
    started = np.maximum.accumulate(working > 0, axis=1)
    left = np.maximum.accumulate((alive > 0)[:, ::-1], axis=1)[:, ::-1]
    empty = (alive == 0) & ~(work > 0)
    ramp = ~started & ~(work > 0)
    tail = started & ~left & empty
    gap = started & left & empty
    divided = np.where(ramp[:, None, :], 0.0, divided)
    outer = np.stack([work, ramp, tail, gap], axis=1)
    ns: np.ndarray = (np.concatenate([outer, divided], axis=1) * length).sum(axis=2)
    return ns
