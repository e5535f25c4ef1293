"""Times launches by CUDA events, and says how near the result is to the roof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ncubble.kernels.case import Case
from ncubble.kernels.device import Gpu

WARMUP = 10
MIN_ITERATIONS = 100
# Dense FLOP per clock and SM by compute capability (CUDA C++ Programming Guide, "Arithmetic Instructions", and the
# architecture white papers). What is not listed has no roof here, rather than a guessed one.
FLOP_PER_CLOCK_SM: dict[str, dict[tuple[int, int], int]] = {
    "fp32": {(8, 0): 128, (8, 6): 256, (8, 9): 256, (9, 0): 256},
    "tensor_fp16": {(8, 0): 2048, (9, 0): 4096},
}


@dataclass(frozen=True)
class Timing:
    """Times of single launches in microseconds, each between two events, L2 cleared before each."""

    iterations: int
    p50_us: float
    p90_us: float
    mean_us: float
    std_us: float
    min_us: float
    clocks: dict[str, int]


@dataclass(frozen=True)
class Rates:
    """Throughput at the median time, and its ``fraction`` of the ``peak`` that ``roof`` names; None if unknown."""

    tflops: float | None
    gb_per_s: float
    roof: str
    peak: float | None
    fraction: float | None


def time_launches(gpu: Gpu, run: Callable[[], None], iterations: int = MIN_ITERATIONS, warmup: int = WARMUP) -> Timing:
    """Times ``run``, which must queue one launch and not wait.

    Between launches a buffer four times as large as L2 is set. That clears the cache, so every launch starts alike, and
    it keeps the GPU busy while the CPU queues the next launch: otherwise a short kernel would be timed with the gap
    before it.
    """
    size = 4 * gpu.facts.l2_bytes
    scratch = gpu.allocate(size)
    for _ in range(warmup):
        run()
    spans = []
    for _ in range(iterations):
        gpu.fill(scratch, 0, size)
        start = gpu.event()
        run()
        spans.append((start, gpu.event()))
    clocks = gpu.clocks()  # while the queue drains, not after it: an idle GPU lowers its clocks
    gpu.sync()
    times = np.array([1e3 * (end - start) for start, end in spans])
    return Timing(
        iterations=iterations,
        p50_us=float(np.percentile(times, 50)),
        p90_us=float(np.percentile(times, 90)),
        mean_us=float(times.mean()),
        std_us=float(times.std(ddof=1)) if iterations > 1 else 0.0,
        min_us=float(times.min()),
        clocks=clocks,
    )


def copy_gb_per_s(gpu: Gpu, nbytes: int) -> float:
    """Rate of a device-to-device copy that moves ``nbytes`` in all (half read, half written), timed like a kernel."""
    half = max(nbytes // 2, 1)
    source, target = gpu.allocate(half), gpu.allocate(half)
    timing = time_launches(gpu, lambda: gpu.copy(target, source, half))
    return 2.0 * half / timing.p50_us / 1e3


def rates(case: Case, gpu: Gpu, timing: Timing) -> Rates:
    """Throughput of ``case`` at the median of ``timing``, related to the roof of the spec's unit.

    ``dram`` kernels are related to a device copy of as many bytes, measured now; the others to FLOP per clock times SMs
    times the highest SM clock, which a busy GPU does not hold: the fraction errs on the low side.
    """
    gb_per_s = case.bytes / timing.p50_us / 1e3
    tflops = case.flops / timing.p50_us / 1e6 if case.flops else None
    if case.spec.unit == "dram":
        peak = copy_gb_per_s(gpu, int(case.bytes))
        return Rates(tflops, gb_per_s, "device copy of as many bytes, GB/s", peak, gb_per_s / peak)
    per_clock = FLOP_PER_CLOCK_SM.get(case.spec.unit, {}).get(gpu.facts.compute_capability)
    clock = timing.clocks.get("max_sm_mhz")
    if per_clock is None or not clock or tflops is None:
        return Rates(tflops, gb_per_s, f"{case.spec.unit}: not known for this GPU", None, None)
    peak = per_clock * gpu.facts.sm_count * clock * 1e6 / 1e12
    return Rates(tflops, gb_per_s, f"{case.spec.unit} at {clock} MHz, TFLOP/s", peak, tflops / peak)
