"""What the GPUs of a recording did, by engine, and what the threads of the host did meanwhile:
their calls of CUDA, by class, and which call queued which work."""

from __future__ import annotations

import functools
import tomllib
from bisect import bisect_right
from collections.abc import Iterable
from enum import StrEnum
from importlib.resources import files
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from ncubble.analysis.streams.recording import CALLS, DOWN, FOREVER, NONE, ON_DEVICE, PAGEABLE, PEER, UP, WORK
from ncubble.analysis.traces.lanes import TEXTS, TIMES


class Idle(StrEnum):
    """Why no SM works."""

    DEPENDENCY = "dependency"
    OTHER_GPU = "other_gpu"
    ALLOCATION = "allocation"
    PAGEABLE_COPY = "pageable_copy"
    DEFAULT_STREAM = "default_stream"
    HOST_SYNC = "host_sync"
    LAUNCH_GAP = "launch_gap"
    DRAIN = "drain"
    UNKNOWN = "unknown"


class IdleCause(msgspec.Struct, frozen=True):
    """``remedy``: what to try first (``causes.toml``)."""

    title: str
    remedy: str


CAUSES = msgspec.convert(
    tomllib.loads(files("ncubble.analysis.streams").joinpath("causes.toml").read_text("utf-8")), dict[str, IdleCause]
)


SMS, H2D, D2H = "SMs", "H2D", "D2H"
P2P, D2D, OTHER = "P2P", "D2D copy", "other copy"
ENGINES = (H2D, SMS, D2H, P2P, D2D, OTHER)
COMPUTE, COPY_CHANNEL = 1, 2
"""CUPTI's channel types: the hardware queue of a copy or set."""
_DIRECTION = {UP: H2D, 3: H2D, DOWN: D2H, 4: D2H, PEER: P2P, ON_DEVICE: D2D, 5: D2D, 6: D2D, 7: D2D}
POLLED_NS = 20_000
"""Maximum time between two polls: within it the host does nothing but poll."""
_ALLOCATING = (
    *("Malloc", "MemAlloc", "MemFree", "MemHostAlloc", "HostAlloc", "HostRegister", "HostUnregister", "Free"),
    *("MemHostRegister", "MemHostUnregister", "MemCreate", "MemRelease", "MemMap", "MemUnmap", "MemSetAccess"),
    *("MemAddress", "MemPoolCreate", "MemPoolDestroy", "MemPoolTrimTo", "Array3DCreate", "ArrayCreate", "ArrayDestroy"),
    *("MipmappedArray",),
)
_POLLING = ("EventQuery", "StreamQuery")


def work_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Kernels, copies and sets, with ``engine`` and ``pageable``, in order of start.

    Kernels run on the SMs, and so do sets and copies within the device that went through the
    compute channel, which is how CUPTI tells that the driver did them by a kernel. Where it tells
    no channel, sets count for the SMs. A whole graph (``graph``) is a row only where its nodes are
    not told apart.
    """
    work = rows[rows["kind"].isin(WORK)].copy()
    kind, channel = work["kind"].to_numpy(), work["channel"].to_numpy()
    engine = np.array([_DIRECTION.get(flags, OTHER) for flags in work["flags"].tolist()], dtype=object)
    engine = np.where((kind == "copy") & np.isin(engine, (D2D, OTHER)) & (channel == COMPUTE), SMS, engine)
    engine = np.where(kind == "set", np.where(channel == COPY_CHANNEL, D2D, SMS), engine)
    work["engine"] = np.where(np.isin(kind, ("kernel", "graph")), SMS, engine)
    work["pageable"] = (kind == "copy") & ((work["source"] == PAGEABLE) | (work["target"] == PAGEABLE))
    return work.reset_index(drop=True)


def devices(work: pd.DataFrame) -> list[tuple[int, int]]:
    """Process and device of all that worked, in order: numbers of devices mean nothing beyond a
    process."""
    return sorted(set(zip(work["process"].tolist(), work["device"].tolist(), strict=True)))


def ways(work: pd.DataFrame) -> list[str]:
    """From which device to which each copy between devices goes; "" for all other work."""
    pairs = zip(work["engine"].tolist(), work["extra"].tolist(), strict=True)
    return [f" from GPU {ends >> 32} to GPU {ends & 0xFFFFFFFF}" if engine == P2P else "" for engine, ends in pairs]


def work_lanes(work: pd.DataFrame) -> pd.DataFrame:
    """The work as rows of lanes, one per engine and stream, grouped by engine; ``row`` is the place
    in ``work``."""
    short = {name: short_name(name) for name in work["name"].unique().tolist()}
    tags = []
    columns = (work[column].tolist() for column in ("kind", "name", "engine", "pageable"))
    for kind, name, engine, pageable, way in zip(*columns, ways(work), strict=True):
        copied = f"{engine.removesuffix(' copy')} copy{way}{', pageable' if pageable else ''}"
        tags.append(short[name] if kind == "kernel" else copied if kind == "copy" else kind)
    lanes = pd.DataFrame(
        {
            "lane": [f"stream {number}" if number != NONE else "stream ?" for number in work["stream"].tolist()],
            "group": work["engine"].tolist(),
            "tag": tags,
            "start_ns": work["start_ns"].to_numpy(float),
            "end_ns": work["end_ns"].to_numpy(float),
            "row": np.arange(len(work)),
            "rank": [ENGINES.index(engine) for engine in work["engine"].tolist()],
        }
    )
    ordered = lanes.sort_values(["rank", "lane", "start_ns"], kind="stable", ignore_index=True)
    return ordered[[*TEXTS, *TIMES, "row"]]


def short_name(name: str, most: int = 60) -> str:
    """A kernel's function without template arguments, parameters and namespaces."""
    base = name.replace("(anonymous namespace)::", "").split("<")[0].split("(")[0].split("::")[-1].strip() or name
    text = base[:most]
    # Tags that begin with "wait" mark time in which a lane is blocked.
    return f"kernel {text}" if text.lower().startswith("wait") else text


