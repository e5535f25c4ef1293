"""Streams: what waits for what, what overlaps, and what calls cost the CPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.claims.measurements.tools import MIB, Spins, call_us, lab, median_us, shared_ms
from benchmarks.claims.registry import measurement
from benchmarks.harness.command import REPOSITORY
from ncubble.kernels.run.device import call_driver

SLACK_MS = 0.05  # the global timer ticks in microseconds at most; what overlaps less than this does not


@measurement()
def stream_order() -> dict[str, Any]:
    """How long two spins of 5 ms overlap in one stream, and in two."""
    with lab() as bench:
        one, other = bench.streams(2)
        spins = Spins(bench).reserve(4)
        numbers = [spins.start(stream, 5.0) for stream in (one, one)]
        call_driver("cuCtxSynchronize")
        numbers += [spins.start(stream, 5.0) for stream in (one, other)]
        spans = [spins.span(number) for number in numbers]
        return {
            "same_stream_ms": shared_ms(spans[0], spans[1]),
            "two_streams_ms": shared_ms(spans[2], spans[3]),
            "alone_ms": spans[0][1] - spans[0][0],
        }


@measurement()
def default_stream() -> dict[str, Any]:
    """A blocking stream spins for 20 ms; then work on the default stream, another blocking one, a
    non-blocking one."""
    with lab() as bench:
        first, second = bench.streams(2, "blocking")
        (legacy,) = bench.streams(1, "default")
        (free,) = bench.streams(1)
        spins = Spins(bench).reserve(6)
        target = bench.gpu.allocate(4)
        word = np.zeros(1, np.int32)
        order = [spins.start(first, 20.0), spins.start(legacy, 1.0), spins.start(second, 1.0), spins.start(free, 1.0)]
        spans = [spins.span(number) for number in order]

        def copy_beside(stream: Any) -> float:
            spins.start(stream, 20.0)
            took = call_us(lambda: call_driver("cuMemcpyHtoD", target, word.ctypes.data, 4)) / 1e3
            call_driver("cuCtxSynchronize")
            return took

        return {
            "default_waits_ms": spans[1][0] - spans[0][0],
            "others_wait_ms": spans[2][0] - spans[1][0],
            "nonblocking_overlaps_ms": shared_ms(spans[3], spans[0]),
            "sync_copy_blocking_ms": copy_beside(first),
            "sync_copy_nonblocking_ms": copy_beside(free),
        }


@measurement()
def thread_streams() -> dict[str, Any]:
    """Two threads spin on their own default streams for 20 ms; then one does, and the legacy
    default stream follows."""
    from cuda.core import PER_THREAD_DEFAULT_STREAM, Device

    with lab() as bench:
        spins = Spins(bench).reserve(4)
        (legacy,) = bench.streams(1, "default")
        numbers: list[int] = []
        lock = threading.Lock()

        def work() -> None:
            Device(0).set_current()
            with lock:
                numbers.append(spins.start(PER_THREAD_DEFAULT_STREAM, 20.0))
            call_driver("cuCtxSynchronize")

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        both = [spins.span(number) for number in numbers]
        mine = spins.start(PER_THREAD_DEFAULT_STREAM, 20.0)
        after = spins.start(legacy, 1.0)
        return {
            "threads_overlap_ms": shared_ms(*both),
            "legacy_waits_ms": spins.span(after)[0] - spins.span(mine)[0],
        }


@measurement()
def events_and_waits() -> dict[str, Any]:
    """CPU time of recording and awaiting an event, who pauses for it, how far two synchronizations
    reach."""
    with lab() as bench:
        first, second, third = bench.streams(3)
        spins = Spins(bench).reserve(8)
        long = spins.start(first, 20.0)
        event = first.record()
        wait_us = call_us(lambda: second.wait(event))
        waiting, free = spins.start(second, 1.0), spins.start(third, 1.0)
        spans = {number: spins.span(number) for number in (long, waiting, free)}
        short, longer = spins.start(first, 5.0), spins.start(second, 40.0)
        marks = [stream.record() for stream in (first, second)]
        one_ms = call_us(marks[0].sync) / 1e3
        left = not marks[1].is_done
        all_ms = call_us(lambda: call_driver("cuCtxSynchronize")) / 1e3
        del short, longer
        return {
            "record_us": median_us(lambda: third.record()),
            "wait_us": wait_us,
            "waiting_stream_ms": spans[waiting][0] - spans[long][0],
            "free_stream_overlaps_ms": shared_ms(spans[free], spans[long]),
            "sync_one_ms": one_ms,
            "left_running": left,
            "sync_all_ms": one_ms + all_ms,
        }


NOT_PERMITTED = 800  # CUDA_ERROR_NOT_PERMITTED
CALLBACKS = ("cuMemAlloc", "cuStreamSynchronize", "cuStreamQuery", "cuLaunchKernel", "cuCtxSynchronize")


@measurement(timeout_s=60)
def callbacks() -> dict[str, Any]:
    """When a host callback runs, and what comes of driver calls inside one (each in a process of
    its own, 10 s)."""
    with lab() as bench:
        (stream,) = bench.streams(1)
        spins = Spins(bench).reserve(2)
        signal = bench.driver.signal()
        spins.start(stream, 10.0)
        signal.post(stream)
        spins.start(stream, 40.0)
        mark = stream.record()
        posted = call_us(signal.wait) / 1e3
        left = not mark.is_done
        call_driver("cuCtxSynchronize")
    with ThreadPoolExecutor(len(CALLBACKS)) as pool:
        told = dict(zip(CALLBACKS, pool.map(_in_callback, CALLBACKS), strict=True))
    return {
        "posted_ms": posted,
        "next_kernel_left": left,
        **{f"{name}_in_callback": outcome for name, outcome in told.items()},
        "refused": sum(outcome == f"error {NOT_PERMITTED}" for outcome in told.values()),
        "hanging": sum(outcome == "hangs" for outcome in told.values()),
    }


def _in_callback(name: str) -> str:
    """``hangs``, ``works`` or ``error NUMBER``."""
    try:
        argv = [sys.executable, str(REPOSITORY / "benchmarks" / "streams" / "callback_probe.py"), name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"ended with {done.returncode}"


@measurement()
def grid_limit() -> dict[str, Any]:
    """200 streams, each with one spin of one CTA for 50 ms: how many run at one time."""
    count, ms = 200, 50.0
    with lab() as bench:
        streams = bench.streams(count)
        spins = Spins(bench).reserve(2 * count)
        for stream in streams:  # a first round, so that nothing is set up in the second
            spins.start(stream, 0.01)
        call_driver("cuCtxSynchronize")
        numbers = [spins.start(stream, ms) for stream in streams]
        spans = np.array([spins.span(number) for number in numbers])
        moments = spans[:, 0] + 0.01
        resident = max(int(((spans[:, 0] <= at) & (spans[:, 1] > at)).sum()) for at in moments)
        first = spans[:, 0].min()
        later = spans[spans[:, 0] > first + ms / 2, 0]
        return {
            "resident": resident,
            "launched": count,
            "later_ms": float(later.min() - first) if len(later) else 0.0,
        }


@measurement()
def sharing() -> dict[str, Any]:
    """SMs that ran CTAs of two kernels at one time: small ones, large ones; and a kernel behind a
    full GPU."""
    with lab() as bench:
        one, other = bench.streams(2)
        spins = Spins(bench, 200 * 1024).reserve(6, 4 * bench.sms)

        def both(threads: int, smem: int) -> int:
            first = spins.start(one, 10.0, bench.sms, threads, smem)
            second = spins.start(other, 10.0, bench.sms, threads, smem)
            return _shared_sms(spins.stamps(first), spins.stamps(second))

        small, large = both(256, 32 * 1024), both(1024, 200 * 1024)
        full = spins.start(one, 20.0, 2 * bench.sms, 1024)
        behind = spins.start(other, 1.0)
        return {
            "sharing_sms": small,
            "full_sms": large,
            "sms": bench.sms,
            "hogged_ms": spins.span(behind)[0] - spins.span(full)[0],
        }


def _shared_sms(first: Any, second: Any) -> int:
    """SMs on which CTAs of both kernels overlapped in time."""
    found = set()
    for stamp in first:
        there = second[second["sm"] == stamp["sm"]]
        if any(min(int(stamp["end"]), int(one["end"])) > max(int(stamp["start"]), int(one["start"])) for one in there):
            found.add(int(stamp["sm"]))
    return len(found)


@measurement()
def copy_engines() -> dict[str, Any]:
    """256 MiB up and down and a kernel that fills the GPU: each alone, both copies, and all three
    at one time."""
    with lab() as bench:
        nbytes = 256 * MIB
        up, down, compute = bench.streams(3)
        hosts = [bench.driver.pinned(nbytes) for _ in range(2)]
        device = [bench.gpu.allocate(nbytes) for _ in range(2)]
        spin = bench.kernel("spin.cu", "spin")
        for host in hosts:
            host.fill(1)

        def run(*steps: str) -> float:
            def queue() -> None:
                bench.driver.fork([up, down, compute])
                if "kernel" in steps:
                    bench.launch(spin, 2 * bench.sms, 1024, np.int64(5_000_000), 0, stream=compute)
                if "up" in steps:
                    bench.driver.to_device(up, device[0], hosts[0])
                if "down" in steps:
                    bench.driver.to_host(down, hosts[1], device[1])
                bench.driver.join([up, down, compute])

            return bench.milliseconds(queue)

        found = {"up_ms": run("up"), "down_ms": run("down"), "kernel_ms": run("kernel")}
        both, everything = run("up", "down"), run("up", "down", "kernel")
        return {
            **found,
            "all_ms": everything,
            "both_ms": both,
            "up_gb": nbytes / found["up_ms"] / 1e6,
            "down_gb": nbytes / found["down_ms"] / 1e6,
            "all_over_longest": everything / max(found.values()),
        }
