"""Times launches by CUDA events, and says how near the result is to the roof."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.chips import Version, chip_of
from ncubble.errors import MeasurementError
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.spec.case import Case
from ncubble.text.remedies import extras_command

Ranges = Callable[[str], AbstractContextManager[object]]
"""A range of this name as long as the block runs."""
VERIFY, WARM_UP, TIME = "verify", "warm-up", "time"
WARMUP = 10
MIN_ITERATIONS = 100
ROUNDS = 10
HEAD_START = 8  # L2 clears before each part of a round


no_ranges: Ranges = nullcontext
"""No range."""


def nvtx_ranges() -> Ranges:
    """Ranges of NVTX's default domain, by which a profiler finds the launches of a phase: ``ncu
    --nvtx --nvtx-include "time/"``. They are ranges of the host: the probe marks phases inside a
    kernel. Raises MeasurementError where NVIDIA's package is missing."""
    try:
        import nvtx
    except ImportError as error:
        remedy = f"{extras_command('gpu')}, or omit --ranges"
        raise MeasurementError(f"nvtx cannot be imported: {error}", remedy) from error
    ranged: Ranges = nvtx.annotate
    return ranged


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
class Rounds:
    """Times of one of several that were timed in turns: all together, and the median of every
    round."""

    timing: Timing
    p50_us: tuple[float, ...]


@dataclass(frozen=True)
class Rates:
    """Throughput at the median time, and its ``fraction`` of the ``peak`` that ``roof`` names; None
    if unknown."""

    tflops: float | None
    gb_per_s: float
    roof: str
    peak: float | None
    fraction: float | None


def time_launches(
    gpu: Gpu,
    run: Callable[[], None],
    iterations: int = MIN_ITERATIONS,
    warmup: int = WARMUP,
    ranges: Ranges = no_ranges,
) -> Timing:
    """Times ``run``, which must queue its work and not wait; warm-up and timed launches lie in
    ``ranges`` of their own.

    Between launches a buffer four times as large as L2 is set. That clears the cache, so every
    launch starts alike, and it keeps the GPU busy while the CPU queues the next launch: otherwise a
    short kernel would be timed with the gap before it.
    """
    clear = _clearing(gpu)
    with ranges(WARM_UP):
        for _ in range(warmup):
            run()
    with ranges(TIME):
        spans = queue_launches(gpu, run, clear, iterations)
    clocks = gpu.clocks()  # while the queue drains, not after it: an idle GPU lowers its clocks
    gpu.sync()
    return _timing(microseconds(spans), clocks)


def time_in_rounds(
    gpu: Gpu, runs: Sequence[Callable[[], None]], iterations: int = MIN_ITERATIONS, rounds: int = ROUNDS
) -> tuple[Rounds, ...]:
    """Times several ``runs`` in turns, so that temperature, power and clocks are the same for all
    of them.

    A round is a share of the ``iterations`` of the first, then of the second, and so on. Each share
    is timed as by ``time_launches``, behind a head start that lets the CPU queue calls which take
    it longer than an L2 clear.
    """
    clear = _clearing(gpu)
    for run in runs:
        for _ in range(WARMUP):
            run()
    share = -(-iterations // rounds)
    times: list[list[NDArray[np.float64]]] = [[] for _ in runs]
    clocks: list[list[dict[str, int]]] = [[] for _ in runs]
    for _ in range(rounds):
        for side, run in enumerate(runs):
            for _ in range(HEAD_START):
                clear()
            spans = queue_launches(gpu, run, clear, share)
            clocks[side].append(gpu.clocks())
            gpu.sync()
            times[side].append(microseconds(spans))
    return tuple(
        Rounds(_timing(np.concatenate(each), _median_clocks(seen)), tuple(float(np.median(part)) for part in each))
        for each, seen in zip(times, clocks, strict=True)
    )


def _clearing(gpu: Gpu) -> Callable[[], None]:
    """What clears L2."""
    size = 4 * gpu.facts.l2_bytes
    return functools.partial(gpu.fill, gpu.allocate(size), 0, size)


def queue_launches(
    gpu: Gpu, run: Callable[[], None], before: Callable[[], None], iterations: int
) -> list[tuple[Any, Any]]:
    """Queues ``iterations`` runs, ``before`` ahead of each; returns the events around each run,
    without waiting."""
    spans = []
    for _ in range(iterations):
        before()
        start = gpu.event()
        run()
        spans.append((start, gpu.event()))
    return spans


def microseconds(spans: list[tuple[Any, Any]]) -> NDArray[np.float64]:
    """Times between the events of each pair, in µs, once all have happened."""
    return np.array([1e3 * (end - start) for start, end in spans])


def _timing(times: NDArray[np.float64], clocks: dict[str, int]) -> Timing:
    return Timing(
        iterations=len(times),
        p50_us=float(np.percentile(times, 50)),
        p90_us=float(np.percentile(times, 90)),
        mean_us=float(times.mean()),
        std_us=float(times.std(ddof=1)) if len(times) > 1 else 0.0,
        min_us=float(times.min()),
        clocks=clocks,
    )


def _median_clocks(seen: list[dict[str, int]]) -> dict[str, int]:
    names = sorted({name for clocks in seen for name in clocks})
    return {name: round(statistics.median(clocks[name] for clocks in seen if name in clocks)) for name in names}


def copy_gb_per_s(gpu: Gpu, nbytes: int) -> float:
    """Rate of a device-to-device copy that moves ``nbytes`` in all (half read, half written), timed
    like a kernel."""
    half = max(nbytes // 2, 1)
    source, target = gpu.allocate(half), gpu.allocate(half)
    timing = time_launches(gpu, lambda: gpu.copy(target, source, half))
    return 2.0 * half / timing.p50_us / 1e3


def rates(case: Case, gpu: Gpu, timing: Timing) -> Rates:
    """Throughput of ``case`` at the median of ``timing``, related to the roof of the spec's unit.

    ``dram`` kernels are related to a device copy of as many bytes, measured now; the others to FLOP
    per clock times SMs times the highest SM clock, which a busy GPU does not hold: the fraction
    errs on the low side.
    """
    gb_per_s = case.bytes / timing.p50_us / 1e3
    tflops = case.flops / timing.p50_us / 1e6 if case.flops else None
    if case.spec.unit == "dram":
        peak = copy_gb_per_s(gpu, int(case.bytes))
        return Rates(tflops, gb_per_s, "device copy of equal size, GB/s", peak, gb_per_s / peak)
    chip = chip_of(Version(*gpu.facts.compute_capability))
    per_clock = chip.flop_per_clock_sm.get(case.spec.unit) if chip else None
    clock = timing.clocks.get("max_sm_mhz")
    if per_clock is None or not clock or tflops is None:
        return Rates(tflops, gb_per_s, f"{case.spec.unit}: not known for this GPU", None, None)
    peak = per_clock * gpu.facts.sm_count * clock * 1e6 / 1e12
    return Rates(tflops, gb_per_s, f"{case.spec.unit} at {clock} MHz, TFLOP/s", peak, tflops / peak)
