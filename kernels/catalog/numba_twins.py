"""The twin of rung 2 in Numba, with cp.async from linked CUDA C++."""

from __future__ import annotations

from ncubble.kernels.catalog.shared import NUMBA, fp32_tolerance, gemm_arrays, gemm_dims, gemm_flops, integer
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Parameters, Shape

SIDE = 16  # threads along m and n


def _grid(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    tile = SIDE * integer(parameters, "blocking")
    return -(-shape["n"] // tile), -(-shape["m"] // tile)


NUMBA_ASYNC_PIPELINE = KernelSpec(
    name="numba_async_pipeline",
    folder=NUMBA,
    source="numba_async_pipeline.py",
    idea="twin of async_pipeline in Numba-CUDA: cp.async through linked CUDA C++ device functions",
    dims=gemm_dims(1, 1, 2048),
    arrays=gemm_arrays("float32"),
    scalars=("m", "n", "k"),
    parameters=(
        Parameter("stages", 3, (2, 3, 4), "buffers in the ring"),
        Parameter("blocking", 8, (4, 8), "results per thread along m and along n"),
    ),
    grid=_grid,
    block=lambda shape, parameters: (SIDE, SIDE),
    reference=reference.matmul,
    unit="fp32",
    flops=gemm_flops,
    tolerance=fp32_tolerance,
    peer="matmul",
    demonstrates="copies that run ahead from Python, too; scalar shared-memory reads keep the LSU busy",
)

SPECS: tuple[KernelSpec, ...] = (NUMBA_ASYNC_PIPELINE,)