@functools.cache
def call_class(name: str) -> str:
    """What a call of the CUDA runtime or driver does to the host: one of the causes, by its name
    alone. Copies are told by what they copied, which their name does not say: see ``Calls``."""
    bare = name.removeprefix("cuda").removeprefix("cu")
    if bare.startswith(_ALLOCATING):
        return Idle.ALLOCATION
    return Idle.HOST_SYNC if any(part in bare for part in ("Synchronize", *_POLLING)) else Idle.LAUNCH_GAP


class Call(NamedTuple):
    """A call of the host, with what its name and its copies say about it. Times in ns."""

    start: int
    end: int
    name: str
    cause: str


class Calls:
    """All calls of a process. The arrays, one place per call, name what queued work; ``holder``:
    the place of the outermost call around each, as a runtime call holds the driver calls within it;
    ``threads``: the outermost calls of each thread in order."""

    def __init__(self, rows: pd.DataFrame, work: pd.DataFrame) -> None:
        calls = rows[rows["kind"].isin(CALLS)]
        self.start, self.end = calls["start_ns"].to_numpy(np.int64), calls["end_ns"].to_numpy(np.int64)
        self.thread = calls["thread"].to_numpy(np.int64)
        correlation = calls["correlation"].to_numpy(np.int64)
        self.name = calls["name"].to_numpy(object)
        self.cause = calls["name"].map(call_class).to_numpy(object)
        copies, pageable = (work["kind"] == "copy").to_numpy(), work["pageable"].to_numpy(bool)
        numbers = work["correlation"].to_numpy(np.int64)
        # A synchronous copy returns when it is done.
        waits = ~calls["name"].str.contains("Async").to_numpy(bool)
        self.cause[np.isin(correlation, numbers[copies & ~pageable]) & waits] = Idle.HOST_SYNC
        self.cause[np.isin(correlation, numbers[pageable])] = Idle.PAGEABLE_COPY
        order = np.lexsort((-self.end, self.start, correlation))
        self._numbers, first = np.unique(correlation[order], return_index=True)
        self._outermost = order[first]
        self.holder = np.arange(len(self.start))
        self.threads = {int(thread): self._outer(self.thread == thread) for thread in np.unique(self.thread)}
        self._starts = {thread: [call.start for call in own] for thread, own in self.threads.items()}

    def _outer(self, own: np.ndarray) -> list[Call]:
        order = np.flatnonzero(own)
        order = order[np.lexsort((-self.end[order], self.start[order]))]
        end, cause = self.end[order], self.cause.copy()
        outer = np.append(True, end[1:] > np.maximum.accumulate(end)[:-1])
        self.holder[order] = order[outer][np.cumsum(outer) - 1]
        inner = order[~outer & (cause[order] != Idle.LAUNCH_GAP)]
        # The first inner call that does more than launch determines what the outer one does.
        places, first = np.unique(self.holder[inner], return_index=True)
        plain = cause[places] == Idle.LAUNCH_GAP
        cause[places[plain]] = cause[inner[first[plain]]]
        columns = (self.start, self.end, self.name, cause)
        return _merged_polls(map(Call, *(column[order[outer]].tolist() for column in columns)))

    def at(self, thread: int, time: int) -> tuple[Call | None, int]:
        """The call that a thread is in, and when that may change: the call's end, or the start of
        the next one."""
        own, starts = self.threads.get(thread, []), self._starts.get(thread, [])
        place = bisect_right(starts, time)
        if place and time < own[place - 1].end:
            return own[place - 1], own[place - 1].end
        return None, starts[place] if place < len(starts) else FOREVER

    def call(self, place: int) -> Call:
        """The call at a place of the arrays."""
        return Call(int(self.start[place]), int(self.end[place]), self.name[place], self.cause[place])

    def queuing(self, correlation: np.ndarray, begun: np.ndarray) -> np.ndarray:
        """The place of the outermost call of each correlation; -1 where none was recorded, or it
        came after ``begun``.

        A call after its work: the number was used twice, and this call is not what queued it.
        """
        if not len(self._numbers):
            return np.full(len(correlation), -1)
        place = np.minimum(np.searchsorted(self._numbers, correlation), len(self._numbers) - 1)
        call = self._outermost[place]
        right = (self._numbers[place] == correlation) & (correlation != 0) & (self.start[call] <= begun)
        return np.where(right, call, -1)

    def started(self, correlation: np.ndarray, begun: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """When the call that ``queuing`` gives began; ``otherwise`` where there is none."""
        place = self.queuing(correlation, begun)
        return np.where(place >= 0, self.start[place] if len(self.start) else 0, otherwise)


def _merged_polls(calls: Iterable[Call]) -> list[Call]:
    """Calls in order, with those that ask again and again whether work is done as one: the host
    waits by them."""
    merged: list[Call] = []
    for call in calls:
        last = merged[-1] if merged and any(part in call.name for part in _POLLING) else None
        if last and any(part in last.name for part in _POLLING) and call.start - last.end <= POLLED_NS:
            merged[-1] = last._replace(end=call.end)
        else:
            merged.append(call)
    return merged
