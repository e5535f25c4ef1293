"""Does `ncubble streams` name what was planted? Programs whose idle time has a known cause, recorded and accounted for.

    python -m benchmarks.streams.planted                   # a Markdown table, each row as soon as it is recorded
    python -m benchmarks.streams.planted --out DIR         # keep the run directories there
    python -m benchmarks.streams.planted --only apart      # those that no rule of streams was made for
    python -m benchmarks.streams.planted --program NAME    # the program that is recorded

``planted`` was written down before the first recording: the cause that most of the idle time of the SMs must have. The
first 16 break one rule of streams each, in `stream_pipeline` (chunks go up, through a kernel, and down again); what
they showed changed definitions of causes, so they are a fit. All others are the test: they were written down before any
of them ran. A pipeline's wall time is taken without a recorder, and once more with it: the difference is what recording
costs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.command import NCUBBLE, REPOSITORY, module
from ncubble.kernels.spec.spec import Value

SIZE = {"n": 2**25}  # floats: 128 MiB up, and as many down
RUNS, WARMUP, STEPS = 3, 2, 20
SLEEP_S, LIMIT_S = 300e-6, 120.0
FIT, APART = "fit", "apart"


@dataclass(frozen=True)
class Program:
    """``kind``: ``compiled`` (a mode of stream_causes.cu), ``pair`` (two at once), ``pipeline`` with ``parameters``,
    ``python``. ``told``: what of it was planted, in words. ``each``: what the host does after every chunk."""

    name: str
    kind: str
    planted: str
    told: str
    parameters: dict[str, Value] = field(default_factory=dict)
    each: str = ""
    group: str = APART


def _pipeline(name: str, planted: str, each: str = "", group: str = FIT, **parameters: Value) -> Program:
    told = " ".join([*(f"{key}={value}" for key, value in parameters.items()), *([f"{each} each"] if each else [])])
    return Program(name, "pipeline", planted, told or "as it should be", parameters, each, group)


ALL = (
    _pipeline("good", "dependency"),
    _pipeline("pageable", "pageable_copy", memory="pageable"),
    _pipeline("staged", "launch_gap", memory="staged", slots=1),
    _pipeline("malloc", "allocation", alloc="sync"),
    _pipeline("malloc_async_0", "allocation", alloc="async", threshold="zero"),
    _pipeline("malloc_async_max", "dependency", alloc="async", threshold="max"),
    _pipeline("default_stream", "default_stream", stream_kind="default"),
    _pipeline("blocking_stray", "default_stream", stream_kind="blocking", stray=1),
    _pipeline("nonblocking_stray", "dependency", stray=1),
    _pipeline("streams_1", "dependency", streams=1),
    _pipeline("streams_2", "dependency", streams=2),
    _pipeline("streams_4", "dependency", streams=4),
    _pipeline("chunk_1", "dependency", chunk=1),
    _pipeline("chunk_64", "dependency", chunk=64),
    _pipeline("sync_each", "host_sync", each="sync"),
    _pipeline("sleep_each", "launch_gap", each="sleep"),
    Program("pool_zero", "compiled", "allocation", "a pool with threshold 0, synchronized every round"),
    Program("pool_max", "compiled", "host_sync", "the same with threshold max"),
    Program("register", "compiled", "allocation", "cudaHostRegister every round"),
    Program("download", "compiled", "host_sync", "cudaMemcpy to pinned memory every round"),
    Program("event_sync", "compiled", "host_sync", "cudaEventSynchronize every round"),
    Program("poll", "compiled", "host_sync", "cudaEventQuery until done"),
    Program("small", "compiled", "launch_gap", "kernels shorter than their launch"),
    Program("graph_copy", "compiled", "dependency", "a graph of copies and kernels"),
    Program("legacy", "compiled", "default_stream", "pinned copies and kernels on the legacy default stream"),
    Program("thread", "compiled", "allocation", "another thread allocates all the time"),
    Program("pinned", "pair", "dependency", "two processes, pinned copies before kernels"),
    _pipeline("apart_chunk_2", "dependency", group=APART, chunk=2, streams=3),
    _pipeline("apart_chunk_16", "dependency", group=APART, chunk=16, streams=2, work=512),
    _pipeline("apart_staged_2", "launch_gap", group=APART, memory="staged", slots=2),
    _pipeline("apart_device_sync", "host_sync", each="device", group=APART),
    _pipeline("apart_blocking", "dependency", group=APART, stream_kind="blocking", streams=3),
    _pipeline("apart_malloc", "allocation", group=APART, alloc="sync", chunk=16),
    Program("numba_pageable", "python", "pageable_copy", "Numba, a NumPy array copied to the device every round"),
    Program("numba_two", "python", "dependency", "Numba, two streams, pinned arrays"),
    Program("torch_item", "python", "host_sync", "PyTorch, .item() after every product"),
    Program("torch_host", "python", "launch_gap", "PyTorch, NumPy works 2 ms before every product"),
    Program("torch_empty_cache", "python", "allocation", "PyTorch, torch.cuda.empty_cache() every step"),
    Program("torch_download", "python", "pageable_copy", "PyTorch, .cpu() of every result"),
)


def run_pipeline(one: Program) -> list[float]:
    """Wall times of the runs in ms, each with a synchronization behind it; a recorder sees these alone."""
    from ncubble.kernels.catalog.registry import find_spec
    from ncubble.kernels.run.device import Gpu, call_driver
    from ncubble.kernels.run.launch import prepare
    from ncubble.kernels.run.verify import draw_inputs
    from ncubble.kernels.spec.case import make_case

    gpu = Gpu.open()
    case = make_case(find_spec("stream_pipeline"), one.parameters, SIZE)
    prepared = prepare(case, gpu)
    prepared.upload(draw_inputs(case, 0))
    if one.each:
        program: Any = prepared.program
        queue = program._queue
        # gpu.sync waits for the main stream alone, on which nothing runs between chunks: "device" waits for all.
        does = {
            "sync": gpu.sync,
            "sleep": lambda: time.sleep(SLEEP_S),
            "device": lambda: call_driver("cuCtxSynchronize"),
        }

        def queue_and(*given: Any) -> None:
            queue(*given)
            does[one.each]()

        program._queue = queue_and
    spans = []
    for number in range(WARMUP + RUNS):
        if number == WARMUP:
            call_driver("cuProfilerStart")
        start = time.perf_counter()
        prepared.run()
        gpu.sync()
        spans.append(1e3 * (time.perf_counter() - start))
    call_driver("cuProfilerStop")
    gpu.close()
    return spans[WARMUP:]


def run_torch(name: str) -> None:
    """Steps with a matrix on the device, some of them before they count."""
    import torch

    def host(x: Any) -> None:
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
        _ = x @ x

    def empty_cache(x: Any) -> None:
        y = torch.cat([x] * 8) @ x
        del y
        torch.cuda.empty_cache()

    step: Callable[[Any], Any] = {
        "torch_item": lambda x: (x @ x)[0, 0].item(),
        "torch_host": host,
        "torch_empty_cache": empty_cache,
        "torch_download": lambda x: (x @ x).cpu(),
    }[name]
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for index in range(-3, STEPS):
        if index == 0:
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
        step(x)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def run_numba(streams: int, pinned: bool) -> None:
    """An array goes up before every kernel."""
    import numpy as np
    from numba import cuda

    @cuda.jit
    def scale(x: Any) -> None:
        at = cuda.grid(1)
        if at < x.size:
            x[at] = x[at] * np.float32(2)

    size = 1 << 21
    lanes = [cuda.stream() for _ in range(streams)]
    host = cuda.pinned_array(size, dtype=np.float32) if pinned else np.zeros(size, np.float32)
    device = [cuda.device_array(size, dtype=np.float32) for _ in lanes]
    scale[size // 256, 256, lanes[0]](device[0])
    cuda.synchronize()
    cuda.profile_start()
    for index in range(STEPS):
        lane, there = lanes[index % streams], device[index % streams]
        there.copy_to_device(host, stream=lane)
        scale[size // 256, 256, lane](there)
    cuda.synchronize()
    cuda.profile_stop()


def command(one: Program, compiled: Path, times: Path) -> list[str]:
    """The program to record; a pipeline writes its wall times to ``times``."""
    if one.kind == "compiled":
        return [str(compiled), one.name]
    if one.kind == "pair":
        return ["sh", "-c", f"'{compiled}' {one.name} & '{compiled}' {one.name}; wait"]
    return [*module("streams.planted"), "--program", one.name, "--times", str(times)]


def row(one: Program, compiled: Path, folder: Path) -> tuple[str, bool]:
    """A row of the table, and whether every process got the planted cause."""
    program, measured = command(one, compiled, folder / f"{one.name}.json"), ""
    recorder = [*NCUBBLE, "streams", "--json", "--out", str(folder / one.name), "--"]
    devices = json.loads(_ran([*recorder, *program]))["devices"]
    if one.kind == "pipeline":
        recorded = _median(folder / f"{one.name}.json")
        _ran(program)
        plain = _median(folder / f"{one.name}.json")
        measured = f"{plain:.2f} ({100 * (recorded / plain - 1):+.1f} %)"
    named = [device["causes"][0]["cause"] if device["causes"] else "-" for device in devices]
    shares = "; ".join(
        ", ".join(f"{cause['cause']} {cause['pct_of_idle']:.0f}" for cause in device["causes"][:3])
        for device in devices
    )
    idle = " ".join(f"{device['sm_idle_pct']:.0f}" for device in devices)
    right = all(name == one.planted for name in named)
    said = " ".join(named) if right else f"**{' '.join(named)}**"
    return f"| {one.name} | {one.told} | {measured} | {idle} | {one.planted} | {said} | {shares} |", right


def _ran(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return done.stdout


def _median(times: Path) -> float:
    return float(statistics.median(json.loads(times.read_text(encoding="utf-8"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the run directories there")
    parser.add_argument("--only", default="", metavar="REGEX", help="of names, or fit or apart")
    parser.add_argument("--program", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program:
        (one,) = (one for one in ALL if one.name == given.program)
        if one.kind == "pipeline":
            given.times.write_text(json.dumps(run_pipeline(one)), encoding="utf-8")
        elif one.name.startswith("numba"):
            run_numba(2 if one.name == "numba_two" else 1, one.name == "numba_two")
        else:
            run_torch(one.name)
        return
    with TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        nvcc, compiled = shutil.which("nvcc"), Path(temporary) / "stream_causes"
        if nvcc is None:
            sys.exit("no nvcc on PATH")
        source = str(REPOSITORY / "examples" / "stream_causes.cu")
        subprocess.run([nvcc, "-O2", "-arch=native", source, "-o", str(compiled)], check=True)
        print("| program | planted how | ms (recording) | SMs idle % | planted | named | % of idle |")
        print("| -- | -- | -: | -: | -- | -- | -- |")
        right = []
        for one in (one for one in ALL if given.only == one.group or re.search(given.only, one.name)):
            try:
                text, good = row(one, compiled, folder)
            except (RuntimeError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
                text, good = f"| {one.name} | failed: {error} |", False
            print(text, flush=True)
            right.append(good)
        print(f"\n{sum(right)} of {len(right)} named as planted")


if __name__ == "__main__":
    main()
