"""The table of kernels that ship with ncubble, in the order of the ladder."""

from __future__ import annotations

from ncubble.kernels.spec import KernelSpec
from ncubble.kernels.specs import (
    attention,
    copies,
    fp32,
    hopper_gemm,
    host,
    mma_gemm,
    numba_twins,
    planted_gemm,
    planted_structure,
    roles,
    sdpa,
    softmax,
    structure,
    wmma,
)

SPECS: tuple[KernelSpec, ...] = (
    *copies.SPECS,
    *fp32.SPECS,
    *numba_twins.SPECS,
    *wmma.SPECS,
    *mma_gemm.SPECS,
    *hopper_gemm.SPECS,
    *softmax.SPECS,
    *attention.SPECS,
    *sdpa.SPECS,
    *roles.SPECS,
    *structure.SPECS,
    *host.SPECS,
    *planted_gemm.SPECS,
    *planted_structure.SPECS,
)
