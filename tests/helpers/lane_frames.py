"""Lanes made up for tests: no recorder exists yet, and none of this is shipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["lane", "group", "start_ns", "end_ns", "tag"]


def streams() -> pd.DataFrame:
    """A pipeline of three chunks: upload, kernel and download, each on its engine. All numbers
    follow from the rows."""
    rows = []
    for chunk in range(3):
        at = 1000 + 10_000 * chunk
        rows += [
            ("stream 1", "upload", at, at + 10_000, "copy to GPU"),
            ("stream 2", "kernel", at + 10_000, at + 18_000, "gemm"),
            ("stream 2", "kernel", at + 18_000, at + 20_000, "wait event"),
            ("stream 3", "download", at + 18_000, at + 22_000, "copy to host"),
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def warps(count: int, lanes: int = 12, seed: int = 1) -> pd.DataFrame:
    """``count`` intervals of producer and consumer warps that alternate between work and waits."""
    rng = np.random.default_rng(seed)
    lane = np.arange(count) % lanes
    length = rng.integers(200, 900, count)
    starts = np.zeros(count, dtype=np.int64)
    for one in range(lanes):
        mine = lane == one
        starts[mine] = np.concatenate([[0], np.cumsum(length[mine])[:-1]])
    role = np.where(lane < 4, "producer", "consumer")
    turn = (np.arange(count) // lanes) % 2
    tag = np.where(turn == 1, "wait barrier", np.where(lane < 4, "copy", "mma"))
    names = [f"warp {one}" for one in lane]
    return pd.DataFrame(dict(zip(COLUMNS, [names, role, starts, starts + length, tag], strict=True)))


def write(folder: Path, frame: pd.DataFrame, kind: str = "streams", schema: str = "1") -> Path:
    """The frame as the ``lanes.parquet`` of a run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    marks = {"ncubble.lanes": schema, "ncubble.lanes.kind": kind}
    path = folder / "lanes.parquet"
    pq.write_table(table.replace_schema_metadata(marks), path)
    return path


def two_levels(zero_ns: float = 0.0, order: tuple[int, ...] = (0, 1, 2)) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Streams of as many chunks as ``order`` holds launches, in their order of time, and the warps
    within the kernels: from 1 µs after each kernel's begin to 1 µs before its end, on a clock whose
    zero lies ``zero_ns`` apart."""
    streams, warps = [], []
    for place, launch in enumerate(order):
        at = 1000 + 30_000 * place + 3000 * (place % 2)  # not even: else a shift by one would fit, too
        kernel = at + 20_000, at + 30_000
        streams += [
            (f"stream {place}", "H2D", at, at + 20_000, "H2D copy"),
            (f"stream {place}", "SMs", *kernel, "pipe"),
            (f"stream {place}", "D2H", kernel[1], kernel[1] + 8000, "D2H copy"),
        ]
        begin, end = kernel[0] + 1000 + zero_ns, kernel[1] - 1000 + zero_ns
        lane = f"launch {launch} SM 0 CTA 5 warp"
        warps += [
            (f"{lane} 0", "loader", begin, end - 2000, "load", 5 + 132 * place),
            (f"{lane} 1", "math", begin, begin + 500, "wait_data", 5 + 132 * place),
            (f"{lane} 1", "math", begin + 500, end, "compute", 5 + 132 * place),
        ]
    return pd.DataFrame(streams, columns=COLUMNS), pd.DataFrame(warps, columns=[*COLUMNS, "index"])
