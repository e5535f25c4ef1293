"""Measurements inside a kernel: what cp.async waits for, what overlaps within a warp, what memory
takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.claims.measurements.tools import MIB, Lab, lab
from benchmarks.claims.registry import measurement

GROUPS, GROUP_BYTES = 8, 16 * 32 * 16  # kGroups and the bytes of a group in wait_groups.cu
LAUNCHES = 40


@measurement()
def wait_group() -> dict[str, Any]:
    """Of 8 groups, wait for all but N: medians of the wait's cycles, groups found landed, groups
    that had to be."""
    with lab() as bench:
        smem = GROUPS * GROUP_BYTES
        kernel = bench.kernel("wait_groups.cu", "pending_groups", smem)
        source, out = _cold_source(bench, (GROUPS + 1) * LAUNCHES * smem), bench.gpu.allocate(24)
        found: dict[str, Any] = {}
        sure, early = True, []
        offset = source
        for pending in range(GROUPS + 1):
            rows = []
            for _ in range(LAUNCHES):
                bench.launch(kernel, 1, 32, offset, np.int32(GROUPS), np.int32(pending), out, smem=smem)
                offset += smem
                cycles, landed, right = (int(value) for value in bench.read(out, 3, np.int64))
                rows.append((cycles, landed.bit_count(), right.bit_count()))
                sure &= right == 2 ** (GROUPS - pending) - 1
                early.append(bool(pending) and not landed >> (GROUPS - 1) & 1)
            median = np.median(np.array(rows), axis=0)
            for name, value in zip(("cycles", "landed", "guaranteed"), median, strict=True):
                found[f"{name}_{pending}"] = float(value)
        found["all_guaranteed"] = sure
        found["newest_in_flight_pct"] = 100.0 * sum(early) / (GROUPS * LAUNCHES)
        return found


@measurement()
def wait_group_scope() -> dict[str, Any]:
    """What another warp copied, read after one's own wait, without and with a barrier;
    wait_prior(1) at the end."""
    with lab() as bench:
        smem = GROUPS * GROUP_BYTES
        foreign = bench.kernel("wait_groups.cu", "foreign_copies", smem)
        last = bench.kernel("wait_groups.cu", "pending_groups", smem)
        launches = 200
        source, out = _cold_source(bench, 3 * launches * smem), bench.gpu.allocate(24)
        stale: dict[int, list[int]] = {0: [], 1: []}
        in_flight, offset = 0, source
        for barrier in (0, 1):
            for _ in range(launches):
                bench.launch(foreign, 1, 64, offset, np.int32(barrier), out, smem=smem)
                offset += smem
                stale[barrier].append(int(bench.read(out, 1, np.int64)[0]))
        for _ in range(launches):  # the last tile is the only group, and at most one may be pending
            bench.launch(last, 1, 32, offset, np.int32(1), np.int32(1), out, smem=smem)
            offset += smem
            in_flight += not int(bench.read(out, 2, np.int64)[1]) & 1
        return {
            "stale_launches_pct": 100.0 * sum(bool(count) for count in stale[0]) / launches,
            "stale_pieces": float(np.median(stale[0])),
            "stale_with_barrier": max(stale[1]),
            "last_tile_in_flight_pct": 100.0 * in_flight / launches,
        }


MODES = ("async_copy", "math", "async_both", "plain_copy", "plain_before_use", "plain_after_use", "async_serial")
TILES, CHAIN = 256, 200


@measurement()
def overlap() -> dict[str, Any]:
    """Cycles per tile of one lone warp: 4 KB copied, 200 dependent FMAs, and both in four orders.
    Medians of 9."""
    with lab() as bench:
        kernel = bench.kernel("overlap.cu", "overlap")
        tile_bytes, repeats = 4096, 9
        source = _cold_source(bench, len(MODES) * repeats * TILES * tile_bytes)
        sink, out = bench.gpu.allocate(128), bench.gpu.allocate(16)
        found: dict[str, Any] = {}
        issue: dict[str, float] = {}
        offset = source
        for mode, name in enumerate(MODES):
            rows = []
            for _ in range(repeats):
                bench.launch(kernel, 1, 32, offset, np.int32(mode), np.int32(TILES), np.int32(CHAIN), sink, out)
                offset += TILES * tile_bytes
                rows.append(bench.read(out, 2, np.int64) / TILES)
            found[name], issue[name] = (float(value) for value in np.median(np.array(rows), axis=0))
        least = min(found["async_copy"], found["math"])
        found["hidden_pct"] = 100.0 * (found["async_copy"] + found["math"] - found["async_both"]) / least
        least = min(found["plain_copy"], found["math"])
        found["plain_hidden_pct"] = 100.0 * (found["plain_copy"] + found["math"] - found["plain_before_use"]) / least
        return {**found, "issue_async": issue["async_copy"], "issue_plain": issue["plain_copy"]}


@measurement()
def load_latency() -> dict[str, Any]:
    """Cycles of a dependent load that misses L2, and of one that hits it (L1 bypassed)."""
    with lab() as bench:
        kernel = bench.kernel("latency.cu", "latency")
        last, out = bench.gpu.allocate(8), bench.gpu.allocate(8)

        def chase(nbytes: int, step: int, hops: int) -> float:
            pointer = bench.gpu.allocate(nbytes)
            order = np.random.default_rng(0).permutation(nbytes // step)
            links = np.zeros(nbytes // 8, np.uint64)
            links[order * (step // 8)] = pointer + np.roll(order, -1).astype(np.uint64) * np.uint64(step)
            bench.gpu.upload(pointer, links)
            first = pointer + int(order[0]) * step
            if nbytes > bench.gpu.facts.l2_bytes:
                bench.flush()
            else:
                bench.launch(kernel, 1, 1, first, np.int32(len(order)), last, out)
            bench.launch(kernel, 1, 1, first, np.int32(hops), last, out)
            return float(bench.read(out, 1, np.int64)[0]) / hops

        return {"dram": chase(512 * MIB, 8192, 20000), "l2": chase(4 * MIB, 256, 16000)}


@measurement()
def copy_contention() -> dict[str, Any]:
    """Cycles of warps that compute, alone and beside warps that copy by cp.async; the slowest warp
    of each SM."""
    with lab() as bench:
        kernel = bench.kernel("contention.cu", "contention")
        source = bench.filled(MIB, 1)
        sink, out = bench.gpu.allocate(bench.sms * 256 * 4), bench.gpu.allocate(bench.sms * 8 * 8)
        found: dict[str, Any] = {}
        for shared, what in ((0, "fma"), (1, "shared")):
            for copying, how in ((0, "alone"), (1, "copying")):
                slowest = []
                for _ in range(5):
                    arguments = (np.int32(copying), np.int32(shared), np.int32(4096), sink, out)
                    bench.launch(kernel, bench.sms, 384, source, *arguments)
                    slowest.append(np.median(bench.read(out, bench.sms * 8, np.int64).reshape(-1, 8).max(axis=1)))
                found[f"{what}_{how}"] = float(np.median(slowest))
            found[f"{what}_slower_pct"] = 100.0 * (found[f"{what}_copying"] / found[f"{what}_alone"] - 1.0)
        return found


@measurement()
def coalescing() -> dict[str, Any]:
    """The same 64 MiB by 4-byte cp.async: neighbouring lanes take neighbouring words, or words 128
    bytes apart."""
    with lab() as bench:
        threads, copies, smem = 64 * MIB // 4 // 32, 32, 256 * 32 * 4
        kernel = bench.kernel("strided_copies.cu", "strided_copies", smem)
        source, sink = bench.filled(threads * copies * 4, 0), bench.gpu.allocate(threads * 4)

        def run(coalesced: int) -> float:
            return 1e3 * bench.milliseconds(
                lambda: bench.launch(kernel, threads // 256, 256, source, np.int32(coalesced), sink, smem=smem)
            )

        coalesced, strided = run(1), run(0)
        return {"coalesced_us": coalesced, "strided_us": strided, "ratio": strided / coalesced}


@measurement()
def seed_pipelines() -> dict[str, Any]:
    """The pipelines of document 001 in their own order of steps: what is wrong, and what more CTAs
    gain."""
    with lab() as bench:
        chunks = 64
        n = 256 * chunks
        values = np.arange(1, n + 1, dtype=np.float32)
        x = bench.gpu.allocate(4 * n)
        bench.gpu.upload(x, values)
        outputs = [bench.filled(4 * n, 0xFF) for _ in range(3)]
        bench.launch(bench.kernel("seed_copies.cu", "single_buffer"), 1, 256, x, outputs[0], outputs[1], np.int32(n))
        bench.launch(bench.kernel("seed_copies.cu", "double_buffer"), 1, 256, x, outputs[2], np.int32(n))
        previous, fresh, doubled = (bench.read(pointer, n, np.float32) != 2 * values for pointer in outputs)
        coop = bench.kernel("seed_copies.cu", "coop_copy")

        def run(grid: int) -> float:
            return 1e3 * bench.milliseconds(lambda: bench.launch(coop, grid, 256, x, outputs[0], np.int32(n)))

        return {
            "single_wrong_pct": 100.0 * float(previous[:-256].mean()),
            "single_fresh_wrong_pct": 100.0 * float(fresh.mean()),
            "double_wrong_chunks": int(doubled.reshape(-1, 256).any(axis=1).sum()),
            "double_chunks": chunks,
            "coop_one_us": run(1),
            "coop_all_us": run(bench.sms),
        }


@measurement()
def synchronization_costs() -> dict[str, Any]:
    """One barrier over a cluster of 2 and of 8 CTAs, and one launch of an empty kernel in a long
    queue of them."""
    with lab() as bench:
        kernel, count = bench.kernel("cluster_sync.cu", "cluster_barriers"), 1000
        out = bench.gpu.allocate(8 * 8)
        nothing = bench.kernel("spin.cu", "nothing")

        def barrier(size: int) -> float:
            run = bench.milliseconds(lambda: bench.launch(kernel, size, 128, np.int32(8 * count), out, cluster=size))
            base = bench.milliseconds(lambda: bench.launch(kernel, size, 128, np.int32(count), out, cluster=size))
            return 1e6 * (run - base) / (7 * count)

        def launches() -> None:
            for _ in range(count):
                bench.launch(nothing, 1, 32)

        return {
            "cluster2_ns": barrier(2),
            "cluster8_ns": barrier(8),
            "launch_us": 1e3 * bench.milliseconds(launches) / count,
        }


def _cold_source(bench: Lab, nbytes: int) -> int:
    """Device memory of which L2 holds nothing, every byte 0x01: never what the probes poison shared
    memory with."""
    pointer = bench.filled(nbytes, 0x01)
    bench.flush()
    return pointer
