"""Rung 4: tensor cores through ldmatrix and mma.sync, swizzled shared memory."""

from __future__ import annotations

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.shared import (
    CUDA,
    TILE,
    gemm_arrays,
    gemm_dims,
    gemm_flops,
    integer,
    tensor_tolerance,
)
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Parameters, Shape, Tolerance

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


def _tolerance(shape: Shape) -> Tolerance:
    # On top of the accumulation, C is rounded to half: half a unit in the last of 11 bits.
    return Tolerance(absolute=tensor_tolerance(shape).absolute, relative=2.0**-11)


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


GEMM_MMA_SWIZZLED = KernelSpec(
    name="gemm_mma_swizzled",
    folder=CUDA,
    source="gemm_mma_swizzled.cu",
    idea="ldmatrix and mma.sync on swizzled shared memory: no bank conflicts, fragments read ahead",
    dims=gemm_dims(TILE, 32),
    arrays=gemm_arrays("float16", "float16"),
    scalars=("m", "n", "k"),
    parameters=(
        Parameter("stages", 4, (2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("tile_n", 256, (128, 256), "columns of C per CTA; with 128 two CTAs of 4 warps share an SM"),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier"),
        Parameter("layout", "xor", ("plain", "xor"), "plain: no swizzle, so that every ldmatrix conflicts eightfold"),
        ablation.ablate(*ablation.VARIANTS),
    ),
    grid=lambda shape, parameters: (shape["m"] // TILE * (shape["n"] // integer(parameters, "tile_n")),),
    block=lambda shape, parameters: (integer(parameters, "tile_n"),),
    smem=_smem,
    defines=ablation.defines,
    unverified=ablation.unverified,
    requires=_requires,
    reference=reference.matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=gemm_flops,
    tolerance=_tolerance,
    sass=_sass,
    peer="matmul",
    demonstrates="the mma.sync roof: neither smem_wait nor data_wait is left; layout=plain brings smem_wait back",
)

SPECS: tuple[KernelSpec, ...] = (GEMM_MMA_SWIZZLED,)
