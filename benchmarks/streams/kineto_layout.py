"""Traces in the layout of Kineto's writer (libkineto/src/output_json.cpp): what a recording of
streams tells of kernels and calls, with the geometry of launches, which only reports have.

Usage: python -m benchmarks.streams.kineto_layout OUT [COPIES]

Writes the recorded streams of ``examples/torch_streams.py``, COPIES times one after the other, for
`ncubble program OUT --report recordings/h200-ranks/rank0`. Its products are those of the example, profiled
in another process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.streams import recording as records
from ncubble.recordings import LANES

DEVICE = "NVIDIA H200"
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
GEOMETRY = {NVJET: {"grid": (2, 66, 1), "block": (384, 1, 1), "registers": 168, "shared": 213188}}
"""Of the products of the example, which the recording does not tell."""
COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
MEMORY = {1: "Pageable", 2: "Pinned", 3: "Device"}


def geometry(
    grid: tuple[int, ...] = (1, 1, 1), block: tuple[int, ...] = (128, 1, 1), registers: int = 32, shared: int = 0
) -> dict[str, Any]:
    """Arguments of a kernel as Kineto names them."""
    return {"registers per thread": registers, "shared memory": shared, "grid": list(grid), "block": list(block)}


def event(
    kind: str, name: str, start_us: float, dur_us: float, thread: int = 1102, process: int | None = None, **args: Any
) -> str:
    """One event as text, with three digits of a µs as Kineto writes them: a call, a copy, a range."""
    body = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    place = f'"pid": {thread if process is None else process}, "tid": {thread}'
    return (
        f'  {{\n    "ph": "X", "cat": "{kind}", "name": {json.dumps(name)}, {place},\n'
        f'    "ts": {start_us:.3f}, "dur": {dur_us:.3f},\n    "args": {{\n      {body}\n    }}\n  }}'
    )


def kernel(
    name: str, start_us: float, dur_us: float, device: int = 0, stream: int = 7, correlation: int = 1, **told: Any
) -> str:
    """One kernel's event as text."""
    args = {
        "External id": correlation,
        "queued": 0,
        "device": device,
        "context": 1,
        "stream": stream,
        "correlation": correlation,
        **geometry(**told),
        "est. achieved occupancy %": 33,
    }
    return event("kernel", name, start_us, dur_us, stream, device, **args)


def trace(events: Iterable[str], device: str = DEVICE) -> str:
    """A whole trace as text."""
    return "".join(pieces(events, device))


def pieces(events: Iterable[str], device: str = DEVICE) -> Iterator[str]:
    """A whole trace as text, piece by piece."""
    known = f'[\n    {{\n      "id": 0, "name": "{device}", "computeMajor": 9, "numSms": 132\n    }}\n  ]'
    yield f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": {known},\n  "record_shapes": 1,\n'
    yield '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1732000000000000000,\n  "traceEvents": [\n'
    for number, event in enumerate(events):
        yield (",\n" if number else "") + event
    yield '\n  ],\n  "traceName": "step.pt.trace.json"\n}\n'


def recorded(
    activity: pd.DataFrame, geometries: Mapping[str, dict[str, Any]] = GEOMETRY, copies: int = 1
) -> Iterator[str]:
    """Events of a recording of streams, ``copies`` times: ``activity`` as ``records.read`` gives it;
    ``geometries`` by the kernel's name."""
    span = float(activity["end_ns"].max()) / 1e3
    called = activity[activity["kind"].isin(("runtime", "driver"))].groupby("correlation")["start_ns"].min().to_dict()
    events = activity[(activity["kind"] == "event") | ((activity["kind"] == "sync") & (activity["flags"] == 2))]
    last: dict[int, Any] = {}
    waits: dict[int, Any] = {}
    for row in sorted(events.itertuples(), key=lambda row: called.get(row.correlation, 0)):
        if row.kind == "event":
            last[row.source] = row
        elif row.source in last:
            waits[row.Index] = last[row.source]
    for copy in range(copies):
        for row in activity.itertuples():
            start, length = row.start_ns / 1e3 + copy * span, (row.end_ns - row.start_ns) / 1e3
            told = {"stream": row.stream, "correlation": row.correlation}
            if row.kind == "kernel":
                yield kernel(row.name, start, length, **told, **geometries.get(row.name, {}))
            elif row.kind in ("copy", "set"):
                way, ends = COPIES.get(row.flags, "DtoD"), (MEMORY.get(row.source), MEMORY.get(row.target))
                name = f"Memcpy {way} ({ends[0]} -> {ends[1]})" if row.kind == "copy" else "Memset (Device)"
                more = {"device": row.device, "context": row.context, **told, "bytes": row.bytes}
                yield event("gpu_memcpy" if row.kind == "copy" else "gpu_memset", name, start, length, 0, **more)
            elif row.kind in ("runtime", "driver"):
                name = row.name.split("_v")[0]
                yield event(f"cuda_{row.kind}", name, start, length, row.thread, correlation=row.correlation)
            elif row.Index in waits:
                on = waits[row.Index]
                told |= {"wait_on_stream": on.stream, "wait_on_cuda_event_record_corr_id": on.correlation}
                more = {**told, "context": row.context, "wait_on_cuda_event_id": row.source}
                yield event("cuda_sync", "Stream Wait Event", start, length, row.stream, **more)
            elif row.kind == "range":
                yield event("user_annotation", row.name, start, length, row.thread)


def main() -> None:
    """Write the example."""
    out, copies = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows = records.read(LANES / "streams-torch").rows
    with out.open("w") as file:
        file.writelines(pieces(recorded(rows, copies=copies)))


if __name__ == "__main__":
    main()
