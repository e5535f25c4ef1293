"""Programs of the host over streams: the pipeline of the seed and its variants, each verified."""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims.measurements.tools import MIB, Lab, lab
from benchmarks.claims.registry import measurement
from benchmarks.harness.command import NCUBBLE
from benchmarks.streams.pipelines import SIZE, Settings, measure, milliseconds
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.run.bench import time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case

PIPELINES: dict[str, Settings] = {
    "one_stream": {"streams": 1},
    "two_streams": {"streams": 2},
    "four_streams": {"streams": 4},
    "pageable": {"memory": "pageable"},
    "sync_alloc": {"alloc": "sync"},
    "async_zero": {"alloc": "async", "threshold": "zero"},
    "async_max": {"alloc": "async", "threshold": "max"},
    "on_default": {"stream_kind": "default"},
    "stray": {"stream_kind": "blocking", "stray": 1},
    "stray_nonblocking": {"stream_kind": "nonblocking", "stray": 1},
    "chunk1": {"chunk": 1},
    "chunk64": {"chunk": 64},
    "staged_one_thread": {"memory": "staged", "slots": 8, "threads": 1},
    "staged": {"memory": "staged", "slots": 8, "threads": 8},
}


@measurement(timeout_s=90)
def pipelines() -> dict[str, Any]:
    """128 MiB up, computed on and down, in chunks over streams, in every setting that the document
    names."""
    inputs = draw_inputs(make_case(find_spec("stream_pipeline"), {}, SIZE), 0)
    found: dict[str, Any] = {}
    with lab() as bench:
        for name, chosen in PIPELINES.items():
            told = measure(bench.gpu, "stream_pipeline", chosen, inputs)
            found[f"{name}_ms"] = told["ms"]
            if name == "four_streams":
                alone = told["alone_ms"]
                found |= {"up_ms": alone["upload"], "kernel_ms": alone["kernel"], "down_ms": alone["download"]}
                found["overlap"] = told["overlap"]
                found["busiest_pct"] = 100 * max(alone.values()) / told["ms"]
                found["least_pct"] = 100 * min(alone.values()) / told["ms"]
    return found


BATCHES, BATCH, RINGS = 256, 4 * MIB, (1, 2, 3, 4, 8, 16)


