"""The run directory of a trace: ``lanes.parquet`` with what it tells of itself, and how to read both back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.analysis.flights import flights
from ncubble.analysis.lanes import FILE, MOST_ROWS, SCHEMA
from ncubble.analysis.probe_lanes import Recorded
from ncubble.analysis.trace_summary import Summary

TOLD = b"ncubble.trace"
"""The member of the file's metadata that holds what a trace tells of itself, a JSON object."""


def trace_told(recorded: Recorded, summary: Summary, more: dict[str, Any]) -> dict[str, Any]:
    """All numbers of a trace as one JSON-ready object; ``more`` are facts of kernel, build, device and cost."""
    clock = recorded.clock
    return {
        **more,
        "clock": {**asdict(clock), "mhz": clock.mhz},
        "loss": asdict(recorded.loss),
        "span_ns": summary.span_ns,
        "sms": summary.sms,
        "warps": summary.warps,
        "shares": [asdict(share) for share in summary.shares],
        "busy_pct": summary.busy,
        "overlaps": [asdict(one) for one in summary.overlaps],
    }


def lanes_of(recorded: Recorded) -> pd.DataFrame:
    """The lanes that are drawn: those of the warps, then what is in flight. At most ``MOST_ROWS``, the earliest."""
    both = pd.concat([recorded.lanes, flights(recorded.lanes)], ignore_index=True)
    return both.sort_values("start_ns", kind="stable", ignore_index=True).iloc[:MOST_ROWS]


def save_lanes(folder: Path, lanes: pd.DataFrame, kind: str, told: dict[str, Any]) -> None:
    """Write ``lanes.parquet`` into ``folder``; raises OSError."""
    table = pa.Table.from_pandas(lanes, preserve_index=False)
    for name in ("lane", "group", "tag"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.string()).dictionary_encode())
    marks = {b"ncubble.lanes": str(SCHEMA).encode(), b"ncubble.lanes.kind": kind.encode()}
    marks[TOLD] = json.dumps(told).encode()
    pq.write_table(table.replace_schema_metadata(marks), folder / FILE, compression="zstd")


def read_told(folder: Path) -> dict[str, Any]:
    """What the trace in ``folder`` tells of itself; empty where there is none or it is not readable."""
    try:
        told = json.loads((pq.read_schema(folder / FILE).metadata or {}).get(TOLD, b"{}"))
    except (OSError, ValueError, RecursionError, pa.ArrowException):
        return {}
    return told if isinstance(told, dict) else {}
