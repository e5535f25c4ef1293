"""What CUPTI tells beside times: NVTX ranges from their marks, and how kernels were launched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

RANGE = "range"
START, END = 2, 4
"""CUPTI's ``flags`` of marks: start and end of a range. All others are instants."""


class Geometry(NamedTuple):
    """``grid`` and ``block`` as ``x,y,z``, as reports write them; ``shared_B``: dynamic shared
    memory of a CTA."""

    grid: str
    block: str
    shared_B: int  # noqa: N815


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with one row for each NVTX range in place of its marks; marks of an instant are left
    out.

    A range that was never ended ends with the last record of its process. ``extra`` stays its
    number.
    """
    marks = rows["kind"] == RANGE
    if not marks.any():
        return rows
    begun = rows[marks & (rows["flags"] == START)].reset_index(drop=True)
    ended = rows[marks & (rows["flags"] == END)].drop_duplicates(["process", "extra"])
    ends = ended.set_index(["process", "extra"])["start_ns"]
    last = rows.groupby("process")["end_ns"].max()
    # Integers throughout: CUPTI's times exceed the exact range of a double.
    found = ends.reindex(pd.MultiIndex.from_frame(begun[["process", "extra"]]), fill_value=-1).to_numpy(np.int64)
    open_until = last.reindex(begun["process"]).to_numpy(np.int64)
    begun["end_ns"] = np.where(found >= 0, found, open_until)
    return pd.concat([rows[~marks], begun], ignore_index=True)


def geometry(block: int, grid: int, rest: int, shared: int) -> Geometry | None:
    """How a kernel was launched, from ``flags``, ``source``, ``target`` and ``bytes`` of its row
    (``profiling.recorders.raw``); None where the recording does not tell."""
    if not block:
        return None
    threads = f"{block & 0x7FF},{block >> 11 & 0x7FF},{block >> 22}"
    return Geometry(f"{grid},{rest & 0xFFFF},{rest >> 16}", threads, shared)
