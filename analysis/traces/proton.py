"""Reads what Triton's profiler Proton writes as ``.chrome_trace``: scopes within kernels as lanes
of warps, or kernels and scopes of the host as lanes of streams. Anything may be in such a file.

Format: ``third_party/proton`` of triton-lang/triton, ``TraceWriter.cpp`` (within kernels: a process
``KERNEL CoreN CTAN``, a thread ``warp N (line N)``) and ``Dump/ChromeTrace.cpp`` (kernels: threads
named ``GPU Stream N`` and ``CPU Thread N``; until Triton 3.5 one object a line for each stream).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.traces.concurrency import HOST
from ncubble.analysis.traces.json_text import JsonCopy, reading
from ncubble.analysis.traces.lanes import LONGEST, MOST_ROWS
from ncubble.errors import ReportError
from ncubble.text.values import number, string

EVENTS = "traceEvents"
ASYNC, FLOW = "async", "flow"
"""Categories of events within one warp, and of events that join two warps."""
_PLACE = re.compile(r"(?s)(?P<kernel>.*) Core(?P<sm>\d{1,9}) CTA(?P<cta>\d{1,9})(?: \[.*\])?")
_WARP = re.compile(r"warp (\d{1,9}) \(line \d{1,9}\)")
_STREAM = re.compile(r"(?:Graph: |GPU )?Stream (\d{1,18})", re.IGNORECASE)
_RECORD = 'record with proton.start(name, data="trace"), which writes name.chrome_trace'
_NAMES = ["launch", "sm", "cta", "group", "warp"]


@dataclass(frozen=True)
class ProtonTrace:
    """``kind`` and ``lanes`` as in a run directory (``lanes.parquet``); those of warps have ``sm``,
    ``cta``, ``warp`` and ``launch``, too. ``kernels``: names. ``left_out``: flows between warps."""

    kind: str
    lanes: pd.DataFrame
    kernels: tuple[str, ...]
    left_out: int


def read_proton(path: Path) -> ProtonTrace:
    """The lanes of a trace; raises ReportError naming the file for any other format, saying what
    records one."""
    try:
        with reading(path) as source:
            return _read(JsonCopy(source, len, str(path)), path)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", _RECORD) from error


def _read(text: JsonCopy, path: Path) -> ProtonTrace:
    start = text.peek()
    if start == "[":
        raise ReportError(f"{path}: a Hatchet tree, or a bare list, which has no times", _RECORD)
    if start != "{":
        raise ReportError(f"{path}: not JSON; Proton's msgpack and Perfetto formats are not supported", _RECORD)
    events: list[dict[str, Any]] = []
    while text.peek():  # up to Triton 3.5, one object per stream
        for name in text.members():
            if name != EVENTS:
                text.value()
                continue
            for _ in text.elements():
                event, _ = text.value()
                if isinstance(event, dict):
                    events.append({name: _encodable(value) for name, value in event.items()})
                if len(events) > MOST_ROWS:
                    raise ReportError(
                        f"{path}: more than {MOST_ROWS:,} events", "record a shorter program, or fewer warps"
                    )
            text.take("]")
        text.take("}")
    return _trace(events, path)


def _encodable(value: Any) -> Any:
    """``value``; in text, halves of characters (``\\ud800``), which no file holds, become ``?``."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _trace(events: list[dict[str, Any]], path: Path) -> ProtonTrace:
    if any("grid" in event["args"] for event in events if isinstance(event.get("args"), dict)):
        raise ReportError(
            f"{path}: a trace of PyTorch's profiler, not of Proton", "ncubble augment adds accounts to it"
        )
    spans = [event for event in events if event.get("ph") == "X" and _timed(event)]
    within = [(event, place) for event in spans if (place := _PLACE.fullmatch(string(event.get("pid"))))]
    if within:
        return _some(_warps(within), path)
    kernels = [event for event in spans if event.get("cat") in ("kernel", "scope", "metric")]
    if not kernels:
        raise ReportError(f"{path}: it has neither kernels nor scopes of Proton", _RECORD)
    return _some(_streams(kernels, _thread_names(events)), path)


def _some(trace: ProtonTrace, path: Path) -> ProtonTrace:
    if trace.lanes.empty:
        raise ReportError(f"{path}: it has no events with a duration", _RECORD)
    return trace


