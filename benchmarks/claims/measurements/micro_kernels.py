"""Kernels that only claims are held against: ``ncubble bench NAME --catalog benchmarks/claims``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import gemm_arrays, gemm_dims, gemm_flops, integer, tensor_tolerance
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import Array, Arrays, Dim, Extent, KernelSpec, Parameter, Parameters, Shape, Tolerance

SM_BYTES, CTA_RESERVED = (
    228 * 1024,
    1024,
)  # shared memory of an SM of compute capability 9.0; 1 KB of it per CTA is taken
PIECE_THREADS, ROW = 128, 4096


def _resident_smem(shape: Shape, parameters: Parameters) -> int:
    """As much as leaves room for ``ctas`` CTAs on an SM, and for no further one."""
    return SM_BYTES // integer(parameters, "ctas") - CTA_RESERVED


def _resident_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    return (sms * integer(parameters, "ctas"),)


def _piece_sums(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    pieces = inputs["x"][rows].astype(np.float64).reshape(len(rows), ROW // (4 * PIECE_THREADS), PIECE_THREADS, 4)
    return {"y": pieces.sum(axis=(1, 3))}


WMMA_OPERANDS = KernelSpec(
    name="wmma_operands",
    source="wmma_operands.cu",
    idea="wmma fragments loaded from shared memory, or straight from global memory",
    dims=gemm_dims(64, 32, 2048),
    arrays=gemm_arrays("float16"),
    scalars=("m", "n", "k"),
    parameters=(Parameter("source", "shared", ("shared", "global"), "where load_matrix_sync reads"),),
    grid=lambda shape, parameters: (shape["n"] // 64, shape["m"] // 64),
    block=lambda shape, parameters: (128,),
    reference=reference.matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=gemm_flops,
    tolerance=tensor_tolerance,
    sass=lambda arch, parameters: {"HMMA.16816.F32": True, "LDSM": parameters["source"] == "shared"},
)

RESIDENT_READS = KernelSpec(
    name="resident_reads",
    source="resident_reads.cu",
    idea="reading with few resident warps: what each keeps in flight decides",
    dims=(
        Dim("rows", 16384),
        Dim("cols", ROW, ROW, ROW),
        Dim("threads", PIECE_THREADS, PIECE_THREADS, PIECE_THREADS),
    ),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "threads"), output=True)),
    scalars=("rows",),
    parameters=(
        Parameter("path", "registers", ("registers", "cp_async"), "where a piece waits for its turn"),
        Parameter("inflight", 8, (1, 2, 4, 8), "pieces of 16 bytes that a thread has on their way"),
        Parameter("ctas", 8, (1, 2, 4, 8), "resident CTAs per SM, of 4 warps each"),
    ),
    grid=lambda shape, parameters: _resident_grid(132, shape, parameters),
    persistent=_resident_grid,
    block=lambda shape, parameters: (PIECE_THREADS,),
    smem=_resident_smem,
    reference=_piece_sums,
    tolerance=lambda shape: Tolerance(absolute=1e-5, relative=1e-5),
    sass=lambda arch, parameters: {"LDGSTS.E.BYPASS": parameters["path"] == "cp_async"},
)

SPECS = (WMMA_OPERANDS, RESIDENT_READS)
