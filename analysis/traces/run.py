"""The run directory of a trace: ``lanes.parquet`` with what it tells of itself, and how to read
both back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.analysis.traces.flights import flights
from ncubble.analysis.traces.lanes import FILE, MOST_ROWS, SCHEMA
from ncubble.analysis.traces.probe_lanes import Clock, Loss, Recorded
from ncubble.analysis.traces.summary import Summary, summarize

FACTS = b"ncubble.trace"
"""The member of the file's metadata that holds what a trace tells of itself, a JSON object."""
FINEST_NS = 1 / 16
"""Times are kept to this step, an eighth of a cycle: what lies below is rounding, and takes
room."""
_LEVEL = 12
_TEXTS, _TIMES, _NUMBERS = ("lane", "group", "tag"), ("start_ns", "end_ns"), ("index", "sm", "cta", "warp", "launch")


def trace_facts(recorded: Recorded, summary: Summary, more: dict[str, Any]) -> dict[str, Any]:
    """All numbers of a trace as one JSON-ready object; ``more`` are facts of kernel, build, device
    and cost."""
    clock = {**asdict(recorded.clock), "mhz": recorded.clock.mhz}
    return {**more, "clock": clock, "loss": asdict(recorded.loss), **_numbers(summary)}


def _numbers(summary: Summary) -> dict[str, Any]:
    return {
        "span_ns": summary.span_ns,
        "sms": summary.sms,
        "warps": summary.warps,
        "shares": [asdict(share) for share in summary.shares],
        "busy_pct": summary.busy,
        "overlaps": [asdict(overlap) for overlap in summary.overlaps],
    }


def lanes_of(recorded: Recorded) -> pd.DataFrame:
    """The lanes that are drawn: those of the warps, then what is in flight. At most ``MOST_ROWS``,
    the earliest."""
    both = pd.concat([recorded.lanes, flights(recorded.lanes)], ignore_index=True)
    both[[*_TIMES]] = (both[[*_TIMES]] / FINEST_NS).round() * FINEST_NS
    return both.sort_values("start_ns", kind="stable", ignore_index=True).iloc[:MOST_ROWS]


def cut(lanes: pd.DataFrame, low_ns: float, high_ns: float) -> pd.DataFrame:
    """What ``lanes`` show from ``low_ns`` to ``high_ns``, times as they are; intervals that reach
    out are cut there."""
    start, end = lanes["start_ns"].clip(lower=low_ns), lanes["end_ns"].clip(upper=high_ns)
    return lanes.assign(start_ns=start, end_ns=end)[start < end].reset_index(drop=True)


def cut_facts(lanes: pd.DataFrame, facts: dict[str, Any], low_ns: float, high_ns: float) -> dict[str, Any]:
    """``facts`` with the numbers of a stretch: ``lanes`` are what ``cut`` left of it."""
    warps = lanes[lanes["warp"] >= 0] if "warp" in lanes else lanes.assign(launch=0, sm=0, warp=0, cta=0)
    lives = warps.groupby(["launch", "sm", "cta", "warp", "group"], as_index=False, sort=False)
    known = lives.agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    nothing = Recorded(warps, known, Clock(None, None, 0.0), Loss(0, 0, 0.0, 0, 0))
    summary = summarize(nothing, lanes.drop(warps.index))
    return {**facts, **_numbers(summary), "cut_ns": [low_ns, high_ns], "whole_ns": facts.get("span_ns")}


def save_lanes(folder: Path, lanes: pd.DataFrame, kind: str, facts: dict[str, Any]) -> None:
    """Write ``lanes.parquet`` into ``folder``; raises OSError."""
    table = pa.Table.from_pandas(lanes, preserve_index=False)
    for name in _TEXTS:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.string()).dictionary_encode())
    marks = {b"ncubble.lanes": str(SCHEMA).encode(), b"ncubble.lanes.kind": kind.encode()}
    marks[FACTS] = json.dumps(facts).encode()
    split = {name: "BYTE_STREAM_SPLIT" for name in _TIMES if pa.types.is_floating(table.schema.field(name).type)}
    pq.write_table(
        table.replace_schema_metadata(marks),
        folder / FILE,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=[name for name in (*_TEXTS, *_NUMBERS) if name in lanes],
        column_encoding=split or None,
    )


def read_trace_facts(folder: Path) -> dict[str, Any]:
    """What the trace in ``folder`` tells of itself; empty where there is none or it is not
    readable."""
    try:
        facts = json.loads((pq.read_schema(folder / FILE).metadata or {}).get(FACTS, b"{}"))
    except (OSError, ValueError, RecursionError, pa.ArrowException):
        return {}
    return facts if isinstance(facts, dict) else {}
