"""Rungs 1 to 4: fp32 tiles through shared memory; tensor cores through nvcuda::wmma; then through
ldmatrix and mma.sync on swizzled shared memory. With their twins in Numba."""

from __future__ import annotations

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.shared import TILE, gemm_dims, gemm_grid, gemm_spec, integer, threads
from ncubble.kernels.spec.spec import Extent, KernelSpec, Parameter, Parameters, Shape

SGEMM_STAGE = (128 * 20 + 16 * 128) * 4  # bytes: kFloatsStage in sgemm_tile.cuh
WMMA_STAGE = (128 * 40 + 32 * 136) * 2  # bytes: kHalvesStage in tensor_core_gemm.cu
SIDE = 16  # threads along m and n of the fp32 kernels in Numba
HALF = 2  # bytes
BAND = 16  # rows of tiles: CTAs that run at one time cover a near-square block of C

TILED_MATMUL = gemm_spec(
    "tiled_matmul",
    "float32",
    idea="shared-memory tiles, plain loads: the baseline",
    dims=gemm_dims(TILE, 16),
    grid=gemm_grid,
    block=(256,),
    sass={"FFMA LDG.E.128 STS.128": True, "LDGSTS": False},
    demonstrates="data_wait not hidden by the other resident CTA; the rest is issue",
)

