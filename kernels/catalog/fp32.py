"""Rungs 1 and 2, fp32 tiles through shared memory, and their twins in Numba."""

from __future__ import annotations

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.shared import (
    DEEPER,
    NUMBA,
    TILE,
    gemm_dims,
    gemm_grid,
    gemm_spec,
    integer,
)
from ncubble.kernels.spec.spec import DOWN, UP, KernelSpec, Parameter, Parameters, Shape

SGEMM_STAGE = (128 * 20 + 16 * 128) * 4  # bytes: kFloatsStage in sgemm_tile.cuh


TILED_MATMUL = gemm_spec(
    "tiled_matmul",
    "float32",
    idea="shared-memory tiles, plain loads: the baseline",
    dims=gemm_dims(TILE, 16),
    grid=gemm_grid,
    block=lambda shape, parameters: (256,),
    sass=lambda arch, parameters: {"FFMA": True, "LDG.E.128": True, "STS.128": True, "LDGSTS": False},
    demonstrates="data_wait not hidden by the other resident CTA; the rest is issue",
)


def _async_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    without = ablation.removed(parameters)
    return {
        "FFMA": True,
        "LDGSTS.E.BYPASS.128": "copy" not in without,
        "LDGDEPBAR": "copy" not in without,
        "LDS": "smem" not in without,
        "STS": False,
        "BAR": "sync" not in without,
    }


ASYNC_PIPELINE = gemm_spec(
    "async_pipeline",
    "float32",
    idea="the same product, with tiles copied by cp.async into a ring of buffers",
    dims=gemm_dims(TILE, 16),
    ablate=ablation.VARIANTS,
    parameters=(
        Parameter("stages", 3, (2, 3, 4, 5, 6), "buffers in the ring", cures=DEEPER),
        Parameter(
            "threads",
            256,
            (128, 256),
            "threads per CTA: fewer warps, more results per thread",
            cures={"data_wait": UP, "smem_wait": DOWN},
        ),
    ),
    grid=gemm_grid,
    block=lambda shape, parameters: (integer(parameters, "threads"),),
    smem=lambda shape, parameters: SGEMM_STAGE * integer(parameters, "stages"),
    sass=_async_sass,
    demonstrates="prefetching copies: no data_wait with 256 threads, little with half the warps",
)


SIDE = 16  # threads along m and n


def _numba_grid(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    tile = SIDE * integer(parameters, "blocking")
    return -(-shape["n"] // tile), -(-shape["m"] // tile)


NUMBA_TILED_MATMUL = gemm_spec(
    "numba_tiled_matmul",
    "float32",
    folder=NUMBA,
    source="numba_tiled_matmul.py",
    idea="twin of tiled_matmul in Numba-CUDA",
    dims=gemm_dims(1, 1, 2048),
    parameters=(Parameter("blocking", 4, (1, 2, 4), "results per thread along m and along n"),),
    grid=_numba_grid,
    block=lambda shape, parameters: (SIDE, SIDE),
    demonstrates="scalar shared-memory reads: the LSU is busier than the FMA pipe",
)


NUMBA_ASYNC_PIPELINE = gemm_spec(
    "numba_async_pipeline",
    "float32",
    folder=NUMBA,
    source="numba_async_pipeline.py",
    idea="twin of async_pipeline in Numba-CUDA: cp.async through linked CUDA C++ device functions",
    dims=gemm_dims(1, 1, 2048),
    parameters=(
        Parameter("stages", 3, (2, 3, 4), "buffers in the ring", cures=DEEPER),
        Parameter("blocking", 8, (4, 8), "results per thread along m and along n"),
    ),
    grid=_numba_grid,
    block=lambda shape, parameters: (SIDE, SIDE),
    demonstrates="prefetching copies from Python; scalar shared-memory reads keep the LSU busy",
)

SPECS: tuple[KernelSpec, ...] = (TILED_MATMUL, ASYNC_PIPELINE, NUMBA_TILED_MATMUL, NUMBA_ASYNC_PIPELINE)
