"""Allocation: what it costs, what it waits for, and what a pool keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.claims.measurements.tools import MIB, Lab, Spins, call_us, lab, median_us
from benchmarks.claims.registry import measurement
from ncubble.kernels.host.driver import KEEP_ALL
from ncubble.kernels.run.device import call_driver


@measurement()
def host_copies() -> dict[str, Any]:
    """256 MiB to the device from pinned and from pageable memory: time in the call, and until the
    data is there."""
    with lab() as bench:
        nbytes = 256 * MIB
        (stream,) = bench.streams(1)
        target = bench.gpu.allocate(nbytes)
        hosts = {"pinned": bench.driver.pinned(nbytes), "pageable": np.ones(nbytes, np.uint8)}
        found: dict[str, Any] = {}
        for name, host in hosts.items():
            host.fill(1)
            rows = []
            for _ in range(7):
                call = call_us(lambda host=host: bench.driver.to_device(stream, target, host))  # type: ignore[misc]
                rest = call_us(stream.sync)
                rows.append((call, (call + rest) / 1e3))
            call, whole = np.median(np.array(rows[2:]), axis=0)
            found[f"{name}_call_us"], found[f"{name}_ms"] = float(call), float(whole)
            found[f"{name}_gb"] = nbytes / whole / 1e6
            found[f"{name}_call_pct"] = 100 * call / 1e3 / whole
        return found


@measurement()
def pinned_allocation() -> dict[str, Any]:
    """Page-locked memory from the driver, and from a ring of buffers made before."""
    with lab():

        def pin(nbytes: int) -> tuple[float, float]:
            taken, given = [], []
            for _ in range(9):
                held: list[int] = []
                taken.append(call_us(lambda: held.append(int(call_driver("cuMemHostAlloc", nbytes, 0)[0]))))  # noqa: B023
                given.append(call_us(lambda: call_driver("cuMemFreeHost", held[0])))  # noqa: B023
            return float(np.median(taken)), float(np.median(given))

        ring = deque(range(64))

        def turn() -> None:
            for _ in range(1000):
                ring.append(ring.popleft())

        small, _ = pin(MIB)
        large, freed = pin(16 * MIB)
        pool = median_us(turn) / 1000
        return {
            "pin_1mib_us": small,
            "pin_16mib_us": large,
            "free_16mib_us": freed,
            "pool_us": pool,
            "ratio": large / pool,
        }


def _pool_of(bench: Lab, threshold: int) -> Any:
    return bench.driver.pool(threshold)


@measurement()
def allocation_beside_work() -> dict[str, Any]:
    """Time in allocating and freeing 64 MiB beside a kernel of 50 ms in another stream, and whether
    it runs on."""
    spin_ms, nbytes = 50.0, 64 * MIB
    with lab() as bench:
        busy, lane = bench.streams(2)
        spins = Spins(bench).reserve(8)
        pool = _pool_of(bench, KEEP_ALL)
        held: dict[str, int] = {}
        found: dict[str, Any] = {"spin_ms": spin_ms}
        calls = {
            "malloc": lambda: held.update(plain=bench.driver.allocate(nbytes)),
            "free": lambda: bench.driver.free(held["plain"]),
            "async_new": lambda: held.update(pooled=pool.allocate(lane, nbytes)),
            "async_free": lambda: pool.free(lane, held["pooled"]),
            "async_again": lambda: held.update(pooled=pool.allocate(lane, nbytes)),
        }
        bench.driver.free(bench.driver.allocate(MIB))
        for name, call in calls.items():
            spins.start(busy, spin_ms)
            mark = busy.record()
            found[f"{name}_ms"] = call_us(call) / 1e3
            found[f"{name}_left"] = not mark.is_done
            call_driver("cuCtxSynchronize")
        pool.free(lane, held["pooled"])
        call_driver("cuCtxSynchronize")
        return found


BESIDE = ("malloc", "malloc_free", "async")


@measurement()
def kernels_beside_allocation() -> dict[str, Any]:
    """200 queued kernels of 0.1 ms: their time while the CPU does nothing, and while it keeps
    allocating."""
    from cuda.core import EventOptions

    with lab() as bench:
        work, lane = bench.streams(2)
        kernel = bench.kernel("spin.cu", "spin")
        pool = _pool_of(bench, KEEP_ALL)
        nbytes = 16 * MIB
        pool.free(lane, pool.allocate(lane, nbytes))
        lane.sync()
        kept: list[int] = []
        calls = {
            "malloc": lambda: kept.append(bench.driver.allocate(MIB)),
            "malloc_free": lambda: bench.driver.free(bench.driver.allocate(nbytes)),
            "async": lambda: pool.free(lane, pool.allocate(lane, nbytes)),
        }

        def series(beside: Callable[[], None] | None) -> tuple[float, int]:
            start = work.record(options=EventOptions(timing_enabled=True))
            for _ in range(200):
                bench.launch(kernel, 1, 32, np.int64(100_000), 0, stream=work)
            end = work.record(options=EventOptions(timing_enabled=True))
            count = 0
            while beside is not None and not end.is_done and count < 4000:
                beside()
                count += 1
            end.sync()
            call_driver("cuCtxSynchronize")
            return float(end - start), count

        series(None)
        alone, _ = series(None)
        found: dict[str, Any] = {"alone_ms": alone}
        for name, call in calls.items():
            found[f"{name}_ms"], found[f"{name}_calls"] = series(call)
            found[f"{name}_slower_pct"] = 100 * (found[f"{name}_ms"] / alone - 1)
        for pointer in kept:
            bench.driver.free(pointer)
        return found


@measurement()
def pool_threshold() -> dict[str, Any]:
    """256 MiB from a pool, freed, synchronized, taken again: what the pool holds, and how long the
    call takes."""
    nbytes = 256 * MIB
    with lab() as bench:
        (lane,) = bench.streams(1)

        def cycle(pool: Any, repeats: int = 7) -> tuple[float, int, int]:
            took, before, after = [], 0, 0
            for _ in range(repeats):
                held: list[int] = []
                took.append(call_us(lambda: held.append(pool.allocate(lane, nbytes))))  # noqa: B023
                pool.free(lane, held[0])
                before = pool.reserved
                lane.sync()
                after = pool.reserved
            return float(np.median(took[1:])), before, after

        zero_us, zero_before, zero_after = cycle(_pool_of(bench, 0))
        free = int(call_driver("cuMemGetInfo")[0])
        keeping = _pool_of(bench, KEEP_ALL)
        max_us, _, max_after = cycle(keeping)
        held_mb = (free - int(call_driver("cuMemGetInfo")[0])) / MIB

        def plain() -> None:
            bench.driver.free(bench.driver.allocate(nbytes))

        return {
            "zero_before_mb": zero_before / MIB,
            "zero_after_mb": zero_after / MIB,
            "max_after_mb": max_after / MIB,
            "zero_us": zero_us,
            "max_us": max_us,
            "zero_over_max": zero_us / max_us,
            "held_mb": held_mb,
            "plain_us": median_us(plain),
        }


@measurement()
def pool_reuse() -> dict[str, Any]:
    """How often freed memory is given out again: in its stream, in another after an event, in
    another after a sync.

    Then 80 x 5 MiB taken, every other one freed, and 20 MiB asked for: does a pool serve it from
    its holes?
    """
    nbytes, tries = 32 * MIB, 20
    with lab() as bench:
        one, other = bench.streams(2)
        spins = Spins(bench).reserve(2 * tries)
        again = {"same": 0, "event": 0, "sync": 0}
        for how in again:
            for _ in range(tries):
                pool = _pool_of(bench, KEEP_ALL)
                first = pool.allocate(one, nbytes)
                if how == "event":
                    spins.start(one, 0.5)
                pool.free(one, first)
                if how == "sync":
                    one.sync()
                if how == "event":
                    other.wait(one.record())
                lane = one if how == "same" else other
                second = pool.allocate(lane, nbytes)
                again[how] += first == second
                pool.free(lane, second)
                call_driver("cuCtxSynchronize")
        pool = _pool_of(bench, KEEP_ALL)
        pool.free(one, pool.allocate(one, nbytes))
        pair = median_us(lambda: pool.free(one, pool.allocate(one, nbytes)), 200)
        call_driver("cuCtxSynchronize")
        return {
            "same_stream_pct": 100 * again["same"] / tries,
            "event_pct": 100 * again["event"] / tries,
            "after_sync_pct": 100 * again["sync"] / tries,
            "pair_us": pair,
            **_fragments(bench, one),
        }


def _fragments(bench: Lab, lane: Any) -> dict[str, Any]:
    block, count = 5 * MIB, 80
    pool = _pool_of(bench, KEEP_ALL)
    held = [pool.allocate(lane, block) for _ in range(count)]
    lane.sync()
    full = pool.reserved
    for pointer in held[::2]:
        pool.free(lane, pointer)
    lane.sync()
    large = pool.allocate(lane, 20 * MIB)
    lane.sync()
    grown = pool.reserved
    for pointer in [*held[1::2], large]:
        pool.free(lane, pointer)
    call_driver("cuCtxSynchronize")
    return {
        "fragmented_ok": grown <= full,
        "fragmented_reserved_mb": grown / MIB,
        "fragmented_used_mb": full / MIB,
    }


@measurement()
def growing_buffers() -> dict[str, Any]:
    """Buffers that grow from 1 to 32 MiB, taken, written and freed in one stream without a
    synchronization."""
    with lab() as bench:
        (lane,) = bench.streams(1)
        put, increment = bench.kernel("spin.cu", "put"), bench.kernel("spin.cu", "increment")
        pool, sizes = _pool_of(bench, KEEP_ALL), 32
        host = bench.driver.pinned(sizes * 4).view(np.int32)
        host.fill(-1)
        for index in range(sizes):
            count = (index + 1) * MIB // 4
            pointer = pool.allocate(lane, count * 4)
            bench.launch(put, 256, 256, pointer, np.int64(count), np.int32(index), stream=lane)
            bench.launch(increment, 256, 256, pointer, np.int64(count), stream=lane)
            bench.driver.to_host(lane, host[index : index + 1], pointer + 4 * (count - 1))
            pool.free(lane, pointer)
        lane.sync()
        return {"right": bool((host == np.arange(1, sizes + 1)).all()), "sizes": sizes, "syncs": 0}


@measurement()
def shared_memory_limit() -> dict[str, Any]:
    """Launches with 65 KiB of dynamic shared memory, without and with opting in, and with more than
    a CTA can have."""
    with lab() as bench:

        def refused(nbytes: int, opt_in: bool) -> bool:
            try:
                kernel = bench.kernel("spin.cu", "put" if opt_in else "increment", nbytes if opt_in else 0)
                pointer = bench.gpu.allocate(64)
                arguments = (np.int64(16), np.int32(1)) if opt_in else (np.int64(16),)
                bench.launch(kernel, 1, 32, pointer, *arguments, smem=nbytes)
                bench.gpu.sync()
            except Exception:
                return True
            return False

        limit = bench.gpu.facts.smem_per_cta
        return {
            "static_ok": not refused(48 * 1024, False),
            "refused_without_opt_in": refused(65 * 1024, False),
            "opted_in_ok": not refused(65 * 1024, True),
            "over_the_limit_refused": refused(limit + 1024, True),
        }