@measurement(timeout_s=60)
def pinned_ring() -> dict[str, Any]:
    """256 batches of 4 MiB through rings of pinned slots, recycled by host callbacks. Batches are
    made where they lie: the host copies nothing, so that the ring alone can hold them up."""
    with lab() as bench:
        lanes = bench.streams(4)
        device = [(bench.gpu.allocate(BATCH), bench.gpu.allocate(BATCH)) for _ in lanes]
        kernel = prepare(make_case(find_spec("stream_pipeline"), {"chunk": 4}, {"n": BATCH // 4}), bench.gpu)
        program: Any = kernel
        slots = [(bench.driver.pinned(BATCH), bench.driver.pinned(BATCH), bench.driver.signal()) for _ in range(16)]
        rings = {f"ring{count}_ms": _ring_ms(bench, lanes, device, program.kernel, slots[:count]) for count in RINGS}
        return {**rings, "batches": BATCHES}


def _ring_ms(bench: Lab, lanes: list[Any], device: list[Any], kernel: Any, slots: list[Any]) -> float:
    """Wall time of all batches, the best of three."""
    spans = []
    for _ in range(3):
        start = time.perf_counter()
        for batch in range(BATCHES):
            source, result, done = slots[batch % len(slots)]
            lane, (x, y) = lanes[batch % len(lanes)], device[batch % len(lanes)]
            if batch >= len(slots):
                done.wait()
            bench.driver.to_device(lane, x, source)
            bench.driver.launch(lane, kernel, BATCH // 4 // 1024, 256, x, y, np.int32(BATCH // 4))
            bench.driver.to_host(lane, result, y)
            done.post(lane)
        for _, _, done in slots:
            done.wait()
        spans.append(1e3 * (time.perf_counter() - start))
    return min(spans)


WARPS: dict[str, Settings] = {
    "one": {"streams": 1},
    "two": {"streams": 2},
    "four": {"streams": 4},
    "graph": {"launch": "graph"},
    "sync": {"alloc": "sync"},
    "small": {"chunk": 1},
    "small_graph": {"chunk": 1, "launch": "graph"},
}


@measurement(timeout_s=90)
def warp_pipelines() -> dict[str, Any]:
    """Allocate, upload A and B, the warp-specialized kernel, download, free, for chunks of 4 MiB (and
    1 MiB) of each array, 128 MiB in all: wall time, and that of queueing."""
    inputs = draw_inputs(make_case(find_spec("warp_pipeline"), {}, SIZE), 0)
    found: dict[str, Any] = {"chunks": SIZE["n"] // MIB, "small_chunks": 4 * SIZE["n"] // MIB}
    with lab() as bench:
        for name, chosen in WARPS.items():
            told = measure(bench.gpu, "warp_pipeline", chosen, inputs)
            found[f"{name}_ms"], found[f"{name}_queue_ms"] = told["ms"], told["queue_ms"]
            if name == "graph":
                alone = told["alone_ms"]
                found |= {"up_ms": alone["upload"], "kernel_ms": alone["kernel"], "down_ms": alone["download"]}
    return found


@measurement(timeout_s=90)
def both_levels() -> dict[str, Any]:
    """One run of the pipeline, its streams and its warps recorded: how much of the kernels' time lies
    beside uploads, and how much of the computing of the traced SM beside copies in flight."""
    from ncubble.analysis.traces.lanes import WARPS as INSIDE
    from ncubble.analysis.traces.lanes import read_lanes

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        argv = [*NCUBBLE, "streams", "warp_pipeline", "--warps", "--json", "--out", str(out)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=80, check=True)
        (device,) = json.loads(done.stdout)["devices"]
        warps = read_lanes(out / INSIDE).facts["overlaps"]
    busy = {engine["engine"]: engine["busy_us"] for engine in device["engines"]}
    beside = next(pair["us"] for pair in device["overlap"] if set(pair["engines"]) == {"H2D", "SMs"})
    inside = next(pair for pair in warps if set(pair["what"]) == {"compute", "copy in flight"})
    return {
        "copies_kernels_pct": 100 * beside / busy["SMs"],
        "loads_computing_pct": inside["pct_of_least"],
        "launches": device["kernels"],
        "kernel_us": busy["SMs"] / device["kernels"],
    }


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


@measurement()
def event_graph() -> dict[str, Any]:
    """Six kernels on four streams, A -> B -> D and C, ordered by events, by a host that waits, or in
    one stream."""
    found: dict[str, Any] = {}
    with lab() as bench:
        for order in ("events", "host", "one"):
            with verified(bench.gpu, "event_graph", {"order": order}) as prepared:
                found[f"{order}_ms"], found[f"{order}_queue_ms"] = milliseconds(bench.gpu, prepared.run)
    return found


@measurement()
def stream_priority() -> dict[str, Any]:
    """16 CTAs that are queued while a kernel fills the GPU, on a stream of the same or of the highest
    priority."""
    found: dict[str, Any] = {}
    with lab() as bench:
        for priority in ("same", "high"):
            with verified(bench.gpu, "stream_priority", {"priority": priority}) as prepared:
                program: Any = prepared.program
                latencies = []
                for _ in range(9):
                    prepared.run()
                    start, end = program.span
                    bench.gpu.sync()
                    latencies.append(1e3 * float(end - start))
                found[f"{priority}_us"] = statistics.median(latencies[1:])
                found[f"{priority}_ms"] = milliseconds(bench.gpu, prepared.run)[0]
    return found


@measurement(timeout_s=90)
def kv_layers() -> dict[str, Any]:
    """32 tokens of 1024 sequences through 4 layers on one stream and on two, whose caches are as large as they can
    get, or grow for every token."""
    found: dict[str, Any] = {}
    with lab() as bench:
        for grow in ("reserved", "async", "sync"):
            for streams in (1, 2):
                with verified(bench.gpu, "kv_layers", {"grow": grow, "streams": streams}) as prepared:
                    key = f"{grow}_{streams}"
                    found[f"{key}_ms"], found[f"{key}_queue_ms"] = milliseconds(bench.gpu, prepared.run)
                    program: Any = prepared.program
                    found[f"{grow}_mib"] = program.held / MIB
    return found


@measurement()
def grid_barrier() -> dict[str, Any]:
    """64 steps that each need all of the one before, over 2^16, 2^20 and 2^24 elements: a launch per
    step, queued from Python or replayed as a graph, and one launch with grid.sync()."""
    found: dict[str, Any] = {"steps": 64}
    with lab() as bench:
        driver = HostDriver(bench.gpu)
        for name, size in (("small_", 2**16), ("", 2**20), ("large_", 2**24)):
            cases = [make_case(find_spec("grid_sync"), {"mode": mode}, {"n": size}) for mode in ("many", "cooperative")]
            inputs = draw_inputs(cases[0], 0)
            many, one = (prepare(case, bench.gpu) for case in cases)
            for prepared in (many, one):
                prepared.upload(inputs)
            graph = driver.captured(many.run)
            runs = {"many": many.run, "graph": functools.partial(graph.launch, driver.main), "grid": one.run}
            for way, run in runs.items():
                prepared = one if way == "grid" else many
                prepared.poison()
                found[f"{name}{way}_us"] = time_launches(bench.gpu, run, 9).p50_us
                outputs, overrun = prepared.outputs()
                verify(prepared.case, inputs, outputs, 0, overrun).require(prepared.case.label, 0)
    return found
