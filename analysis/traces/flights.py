"""What goes on while no warp is at it: copies and tensor products in flight, from the probe's
regions.

A copy of tile i is in flight from the begin of its ``load`` until the wait for it ends, in any warp
of its CTA; a product from the begin of its ``compute`` until the end of ``wait_mma``. It may have
ended before somebody looked: these are the longest times that the record allows.
"""

from __future__ import annotations

import heapq

import numpy as np
import pandas as pd

ASYNCHRONOUS = (
    ("copies", "copy in flight", "load", "wait_data"),
    ("products", "product in flight", "compute", "wait_mma"),
)
"""Group and tag of the derived lanes, the tag that starts the work, and the tag that waits for
it."""


def flights(lanes: pd.DataFrame) -> pd.DataFrame:
    """Lanes of what is in flight, with the columns of ``lanes`` (``warp`` is -1); empty where
    nothing is awaited."""
    parts = [_flights(lanes, *each) for each in ASYNCHRONOUS]
    flying = pd.concat([part for part in parts if len(part)] or [lanes.iloc[:0]], ignore_index=True)
    return flying.sort_values("start_ns", kind="stable", ignore_index=True)


def _flights(lanes: pd.DataFrame, group: str, tag: str, starts: str, awaits: str) -> pd.DataFrame:
    key = ["launch", "sm", "cta", "index"]
    begun = lanes[lanes["tag"] == starts].groupby(key)["start_ns"].min()
    ended = lanes[lanes["tag"] == awaits].groupby(key)["end_ns"].max()
    frame = pd.concat([begun, ended], axis=1, join="inner").reset_index()
    frame = frame[frame["end_ns"] >= frame["start_ns"]].sort_values("start_ns", kind="stable")
    several = lanes["launch"].nunique() > 1
    texts = np.empty(len(frame), dtype=object)
    places = np.empty(len(frame), dtype=int)
    frame = frame.reset_index(drop=True)
    for (launch, sm, cta), rows in frame.groupby(["launch", "sm", "cta"], sort=False):
        places[rows.index] = beside(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        texts[rows.index] = f"{f'launch {launch} ' if several else ''}SM {sm} CTA {cta} {group}"
    lane = [f"{text} {place + 1}" for text, place in zip(texts, places, strict=True)]
    return frame.assign(lane=lane, group=group, tag=tag, warp=-1)[list(lanes.columns)]


def beside(starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """For intervals in order of their start: the lowest lane in which each overlaps no other."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    places = []
    lanes = 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (end, lane))
        places.append(lane)
    return places
