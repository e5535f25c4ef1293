"""Lanes as trace events: the JSON that ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" of the Chromium project, JSON object form. A process for each SM (or
group, where lanes have no SM), a thread for each lane, a complete event (phase ``X``) for each
interval; times in µs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

WAIT_COLOR = "grey"


def trace_events(lanes: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The events of ``lanes``: names of processes and threads first."""
    homes = lanes["sm"].map("SM {}".format) if "sm" in lanes else lanes["group"]
    processes = {home: number for number, home in enumerate(dict.fromkeys(homes), 1)}
    keys = list(zip(homes, lanes["group"], lanes["lane"], strict=True))
    threads = {
        key: number for number, key in enumerate(sorted(dict.fromkeys(keys), key=lambda key: processes[key[0]]), 1)
    }
    for home, number in processes.items():
        yield _named("process_name", number, 0, home)
    for (home, group, lane), number in threads.items():
        yield _named("thread_name", processes[home], number, lane if group in lane else f"{group} · {lane}")
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": processes[home],
            "tid": number,
            "args": {"sort_index": number},
        }
    extra = [name for name in ("index", "cta", "warp", "launch") if name in lanes]
    args = lanes[extra].to_dict("records") if extra else [{}] * len(lanes)
    columns = zip(keys, lanes["tag"], lanes["start_ns"], lanes["end_ns"], args, strict=True)
    for (home, group, lane), tag, start, end, more in columns:
        event = {
            "ph": "X",
            "name": tag,
            "cat": group,
            "ts": start / 1e3,
            "dur": (end - start) / 1e3,
            "pid": processes[home],
            "tid": threads[home, group, lane],
            "args": more,
        }
        yield {**event, "cname": WAIT_COLOR} if tag.startswith("wait") else event


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def write_perfetto(path: Path, lanes: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Write the trace of ``lanes`` to ``path``; ``facts`` goes beside the events. Raises
    OSError."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":' + json.dumps(facts) + ',"traceEvents":[\n')
        for number, event in enumerate(trace_events(lanes)):
            file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
        file.write("\n]}\n")
