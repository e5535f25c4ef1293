"""Memory and time of the server while a large file comes through the browser's protocol.

    python -m benchmarks.dashboard.upload [--megabytes 400] [--repeats 3] [--json FILE]

The real ``ncubble dashboard`` starts on an empty folder. A file that begins like a report and goes
on with random bytes is sent as ``assets/open.js`` sends it. Meanwhile
the memory of the server's process is looked at every 10 ms, and a second client asks for a page,
five times a second: what an upload costs everybody else. Wanted: at most 32 MB more memory, and no
page slower than half a second.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.served import Served

MOST_MORE_MB, SLOWEST_S = 32.0, 0.5
MB = 1e6


class Watch(threading.Thread):
    """Samples ``sample`` until stopped; ``values`` are what it gave."""

    def __init__(self, sample: Any, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.sample, self.pause_s, self.values, self.ended = sample, pause_s, list[float](), threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            self.values.append(self.sample())
            time.sleep(self.pause_s)

    def stop(self) -> list[float]:
        self.ended.set()
        self.join()
        return self.values


def resident_mb(pid: int) -> float:
    """Resident memory of a process without file pages, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024 / MB


def cpu_s(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(served: Served, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection(served.host, timeout=120)
    headers["Cookie"] = served.cookie
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status in (200, 201), (method, path, answer.status, data[:300])
    return json.loads(data) if data.startswith(b"{") else data


def page_s(served: Served) -> float:
    begun = time.monotonic()
    ask(served, "GET", "/")
    return time.monotonic() - begun


def upload(served: Served, content: bytes) -> float:
    """Seconds from the question for the token to the answer to the file."""
    begun = time.monotonic()
    own = {"X_Ncubble_Token": ask(served, "GET", f"/upload?size={len(content)}")["token"]}
    added = ask(served, "POST", "/upload?name=large.ncu-rep", content, **own)["id"]
    took = time.monotonic() - begun
    ask(served, "DELETE", f"/upload/{added}", **own)
    return took


def measure(megabytes: int, repeats: int, folder: Path) -> dict[str, Any]:
    (folder / "reports").mkdir()
    content = b"NVR\0" + os.urandom(int(megabytes * MB) - 4)
    with Served(folder / "reports", folder, 600.0) as served:
        upload(served, content[:1_000_000])  # what the first one imports and allocates is no matter of size
        before = resident_mb(served.process.pid)
        memory = Watch(lambda: resident_mb(served.process.pid), 0.01)
        pages = Watch(lambda: page_s(served), 0.2)
        memory.start()
        pages.start()
        spent = cpu_s(served.process.pid)
        times = [upload(served, content) for _ in range(repeats)]
        spent = (cpu_s(served.process.pid) - spent) / repeats
        most, slowest = max(memory.stop()), max(pages.stop())
    assert not served.problems, served.problems
    return {
        "megabytes": megabytes,
        "seconds": [round(took, 2) for took in times],
        "mb_per_s": round(megabytes / statistics.median(times)),
        "server_cpu_s": round(spent, 2),
        "server_mb_before": round(before, 1),
        "server_mb_more": round(most - before, 1),
        "slowest_page_s": round(slowest, 3),
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--megabytes", type=int, default=400)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.megabytes, given.repeats, Path(folder))
    for name, value in found.items():
        print(f"{name:18} {value}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(found["server_mb_more"] > MOST_MORE_MB or found["slowest_page_s"] > SLOWEST_S)


if __name__ == "__main__":
    sys.exit(main())
