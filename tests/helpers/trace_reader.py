"""Reads Perfetto's traces with its own messages, as its trace processor does: slices of a track
that do not overlap, render stages by queue, flows by number, counters."""

import json
from collections import defaultdict
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace


class ViewerTrace:
    """``slices``: (process, thread, name, start, end, index) in ns, in the order of the file; of
    work of a GPU the GPU and its queue come first, and ``stages`` has the render stage of the first
    four. ``flows``: pairs of (process, thread, name, start). ``counters``: (time, value) by process
    and name. ``facts``: what the file tells beside them. ``pids``: processes with tracks;
    ``processes``: those that GPUs work for."""

    def __init__(self, path: Path) -> None:
        whole = Trace()
        whole.ParseFromString(path.read_bytes())
        assert {packet.trusted_packet_sequence_id for packet in whole.packet} == {1}
        tracks = [packet.track_descriptor for packet in whole.packet if packet.HasField("track_descriptor")]
        parents = {track.uuid: track.parent_uuid for track in tracks}
        titles = {track.uuid: track.name for track in tracks}
        assert len(titles) == len(tracks), "two tracks have one number"
        self.facts = next((json.loads(track.description) for track in tracks if track.description), None)
        self.pids = {track.process.pid for track in tracks if track.HasField("process")}

        def place(track: int) -> tuple[str, str]:
            names = [titles[track]]
            while parents[track]:
                track = parents[track]
                names.insert(0, titles[track])
            return names[0], " ".join(names[1:] or names)

        interned = whole.packet[0].interned_data
        queues = {one.iid: one.name for one in interned.gpu_specifications}
        self.processes = {one.pid for one in interned.graphics_contexts}
        metrics = {
            (one.iid, spec.counter_id): (f"GPU {one.gpu_id}", spec.name)
            for one in interned.gpu_counter_descriptors
            for spec in one.counter_descriptor.specs
        }
        self.slices, self.stages, self.counters = [], {}, defaultdict(list)
        open_, last, flows, by_event, queued = {}, defaultdict(int), defaultdict(dict), {}, []
        for packet in whole.packet:
            event, stage, time = packet.track_event, packet.gpu_render_stage_event, packet.timestamp
            if packet.HasField("gpu_render_stage_event"):
                where = f"GPU {stage.gpu_id}", queues[stage.hw_queue_iid], stage.name, time
                self.slices.append((*where, time + stage.duration, -1))
                self.stages[where] = stage
                by_event[stage.event_id] = where
            elif packet.HasField("gpu_counter_event"):
                for counter in packet.gpu_counter_event.counters:
                    key = metrics[packet.gpu_counter_event.counter_descriptor_iid, counter.counter_id]
                    self.counters[key].append((time, counter.double_value))
            elif event.type == event.TYPE_COUNTER:
                self.counters[place(event.track_uuid)].append((time, event.double_counter_value))
            elif event.type == event.TYPE_SLICE_BEGIN:
                assert time >= last[event.track_uuid] and event.track_uuid not in open_, "slices of one track overlap"
                where = (*place(event.track_uuid), event.name, time)
                open_[event.track_uuid] = where, next((one.int_value for one in event.debug_annotations), -1)
                for end, numbers in enumerate((event.flow_ids, event.terminating_flow_ids)):
                    for number in numbers:
                        flows[number][end] = where
                queued += [(where, number) for number in _submitted(event)]
            elif event.type == event.TYPE_SLICE_END:
                where, index = open_.pop(event.track_uuid)
                last[event.track_uuid] = time
                self.slices.append((*where, time, index))
        assert not open_
        self.flows = [(pair[0], pair[1]) for pair in flows.values()] + [(one, by_event[to]) for one, to in queued]


def _submitted(event) -> list[int]:
    """The render stages that a call queued: the extension ``gpu_correlation``, which the package
    does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = []
    for field in UnknownFieldSet(event):
        assert field.field_number == 3000
        numbers = iter(field.data)
        for tag in numbers:
            assert tag == 1 << 3
            value, place = 0, 0
            for byte in numbers:
                value, place = value | (byte & 0x7F) << place, place + 7
                if byte < 0x80:
                    break
            found.append(value)
    return found