ASYNC_PIPELINE = gemm_spec(
    "async_pipeline",
    "float32",
    idea="the same product, with tiles copied by cp.async into a ring of buffers",
    dims=gemm_dims(TILE, 16),
    ablate=ablation.VARIANTS,
    parameters=(
        Parameter("stages", 3, (2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("threads", 256, (128, 256), "threads per CTA: fewer warps, more results per thread"),
    ),
    grid=gemm_grid,
    block=threads,
    smem=lambda shape, parameters: SGEMM_STAGE * integer(parameters, "stages"),
    sass={
        "FFMA": True,
        "LDGSTS.E.BYPASS.128 LDGDEPBAR": ablation.keeps("copy"),
        "LDS": ablation.keeps("smem"),
        "BAR": ablation.keeps("sync"),
        "STS": False,
    },
    demonstrates="prefetching copies: no data_wait with 256 threads, little with half the warps",
)


def _numba_grid(shape: Shape, parameters: Parameters) -> Extent:
    tile = SIDE * integer(parameters, "blocking")
    return -(-shape["n"] // tile), -(-shape["m"] // tile)


NUMBA_TILED_MATMUL = gemm_spec(
    "numba_tiled_matmul",
    "float32",
    idea="twin of tiled_matmul in Numba-CUDA",
    dims=gemm_dims(1, 1, 2048),
    parameters=(Parameter("blocking", 4, (1, 2, 4), "results per thread along m and along n"),),
    grid=_numba_grid,
    block=(SIDE, SIDE),
    demonstrates="scalar shared-memory reads: the LSU is busier than the FMA pipe",
)

NUMBA_ASYNC_PIPELINE = gemm_spec(
    "numba_async_pipeline",
    "float32",
    idea="twin of async_pipeline in Numba-CUDA: cp.async as device functions of one PTX instruction",
    dims=gemm_dims(1, 1, 2048),
    parameters=(
        Parameter("stages", 3, (2, 3, 4), "buffers in the ring"),
        Parameter("blocking", 8, (4, 8), "results per thread along m and along n"),
    ),
    grid=_numba_grid,
    block=(SIDE, SIDE),
    demonstrates="prefetching copies from Python; scalar shared-memory reads keep the LSU busy",
)


def _wmma_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    asynchronous, without = parameters["copy"] == "async", ablation.removed(parameters)
    copies = "copy" not in without
    return {
        "HMMA.16816.F32": True,
        "LDSM": "smem" not in without,
        "LDGSTS.E.BYPASS": asynchronous and copies and parameters["vec"] == 16,
        "LDGSTS": asynchronous and copies,
        "STS": not asynchronous and copies,
        "BAR": "sync" not in without,
    }


def _wmma_requires(shape: Shape, parameters: Parameters) -> str | None:
    if "wait" in str(parameters["ablate"]).split("_") and parameters["copy"] == "plain":
        return "a plain copy has no wait that could be removed"
    return None


TENSOR_CORE_GEMM = gemm_spec(
    "tensor_core_gemm",
    "float16",
    idea="tensor cores through nvcuda::wmma, half in, float accumulate",
    dims=gemm_dims(TILE, 32),
    ablate=ablation.VARIANTS,
    parameters=(
        Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("copy", "async", ("plain", "async"), "through registers, or cp.async", change="copies"),
        Parameter("vec", 16, (4, 16), "bytes per copy instruction and thread", change="copies"),
    ),
    grid=gemm_grid,
    block=(256,),
    smem=lambda shape, parameters: WMMA_STAGE * integer(parameters, "stages"),
    requires=_wmma_requires,
    sass=_wmma_sass,
    demonstrates="no_async, single_buffer and narrow_copies; then copy_cost at any depth",
)


def _ring(shape: Shape, parameters: Parameters) -> int:
    """Bytes of the stages of A and B."""
    stage = (TILE + integer(parameters, "tile_n")) * integer(parameters, "tile_k") * HALF
    return integer(parameters, "stages") * stage


def _mma_requires(shape: Shape, parameters: Parameters) -> str | None:
    for dim, tile in (("n", "tile_n"), ("k", "tile_k")):
        if shape[dim] % integer(parameters, tile):
            return f"{dim}={shape[dim]} is not a multiple of {tile}={parameters[tile]}"
    return None


GEMM_MMA_SWIZZLED = gemm_spec(
    "gemm_mma_swizzled",
    "float16",
    "float16",
    idea="ldmatrix and mma.sync on swizzled shared memory: no bank conflicts, prefetched fragments",
    dims=gemm_dims(TILE, 32),
    ablate=ablation.VARIANTS,
    parameters=(
        Parameter("stages", 4, (2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("tile_n", 256, (128, 256), "columns of C per CTA; with 128 two CTAs of 4 warps share an SM"),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier"),
        Parameter(
            "layout",
            "xor",
            ("plain", "xor"),
            "plain: no swizzle, so every ldmatrix has 8-way conflicts",
            change="shared_layout",
        ),
    ),
    grid=lambda shape, parameters: (shape["m"] // TILE * (shape["n"] // integer(parameters, "tile_n")),),
    block=lambda shape, parameters: (integer(parameters, "tile_n"),),
    # The finished tile of C takes the ring's place.
    smem=lambda shape, parameters: max(_ring(shape, parameters), TILE * integer(parameters, "tile_n") * HALF),
    requires=_mma_requires,
    sass={
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4 LDSM.16.MT88.4": ablation.keeps("smem"),
        "LDGSTS.E.BYPASS LDGSTS": ablation.keeps("copy"),
        "LDG": False,
    },
    demonstrates="the mma.sync roof: no smem_wait and no data_wait; layout=plain brings smem_wait back",
)


def _bands(shape: Shape, parameters: Parameters) -> Extent:
    rows = shape["m"] // TILE
    return min(BAND, rows), shape["n"] // integer(parameters, "tile_n"), -(-rows // BAND)


NUMBA_TENSOR_CORE_GEMM = gemm_spec(
    "numba_tensor_core_gemm",
    "float16",
    idea="tensor cores from Numba-CUDA: mma.sync, ldmatrix and cp.async as single-instruction device functions",
    dims=gemm_dims(TILE, 32),
    parameters=(
        Parameter("stages", 4, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("tile_n", 256, (128, 256), "columns of C per CTA; with 128 two CTAs of 4 warps share an SM"),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier"),
    ),
    grid=_bands,
    block=lambda shape, parameters: (integer(parameters, "tile_n"),),
    smem=_ring,
    requires=_mma_requires,
    sass={"HMMA.16816.F32 LDSM.16.M88.4 LDSM.16.MT88.4 LDGSTS.E.BYPASS": True, "LDG STL CALL": False},
    demonstrates="a Python kernel for the gate on tensor-core utilization; stages=1: data_wait",
)


SPECS: tuple[KernelSpec, ...] = (
    *(TILED_MATMUL, ASYNC_PIPELINE, NUMBA_TILED_MATMUL, NUMBA_ASYNC_PIPELINE),
    *(TENSOR_CORE_GEMM, GEMM_MMA_SWIZZLED, NUMBA_TENSOR_CORE_GEMM),
)
