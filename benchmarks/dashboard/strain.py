"""The dashboard while it reads, and while clients hold connections.

    python -m benchmarks.dashboard.strain [--unfinished 200] [--pages 200]

The real ``ncubble dashboard`` starts on a copy of all recordings with an empty cache. While it
still reads, a report that is shown is deleted, and another replaced by a damaged file: seconds until
the table lacks them. Then ``--unfinished`` clients begin requests and do not end them, and another
one asks for pages: p50 and p95. Wanted: at most ``NOTICED_S`` and ``WAIT_S``. Ends with 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.served import Served
from ncubble.recordings import ROOT

NOTICED_S, WAIT_S = 5.0, 1.0
SHOWN = 4
HEADS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{",
)


def noticed_s(served: Served, change: Callable[[Path], None], number: int) -> float:
    """Seconds from a change of the report in one row until the table lacks that row."""
    row = served.rows()[number]
    began = time.monotonic()
    change(Path(row["path"]))
    while any(other["id"] == row["id"] for other in served.rows()):
        time.sleep(0.05)
    return time.monotonic() - began


def damage(run: Path) -> None:
    """Replace the report of a run by something else."""
    next(run.glob("report.ncu-rep*")).write_bytes(b"NVR\0something else")


def waits(served: Served, pages: int) -> tuple[float, float]:
    """p50 and p95 of seconds that new clients wait for a page."""
    took = []
    for _ in range(pages):
        began = time.monotonic()
        served.page("/")
        took.append(time.monotonic() - began)
    return statistics.median(took), statistics.quantiles(took, n=20)[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description="The dashboard while it reads, and while clients hold connections")
    parser.add_argument("--unfinished", type=int, default=200)
    parser.add_argument("--pages", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        shutil.copytree(ROOT, folder / "runs")
        served = stack.enter_context(Served(folder / "runs", folder, 3600.0))
        begun = time.monotonic()
        while len(served.rows()) < SHOWN:
            time.sleep(0.1)
        deleted = noticed_s(served, shutil.rmtree, 0)
        replaced = noticed_s(served, damage, 1)
        changed = time.monotonic() - begun
        served.wait(1800)
        reading = time.monotonic() - begun
        alone = waits(served, given.pages)
        host, _, port = served.host.partition(":")
        for number in range(given.unfinished):
            line = stack.enter_context(socket.create_connection((host, int(port))))
            line.sendall(HEADS[number % len(HEADS)])
        held = waits(served, given.pages)
    print(f"reading took {reading:.1f} s; deleted and replaced within its first {changed:.1f} s")
    print(f"noticed: deleted after {deleted:.2f} s, replaced after {replaced:.2f} s (wanted: {NOTICED_S:g})")
    print(f"page, alone: p50 {alone[0]:.3f} s, p95 {alone[1]:.3f} s")
    print(f"page, beside {given.unfinished} unfinished: p50 {held[0]:.3f} s, p95 {held[1]:.3f} s (wanted: {WAIT_S:g})")
    print("\n".join(served.problems))
    return int(max(deleted, replaced) > NOTICED_S or held[1] > WAIT_S or bool(served.problems))


if __name__ == "__main__":
    sys.exit(main())
