"""Times pipelines of the host, each verified: the whole, each step alone, and what the CPU takes to
queue it.

    python -m benchmarks.streams.pipelines                     # a Markdown table, a row as soon as it is measured
    python -m benchmarks.streams.pipelines --only staged       # rows whose setting matches a regular expression
    python -m benchmarks.streams.pipelines --json FILE         # and all figures in FILE

Times are wall times of whole runs, each with a synchronization behind it as a host that hands
results on has one: what the CPU does itself counts, and a pool with a threshold gives memory back
there. Medians. Settings are timed in turns of one GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.blocks import table
from benchmarks.harness.command import REPOSITORY
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.host.stream_pipeline import STEPS
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value

SIZE = {"n": 2**25}  # floats: 128 MiB of each array
RUNS, WARMUP, LEAST_RUNS = 9, 2, 3
SHARE_S = 0.15  # after which a measurement has runs enough

Settings = dict[str, Value]
RESULTS = REPOSITORY / "docs/validation/pipelines.json"


def staged(chunk: int, slots: int, threads: int) -> Settings:
    return {"memory": "staged", "chunk": chunk, "slots": slots, "threads": threads}


CLIMBED: Settings = {"chunk": 16, "work": 64, "alloc": "reserved"}
LEVELS: tuple[tuple[int, Settings, str], ...] = (
    (0, {"streams": 1, "roles": "fused", "slots": 1}, ""),
    (1, {"streams": 3, "roles": "fused", "slots": 1}, "waits for copies"),
    (2, {"streams": 3, "roles": "specialized", "slots": 1}, "loads, then computes, then stores"),
    (3, {"streams": 3, "roles": "specialized", "slots": 2}, "loaders wait for the slot"),
    (4, {"streams": 3, "roles": "specialized", "slots": 2, "cluster": 2}, "nothing"),
    (4, {"streams": 3, "roles": "specialized", "slots": 2, "cluster": 4}, "nothing"),
    (3, {"streams": 3, "roles": "pipelines", "slots": 2}, "nothing: one warp per role, as the document draws it"),
)
"""Document 003's levels on one workload, and what each takes away from the one before."""

SETTINGS: tuple[tuple[str, Settings], ...] = (
    *(("stream_pipeline", {"memory": memory}) for memory in ("pinned", "pageable")),
    *(("stream_pipeline", staged(4, max(4, threads), threads)) for threads in (1, 2, 4, 8, 16)),
    *(("stream_pipeline", staged(chunk, 8, 8)) for chunk in (1, 2, 8)),
    *(("stream_pipeline", staged(chunk, 16, 16)) for chunk in (1, 2, 8)),
    *(("warp_pipeline", {"alloc": alloc}) for alloc in ("async", "reserved", "sync")),
    *(("warp_pipeline", {"launch": "graph", "alloc": alloc}) for alloc in ("async", "reserved")),
    *(("warp_pipeline", {"chunk": 1, "alloc": alloc}) for alloc in ("async", "reserved")),
    *(("warp_pipeline", {"chunk": 1, "launch": "graph", "alloc": alloc}) for alloc in ("async", "reserved")),
    *(("warp_pipeline", {"streams": streams}) for streams in (1, 2, 3)),
    *(("warp_pipeline", {"work": work}) for work in (64, 2048)),
    *(("warp_pipeline", {"memory": memory}) for memory in ("pageable", "staged")),
    *(("pipeline_levels", {**CLIMBED, **level}) for _, level, _ in LEVELS),
)


def milliseconds(gpu: Gpu, run: Callable[[], None]) -> tuple[float, float]:
    """Median wall times of a run with the synchronization behind it, and of its queueing alone: of
    ``RUNS``, of fewer where they take long."""
    spans: list[tuple[float, float]] = []
    begin = time.perf_counter()
    for index in range(WARMUP + RUNS):
        if index >= WARMUP + LEAST_RUNS and time.perf_counter() - begin > SHARE_S:
            break
        start = time.perf_counter()
        run()
        queued = time.perf_counter()
        gpu.sync()
        spans.append((1e3 * (time.perf_counter() - start), 1e3 * (queued - start)))
    whole, queueing = zip(*spans[WARMUP:], strict=True)
    return statistics.median(whole), statistics.median(queueing)


