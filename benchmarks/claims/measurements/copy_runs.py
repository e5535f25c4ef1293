"""Copies, shared tiles, launches and roles of warps: kernels that differ in how their data
comes."""

from __future__ import annotations

from typing import Any

from benchmarks.claims.measurements.ladder import DRAM, counters, times
from benchmarks.claims.registry import measurement
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import copy_gb_per_s
from ncubble.kernels.run.device import Gpu

COPIES = ("manual", "pipeline", "coop", "tma")
COPIED = {"n": 2**26}


@measurement(timeout_s=90)
def copy_rates() -> dict[str, Any]:
    """GB/s, both directions counted, of the four copies (256 MiB in, as much out) and of a
    device-to-device copy."""
    nbytes = 8 * COPIED["n"]
    found = {name: nbytes / times(f"async_copy_{name}", [{}], COPIED)[0] / 1e3 for name in COPIES}
    gpu = Gpu.open()
    try:
        device = copy_gb_per_s(gpu, nbytes)
    finally:
        gpu.close()
    best = max(found["pipeline"], found["coop"])
    return {
        **found,
        "device": device,
        "best_async": best,
        "tma_gain_pct": 100 * (found["tma"] / best - 1),
        "async_gain_pct": 100 * (max(best, found["tma"]) / found["manual"] - 1),
    }


@measurement(timeout_s=60)
def copy_buffers() -> dict[str, Any]:
    """async_copy_pipeline with one CTA per SM and 64 FMAs per element: one buffer, two, three; and
    the copy alone."""
    alone = {"ctas": 1, "work": 64}
    settings = [{**alone, "stages": stages} for stages in (1, 2, 3)] + [{"ctas": 1, "work": 0, "stages": 3}]
    one, two, three, copy = times("async_copy_pipeline", settings, COPIED)
    coop_one, coop_two = times("async_copy_coop", [{**alone, "stages": stages} for stages in (1, 2)], COPIED)
    return {
        "one_us": one,
        "two_us": two,
        "three_us": three,
        "copy_us": copy,
        "two_gain_pct": 100 * (one / two - 1),
        "three_gain_pct": 100 * (two / three - 1),
        "coop_one_us": coop_one,
        "coop_two_us": coop_two,
    }


@measurement(timeout_s=90)
def copy_counters() -> dict[str, Any]:
    """Share of the DRAM peak, and warp instructions, of three copies of 256 MiB."""
    found: dict[str, Any] = {}
    for name in ("tma", "pipeline", "manual"):
        counted = counters(f"async_copy_{name}", shape=f"n={COPIED['n']}")
        found[f"{name}_dram"], found[f"{name}_inst"] = counted[DRAM], counted["smsp__inst_executed.sum"]
    return found


SHARES = ("none", "dsmem", "split", "multicast")


@measurement(timeout_s=90)
def clusters() -> dict[str, Any]:
    """A tile that four CTAs need: each loads it, a leader sends it, each sends a part, TMA
    multicasts it."""
    found = dict(zip(SHARES, times("cluster_dsmem", [{"share": share} for share in SHARES]), strict=True))
    sectors = {
        share: counters("cluster_dsmem", f"share={share}")["lts__t_sectors.sum"]
        for share in ("none", "dsmem", "multicast")
    }
    return {
        **{f"{share}_us": us for share, us in found.items()},
        **{f"{share}_sectors": count / 1e6 for share, count in sectors.items()},
        "dsmem_traffic_ratio": sectors["dsmem"] / sectors["none"],
        "dsmem_gain_pct": 100 * (found["none"] / found["dsmem"] - 1),
        "multicast_gain_pct": 100 * (found["none"] / found["multicast"] - 1),
    }


@measurement(timeout_s=60)
def launches() -> dict[str, Any]:
    """64 batches as 64 launches, as one launch with a CTA per tile, and as one launch that
    loops."""
    many, grid, loop = times("persistent", [{"mode": mode} for mode in ("many", "grid", "persistent")])
    batches = find_spec("persistent").dims[0].default
    return {
        "many_us": many,
        "grid_us": grid,
        "persistent_us": loop,
        "batches": batches,
        "gap_us": (many - grid) / batches,
        "many_gain_pct": 100 * (many / loop - 1),
        "grid_gain_pct": 100 * (grid / loop - 1),
    }


WORKS = (16, 64, 128)


@measurement(timeout_s=90)
def roles() -> dict[str, Any]:
    """Loading, computing and storing warps, by slots and by how long computing takes; and all warps
    alike (2 slots)."""
    settings = [{"roles": "specialized", "slots": slots, "work": work} for slots in (1, 2, 4) for work in WORKS]
    settings += [{"roles": "fused", "slots": 2, "work": work} for work in WORKS]
    found: dict[str, Any] = {}
    for chosen, us in zip(settings, times("warp_specialized", settings), strict=True):
        prefix = "fused" if chosen["roles"] == "fused" else f"slots{chosen['slots']}"
        found[f"{prefix}_{chosen['work']}_us"] = us
    for work in WORKS:
        one, two, four = (found[f"slots{slots}_{work}_us"] for slots in (1, 2, 4))
        found[f"two_slots_gain_{work}_pct"] = 100 * (one / two - 1)
        found[f"four_slots_gain_{work}_pct"] = 100 * (two / four - 1)
        found[f"roles_gain_{work}_pct"] = 100 * (found[f"fused_{work}_us"] / two - 1)
    return found


RESIDENT = (1, 2, 4, 8)


@measurement(timeout_s=90)
def residency() -> dict[str, Any]:
    """GB/s of reading 256 MiB with 1, 2, 4 and 8 resident CTAs of 4 warps, by what each thread has
    in flight."""
    kinds = {"registers1": ("registers", 1), "registers8": ("registers", 8), "cp_async8": ("cp_async", 8)}
    settings = [{"path": p, "inflight": i, "ctas": ctas} for p, i in kinds.values() for ctas in RESIDENT]
    found = times("resident_reads", settings)
    nbytes = 16384 * 4096 * 4
    names = [f"{kind}_{ctas}" for kind in kinds for ctas in RESIDENT]
    return {name: nbytes / us / 1e3 for name, us in zip(names, found, strict=True)}
