"""What ``ncu_report`` alone makes of report files, each in a process of its own that may die or is
killed in time.

    python -m benchmarks.reports.bare_reader SECONDS REPORT...

prints one JSON object a line: the number of launches, and digests of all launch names, all scalar
metrics, and all instances of metrics (time series and per instruction); or how the process ended.
Nothing of ncubble is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MEMORY_LIMIT_B = 8 << 30
PROCESSES = 2
RAISED = 1


def read_all(paths: Sequence[Path], time_limit_s: int) -> list[dict[str, Any]]:
    """For each report what ``digests`` gives, or ``{"failed": "raises" | "crashes" | "hangs"}``, in
    order."""
    command = [sys.executable, "-P", __file__, str(time_limit_s)]

    def read(share: Sequence[Path]) -> list[dict[str, Any]]:
        ended = subprocess.run([*command, *map(str, share)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert ended.returncode == 0, ended
        return [json.loads(line) for line in ended.stdout.splitlines()]

    with ThreadPoolExecutor(PROCESSES) as pool:
        shares = list(pool.map(read, [paths[start::PROCESSES] for start in range(PROCESSES)]))
    return [shares[index % PROCESSES][index // PROCESSES] for index in range(len(paths))]


def compare(found: dict[str, Any], original: dict[str, Any]) -> tuple[str, list[str]]:
    """What a user of the bare module meets, and which digests differ from those of the intact
    report.

    One of ``raises``, ``crashes``, ``hangs``, ``no launches``, ``same``, ``different``: the last
    without any complaint.
    """
    if "failed" in found:
        return str(found["failed"]), []
    if not found["launches"]:
        return "no launches", []
    changed = [name for name, value in original.items() if found[name] != value]
    return ("different" if changed else "same"), changed


def digests(path: str) -> dict[str, Any]:
    """``launches`` and the digests ``names``, ``scalars``, ``instances`` of a report; raises what
    the module raises."""
    import ncu_report

    context = ncu_report.load_report(path)
    parts = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [part.action_by_idx(number) for part in parts for number in range(part.num_actions())]
    hashes = {name: hashlib.sha256() for name in ("names", "scalars", "instances")}
    for action in actions:
        hashes["names"].update(repr([action.name(base) for base in (0, 1, 2)]).encode())
        for name in sorted(action.metric_names()):
            metric = action.metric_by_name(name)
            if metric is None:
                continue
            value = metric.value() if metric.has_value() else None
            hashes["scalars"].update(repr((name, value, metric.unit())).encode())
            hashes["instances"].update(repr((name, _instances(metric))).encode())
    return {"launches": len(actions), **{name: digest.hexdigest() for name, digest in hashes.items()}}


def _instances(metric: Any) -> list[tuple[Any, Any]]:
    count = metric.num_instances()
    ids = metric.correlation_ids() if metric.has_correlation_ids() else None
    return [(ids.as_uint64(i) if ids is not None else i, metric.as_double(i)) for i in range(count)]


def _serve(paths: Sequence[str], time_limit_s: int) -> None:
    import ncu_report  # noqa: F401  # once, before the processes part

    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # whatever native code prints is no answer
        for path in paths:
            if not (child := os.fork()):
                _answer(path, time_limit_s, replies)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code:
                how = {RAISED: "raises", -signal.SIGALRM: "hangs"}.get(code, "crashes")
                print(json.dumps({"failed": how}), file=replies, flush=True)


def _answer(path: str, time_limit_s: int, replies: Any) -> None:
    """What the child does: its last act is to write one whole line, or none."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_B, MEMORY_LIMIT_B))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(time_limit_s)
    try:
        print(json.dumps(digests(path)), file=replies, flush=True)
    except Exception:
        os._exit(RAISED)
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[2:], int(sys.argv[1]))
