"""Programs that no rule of `ncubble streams` was made for: is the planted cause named? Said before
they were recorded.

    python -m benchmarks.streams.apart --out DIR         # a Markdown table, each row as soon as it is recorded
    python -m benchmarks.streams.apart --program NAME    # one of the Python programs

The settings of ``streams/rules.py`` have been looked at, and definitions of causes were changed by
what they showed. These here were written down, each with the cause that most of the idle time must
get, before any of them ran.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.command import NCUBBLE, REPOSITORY, module

EXAMPLES = REPOSITORY / "examples"
LIMIT_S = 60.0
STEPS = 20


@dataclass(frozen=True)
class Apart:
    """A program. ``kind``: ``compiled`` (a mode of stream_causes.cu), ``pair`` (two at once),
    ``pipeline``, ``python``.

    ``told``: what of it was planted, in words.
    """

    name: str
    kind: str
    planted: str
    told: str


ALL = (
    Apart("pool_zero", "compiled", "allocation", "a pool with threshold 0, synchronized every round"),
    Apart("pool_max", "compiled", "host_sync", "the same with threshold max"),
    Apart("register", "compiled", "allocation", "cudaHostRegister every round"),
    Apart("download", "compiled", "host_sync", "cudaMemcpy to pinned memory every round"),
    Apart("event_sync", "compiled", "host_sync", "cudaEventSynchronize every round"),
    Apart("poll", "compiled", "host_sync", "cudaEventQuery until done"),
    Apart("small", "compiled", "launch_gap", "kernels shorter than their launch"),
    Apart("graph_copy", "compiled", "dependency", "a graph of copies and kernels"),
    Apart("legacy", "compiled", "default_stream", "pinned copies and kernels on the legacy default stream"),
    Apart("thread", "compiled", "allocation", "another thread allocates all the time"),
    Apart("pinned", "pair", "dependency", "two processes, pinned copies before kernels"),
    Apart("apart_chunk_2", "pipeline", "dependency", "stream_pipeline chunk=2 streams=3"),
    Apart("apart_chunk_16", "pipeline", "dependency", "stream_pipeline chunk=16 streams=2 work=512"),
    Apart("apart_staged_2", "pipeline", "launch_gap", "stream_pipeline memory=staged slots=2: NumPy copies"),
    Apart("apart_device_sync", "pipeline", "host_sync", "stream_pipeline, cuCtxSynchronize after every chunk"),
    Apart("apart_blocking", "pipeline", "dependency", "stream_pipeline stream_kind=blocking streams=3, no stray work"),
    Apart("apart_malloc", "pipeline", "allocation", "stream_pipeline alloc=sync chunk=16"),
    Apart("numba_pageable", "python", "pageable_copy", "Numba, a NumPy array copied to the device every round"),
    Apart("numba_two", "python", "dependency", "Numba, two streams, pinned arrays"),
    Apart("torch_item", "python", "host_sync", "PyTorch, .item() after every product"),
    Apart("torch_host", "python", "launch_gap", "PyTorch, NumPy works 2 ms before every product"),
    Apart("torch_empty_cache", "python", "allocation", "PyTorch, torch.cuda.empty_cache() every step"),
    Apart("torch_download", "python", "pageable_copy", "PyTorch, .cpu() of every result"),
)


def torch_steps(step: Callable[[Any], None]) -> None:
    """Runs steps with a matrix on the device, some of them before they count."""
    import torch

    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for index in range(-3, STEPS):
        if index == 0:
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
        step(x)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def torch_item() -> None:
    """A number is read after every product."""
    torch_steps(lambda x: float((x @ x)[0, 0].item()))  # type: ignore[arg-type,return-value]


def torch_host() -> None:
    """The host works before every product, and waits for nothing."""

    def step(x: Any) -> None:
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
        _ = x @ x

    torch_steps(step)


def torch_empty_cache() -> None:
    """All memory goes back to the device after every step."""
    import torch

    def step(x: Any) -> None:
        y = torch.cat([x] * 8) @ x
        del y
        torch.cuda.empty_cache()

    torch_steps(step)


def torch_download() -> None:
    """Every result goes to pageable memory."""
    torch_steps(lambda x: (x @ x).cpu())


def numba_pageable() -> None:
    """A NumPy array goes up before every kernel."""
    _numba(streams=1, pinned=False)


def numba_two() -> None:
    """Two streams, page-locked arrays."""
    _numba(streams=2, pinned=True)


def _numba(streams: int, pinned: bool) -> None:
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


PROGRAMS = {
    one.__name__: one for one in (torch_item, torch_host, torch_empty_cache, torch_download, numba_pageable, numba_two)
}


def command(one: Apart, compiled: Path) -> list[str]:
    """The program to record."""
    if one.kind == "compiled":
        return [str(compiled), one.name]
    if one.kind == "pair":
        return ["sh", "-c", f"'{compiled}' {one.name} & '{compiled}' {one.name}; wait"]
    if one.kind == "pipeline":
        return [*module("streams.rules"), "--one", one.name, "--profiled"]
    return [*module("streams.apart"), "--program", one.name]


def recorded(one: Apart, compiled: Path, folder: Path) -> list[dict[str, Any]]:
    """The accounts of what ran, one per process; raises RuntimeError with what the command said."""
    argv = [*NCUBBLE, "streams", "--json", "--longest", "3", "--out", str(folder / one.name), "--"]
    done = subprocess.run(
        [*argv, *command(one, compiled)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return list(json.loads(done.stdout)["devices"])


def line(one: Apart, devices: list[dict[str, Any]]) -> tuple[str, bool]:
    """A row of the table, and whether every process got the planted cause."""
    named = [device["causes"][0]["cause"] if device["causes"] else "-" for device in devices]
    shares = "; ".join(
        ", ".join(f"{cause['cause']} {cause['pct_of_idle']:.0f}" for cause in device["causes"][:3])
        for device in devices
    )
    idle = " ".join(f"{device['sm_idle_pct']:.0f}" for device in devices)
    right = all(name == one.planted for name in named)
    mark = "" if right else "**"
    return f"| {one.name} | {one.told} | {idle} | {one.planted} | {mark}{' '.join(named)}{mark} | {shares} |", right


def build(folder: Path) -> Path:
    """The compiled program; raises RuntimeError without nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise RuntimeError("no nvcc on PATH")
    target = folder / "stream_causes"
    subprocess.run([nvcc, "-O2", "-arch=native", str(EXAMPLES / "stream_causes.cu"), "-o", str(target)], check=True)
    return target


