"""Drawings as Perfetto's own traces (protobuf, "TrackEvent"): tracks form a tree of any depth, and
slices that overlap are rows of one lane.

Written by the package ``perfetto``, which is an extra.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ncubble.analysis.traces.drawing import NO_PARENT, Drawing, ViewerTrack
from ncubble.analysis.traces.lanes import NO_INDEX
from ncubble.errors import UsageError
from ncubble.text.remedies import extras_command

_SEQUENCE = 1
"""Sequence id shared by all packets of a writer."""


def require_perfetto() -> Any:
    """The messages of a trace; raises UsageError where the package is not there, or does not run
    beside the protobuf that is installed."""
    try:
        return importlib.import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    except ImportError as error:
        raise UsageError("the package perfetto, which writes such traces, is not installed", _remedy()) from error
    except Exception as error:  # protobuf raises its own errors if it is older than the package requires
        raise UsageError(f"the package perfetto cannot be used: {str(error)[:200]}", _remedy()) from error


def _remedy() -> str:
    return f"{extras_command('perfetto')}, or use a file name that ends in .json"


def write_perfetto(path: Path, drawing: Drawing, facts: dict[str, Any]) -> None:
    """Write the trace of ``drawing`` to ``path``, times in whole ns; ``facts`` describes its first
    track. Raises OSError, and UsageError as ``require_perfetto``."""
    messages = require_perfetto()
    with path.open("wb") as file:
        for packet in _packets(messages, drawing, facts):
            file.write(messages.Trace(packet=[packet]).SerializeToString())


def _packets(messages: Any, drawing: Drawing, facts: dict[str, Any]) -> Iterator[Any]:
    """Descriptions of tracks first, then the slices of each track in order, then counters."""
    kinds = messages.TrackEvent
    for number, described in enumerate(drawing.tracks):
        description = json.dumps(facts) if not number else ""
        yield messages.TracePacket(track_descriptor=_described(messages, number, described, description))
    # Viewers do not accept times below 0.
    lowest = min([0.0, *drawing.slices["start_ns"], *(times[0] for times, _ in drawing.counters.values())])
    leaving, arriving = _flow_ids(drawing)
    for row, (track, name, group, start, end, index) in enumerate(drawing.slices.itertuples(index=False)):
        begin = kinds(type=kinds.TYPE_SLICE_BEGIN, track_uuid=_uuid(track), name=name, categories=[group])
        if index != NO_INDEX:
            begin.debug_annotations.add(name="index", int_value=int(index))
        begin.flow_ids.extend(leaving.get(row, ()))
        begin.terminating_flow_ids.extend(arriving.get(row, ()))
        yield _at(messages, start - lowest, begin)
        yield _at(messages, end - lowest, kinds(type=kinds.TYPE_SLICE_END, track_uuid=_uuid(track)))
    for track, (times, values) in drawing.counters.items():
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            event = kinds(type=kinds.TYPE_COUNTER, track_uuid=_uuid(track), double_counter_value=value)
            yield _at(messages, time - lowest, event)


def _described(messages: Any, number: int, track: ViewerTrack, description: str) -> Any:
    descriptor = messages.TrackDescriptor(uuid=_uuid(number), name=track.name, sibling_order_rank=number)
    descriptor.child_ordering = messages.TrackDescriptor.EXPLICIT
    if track.parent != NO_PARENT:
        descriptor.parent_uuid = _uuid(track.parent)
    if description:
        descriptor.description = description
    if track.unit is not None:
        descriptor.counter.unit_name = track.unit
    return descriptor


def _flow_ids(drawing: Drawing) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The flows that leave and that reach each slice: one number for each pair, as one number would
    join more than two slices in order of time."""
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    arriving: defaultdict[int, list[int]] = defaultdict(list)
    for number, (source, target) in enumerate(drawing.flows.tolist(), 1):
        leaving[source].append(number)
        arriving[target].append(number)
    return leaving, arriving


def _uuid(track: int) -> int:
    return track + 1  # 0 is the trace itself


def _at(messages: Any, time: float, event: Any) -> Any:
    return messages.TracePacket(timestamp=round(time), trusted_packet_sequence_id=_SEQUENCE, track_event=event)
