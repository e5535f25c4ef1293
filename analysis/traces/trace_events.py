"""Drawings as trace events: the JSON that chrome://tracing opens, and ui.perfetto.dev, too.

Format: "Trace Event Format" of the Chromium project, JSON object form. A process for each track at
the root, a thread for each track with slices (phase ``X``), flows (``s``, ``f``), counters (``C``);
times in µs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ncubble.analysis.traces.concurrency import WAIT
from ncubble.analysis.traces.drawing import NO_PARENT, Drawing
from ncubble.analysis.traces.lanes import NO_INDEX

WAIT_COLOR = "grey"


def trace_events(drawing: Drawing) -> Iterator[dict[str, Any]]:
    """The events of a drawing: names of processes and threads first."""
    roots = [_root(drawing, track) for track in range(len(drawing.tracks))]
    used, seen = set(drawing.slices["track"]), Counter[tuple[str, ...]]()
    for track, root in enumerate(roots):
        path = drawing.path(track)
        if track == root:
            yield _named("process_name", root, 0, path[0])
        if track in used:
            seen[tuple(path)] += 1
            again = f" ({seen[tuple(path)]})" if seen[tuple(path)] > 1 else ""
            yield _named("thread_name", root, track, " ".join(path[1:] or path) + again)
            yield {**_event("M", root, track, "thread_sort_index"), "args": {"sort_index": track}}
    yield from _slices(drawing, roots)
    yield from _flows(drawing, roots)
    for track, (times, values) in drawing.counters.items():
        drawn, name = drawing.tracks[track], " ".join(drawing.path(track)[1:])
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            yield {**_event("C", roots[track], 0, name), "ts": time / 1e3, "args": {drawn.unit or "value": value}}


def _slices(drawing: Drawing, roots: list[int]) -> Iterator[dict[str, Any]]:
    for track, name, group, start, end, index in drawing.slices.itertuples(index=False):
        event = _event("X", roots[track], track, name)
        event |= {"cat": group, "ts": start / 1e3, "dur": (end - start) / 1e3}
        event |= {"args": {"index": index} if index != NO_INDEX else {}}
        yield {**event, "cname": WAIT_COLOR} if name.lower().startswith(WAIT) else event


def _flows(drawing: Drawing, roots: list[int]) -> Iterator[dict[str, Any]]:
    tracks, starts = drawing.slices["track"].to_numpy(), drawing.slices["start_ns"].to_numpy()
    for number, ends in enumerate(drawing.flows.tolist()):
        for phase, row in zip("sf", ends, strict=True):
            track = int(tracks[row])
            event = _event(phase, roots[track], track, "flow") | {"cat": "flow", "id": number, "ts": starts[row] / 1e3}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _root(drawing: Drawing, track: int) -> int:
    while drawing.tracks[track].parent != NO_PARENT:
        track = drawing.tracks[track].parent
    return track


def _event(phase: str, process: int, thread: int, name: str) -> dict[str, Any]:
    # Numbers start at 1: viewers treat process 0 as idle.
    return {"ph": phase, "name": name, "pid": process + 1, "tid": thread + 1}


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {**_event("M", process, thread, kind), "args": {"name": name}}


def write_trace_events(path: Path, drawing: Drawing, facts: dict[str, Any]) -> None:
    """Write the trace of ``drawing`` to ``path``; ``facts`` goes beside the events. Raises
    OSError."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":' + json.dumps(facts) + ',"traceEvents":[\n')
        for number, event in enumerate(trace_events(drawing)):
            file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
        file.write("\n]}\n")