def table(folder: Path, chosen: tuple[Apart, ...], seconds: float) -> None:
    """Records all, and prints each as soon as it is there."""
    until = time.perf_counter() + seconds
    compiled = build(folder)
    print(
        "| program | planted how | SMs idle % | planted | named | % of idle |\n| --- | --- | ---: | --- | --- | --- |"
    )
    ran, right, kept = 0, 0, {}
    for one in chosen:
        if time.perf_counter() > until:
            print(f"| {one.name} | left out: out of time |", flush=True)
            continue
        try:
            devices = recorded(one, compiled, folder)
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"| {one.name} | failed: {error} |", flush=True)
            continue
        kept[one.name] = devices
        text, good = line(one, devices)
        ran, right = ran + 1, right + good
        print(text, flush=True)
    print(f"\n{right} of {ran} named as planted; {len(chosen) - ran} of {len(chosen)} did not run")
    (folder / "apart.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    compiled.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the run directories and apart.json there")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these programs only")
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no further one after them (default 120)")
    parser.add_argument("--program", choices=[*PROGRAMS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program:
        PROGRAMS[given.program]()
        return
    chosen = tuple(one for one in ALL if not given.only or one.name in given.only)
    with TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        table(folder, chosen, given.seconds)


if __name__ == "__main__":
    main()