def measure(
    gpu: Gpu, kernel: str, chosen: Settings, inputs: dict[str, Any], shape: dict[str, int] | None = None
) -> dict[str, Any]:
    """Times of one setting in ms: each step alone, the whole, and its queueing; verified after
    it."""
    case = make_case(find_spec(kernel), chosen, shape or SIZE)
    prepared = prepare(case, gpu)
    prepared.upload(inputs)
    program: Any = prepared.program
    alone = {step: milliseconds(gpu, lambda step=step: program.run((step,)))[0] for step in STEPS}  # type: ignore[misc]
    prepared.poison()
    gpu.sync()
    whole, queueing = milliseconds(gpu, prepared.run)
    outputs, overrun = prepared.outputs()
    verify(case, inputs, outputs, 0, overrun).require(case.label, 0)
    moved = sum(case.nbytes(array) for array in case.spec.arrays)
    return {
        "alone_ms": alone,
        "ms": whole,
        "queue_ms": queueing,
        "gb_per_s": moved / whole / 1e6,
        "overlap": sum(alone.values()) / whole,
    }


def row(kernel: str, chosen: Settings, found: dict[str, Any]) -> str:
    setting = " ".join(f"{name}={value}" for name, value in chosen.items())
    steps = " | ".join(f"{found['alone_ms'][step]:.2f}" for step in STEPS)
    last = f"{found['ms']:.2f} | {found['queue_ms']:.2f} | {found['gb_per_s']:.1f} | {found['overlap']:.2f}"
    return f"| `{kernel}` {setting} | {steps} | {last} |"


def kept(kernel: str) -> list[dict[str, Any]]:
    """The committed figures of one kernel."""
    return [one for one in json.loads(RESULTS.read_text(encoding="utf-8")) if one["kernel"] == kernel]


def ring_table() -> str:
    """What docs/streams.md shows of rings of pinned slots."""
    rows = []
    for found in kept("stream_pipeline"):
        given = found["parameters"]
        slots = [str(given.get(name, "-")) for name in ("chunk", "slots", "threads")]
        rows.append([given["memory"], *slots, f"{found['ms']:.2f}", f"{found['gb_per_s']:.1f}"])
    return table(["memory", "chunk, MiB", "slots", "threads", "ms", "GB/s"], rows)


def queueing_table() -> str:
    """What docs/streams.md shows of the host's queueing."""
    rows = []
    for found in kept("warp_pipeline"):
        setting = " ".join(f"{name}={value}" for name, value in found["parameters"].items())
        rows.append([f"`{setting}`", f"{found['ms']:.2f}", f"{found['queue_ms']:.2f}"])
    return table(["setting", "ms", "queueing ms"], rows)


def levels_table() -> str:
    """What docs/kernels.md shows of ``pipeline_levels``: each level beside the one before, which is
    level 3 for all that come after it."""
    found, rows = kept("pipeline_levels"), []
    for index, (one, (level, _, less)) in enumerate(zip(found, LEVELS, strict=True)):
        before = found[max(0, min(index, 4) - 1)]["ms"]
        setting = " ".join(f"{name}={value}" for name, value in one["parameters"].items() if name not in CLIMBED)
        change = f"{100 * (one['ms'] / before - 1):+.0f} %" if index else ""
        times = f"{one['ms']:.2f}", "█" * round(2 * one["ms"]), f"{one['alone_ms']['kernel']:.2f}"
        rows.append([str(level), f"`{setting}`", *times, change, less])
    return table(["level", "setting", "ms", "", "kernels alone", "change", "takes away"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--only", default="", metavar="REGEX", help="of `KERNEL NAME=VALUE …`")
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no further setting after them (default 60)")
    given = parser.parse_args()
    until, found = time.perf_counter() + given.seconds, []
    print("| setting | up ms | kernel ms | down ms | whole ms | queueing ms | GB/s | overlap |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    inputs: dict[str, dict[str, Any]] = {}
    for kernel, chosen in SETTINGS:
        name = " ".join([kernel, *(f"{key}={value}" for key, value in chosen.items())])
        if not re.search(given.only, name) or time.perf_counter() > until:
            continue
        if kernel not in inputs:
            inputs[kernel] = draw_inputs(make_case(find_spec(kernel), {}, SIZE), 0)
        gpu = Gpu.open()
        try:
            facts = {"kernel": kernel, "device": gpu.facts.name, "parameters": chosen}
            found.append({**facts, **measure(gpu, kernel, chosen, inputs[kernel])})
        finally:
            gpu.close()
        print(row(kernel, chosen, found[-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
