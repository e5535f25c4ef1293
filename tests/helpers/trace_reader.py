"""Reads trace events as viewers do: names of processes and threads, slices that do not overlap
within a thread, flows by number."""

import json
from collections import defaultdict
from pathlib import Path


class ViewerTrace:
    """``slices``: (process, thread, name, start, end, index) in ns, in the order of the file.
    ``flows``: pairs of (process, thread, name, start). ``counters``: (time, value) by process and
    name. ``facts``: what the file tells beside them."""

    def __init__(self, path: Path) -> None:
        whole = json.loads(path.read_text())
        self.facts = whole["otherData"]
        names, self.slices, self.counters, ends = {}, [], defaultdict(list), defaultdict(dict)
        last, starts = defaultdict(float), {}
        for event in whole["traceEvents"]:
            process, thread, time = event["pid"], event["tid"], round(1e3 * event.get("ts", 0), 4)
            assert process > 0, "viewers treat process 0 as idle"
            if event["ph"] == "M" and event["name"] != "thread_sort_index":
                names[process, thread if event["name"] == "thread_name" else None] = event["args"]["name"]
            elif event["ph"] == "X":
                end = round(time + 1e3 * event["dur"], 4)
                assert time >= last[process, thread] - 1e-3, "slices of one thread overlap"
                last[process, thread] = end
                place = names[process, None], names[process, thread]
                self.slices.append((*place, event["name"], round(time), round(end), event["args"].get("index", -1)))
                starts[process, thread, time] = (*place, event["name"], round(time))
            elif event["ph"] in "sf":
                ends[event["id"]][event["ph"]] = starts[process, thread, time]
            elif event["ph"] == "C":
                (value,) = event["args"].values()
                self.counters[names[process, None], event["name"]].append((time, value))
        self.flows = [(pair["s"], pair["f"]) for pair in ends.values()]
