"""The table of kernels that ship with ncubble."""

from __future__ import annotations

from pathlib import Path

from ncubble.kernels import reference
from ncubble.kernels.spec import Array, Dim, KernelSpec, Parameter, Parameters, Shape, Tolerance

HERE = Path(__file__).resolve().parent
CUDA = HERE / "cuda"

TILE = 128  # rows and columns of C per CTA in the CUDA GEMMs
LARGEST = 2**24 - TILE  # offsets within a tile, 128 x row length, are computed in 32 bits
SGEMM_STAGE = (128 * 20 + 16 * 128) * 4  # bytes: kFloatsStage in sgemm_tile.cuh
WMMA_STAGE = (128 * 40 + 32 * 136) * 2  # bytes: kHalvesStage in tensor_core_gemm.cu


def _gemm_flops(shape: Shape) -> float:
    return 2.0 * shape["m"] * shape["n"] * shape["k"]


def _gemm_grid(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    return shape["n"] // TILE, shape["m"] // TILE


def _gemm_dims(tile: int, tile_k: int, default: int = 4096) -> tuple[Dim, ...]:
    return (
        Dim("m", default, tile, LARGEST),
        Dim("n", default, tile, LARGEST),
        Dim("k", default, tile_k, LARGEST),
    )


def _gemm_arrays(dtype: str) -> tuple[Array, ...]:
    return Array("a", ("m", "k"), dtype), Array("b", ("k", "n"), dtype), Array("c", ("m", "n"), output=True)


def _fp32_tolerance(shape: Shape) -> Tolerance:
    # k terms of N(0, 1) x N(0, 1) add up to about sqrt(k), and k roundings of 2^-24 of that walk to about k * 6e-8.
    # Eight times that leaves room for the largest of millions, and is far below a missing or doubled term (about 1).
    return Tolerance(absolute=5e-7 * shape["k"])


def _tensor_tolerance(shape: Shape) -> Tolerance:
    # Tensor cores truncate when they add, so errors agree in sign in part and grow with k, not with its root. On an
    # H200 the largest error seen at k=4096 is 0.002, half of this.
    return Tolerance(absolute=1e-6 * shape["k"])


def _integer(parameters: Parameters, name: str) -> int:
    return int(parameters[name])


TILED_MATMUL = KernelSpec(
    name="tiled_matmul",
    folder=CUDA,
    source="tiled_matmul.cu",
    idea="shared-memory tiles, plain loads: the baseline",
    dims=_gemm_dims(TILE, 16),
    arrays=_gemm_arrays("float32"),
    scalars=("m", "n", "k"),
    grid=_gemm_grid,
    block=lambda shape, parameters: (256,),
    reference=reference.matmul,
    unit="fp32",
    flops=_gemm_flops,
    tolerance=_fp32_tolerance,
    sass=lambda arch, parameters: {"FFMA": True, "LDG.E.128": True, "STS.128": True, "LDGSTS": False},
    demonstrates="data_wait as far as the other resident CTA does not hide it; the rest is issue",
)

ASYNC_PIPELINE = KernelSpec(
    name="async_pipeline",
    folder=CUDA,
    source="async_pipeline.cu",
    idea="the same product, tiles brought by cp.async into a ring of buffers",
    dims=_gemm_dims(TILE, 16),
    arrays=_gemm_arrays("float32"),
    scalars=("m", "n", "k"),
    parameters=(
        Parameter("stages", 3, (2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("threads", 256, (128, 256), "threads per CTA: fewer warps, more results per thread"),
    ),
    grid=_gemm_grid,
    block=lambda shape, parameters: (_integer(parameters, "threads"),),
    smem=lambda shape, parameters: SGEMM_STAGE * _integer(parameters, "stages"),
    reference=reference.matmul,
    unit="fp32",
    flops=_gemm_flops,
    tolerance=_fp32_tolerance,
    sass=lambda arch, parameters: {"FFMA": True, "LDGSTS.E.BYPASS.128": True, "LDGDEPBAR": True, "STS": False},
    demonstrates="copies that run ahead: no data_wait with 256 threads, little with half the warps",
)


def _wmma_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    asynchronous, wide = parameters["copy"] == "async", parameters["vec"] == 16
    return {
        "HMMA.16816.F32": True,
        "LDSM": True,
        "LDGSTS.E.BYPASS": asynchronous and wide,
        "LDGSTS": asynchronous,
        "STS": not asynchronous,
    }


TENSOR_CORE_GEMM = KernelSpec(
    name="tensor_core_gemm",
    folder=CUDA,
    source="tensor_core_gemm.cu",
    idea="tensor cores through nvcuda::wmma, half in, float accumulate",
    dims=_gemm_dims(TILE, 32),
    arrays=_gemm_arrays("float16"),
    scalars=("m", "n", "k"),
    parameters=(
        Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("copy", "async", ("plain", "async"), "through registers, or cp.async"),
        Parameter("vec", 16, (4, 16), "bytes per copy instruction and thread"),
    ),
    grid=_gemm_grid,
    block=lambda shape, parameters: (256,),
    smem=lambda shape, parameters: WMMA_STAGE * _integer(parameters, "stages"),
    reference=reference.matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=_gemm_flops,
    tolerance=_tensor_tolerance,
    sass=_wmma_sass,
    demonstrates="no_async, single_buffer and narrow_copies; then copy_cost that no depth cures",
)

SOFTMAX_ONLINE = KernelSpec(
    name="softmax_online",
    folder=CUDA,
    source="softmax_online.cu",
    idea="running maximum and sum: one pass over memory",
    dims=(Dim("rows", 16384), Dim("cols", 4096, maximum=2**31 - 1024)),  # a column + 1024 threads is still an int
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    scalars=("rows", "cols"),
    parameters=(
        Parameter("threads", 256, (128, 256, 512, 1024), "threads per row"),
        Parameter("items", 8, (1, 2, 3, 4, 5, 6, 7, 8), "16-byte loads per thread that stay in registers"),
    ),
    grid=lambda shape, parameters: (shape["rows"],),
    block=lambda shape, parameters: (_integer(parameters, "threads"),),
    reference=reference.softmax,
    tolerance=lambda shape: Tolerance(absolute=1e-8, relative=2e-5),
    sass=lambda arch, parameters: {"LDG.E.EF.128": True, "STG.E.EF.128": True, "MUFU.EX2": True, "SHFL": True},
    demonstrates="an honestly memory-bound kernel: no tensor work, no bubble to cure",
)

NUMBA_TILED_MATMUL = KernelSpec(
    name="numba_tiled_matmul",
    folder=HERE,
    source="numba_tiled_matmul.py",
    idea="twin of tiled_matmul in Numba-CUDA",
    dims=_gemm_dims(1, 1, 2048),
    arrays=_gemm_arrays("float32"),
    scalars=("m", "n", "k"),
    parameters=(Parameter("blocking", 4, (1, 2, 4), "results per thread along m and along n"),),
    grid=lambda shape, parameters: (
        -(-shape["n"] // (16 * _integer(parameters, "blocking"))),
        -(-shape["m"] // (16 * _integer(parameters, "blocking"))),
    ),
    block=lambda shape, parameters: (16, 16),
    reference=reference.matmul,
    unit="fp32",
    flops=_gemm_flops,
    tolerance=_fp32_tolerance,
    demonstrates="scalar shared-memory reads: the LSU is busier than the FMA pipe",
)

NUMBA_SOFTMAX_ONLINE = KernelSpec(
    name="numba_softmax_online",
    folder=HERE,
    source="numba_softmax_online.py",
    idea="twin of softmax_online in Numba-CUDA; the result reads the row again",
    dims=(Dim("rows", 16384), Dim("cols", 4096)),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    scalars=("rows", "cols"),
    parameters=(Parameter("threads", 256, (128, 256, 512), "threads per row"),),
    grid=lambda shape, parameters: (shape["rows"],),
    block=lambda shape, parameters: (_integer(parameters, "threads"),),
    reference=reference.softmax,
    tolerance=lambda shape: Tolerance(absolute=1e-8, relative=2e-5),
    demonstrates="scalar code: the ALU pipe is busier than DRAM",
)

SPECS: tuple[KernelSpec, ...] = (
    TILED_MATMUL,
    ASYNC_PIPELINE,
    TENSOR_CORE_GEMM,
    SOFTMAX_ONLINE,
    NUMBA_TILED_MATMUL,
    NUMBA_SOFTMAX_ONLINE,
)
