"""Rungs 3 and 4: tensor cores through nvcuda::wmma; then through ldmatrix and mma.sync, swizzled
shared memory."""

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
from ncubble.kernels.spec.spec import DOWN, UP, Extent, KernelSpec, Parameter, Parameters, Shape

WMMA_STAGE = (128 * 40 + 32 * 136) * 2  # bytes: kHalvesStage in tensor_core_gemm.cu


def _wmma_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    asynchronous, wide, without = parameters["copy"] == "async", parameters["vec"] == 16, ablation.removed(parameters)
    copies = "copy" not in without
    return {
        "HMMA.16816.F32": True,
        "LDSM": "smem" not in without,
        "LDGSTS.E.BYPASS": asynchronous and wide and copies,
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
        Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "buffers in the ring", cures=DEEPER),
        Parameter("copy", "async", ("plain", "async"), "through registers, or cp.async", cures={"no_async": "async"}),
        Parameter("vec", 16, (4, 16), "bytes per copy instruction and thread", cures={"copy_cost": 16}),
    ),
    grid=gemm_grid,
    block=lambda shape, parameters: (256,),
    smem=lambda shape, parameters: WMMA_STAGE * integer(parameters, "stages"),
    requires=_wmma_requires,
    sass=_wmma_sass,
    demonstrates="no_async, single_buffer and narrow_copies; then copy_cost at any depth",
)


HALF = 2  # bytes


def _smem(shape: Shape, parameters: Parameters) -> int:
    """The ring of stages, and the same memory again for the finished tile of C."""
    tile_n, tile_k = integer(parameters, "tile_n"), integer(parameters, "tile_k")
    stage = (TILE + tile_n) * tile_k * HALF
    return max(integer(parameters, "stages") * stage, TILE * tile_n * HALF)


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    for dim, tile in (("n", "tile_n"), ("k", "tile_k")):
        if shape[dim] % integer(parameters, tile):
            return f"{dim}={shape[dim]} is not a multiple of {tile}={parameters[tile]}"
    return None


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    without = ablation.removed(parameters)
    return {
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4": "smem" not in without,
        "LDSM.16.MT88.4": "smem" not in without,
        "LDGSTS.E.BYPASS": "copy" not in without,
        "LDGSTS": "copy" not in without,
        "LDG": False,
    }


GEMM_MMA_SWIZZLED = gemm_spec(
    "gemm_mma_swizzled",
    "float16",
    "float16",
    idea="ldmatrix and mma.sync on swizzled shared memory: no bank conflicts, prefetched fragments",
    dims=gemm_dims(TILE, 32),
    ablate=ablation.VARIANTS,
    parameters=(
        Parameter("stages", 4, (2, 3, 4, 5, 6), "buffers in the ring", cures=DEEPER),
        Parameter(
            "tile_n",
            256,
            (128, 256),
            "columns of C per CTA; with 128 two CTAs of 4 warps share an SM",
            cures={"copy_cost": UP, "smem_wait": UP, "wave_gap": DOWN, "tail": DOWN, "epilogue": DOWN},
        ),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier", cures={"sync_wait": UP, "issue": UP}),
        Parameter(
            "layout",
            "xor",
            ("plain", "xor"),
            "plain: no swizzle, so every ldmatrix has 8-way conflicts",
            cures={"smem_wait": "xor"},
        ),
    ),
    grid=lambda shape, parameters: (shape["m"] // TILE * (shape["n"] // integer(parameters, "tile_n")),),
    block=lambda shape, parameters: (integer(parameters, "tile_n"),),
    smem=_smem,
    requires=_requires,
    sass=_sass,
    demonstrates="the mma.sync roof: no smem_wait and no data_wait; layout=plain brings smem_wait back",
)

BAND = 16  # rows of tiles: CTAs that run at one time cover a near-square block of C


def _ring(shape: Shape, parameters: Parameters) -> int:
    stage = (TILE + integer(parameters, "tile_n")) * integer(parameters, "tile_k") * HALF
    return integer(parameters, "stages") * stage


def _bands(shape: Shape, parameters: Parameters) -> Extent:
    rows = shape["m"] // TILE
    return min(BAND, rows), shape["n"] // integer(parameters, "tile_n"), -(-rows // BAND)


NUMBA_TENSOR_CORE_GEMM = gemm_spec(
    "numba_tensor_core_gemm",
    "float16",
    folder=NUMBA,
    source="numba_tensor_core_gemm.py",
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
    requires=_requires,
    sass=lambda arch, parameters: {
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4": True,
        "LDSM.16.MT88.4": True,
        "LDGSTS.E.BYPASS": True,
        "LDG": False,
        "STL": False,
        "CALL": False,
    },
    demonstrates="a Python kernel for the gate on tensor-core utilization; stages=1: data_wait",
)

SPECS: tuple[KernelSpec, ...] = (TENSOR_CORE_GEMM, GEMM_MMA_SWIZZLED, NUMBA_TENSOR_CORE_GEMM)
