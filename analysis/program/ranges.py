"""NVTX ranges of a program, and which of them each launch was queued in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pandas as pd

from ncubble.analysis.streams.recording import RANGE

OUTSIDE = ""
"""The path of what was queued outside of all ranges."""
_DOMAIN = "@"
"""Behind the domain of a range: libraries have one, programs seldom."""
DEEPEST = 32
"""Ranges of a path. A program that pushes ranges and never pops them nests without end."""


def range_rows(rows: pd.DataFrame, process: int) -> pd.DataFrame:
    """The NVTX ranges of one process: ``name``, ``thread``, ``start_ns``, ``end_ns``."""
    own = rows[(rows["kind"] == RANGE) & (rows["process"] == process)]
    return own[["name", "thread", "start_ns", "end_ns"]].reset_index(drop=True)


def named(ranges: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """The ranges that ``--nvtx`` means: ``name`` or ``domain@name``, with a slash behind it or
    without. A ``*`` in it stands for any text (``step *``)."""
    pattern = re.compile(".*".join(re.escape(piece) for piece in wanted.removesuffix("/").split("*")), re.DOTALL)
    names = ranges["name"].unique()
    chosen = [name for name in names if pattern.fullmatch(name) or pattern.fullmatch(name.partition("@")[2])]
    return ranges[ranges["name"].isin(chosen)]


def common_names(ranges: pd.DataFrame, most: int = 8) -> list[str]:
    """The most frequent names of ranges."""
    return [name for name, _ in Counter(ranges["name"].tolist()).most_common(most)]


def paths(ranges: pd.DataFrame, queued: np.ndarray, threads: np.ndarray) -> list[str]:
    """The names of the open ranges around each launch, outermost first, with ``/`` between them; at
    most ``DEEPEST``.

    A launch belongs to ranges of its own thread and of the process. Where its thread has none
    (autograd queues the backward pass in a thread of its own), or only some of a library
    (``CCCL@…``), it belongs to those of the thread whose range began last, too.
    """
    result = [OUTSIDE] * len(queued)
    ranges = ranges[ranges["end_ns"] > ranges["start_ns"]]  # else the end would come before the start, and be missed
    if ranges.empty:
        return result
    opened: dict[int, dict[int, str]] = {}
    begun: dict[int, int] = {}
    names, owners = ranges["name"].tolist(), ranges["thread"].tolist()
    for time, kind, place in _events(ranges, queued):
        if kind == _LAUNCH:
            own = int(threads[place])
            around = {**_outer(opened.get(0, {})), **_outer(opened.get(own, {}))}
            if all(_DOMAIN in name for name in opened.get(own, {}).values()):
                others = (thread for thread in opened if opened[thread] and thread != own)
                around |= _outer(opened.get(max(others, key=lambda thread: begun[thread], default=0), {}))
            result[place] = "/".join(around[number].replace("/", "|") for number in sorted(around)[:DEEPEST])
            continue
        thread = int(owners[place])
        stack = opened.setdefault(thread, {})
        if kind == _OPEN:
            stack[place] = str(names[place])
            begun[thread] = time
        else:
            stack.pop(place, None)
    return result


def _outer(stack: dict[int, str]) -> dict[int, str]:
    return dict(islice(stack.items(), DEEPEST))


_CLOSE, _OPEN, _LAUNCH = range(3)


def _events(ranges: pd.DataFrame, queued: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Time, kind and place of all that opens, closes or launches, in order of time."""
    counts = (len(ranges), len(ranges), len(queued))
    times = np.concatenate([ranges["end_ns"].to_numpy(), ranges["start_ns"].to_numpy(), queued])
    kinds = np.repeat([_CLOSE, _OPEN, _LAUNCH], counts)
    places = np.concatenate([np.arange(count) for count in counts])
    order = np.lexsort((places, kinds, times))
    return zip(times[order].tolist(), kinds[order].tolist(), places[order].tolist(), strict=True)
