"""Reads a trace as Perfetto's trace processor does: packets sorted by time, stable; a slice that
ends is the last that began on its track."""

from collections import defaultdict
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages


class PerfettoTrace:
    """``slices``: (path, name, start, end, args) in order of their ends. ``flows``: pairs of (path,
    name, start). ``counters``: (time, value) by path."""

    def __init__(self, path: Path) -> None:
        trace = messages.Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks, self.slices, self.counters = {}, [], defaultdict(list)
        events = []
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                told = packet.track_descriptor
                assert told.uuid and told.uuid not in self.tracks
                assert not told.parent_uuid or told.parent_uuid in self.tracks, "parents come first"
                self.tracks[told.uuid] = told
            else:
                assert packet.trusted_packet_sequence_id
                events.append(packet)
        open_slices, leaving, arriving = defaultdict(list), {}, {}
        for packet in sorted(events, key=lambda packet: packet.timestamp):
            event, time = packet.track_event, packet.timestamp
            stack, track = open_slices[event.track_uuid], self.path(event.track_uuid)
            if event.type == event.TYPE_COUNTER:
                assert self.tracks[event.track_uuid].HasField("counter")
                self.counters[track].append((time, event.double_counter_value))
            elif event.type == event.TYPE_SLICE_BEGIN:
                assert not stack, "slices of one track overlap"
                args = {each.name: each.int_value for each in event.debug_annotations}
                stack.append((track, event.name, time, args))
                leaving |= dict.fromkeys(event.flow_ids, (track, event.name, time))
                arriving |= dict.fromkeys(event.terminating_flow_ids, (track, event.name, time))
            else:
                begun = stack.pop()
                self.slices.append((*begun[:3], time, begun[3]))
        assert not any(open_slices.values())
        assert leaving.keys() == arriving.keys()
        self.flows = [(leaving[number], arriving[number]) for number in leaving]

    def path(self, uuid: int) -> tuple[str, ...]:
        """Names from the root to a track."""
        told = self.tracks[uuid]
        return (*(self.path(told.parent_uuid) if told.parent_uuid else ()), told.name)
