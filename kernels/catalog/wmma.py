"""Rung 3: tensor cores through nvcuda::wmma."""

from __future__ import annotations

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.shared import (
    CUDA,
    TILE,
    gemm_arrays,
    gemm_dims,
    gemm_flops,
    gemm_grid,
    integer,
    tensor_tolerance,
)
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Parameters, Shape

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
        return "a plain copy has no wait of its own that could be left out"
    return None


TENSOR_CORE_GEMM = KernelSpec(
    name="tensor_core_gemm",
    folder=CUDA,
    source="tensor_core_gemm.cu",
    idea="tensor cores through nvcuda::wmma, half in, float accumulate",
    dims=gemm_dims(TILE, 32),
    arrays=gemm_arrays("float16"),
    scalars=("m", "n", "k"),
    parameters=(
        Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("copy", "async", ("plain", "async"), "through registers, or cp.async"),
        Parameter("vec", 16, (4, 16), "bytes per copy instruction and thread"),
        ablation.ablate(*ablation.VARIANTS),
    ),
    grid=gemm_grid,
    block=lambda shape, parameters: (256,),
    smem=lambda shape, parameters: WMMA_STAGE * integer(parameters, "stages"),
    defines=ablation.defines,
    requires=_wmma_requires,
    unverified=ablation.unverified,
    reference=reference.matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=gemm_flops,
    tolerance=tensor_tolerance,
    sass=_wmma_sass,
    peer="matmul",
    demonstrates="no_async, single_buffer and narrow_copies; then copy_cost that no depth cures",
)


SPECS: tuple[KernelSpec, ...] = (TENSOR_CORE_GEMM,)
