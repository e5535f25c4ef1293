"""The accounts in docs/tutorial: what the recorded runs of the ladder give today."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.blocks import RUNS, launches, printed, table, verdict_of

STEP_PARTS = ("data_wait", "copy_cost", "smem_wait", "sync_wait", "issue", "epilogue")
EDGES = ("ramp", "tail", "wave_gap")


def steps(**runs: str) -> str:
    """Accounts of recorded runs, for the tutorial: a row for each name (underscores are spaces)
    with the run ``KERNEL/VARIANT``."""
    rows = []
    for name, run in runs.items():
        (launch,) = launches(run)
        account = launch["account"]
        busy = account.get("tensor_busy") or account["unit_busy"]
        cause = verdict_of(launch)
        edges = sum(account.get(part, 0.0) for part in EDGES)
        parts = [f"{account.get(part, 0.0):.1f}" for part in STEP_PARTS]
        rows.append(
            [name.replace("_", " "), f"{launch['duration_ns'] / 1e3:.0f}", f"{busy:.1f}", *parts, f"{edges:.1f}", cause]
        )
    return table(["", "µs", "busy", *(part.replace("_", " ") for part in STEP_PARTS), "edges", "cause"], rows)


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/tutorial/README.md": {
        "ladder": lambda: steps(
            **{
                "1_tiles": "tiled_matmul/default",
                "2_cp.async": "async_pipeline/stages3-threads128",
                "3_tensor cores, one buffer": "tensor_core_gemm/stages1",
                "3_tensor cores, four stages": "tensor_core_gemm/stages4",
                "4_ldmatrix and swizzle": "gemm_mma_swizzled/default",
                "5_TMA, one slot": "gemm_tma/stages1",
                "5_TMA, three slots": "gemm_tma/stages3",
                "6_specialized warps": "gemm_ws/pingpong",
            }
        )
    },
    "docs/tutorial/0-copies.md": {
        "copies": lambda: steps(
            **{
                "registers": "async_copy_manual/default",
                "cuda::pipeline": "async_copy_pipeline/default",
                "cooperative groups": "async_copy_coop/default",
                "TMA": "async_copy_tma/default",
            }
        )
    },
    "docs/tutorial/1-tiles.md": {"tiles": lambda: printed("report", str(RUNS / "tiled_matmul" / "default"))},
    "docs/tutorial/2-cp-async.md": {
        "cp-async": lambda: steps(
            **{
                "plain loads, 256 threads": "tiled_matmul/default",
                "cp.async, 2 stages, 256 threads": "async_pipeline/stages2",
                "cp.async, 3 stages, 256 threads": "async_pipeline/stages3",
                "cp.async, 3 stages, 128 threads": "async_pipeline/stages3-threads128",
            }
        )
    },
    "docs/tutorial/3-stages.md": {
        "stages": lambda: steps(
            **{
                "plain, 1 buffer": "tensor_core_gemm/stages1-plain",
                **{
                    f"cp.async, {count} stage{'s' * (count > 1)}": f"tensor_core_gemm/stages{count}"
                    for count in (1, 2, 3, 4, 6)
                },
                "cp.async by 4 bytes, 3 stages": "tensor_core_gemm/stages3-vec4",
            }
        )
    },
    "docs/tutorial/4-swizzle.md": {
        "swizzle": lambda: steps(plain="gemm_mma_swizzled/plain", swizzled="gemm_mma_swizzled/default"),
        "conflicts": lambda: printed("report", str(RUNS / "gemm_mma_swizzled" / "plain")),
    },
    "docs/tutorial/5-tma.md": {
        "tma": lambda: steps(
            **{f"{count} slot{'s' * (count > 1)}": f"gemm_tma/stages{count}" for count in (1, 2, 3, 6)}
        ),
        "depths": lambda: printed("report", str(RUNS / "gemm_tma" / "stages1"), "--depths", last=15),
    },
    "docs/tutorial/6-roles.md": {
        "roles": lambda: steps(
            **{
                "warps alike, 3 slots": "gemm_tma/stages3",
                "roles, cooperative": "gemm_ws/default",
                "roles, ping-pong": "gemm_ws/pingpong",
            }
        ),
        "alike": lambda: printed("trace", "recordings/h200-lanes/trace-gemm_tma-stages3", last=11),
        "specialized": lambda: printed("trace", "recordings/h200-lanes/trace-gemm_ws", last=13),
    },
}
