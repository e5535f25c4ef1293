"""What overlaps between host and device: the pipeline of rung 13 in every setting, and what allocations wait for.

    python benchmarks/host_streams.py            # two Markdown tables, each row as soon as it is measured
    python benchmarks/host_streams.py --json F   # and all figures in the file F

Times are wall times of whole runs, each with a synchronization behind it as a host that hands results on has one: what
the CPU does itself counts, and a pool with a threshold gives memory back there. Medians. What does not begin within
``--seconds`` is left out and named.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.device.device import Gpu, call_driver
from ncubble.kernels.host_streams.stream_pipeline import STEPS
from ncubble.kernels.host_streams.streams import KEEP_ALL, HostDriver
from ncubble.kernels.run.host_program import HostPrepared
from ncubble.kernels.run.inputs import draw_inputs
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import verify
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value

NAME = "stream_pipeline"
SIZE = {"n": 2**25}
RUNS, WARMUP = 9, 1
LEAST_RUNS = 3
SHARE_S = 0.1  # after which a measurement has runs enough
MIB = 2**20
HELD_MIB = 64  # of an allocation that is waited for
CALLS = 20  # runs of the kernel that keep the device busy meanwhile
REPEATS = 3

Settings = dict[str, Value]


def settings() -> Iterator[tuple[str, Settings]]:
    """What each row asks, and the parameters that answer it; the rest is default."""
    for streams in (1, 2, 3, 4, 8):
        yield "streams", {"streams": streams}
    for chunk in (1, 8, 16, 64):
        yield "chunk", {"chunk": chunk}
    for work in (0, 64, 512):
        yield "work", {"work": work}
    yield "memory", {"memory": "pageable", "streams": 1}
    yield "memory", {"memory": "pageable"}
    for slots in (1, 2, 4):
        yield "memory", {"memory": "staged", "slots": slots}
    yield "alloc", {"alloc": "async", "threshold": "max"}
    yield "alloc", {"alloc": "async", "threshold": "zero"}
    yield "alloc", {"alloc": "sync"}
    yield "default stream", {"stream_kind": "default"}
    yield "default stream", {"stream_kind": "blocking"}
    yield "default stream", {"stream_kind": "blocking", "stray": 1}
    yield "default stream", {"stray": 1}


def milliseconds(gpu: Gpu, run: Callable[[], None]) -> float:
    """Median wall time of a run and the synchronization behind it: of ``RUNS``, of fewer where they take long."""
    spans: list[float] = []
    begin = time.perf_counter()
    for index in range(WARMUP + RUNS):
        if index >= WARMUP + LEAST_RUNS and time.perf_counter() - begin > SHARE_S:
            break
        start = time.perf_counter()
        run()
        gpu.sync()
        spans.append(1e3 * (time.perf_counter() - start))
    return statistics.median(spans[WARMUP:])


def measure(gpu: Gpu, chosen: Settings, inputs: dict[str, Any]) -> dict[str, Any]:
    """Times of one setting: each step alone, and the whole; verified after it."""
    case = make_case(find_spec(NAME), chosen, SIZE)
    prepared = prepare(case, gpu)
    assert isinstance(prepared, HostPrepared)
    prepared.upload(inputs)
    program: Any = prepared.program
    alone = {step: milliseconds(gpu, lambda step=step: program.run((step,))) for step in STEPS}  # type: ignore[misc]
    prepared.poison()
    gpu.sync()
    whole = milliseconds(gpu, prepared.run)
    outputs, overrun = prepared.outputs()
    verify(case, inputs, outputs, 0, overrun).require(case.label, 0)
    moved = 2 * 4 * SIZE["n"]
    return {"alone_ms": alone, "ms": whole, "gb_per_s": moved / whole / 1e6, "overlap": sum(alone.values()) / whole}


def pipelines(open_gpu: Callable[[], Gpu], until: float) -> Iterator[dict[str, Any]]:
    """All settings that begin before ``until`` (``time.perf_counter``), each as soon as it is measured.

    Each has the GPU to itself: what it allocated is given back before the next one begins.
    """
    inputs = draw_inputs(make_case(find_spec(NAME), {}, SIZE), 0)
    for about, chosen in settings():
        row = {"about": about, "parameters": chosen}
        if time.perf_counter() > until:
            yield {**row, "left_out": True}
            continue
        gpu = open_gpu()
        try:
            row |= measure(gpu, chosen, inputs)
        finally:
            gpu.close()
        yield row


class Load:
    """Kernels that keep the device busy for a while."""

    def __init__(self, gpu: Gpu) -> None:
        case = make_case(find_spec(NAME), {"chunk": 64, "streams": 1}, SIZE)
        prepared = prepare(case, gpu)
        assert isinstance(prepared, HostPrepared)
        prepared.upload(draw_inputs(case, 0))
        self._gpu, self._program = gpu, prepared.program
        self._program.run()
        gpu.sync()

    def queue(self) -> None:
        """``CALLS`` runs of the kernel over all data, on a stream of their own."""
        for _ in range(CALLS):
            self._program.run(("kernel",))  # type: ignore[call-arg]


def microseconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long the CPU was in ``call``, and what it returned."""
    start = time.perf_counter()
    found = call()
    return 1e6 * (time.perf_counter() - start), found


