"""What events, priorities, a growing buffer and grid.sync() are worth, each against the ways without.

python -m benchmarks.streams.variants [--json FILE]
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.streams.pipelines import Settings, milliseconds
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.bench import time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case

RUNS = 9


@contextmanager
def verified(gpu: Gpu, kernel: str, chosen: Settings) -> Iterator[Prepared]:
    """A host program, ready to be timed; its result is compared with the reference at the end."""
    case = make_case(find_spec(kernel), chosen)
    prepared, inputs = prepare(case, gpu), draw_inputs(case, 0)
    prepared.upload(inputs)
    prepared.poison()
    yield prepared
    outputs, overrun = prepared.outputs()
    verify(case, inputs, outputs, 0, overrun).require(case.label, 0)


def event_graph(gpu: Gpu) -> dict[str, float]:
    """ms of A, B, C and D in each order, and of the CPU in queueing them."""
    found = {}
    for order in ("events", "host", "one"):
        with verified(gpu, "event_graph", {"order": order}) as prepared:
            found[f"{order}_ms"], found[f"{order}_queue_ms"] = milliseconds(gpu, prepared.run)
    return found


def stream_priority(gpu: Gpu) -> dict[str, float]:
    """µs until the small kernel is done, by the priority of its stream, and ms of the whole."""
    found = {}
    for priority in ("same", "high"):
        with verified(gpu, "stream_priority", {"priority": priority}) as prepared:
            program: Any = prepared.program
            latencies = []
            for _ in range(RUNS):
                prepared.run()
                latencies.append(program.latency_us())
            found[f"{priority}_us"] = statistics.median(latencies[1:])
            found[f"{priority}_ms"] = milliseconds(gpu, prepared.run)[0]
    return found


def kv_layers(gpu: Gpu) -> dict[str, float]:
    """ms of all tokens by how the cache grows and the number of streams, and MiB that the caches
    took."""
    found = {}
    for grow in ("reserved", "async", "sync"):
        for streams in (1, 2):
            with verified(gpu, "kv_layers", {"grow": grow, "streams": streams}) as prepared:
                whole, queueing = milliseconds(gpu, prepared.run)
                found[f"{grow}_{streams}_ms"], found[f"{grow}_{streams}_queue_ms"] = whole, queueing
                program: Any = prepared.program
                found[f"{grow}_mib"] = program.held / 2**20
    return found


def grid_sync(gpu: Gpu) -> dict[str, float]:
    """µs of 64 steps over 2^16, 2^20 and 2^24 elements: a launch per step, queued from Python or
    replayed as a CUDA graph, and one launch with grid.sync()."""
    found: dict[str, float] = {}
    for power in (16, 20, 24):
        shape = {"n": 2**power}
        cases = [make_case(find_spec("grid_sync"), {"mode": mode}, shape) for mode in ("many", "cooperative")]
        inputs = draw_inputs(cases[0], 0)
        many, one = (prepare(case, gpu) for case in cases)
        for prepared in (many, one):
            prepared.upload(inputs)
        driver = HostDriver(gpu)
        graph = driver.captured(many.run)
        replay = functools.partial(graph.launch, driver.main)
        for name, prepared, run in (("many", many, many.run), ("graph", many, replay), ("grid", one, one.run)):
            prepared.poison()
            found[f"{name}_2^{power}_us"] = time_launches(gpu, run, RUNS).p50_us
            outputs, overrun = prepared.outputs()
            verify(prepared.case, inputs, outputs, 0, overrun).require(prepared.case.label, 0)
    return found


VARIANTS: tuple[Callable[[Gpu], dict[str, float]], ...] = (event_graph, stream_priority, kv_layers, grid_sync)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--only", choices=[variant.__name__ for variant in VARIANTS], help="this one alone")
    given = parser.parse_args()
    found = {}
    for variant in VARIANTS:
        if given.only not in (None, variant.__name__):
            continue
        gpu = Gpu.open()
        try:
            found[variant.__name__] = variant(gpu)
        finally:
            gpu.close()
        print(variant.__name__, {name: round(value, 3) for name, value in found[variant.__name__].items()}, flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