def _timed(event: dict[str, Any]) -> bool:
    start, length = number(event.get("ts")), number(event.get("dur"))
    known = start is not None and length is not None and 0 <= length < 1e12 and abs(start) < 1e12
    return known and isinstance(event.get("name"), str)


def _warps(within: list[tuple[dict[str, Any], re.Match[str]]]) -> ProtonTrace:
    rows, left_out = [], 0
    kernels = {name: place for place, name in enumerate(dict.fromkeys(place["kernel"] for _, place in within))}
    for event, place in within:
        warp = _WARP.fullmatch(string(event.get("tid")))
        if event.get("cat") == FLOW or warp is None:
            left_out += 1
            continue
        sm, cta, own = int(place["sm"]), int(place["cta"]), int(warp[1])
        launch = kernels[place["kernel"]]
        asynchronous = event.get("cat") == ASYNC
        lane = f"SM {sm} CTA {cta} warp {own}{' async' if asynchronous else ''}"
        group = ASYNC if asynchronous else place["kernel"][:LONGEST]
        rows.append((launch, sm, cta, group, -1 if asynchronous else own, _short(lane, launch, kernels), *_span(event)))
    frame = pd.DataFrame(rows, columns=[*_NAMES, "lane", "tag", "start_ns", "end_ns"])
    return ProtonTrace("warps", _flat(frame), tuple(kernels), left_out // 2)


def _short(lane: str, launch: int, kernels: dict[str, int]) -> str:
    return f"launch {launch} {lane}" if len(kernels) > 1 else lane


def _span(event: dict[str, Any]) -> tuple[str, float, float]:
    """Tag, start and end in ns."""
    start = 1e3 * float(event["ts"])
    return event["name"][:LONGEST] or "?", start, start + 1e3 * float(event["dur"])


def _streams(kernels: list[dict[str, Any]], names: dict[Any, str]) -> ProtonTrace:
    rows, found = [], dict[str, None]()
    for event in kernels:
        thread = event.get("tid") if isinstance(event.get("tid"), int | str) else "?"
        name = names.get(thread, "")
        if event.get("cat") == "kernel":
            stream = _STREAM.fullmatch(name)
            rows.append(("SMs", f"stream {stream[1] if stream else thread}", *_span(event)))
            found[event["name"]] = None
        else:
            rows.append((HOST, name or f"thread {thread}", *_span(event)))
    frame = pd.DataFrame(rows, columns=["group", "lane", "tag", "start_ns", "end_ns"])
    frame["lane"] = frame["lane"].str[:LONGEST]
    return ProtonTrace("streams", _flat(frame), tuple(found), 0)


def _thread_names(events: list[dict[str, Any]]) -> dict[Any, str]:
    named = [event for event in events if event.get("ph") == "M" and event.get("name") == "thread_name"]
    known = [event for event in named if isinstance(event.get("args"), dict) and isinstance(event.get("tid"), int)]
    return {event["tid"]: _encodable(string(event["args"].get("name"))) for event in known}


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Scopes of each lane as intervals that do not overlap: an inner scope interrupts the outer
    one, as regions of the probe do. Scopes of no duration are left out."""
    parts = []
    keys = [name for name in frame.columns if name not in ("tag", "start_ns", "end_ns")]
    for key, rows in frame.groupby(keys, sort=False):
        spans = sorted(zip(rows["start_ns"], -rows["end_ns"], rows["tag"], strict=True))
        parts += [(*key, *part) for part in _innermost([(start, -end, tag) for start, end, tag in spans])]
    whole = pd.DataFrame(parts, columns=[*keys, "start_ns", "end_ns", "tag"])
    return whole[[*frame.columns]].sort_values("start_ns", kind="stable", ignore_index=True)


def _innermost(spans: list[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    """Of spans in order of their start: which of those that are open began last, over time."""
    opened: list[tuple[int, float, str]] = []
    now = 0.0
    for place, (start, end, tag) in enumerate([*spans, (float("inf"), 0.0, "")]):
        while opened and now < start:
            _, until, name = opened[0]
            if until > now:
                yield now, min(until, start), name
                now = min(until, start)
            if until <= now:
                heapq.heappop(opened)
        now = start
        heapq.heappush(opened, (-place, end, tag))
