"""How long the account of a long recording takes, and how it grows: CPU seconds, on made
recordings.

Usage: python -m benchmarks.streams.speed [KERNELS]    (default 200000)

``launches``: kernels in one stream, each by a runtime call with a driver call within. ``pipeline``:
the same number of kernels on four streams, each between two copies, so that every gap must be
looked at moment by moment.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

from ncubble.analysis.streams.account import accounts, as_json, stream_lanes
from ncubble.analysis.streams.recording import COLUMNS, NON_BLOCKING, Recording

LAUNCH_NS, KERNEL_NS, COPY_NS = 5_000, 4_500, 6_000


def rows_of(kind: str, count: int, **columns: object) -> pd.DataFrame:
    """Rows of a kind; what is not named is 0."""
    frame = pd.DataFrame({name: np.zeros(count, np.int64) for name in COLUMNS})
    return frame.assign(kind=kind, name="", process=1, context=1).assign(**columns)


def calls(name: str, asked: np.ndarray, numbers: np.ndarray) -> list[pd.DataFrame]:
    """Runtime calls, each with a driver call within."""
    common = {"correlation": numbers, "thread": 5}
    outer = rows_of("runtime", len(asked), name=f"cuda{name}_v3020", start_ns=asked, end_ns=asked + 2_000, **common)
    inner = rows_of("driver", len(asked), name=f"cu{name}", start_ns=asked + 200, end_ns=asked + 1_900, **common)
    return [outer, inner]


def launches(count: int) -> Recording:
    """Kernels behind each other, about as long as their launches."""
    draw = np.random.default_rng(1)
    asked = np.cumsum(draw.integers(LAUNCH_NS // 2, 2 * LAUNCH_NS, count)) + 1_000
    took = draw.integers(KERNEL_NS // 2, 2 * KERNEL_NS, count)
    # In order: the end of one is at the least the begin of the next.
    end = np.maximum.accumulate(asked + 3_000 - np.concatenate([[0], np.cumsum(took)[:-1]])) + np.cumsum(took)
    names = np.array([f"kernel{number}<float>(float*, int)" for number in range(40)], object)[np.arange(count) % 40]
    numbers = np.arange(1, count + 1)
    more = {"correlation": numbers, "stream": 7, "channel": 1}
    work = rows_of("kernel", count, name=names, start_ns=end - took, end_ns=end, **more)
    return recording([*calls("LaunchKernel", asked, numbers), work])


def pipeline(count: int) -> Recording:
    """Chunks up, through a kernel and down, on four streams in turn; the copies take longest."""
    number = np.arange(count)
    up = 20_000 + COPY_NS * number
    frames = [rows_of("stream", 4, stream=np.arange(1, 5), flags=NON_BLOCKING)]
    steps = (("copy", up, COPY_NS, 1), ("kernel", up + COPY_NS + 900, KERNEL_NS, 0), ("copy", up + 12_000, COPY_NS, 2))
    for place, (kind, start, took, flags) in enumerate(steps):
        numbers = 3 * number + place + 1
        asked = np.maximum(1_000, up - 15_000) + 1_500 * place
        frames += calls("LaunchKernel" if kind == "kernel" else "MemcpyAsync", asked, numbers)
        memory = {"flags": flags, "source": 2 if flags == 1 else 3, "target": 3 if flags == 1 else 2}
        how = {"channel": 1, "name": "work(float*)"} if kind == "kernel" else {"channel": 2, **memory}
        more = {"correlation": numbers, "stream": number % 4 + 1, **how}
        frames.append(rows_of(kind, count, start_ns=start, end_ns=start + took, **more))
    return recording(frames)


def recording(frames: list[pd.DataFrame]) -> Recording:
    """All rows in order."""
    rows = pd.concat(frames, ignore_index=True)
    return Recording(rows.sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print(
        "| recording | kernels | rows | account, CPU s | JSON and lanes, CPU s |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for make in (launches, pipeline):
        for size in (count // 4, count):
            told = make(size)
            start = time.process_time()
            (found,) = accounts(told)
            middle = time.process_time()
            as_json(found)
            stream_lanes([found])
            end = time.process_time()
            print(f"| {make.__name__} | {size:,} | {len(told.rows):,} | {middle - start:.1f} | {end - middle:.1f} |")


if __name__ == "__main__":
    main()
