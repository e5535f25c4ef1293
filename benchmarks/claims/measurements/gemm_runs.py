"""Products: what copies, depth and the tensor path make of them; and where operands may come
from."""

from __future__ import annotations

from typing import Any

from benchmarks.claims.measurements.ladder import DRAM, SEED, TENSOR, Settings, counters, times
from benchmarks.claims.registry import measurement
from benchmarks.harness.command import REPOSITORY
from ncubble.analysis.diagnosis.results import report_json
from ncubble.analysis.report.report import Report
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case

RECORDED = REPOSITORY / "recordings" / "h200"


@measurement()
def matmul_copies() -> dict[str, Any]:
    """fp32 product of 4096 cubed: tiles by plain loads, by cp.async, and by cp.async with half the
    warps."""
    settings = ({"threads": 256, "stages": 3}, {"threads": 128, "stages": 3})
    (plain,) = times("tiled_matmul", [{}])
    ahead, half = times("async_pipeline", settings)
    return {
        "plain_us": plain,
        "async_us": ahead,
        "half_us": half,
        "async_gain_pct": 100 * (plain / ahead - 1),
        "half_gain_pct": 100 * (plain / half - 1),
        "plain_warps": resident_warps("tiled_matmul", {}),
        "async_warps": resident_warps("async_pipeline", settings[0]),
        "half_warps": resident_warps("async_pipeline", settings[1]),
    }


def resident_warps(name: str, chosen: Settings) -> int:
    """Warps that an SM of compute capability 9.0 holds of the kernel."""
    case = make_case(find_spec(name), chosen)
    used, threads = build(case, "sm_90a").resources, case.block[0]
    return occupancy((9, 0), threads, used.registers, case.smem + used.smem_static_B).ctas * threads // 32


WMMA: dict[str, Settings] = {
    "plain1": {"copy": "plain", "stages": 1},
    "async1": {"stages": 1},
    "async2": {"stages": 2},
    "async3": {"stages": 3},
    "async4": {"stages": 4},
    "narrow3": {"stages": 3, "vec": 4},
}


@measurement()
def wmma_depth() -> dict[str, Any]:
    """WMMA product of 4096 cubed, fp16, by kind, depth and width of its copies."""
    found = dict(zip(WMMA, times("tensor_core_gemm", list(WMMA.values())), strict=True))
    return {
        **{f"{name}_us": us for name, us in found.items()},
        "two_gain_pct": 100 * (found["async1"] / found["async2"] - 1),
        "three_gain_pct": 100 * (found["async2"] / found["async3"] - 1),
        "wide_gain_pct": 100 * (found["narrow3"] / found["async3"] - 1),
        "async_gain_pct": 100 * (found["plain1"] / found["async2"] - 1),
    }


@measurement()
def tma_depth() -> dict[str, Any]:
    """Product of 4096 cubed, bf16, by TMA and wgmma, by depth of its ring."""
    one, two, three, four = times("gemm_tma", [{"stages": stages} for stages in (1, 2, 3, 4)])
    return {
        "one_us": one,
        "two_us": two,
        "three_us": three,
        "four_us": four,
        "two_gain_pct": 100 * (one / two - 1),
        "three_gain_pct": 100 * (two / three - 1),
        "four_tflops": 2 * 4096**3 / four / 1e6,
    }


ACCOUNTED = ("tensor", "wait", "cost", "smem")


@measurement(needs_gpu=False)
def recorded_wmma() -> dict[str, Any]:
    """The bubble accounts of the recorded WMMA runs (recordings/h200)."""
    found: dict[str, Any] = {}
    for stages in (1, 2, 4):
        (launch,) = report_json([RECORDED / "tensor_core_gemm" / f"stages{stages}"])["launches"]
        account = launch["account"]
        parts = (account[name] for name in ("tensor_busy", "data_wait", "copy_cost", "smem_wait"))
        found |= {f"{name}{stages}": share for name, share in zip(ACCOUNTED, parts, strict=True)}
        found[f"cause{stages}"] = launch["cause"]
    del found["cause2"]
    plain = Report.open(RECORDED / "tensor_core_gemm" / "stages1-plain").launch(0).scalars
    ahead = Report.open(RECORDED / "tensor_core_gemm" / "stages2").launch(0).scalars
    copies = "smsp__inst_executed_op_ldgsts.sum"
    return {
        **found,
        "plain_tensor": plain[TENSOR],
        "plain_ldgsts": plain[copies],
        "async_ldgsts": ahead[copies],
    }


@measurement(needs_gpu=False)
def recorded_third_buffer() -> dict[str, Any]:
    """Busy share of the tensor pipe with two and with three stages, of recorded runs
    (recordings/h200)."""
    kernels = {"wmma": "tensor_core_gemm", "tma": "gemm_tma"}
    return {
        f"{name}{stages}": Report.open(RECORDED / kernel / f"stages{stages}").launch(0).scalars[TENSOR]
        for name, kernel in kernels.items()
        for stages in (2, 3)
    }


@measurement(timeout_s=60)
def wgmma_counters() -> dict[str, Any]:
    """ncu's counters of the two wgmma kernels at 4096 cubed."""
    tma, specialized = counters("gemm_tma", "stages=3"), counters("gemm_ws")
    return {
        "tma_tensor": tma[TENSOR],
        "ws_tensor": specialized[TENSOR],
        "tma_ldgsts": tma["smsp__inst_executed_op_ldgsts.sum"],
        "tma_copies": tma["smsp__inst_executed_op_tma_ld.sum"],
        "tma_dram": tma[DRAM],
        "ws_dram": specialized[DRAM],
    }


@measurement()
def operands() -> dict[str, Any]:
    """WMMA fragments loaded from shared memory, and straight from global memory: both right, and
    their times (2048)."""
    shared, straight = times("wmma_operands", [{"source": "shared"}, {"source": "global"}])
    return {"shared_us": shared, "global_us": straight, "verified": True, "slower_ratio": straight / shared}


@measurement()
def verified_only() -> dict[str, Any]:
    """Kernels whose being right is the point: TMA at edges, MMAs without load_matrix_sync."""
    edges = execute(KernelRequest("gemm_tma", {}, {"m": 136, "n": 200, "k": 72}, seed=SEED, iterations=0))
    mma = execute(KernelRequest("gemm_mma_swizzled", {}, {"m": 512, "n": 512, "k": 512}, seed=SEED, iterations=0))
    assert edges.verification and mma.verification
    return {"tma_remainder": edges.verification.passed, "no_wmma_load": mma.verification.passed}
