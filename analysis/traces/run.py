"""The run directory of a trace: ``lanes.parquet`` with what it tells of itself, and how to read
both back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.analysis.traces.concurrency import Overlap
from ncubble.analysis.traces.flights import flights
from ncubble.analysis.traces.lanes import FILE, MOST_ROWS, SCHEMA, LaneRun, read_lanes
from ncubble.analysis.traces.probe_lanes import Clock, Loss, Recorded
from ncubble.analysis.traces.summary import Share, Summary, summarize
from ncubble.errors import ReportError

FACTS = b"ncubble.trace"
"""Metadata member with the description of a trace, a JSON object."""
FINEST_NS = 1 / 16
"""Times are rounded to this step, an eighth of a cycle; finer digits are noise and take space."""
MOST = 1e15
"""Maximum of a time in ns, or of a number in a trace."""
_LEVEL = 12
_TEXTS, _TIMES, _NUMBERS = ("lane", "group", "tag"), ("start_ns", "end_ns"), ("index", "sm", "cta", "warp", "launch")


@dataclass(frozen=True)
class ProbeCost:
    """As ``kernels.run.probe.Cost``. Traces that ship were recorded before ``chosen_pct`` was
    measured."""

    off_us: float
    idle_pct: float
    on_pct: float
    on_low_pct: float
    on_high_pct: float
    rounds: int
    kept_pct: float
    sms: int = 0
    chosen_pct: float | None = None


@dataclass(frozen=True)
class TracedKernel:
    """A kernel of the catalog that was traced."""

    name: str
    parameters: dict[str, Any]
    shape: dict[str, Any]


@dataclass(frozen=True)
class TracedResult:
    """Whether a traced kernel computed what it should."""

    passed: bool


@dataclass(frozen=True)
class TraceFacts:
    """What of the object in the file is shown: the numbers of a trace, what was traced, what the
    probe costs, the stretch of the whole trace (ns), if it is one, and who recorded it, if not the
    probe."""

    clock: Clock
    loss: Loss
    span_ns: float
    sms: int
    warps: int
    shares: tuple[Share, ...]
    busy_pct: dict[str, float]
    overlaps: tuple[Overlap, ...]
    kernel: TracedKernel | None = None
    argv: tuple[str, ...] = ()
    cost: ProbeCost | None = None
    verification: TracedResult | None = None
    cut_ns: tuple[float, float] | None = None
    source: str = ""


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
    numbers = _numbers(summarize(*_alone(lanes)))
    return {**facts, **numbers, "cut_ns": [low_ns, high_ns], "whole_ns": facts.get("span_ns")}


def lanes_facts(lanes: pd.DataFrame, more: dict[str, Any]) -> dict[str, Any]:
    """The numbers of lanes that the probe did not record: warps live from their first interval to
    their last, times are as they are, and nothing is known of what was lost."""
    recorded, flying = _alone(lanes)
    return trace_facts(recorded, summarize(recorded, flying), more)


def _alone(lanes: pd.DataFrame) -> tuple[Recorded, pd.DataFrame]:
    """Lanes of warps with lives that follow from them, and what is in flight beside them."""
    warps = lanes[lanes["warp"] >= 0] if "warp" in lanes else lanes.assign(launch=0, sm=0, warp=0, cta=0)
    lives = warps.groupby(["launch", "sm", "cta", "warp", "group"], as_index=False, sort=False, observed=True)
    known = lives.agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    return Recorded(warps, known, Clock(None, None, 0.0), Loss(0, 0, 0.0, 0, 0)), lanes.drop(warps.index)


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


def read_warps(run: LaneRun) -> pd.DataFrame:
    """The intervals of a trace by the probe with all columns that say whose they are; raises
    ReportError."""
    path = run.path / FILE
    kind, _ = read_lanes(run)  # refuses files that are too large or not recordings
    if source := read_trace_facts(run.path).get("source"):
        why = f"its scopes, named by {str(source)[:40]}'s user, are not the regions of the probe"
        raise ReportError(f"{path}: has no account: {why}", f"ncubble trace {run.path}")
    try:
        frame = pd.read_parquet(path, columns=[*_TEXTS, *_TIMES, *_NUMBERS])
        numbers = frame[[*_TIMES, *_NUMBERS]].apply(pd.to_numeric).astype(float)
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ReportError(f"{path}: not a trace of warps ({what})", "record it again") from error
    if kind != "warps" or not (numbers.abs() <= MOST).to_numpy().all():
        raise ReportError(f"{path}: not a trace of warps (a number is missing or too large)", "record it again")
    whole = numbers[[*_NUMBERS]].astype("int64")
    table: pd.DataFrame = pd.concat([frame[[*_TEXTS]].astype(str), numbers[[*_TIMES]], whole], axis=1)
    return table


def read_trace_facts(folder: Path) -> dict[str, Any]:
    """What the trace in ``folder`` tells of itself; empty where there is none or it is not
    readable."""
    try:
        facts = json.loads((pq.read_schema(folder / FILE).metadata or {}).get(FACTS, b"{}"))
    except (OSError, ValueError, RecursionError, pa.ArrowException):
        return {}
    return facts if isinstance(facts, dict) else {}
