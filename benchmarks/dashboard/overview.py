"""Times what the overview asks of the server: python -m benchmarks.dashboard.overview [LAUNCHES …]

The rows are those of the recordings, repeated with other numbers and names. Each request goes
through Flask, and each query is one that was not asked before, so that nothing is answered from
memory; ``scroll`` asks for further blocks of a known result, as scrolling does. Prints p50, p95 and
the maximum in ms, and the processor time of the first page, which makes columns and groups of the
rows.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from flask import Flask

from ncubble.analysis.launches.packed import PackedRows
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.overview.routes import CSV, ROWS, add_routes
from ncubble.dashboard.pages.overview.table import table_of
from ncubble.recordings import ROOT

REPEATS = 40
VARIED = ("duration_ns", "recoverable_ns", "busy", "tensor", "dram", "tflops", "intensity", "cycles")


def rows_of(count: int) -> list[dict[str, Any]]:
    """``count`` rows made of those of the recordings."""
    store = ReportStore([ROOT]).start()
    store.wait()
    recorded, rng = store.rows(), random.Random(1)  # noqa: S311 - the same rows in every run
    rows = []
    for index in range(count):
        row = dict(
            recorded[index % len(recorded)], id=f"{index:016x}/0", path=f"runs/run-{index}", report=f"run {index}"
        )
        rows.append(row | {name: row[name] * rng.random() for name in VARIED if row[name] is not None})
    return sorted(rows, key=lambda row: -(row["recoverable_ns"] or 0.0))


class Held:
    """A store of rows that are there: what the overview asks of ``ReportStore``."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = PackedRows.of(rows)

    def rows(self) -> PackedRows:
        """The rows; the same each time."""
        return self._rows

    def progress(self) -> Any:
        """Loading has ended."""
        count = len(self._rows)
        return SimpleNamespace(done=count, total=count, launches=count, failures=0, finished=True, version=1)

    def failures(self) -> list[Any]:
        """None."""
        return []

    doubtful = duplicates = failures


def requests_of(client: Any, table: Any, store: Any) -> dict[str, Callable[[int], Any]]:
    """What is measured, by name; each takes the number of the repeat."""
    words = ("gemm", "wmma.*h200", "stages=[2-4]", "run.*7", "^triton")
    greater = '{"tensor":{"filterType":"number","type":"greaterThan","filter":%d.5}}'
    contains = '{"path":{"filterType":"text","type":"contains","filter":"%d"}}'
    return {
        "search": lambda i: client.get(f"{ROWS}?q={quote(words[i % 5])}+{i % 10}"),
        "sort by a number": lambda i: client.get(f"{ROWS}?sort=-{VARIED[i % 8]},name&q={i % 10}"),
        "sort by text": lambda i: client.get(f"{ROWS}?sort=path,-{VARIED[i % 8]}&q={i % 7}"),
        "filter": lambda i: client.get(f"{ROWS}?filters={quote(greater % i)}"),
        "filter text": lambda i: client.get(f"{ROWS}?filters={quote(contains % i)}"),
        "scroll": lambda i: client.get(f"{ROWS}?start={100 * i}&end={100 * i + 100}"),
        "page": lambda i: overview.layout(store, OverviewAddress.parse(f"?q={i % 10}")),
        "figure: utilization": lambda i: overview.draw(table, OverviewAddress.parse(f"?q=h200+{i % 10}")),
        "figure: roofline": lambda i: overview.draw(table, OverviewAddress.parse(f"?figure=roofline&q=gemm+{i % 10}")),
        "CSV, whole": lambda i: client.get(f"{CSV}?q={i % 10}").data if i < 3 else None,
    }


def main() -> None:
    """Measure for each number of launches that was given, 10,000 and 100,000 if none."""
    for count in [int(text) for text in sys.argv[1:]] or [10_000, 100_000]:
        store: Any = Held(rows_of(count))
        server = Flask("bench")
        add_routes(server, store)
        start = time.process_time()
        overview.layout(store, OverviewAddress.parse(""))
        print(f"{count:,} launches: first page made in {1e3 * (time.process_time() - start):.0f} ms of one core")
        table = table_of(store)
        for name, ask in requests_of(server.test_client(), table, store).items():
            times = sorted(_took(ask, index) for index in range(3 if "CSV" in name else REPEATS))
            middle, late = times[len(times) // 2], times[min(len(times) - 1, int(0.95 * len(times)))]
            print(f"  {name:22} p50 {middle:7.1f}   p95 {late:7.1f}   max {times[-1]:7.1f} ms")


def _took(ask: Callable[[int], Any], index: int) -> float:
    start = time.perf_counter()
    ask(index)
    return 1e3 * (time.perf_counter() - start)


if __name__ == "__main__":
    main()