def waits(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """How long calls take the CPU, with an idle device and with a busy one, and what the device had left to do then."""
    driver, load = HostDriver(gpu), Load(gpu)
    (lane,) = driver.lanes("nonblocking", 1)
    for name, take, other, give in calls(driver, lane):
        for busy in (False, True):
            found = [once(gpu, load, lane, busy, take, give) for _ in range(REPEATS)]
            columns = list(zip(*found, strict=True))
            taken, left_taken, given, left_given = (statistics.median(column) for column in columns)
            yield {"call": name, "busy": busy, "us": taken, "left_us": left_taken}
            yield {"call": other, "busy": busy, "us": given, "left_us": left_given}


def calls(driver: HostDriver, lane: Any) -> list[tuple[str, Callable[[], Any], str, Callable[[Any], Any]]]:
    """The calls that allocate, and those that give back, by name. Both pools have held as much before."""
    nbytes = HELD_MIB * MIB
    pools = {"max": driver.pool(KEEP_ALL), "0": driver.pool(0)}
    for pool in pools.values():
        pool.free(lane, pool.allocate(lane, nbytes))
        lane.sync()
    ordered = [
        (
            f"cuMemAllocAsync, threshold {threshold}",
            functools.partial(pool.allocate, lane, nbytes),
            f"cuMemFreeAsync, threshold {threshold}",
            functools.partial(pool.free, lane),
        )
        for threshold, pool in pools.items()
    ]
    return [
        ("cuMemAlloc", lambda: driver.allocate(nbytes), "cuMemFree", driver.free),
        *ordered,
        (
            "cuMemHostAlloc",
            lambda: call_driver("cuMemHostAlloc", nbytes, 0)[0],
            "cuMemFreeHost",
            lambda pointer: call_driver("cuMemFreeHost", pointer),
        ),
    ]


def once(
    gpu: Gpu, load: Load, lane: Any, busy: bool, take: Callable[[], Any], give: Callable[[Any], Any]
) -> tuple[float, float, float, float]:
    """Microseconds of ``take`` and of what the device had still to do after it; then the same of ``give``."""
    if busy:
        load.queue()
    taken, pointer = microseconds(take)
    left_taken, _ = microseconds(gpu.sync)
    lane.sync()
    if busy:
        load.queue()
    given, _ = microseconds(lambda: give(pointer))
    left_given, _ = microseconds(gpu.sync)
    lane.sync()
    return taken, left_taken, given, left_given


def engines() -> int:
    """Copy engines of the device."""
    from cuda.bindings import driver

    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT
    return int(call_driver("cuDeviceGetAttribute", attribute, 0)[0])


def pipeline_row(row: dict[str, Any]) -> str:
    """A line of the first table."""
    setting = " ".join(f"{name}={value}" for name, value in row["parameters"].items())
    if "left_out" in row:
        return f"| {row['about']} | {setting} | left out | | | | | |"
    steps = " | ".join(f"{row['alone_ms'][step]:.2f}" for step in STEPS)
    return f"| {row['about']} | {setting} | {steps} | {row['ms']:.2f} | {row['gb_per_s']:.1f} | {row['overlap']:.2f} |"


def wait_row(row: dict[str, Any]) -> str:
    """A line of the second table."""
    state = "computes" if row["busy"] else "idle"
    return f"| {row['call']} | {state} | {row['us']:.0f} | {row['left_us']:.0f} |"


def shown(rows: Iterator[dict[str, Any]], line: Callable[[dict[str, Any]], str], *head: str) -> list[dict[str, Any]]:
    """All of ``rows``, each printed when it comes."""
    print(*head, sep="\n", flush=True)
    kept = []
    for row in rows:
        print(line(row), flush=True)
        kept.append(row)
    return kept


def compare(seconds: float) -> dict[str, Any]:
    """Measures and prints both tables."""
    until = time.perf_counter() + seconds
    gpu = Gpu.open()
    try:
        found: dict[str, Any] = {"device": gpu.facts.name, "driver": gpu.facts.driver, "engines": engines()}
        print(f"{found['device']}, {found['engines']} copy engines; {SIZE['n'] * 4 // MIB} MiB up and as many down\n")
        found["waits"] = shown(
            waits(gpu),
            wait_row,
            f"| call, {HELD_MIB} MiB | device | CPU us in the call | us of kernels left after it |",
            "| --- | --- | ---: | ---: |",
        )
    finally:
        gpu.close()
    found["pipelines"] = shown(
        pipelines(Gpu.open, until),
        pipeline_row,
        "\n| asked about | setting | up ms | kernel ms | down ms | whole ms | GB/s | overlap |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--seconds", type=float, default=30.0, help="begin no further setting after them (default 30)")
    given = parser.parse_args()
    found = compare(given.seconds)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
