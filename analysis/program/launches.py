"""What each device did, piece by piece, with the kernel that each launch is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ncubble.analysis.report.launch_key import base_name
from ncubble.analysis.streams.recording import CALLS, Recording, geometry
from ncubble.analysis.streams.work import SMS, work_of
from ncubble.profiling.recorders.raw import NAME_MOST

NO_KERNEL = -1
"""``kernel`` of what is none: copies, and memory that is set."""
GRAPH = "CUDA graph"
"""The name of a graph whose nodes the recording does not tell apart. No single launch stands for
it."""
_COMMUNICATES = re.compile(r"_?(nccl|nvshmem)", re.IGNORECASE)
_KEY = ("name", "flags", "source", "target", "bytes")


@dataclass(frozen=True)
class ProgramKernel:
    """A kernel as launches of a program tell it apart: by name and geometry.

    ``symbol``: the mangled name, or ``name`` where it is not mangled. ``grid`` and ``block`` are
    empty where the recording does not tell them.
    """

    name: str
    symbol: str
    grid: str = ""
    block: str = ""
    shared_B: int = 0  # noqa: N815

    @property
    def is_cut(self) -> bool:
        """Whether the recorder kept only the beginning of its name."""
        return len(self.symbol) >= NAME_MOST

    @property
    def communicates(self) -> bool:
        """Whether it waits for kernels of other GPUs: replayed alone it would never end."""
        return _COMMUNICATES.match(self.function) is not None

    @cached_property
    def function(self) -> str:
        """Its function, without template arguments, parameters and namespaces."""
        return base_name(self.name)


@dataclass(frozen=True)
class ProgramWork:
    """``rows``, in order of queueing: ``process``, ``device``, ``on_sms``, ``kernel`` (a place in
    ``kernels``, or ``NO_KERNEL``), ``named`` (a number for each name), ``queued_ns``, ``thread``
    (0: not recorded), ``start_ns``, ``end_ns``."""

    kernels: tuple[ProgramKernel, ...]
    rows: pd.DataFrame

    def of(self, process: int, device: int) -> pd.DataFrame:
        """The rows of one device of one process."""
        mine = (self.rows["process"] == process) & (self.rows["device"] == device)
        return self.rows[mine].reset_index(drop=True)


def program_work(recording: Recording) -> ProgramWork:
    """All that the devices did."""
    work = work_of(recording.rows)
    work.loc[work["kind"] == "graph", ["name", "flags", "source", "target", "bytes"]] = (GRAPH, 0, 0, 0, 0)
    is_kernel = work["kind"].isin(("kernel", "graph")).to_numpy()
    keys = work.loc[is_kernel, list(_KEY)]
    numbers = keys.groupby(list(_KEY), sort=False).ngroup().to_numpy()
    symbols = recording.facts.get("symbols")
    kernels = tuple(_kernel(row, symbols if isinstance(symbols, dict) else {}) for row in _distinct(keys))
    kernel = np.full(len(work), NO_KERNEL)
    kernel[is_kernel] = numbers
    queued, thread = _queued(work, recording.rows)
    rows = pd.DataFrame({name: work[name].to_numpy(np.int64) for name in ("process", "device")})
    rows["named"] = pd.factorize(work["name"])[0]
    rows = rows.assign(on_sms=(work["engine"] == SMS).to_numpy(), kernel=kernel, queued_ns=queued, thread=thread)
    rows = rows.assign(**{name: work[name].to_numpy(np.int64) for name in ("start_ns", "end_ns")})
    return ProgramWork(kernels, rows.sort_values(["queued_ns", "start_ns"], kind="stable", ignore_index=True))


def _distinct(keys: pd.DataFrame) -> list[tuple[str, int, int, int, int]]:
    columns = (keys.drop_duplicates()[name].tolist() for name in _KEY)
    return list(zip(*columns, strict=True))


def _kernel(row: tuple[str, int, int, int, int], symbols: dict[str, str]) -> ProgramKernel:
    name, block, grid, rest, shared = row
    symbol, known = str(symbols.get(name, name)), geometry(block, grid, rest, shared)
    return ProgramKernel(name, symbol, *known) if known else ProgramKernel(name, symbol)


def _queued(work: pd.DataFrame, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """When the host began to queue each piece of work, and its thread; start and 0 where no call
    was recorded."""
    calls = rows[rows["kind"].isin(CALLS)].sort_values("start_ns", kind="stable")
    calls = calls.drop_duplicates(["process", "correlation"]).set_index(["process", "correlation"])
    found = calls[["start_ns", "thread"]].reindex(pd.MultiIndex.from_frame(work[["process", "correlation"]]))
    known = found["start_ns"].notna().to_numpy()
    starts = found["start_ns"].fillna(0).to_numpy(np.int64)
    return np.where(known, starts, work["start_ns"]), found["thread"].fillna(0).to_numpy(np.int64)
