"""Two GPUs of one host: events that another GPU waits on, copies between them, an all-reduce
beside matrix products."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims.measurements.tools import MIB, Lab
from benchmarks.claims.registry import measurement
from ncubble.errors import MeasurementError
from ncubble.kernels.run.device import Gpu, call_driver

HOPS, CHUNKS, CHUNK_MIB, ROUNDS = 200, 16, 64, 5
SEEN = 4 * MIB  # ints that tell whether a copy came too early
BLOCK = 256


class Pair:
    """Two devices, both with a primary context. ``on`` makes one current."""

    def __init__(self) -> None:
        if int(call_driver_count()) < 2:
            raise MeasurementError("two GPUs are needed, one is there", "run this on a host with two GPUs")
        self.labs = [Lab(Gpu.open(ordinal)) for ordinal in (0, 1)]
        self.contexts = []
        for ordinal in (0, 1):
            self.on(ordinal)
            self.contexts.append(call_driver("cuCtxGetCurrent")[0])
        self.spin, self.put, self.increment = (self._kernel(name) for name in ("spin", "put", "increment"))

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for ordinal in (0, 1):
            self.on(ordinal).gpu.close()

    def _kernel(self, name: str) -> list[Any]:
        return [self.on(ordinal).kernel("spin.cu", name) for ordinal in (0, 1)]

    def on(self, ordinal: int) -> Lab:
        """Makes GPU ``ordinal`` current."""
        from cuda.core import Device

        Device(ordinal).set_current()
        return self.labs[ordinal]

    def stream(self, ordinal: int) -> Any:
        """A new stream of a GPU."""
        return self.on(ordinal).streams(1)[0]

    def event(self, ordinal: int) -> Any:
        """A new event of a GPU, without time."""
        self.on(ordinal)
        return call_driver("cuEventCreate", 2)[0]  # CU_EVENT_DISABLE_TIMING

    def launch(self, ordinal: int, kernels: list[Any], stream: Any, *arguments: Any, grid: int = 1) -> None:
        """One launch on a GPU."""
        self.on(ordinal).launch(kernels[ordinal], grid, BLOCK, *arguments, stream=stream)

    def busy(self, ordinal: int, stream: Any, ms: float) -> None:
        """Work of so many ms by one CTA."""
        self.launch(ordinal, self.spin, stream, np.int64(int(ms * 1e6)), 0)

    def after(self, event: Any, source: tuple[int, Any], target: tuple[int, Any]) -> None:
        """Lets the stream ``target`` wait for what was queued on ``source``."""
        self.on(source[0])
        call_driver("cuEventRecord", event, int(source[1].handle))
        self.on(target[0])
        call_driver("cuStreamWaitEvent", int(target[1].handle), event, 0)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """From GPU 0 to GPU 1, by a stream of GPU 1."""
        self.on(1)
        first, second = self.contexts
        call_driver("cuMemcpyPeerAsync", target, second, source, first, nbytes, int(stream.handle))

    def settle(self) -> None:
        """Waits for both."""
        for ordinal in (0, 1):
            self.on(ordinal)
            call_driver("cuCtxSynchronize")

    def milliseconds(self, run: Callable[[], None]) -> float:
        """Median wall time of ``run`` until both GPUs rest; it should last a few ms or more."""
        spans = []
        for _ in range(ROUNDS + 1):
            self.settle()
            start = time.perf_counter()
            run()
            self.settle()
            spans.append(1e3 * (time.perf_counter() - start))
        return float(statistics.median(spans[1:]))


def call_driver_count() -> int:
    """GPUs that the driver shows."""
    call_driver("cuInit", 0)
    return int(call_driver("cuDeviceGetCount")[0])


@measurement(gpus=2)
def peer_events() -> dict[str, Any]:
    """GPU 1 copies what GPU 0 writes after 20 ms, with and without an event between; a free stream
    of GPU 1 meanwhile; and what a hop of an event takes, over a chain of 200."""
    with Pair() as pair:
        producer, consumer, free = pair.stream(0), pair.stream(1), pair.stream(1)
        written, seen = pair.on(0).filled(4 * SEEN, 0), pair.on(1).filled(4 * SEEN, 0)
        event = pair.event(0)

        def handed_over(ordered: bool, value: int) -> tuple[bool, float, bool]:
            pair.settle()
            start = time.perf_counter()
            pair.busy(0, producer, 20.0)
            pair.launch(0, pair.put, producer, written, np.int64(SEEN), np.int32(value), grid=64)
            if ordered:
                pair.after(event, (0, producer), (1, consumer))
            pair.copy(seen, written, 4 * SEEN, consumer)
            queued = 1e6 * (time.perf_counter() - start)
            pair.busy(1, free, 1.0)
            call_driver("cuStreamSynchronize", int(free.handle))
            ran = not ordered or not pair_done(consumer)
            pair.settle()
            return bool((pair.on(1).read(seen, SEEN, np.int32) == value).all()), queued, ran

        handed_over(True, 1)
        with_event, queued, ran = handed_over(True, 2)
        without, _, _ = handed_over(False, 3)
        return {
            "right_with_event": with_event,
            "right_without": without,
            "queue_us": queued,
            "free_ran": ran,
            "hop_us": _hop_us(pair, 1),
            "same_gpu_hop_us": _hop_us(pair, 0),
        }


def pair_done(stream: Any) -> bool:
    """Whether a stream has nothing left to do."""
    from cuda.bindings import driver

    (status,) = driver.cuStreamQuery(int(stream.handle))
    return bool(status == driver.CUresult.CUDA_SUCCESS)


def _hop_us(pair: Pair, other: int) -> float:
    """A wait on an event of another stream and an empty kernel, back and forth between GPU 0 and
    ``other``. All is queued behind a spin, so that the CPU is not what is measured."""
    sides = [(0, pair.stream(0)), (other, pair.stream(other))]
    events = [[pair.event(side) for _ in range(HOPS // 2)] for side, _ in sides]

    def chain(hops: int) -> None:
        pair.busy(0, sides[0][1], 30.0)
        for hop in range(hops):
            here, there = sides[hop % 2], sides[(hop + 1) % 2]
            pair.after(events[hop % 2][hop // 2], here, there)
            pair.launch(there[0], pair.spin, there[1], np.int64(0), 0)

    return 1e3 * (pair.milliseconds(lambda: chain(HOPS)) - pair.milliseconds(lambda: chain(0))) / HOPS


@measurement(gpus=2, timeout_s=90)
def peer_copies() -> dict[str, Any]:
    """Bandwidth from GPU 0 to GPU 1 without and with peer access; then 16 chunks of 64 MiB, each
    copied and worked on by GPU 1, in one stream and in two."""
    with Pair() as pair:
        nbytes = CHUNK_MIB * MIB
        whole = CHUNKS * nbytes
        source, target = pair.on(0).filled(whole, 1), pair.on(1).filled(whole, 0)
        copying, working = pair.stream(1), pair.stream(1)
        events = [pair.event(1) for _ in range(CHUNKS)]
        staged = pair.milliseconds(lambda: pair.copy(target, source, whole, copying))
        for ordinal in (0, 1):
            pair.on(ordinal)
            call_driver("cuCtxEnablePeerAccess", pair.contexts[1 - ordinal], 0)

        def chunk(number: int, steps: str, streams: tuple[Any, Any]) -> None:
            place = target + number * nbytes
            if "copy" in steps:
                pair.copy(place, source + number * nbytes, nbytes, streams[0])
            if "copy" in steps and "work" in steps and streams[0] is not streams[1]:
                pair.after(events[number], (1, streams[0]), (1, streams[1]))
            for _ in range(4 if "work" in steps else 0):
                pair.launch(1, pair.increment, streams[1], place, np.int64(nbytes // 4), grid=528)

        def pipeline(steps: str, streams: tuple[Any, Any]) -> float:
            return pair.milliseconds(lambda: [chunk(number, steps, streams) for number in range(CHUNKS)] and None)

        peer = pair.milliseconds(lambda: pair.copy(target, source, whole, copying))
        copy, compute = pipeline("copy", (copying, copying)), pipeline("work", (working, working))
        serial, overlapped = pipeline("copy work", (copying, copying)), pipeline("copy work", (copying, working))
        return {
            "staged_gb_s": whole / staged / 1e6,
            "peer_gb_s": whole / peer / 1e6,
            "copy_ms": copy,
            "compute_ms": compute,
            "serial_ms": serial,
            "overlapped_ms": overlapped,
            "hidden_pct": 100.0 * (serial - overlapped) / min(copy, compute),
        }


@measurement(gpus=2, timeout_s=120)
def all_reduce() -> dict[str, Any]:
    """An all-reduce of 1 GiB by NCCL through PyTorch, and matrix products, in sequence and at one
    time."""
    argv = [sys.executable, str(Path(__file__).with_name("all_reduce_probe.py"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False)
    if done.returncode:
        raise RuntimeError(f"all_reduce_probe.py: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
