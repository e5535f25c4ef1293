"""Waits of computing warps as the account counts them: time in which the unit could have worked,
but warps waited.

Written before anything was measured. The account divides the time in which a unit is idle by what
its warps wait for. The probe sees no unit, but all warps of an SM at any time. So for each SM and
each instant t, over the resident warps that compute at all (those with a region ``compute``; a
loader's wait holds nothing up by itself):

- ``n(t)`` warps are resident; ``c(t)`` of them compute (``compute``, or ``wait_mma``: the products
  run);
- ``d(t)`` wait for data: they are in ``wait_data``, or at a barrier (``wait_sync``, ``wait_slot``)
  while another warp of their CTA is in ``wait_data``, as then it is the data that all of them wait
  for;
- ``s(t)`` wait for others: at a barrier while no warp of the CTA waits for data or starts copies.
  (Who waits at a barrier for a warp that starts copies pays for copying: the account's
  ``copy_cost``.)

The unit is taken to work in proportion to c(t), as much in all as the hardware counter says: it is
idle at t for ``i(t) = 1 - busy * c(t) / mean(c)``, from 0 to 1. The probe's share of time is then
the mean over t of ``i(t) d(t) / n(t)``, and of ``i(t) s(t) / n(t)``. Two further readings need no
counter: ``least``, where only instants without any computing warp count (i = 1 there, else 0), and
``most``, where all do (i = 1). Where one CTA fills an SM and its warps go in step, all three are
the same.

A second definition, written after the first was measured (gemm_tma at 2 stages: 61 points of data
wait where the tensor pipe is busy for 64): it takes a warp for computing only in its own regions,
but asynchronous products run on while their warp waits for the next tile. ``played`` plays the
tensor pipe instead: each region ``compute`` starts a product at its begin; the products of a
sub-core (warps of the same number modulo 4) run one after the other, each as long as makes the pipe
as busy as the counter says; ``i(t)`` is the share of sub-cores whose pipe then has nothing to run.
It holds where a region starts one asynchronous product, and all are alike.

``copy`` is what the account's ``copy_cost`` may be held against: warps that start copies, or wait
at a barrier for one that does, weighed alike. Where copies are awaited at a barrier the account
splits one wait into ``data_wait`` and ``copy_cost``, by the state of the copies, which no warp
sees; so their sums are compared, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ncubble.analysis.traces.probe import Recorded

COMPUTING = ("compute", "wait_mma")
BARRIER = ("wait_sync", "wait_slot")
SUB_CORES = 4
_STATES = {"alive": 0, "computing": 1, "data": 2, "load": 3, "barrier": 4}


def waits(recorded: Recorded, busy_pct: float) -> dict[str, float]:
    """``data``, ``sync`` and ``copy`` in percent of the time of the recorded SMs, each also as
    ``…_least``, ``…_most`` and ``…_played``."""
    computing = recorded.lanes.loc[recorded.lanes["tag"] == "compute", "lane"].unique()
    lanes = recorded.lanes[recorded.lanes["lane"].isin(computing)]
    begin, end = float(recorded.warps["start_ns"].min()), float(recorded.warps["end_ns"].max())
    sms = [_of_sm(lanes[lanes["sm"] == sm], recorded, int(sm), busy_pct / 100) for sm in np.unique(lanes["sm"])]
    span = (end - begin) * len(sms)
    return {name: 100.0 * sum(each[name] for each in sms) / span for name in sms[0]}


def _of_sm(lanes: pd.DataFrame, recorded: Recorded, sm: int, busy: float) -> dict[str, float]:
    """ns of an SM in each state, weighed as said above."""
    own = recorded.warps[recorded.warps["sm"] == sm]
    ctas = list(_ctas(lanes, own))
    grid = np.unique(np.concatenate([times for times, _ in ctas]))
    total = np.zeros((5, len(grid)))  # alive, computing, data, sync, copy
    for times, counts in ctas:
        place = np.searchsorted(times, grid, side="right") - 1
        inside = place >= 0
        total[:, inside] += _blocked(counts)[:, place[inside]]
    length = np.append(np.diff(grid), 0.0)
    alive, computing, data, sync, copy = total
    span = float(recorded.warps["end_ns"].max() - recorded.warps["start_ns"].min())
    rate = busy * span / max(float((computing * length).sum()), 1.0)
    idle = np.clip(1.0 - rate * computing, 0.0, 1.0)
    weights = {"": idle, "_least": (computing < 0.5).astype(float), "_most": np.ones_like(idle)}
    weights["_played"] = played(lanes, grid, busy * span)
    return {
        f"{name}{reading}": float((weight * state / np.maximum(alive, 1) * length).sum())
        for name, state in (("data", data), ("sync", sync), ("copy", copy))
        for reading, weight in weights.items()
    }


def played(lanes: pd.DataFrame, grid: np.ndarray, busy_ns: float) -> np.ndarray:
    """The share of sub-cores without a product to run, from each instant of ``grid`` to the next
    (the mean of the two); ``busy_ns`` is how long each is busy in all."""
    starts = lanes.loc[lanes["tag"] == "compute", ["warp", "start_ns"]]
    idle = np.zeros(len(grid))
    for core in range(SUB_CORES):
        times = np.sort(starts.loc[starts["warp"] % SUB_CORES == core, "start_ns"].to_numpy(float))
        if not len(times):
            idle += 1.0
            continue
        each = busy_ns / len(times)
        place = np.arange(len(times))
        ends = np.maximum.accumulate(times - place * each) + (place + 1) * each
        # Time at work up to an instant, which is piecewise linear; its slope is 1 while a product
        # runs.
        knots = np.stack([ends - each, ends], axis=1).ravel()
        done = np.interp(grid, knots, np.stack([place, place + 1], axis=1).ravel() * each)
        idle += 1.0 - np.append(np.diff(done) / np.maximum(np.diff(grid), 1e-9), 0.0)
    return np.clip(idle / SUB_CORES, 0.0, 1.0)


def _ctas(lanes: pd.DataFrame, warps: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each CTA: instants, and how many of its computing warps are in each of ``_STATES`` from
    then on."""
    tags = {**dict.fromkeys(COMPUTING, 1), "wait_data": 2, "load": 3, **dict.fromkeys(BARRIER, 4)}
    lives = warps.set_index(["launch", "cta", "warp"])[["start_ns", "end_ns"]]
    for (launch, cta), rows in lanes.groupby(["launch", "cta"], sort=False):
        known = rows[rows["tag"].isin(list(tags))]
        life = lives.loc[[(launch, cta, warp) for warp in rows["warp"].unique()]]
        state = np.concatenate([known["tag"].map(tags).to_numpy(int), np.zeros(len(life), int)])
        start = np.concatenate([known["start_ns"].to_numpy(float), life["start_ns"].to_numpy(float)])
        end = np.concatenate([known["end_ns"].to_numpy(float), life["end_ns"].to_numpy(float)])
        times, place = np.unique(np.concatenate([start, end]), return_inverse=True)
        steps = np.zeros((len(_STATES), len(times)))
        np.add.at(steps, (state, place[: len(start)]), 1)
        np.add.at(steps, (state, place[len(start) :]), -1)
        yield times, np.cumsum(steps, axis=1)


def _blocked(counts: np.ndarray) -> np.ndarray:
    """Warps that are alive, compute, wait for data, wait for others, copy: at a barrier by what the
    others of the CTA do."""
    alive, computing, data, load, barrier = counts
    at_data = np.where(data > 0, barrier, 0)
    at_others = np.where((data == 0) & (load == 0), barrier, 0)
    at_load = np.where((data == 0) & (load > 0), barrier, 0)
    return np.stack([alive, computing, data + at_data, at_others, load + at_load])
