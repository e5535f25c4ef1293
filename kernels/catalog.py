"""The table of kernels that ship with ncubble, in the order of the ladder."""

from __future__ import annotations

from ncubble.kernels.spec import KernelSpec
from ncubble.kernels.specs import fp32, mma_gemm, roles, sdpa, softmax, wmma

SPECS: tuple[KernelSpec, ...] = (
    *fp32.SPECS,
    *wmma.SPECS,
    *mma_gemm.SPECS,
    *softmax.SPECS,
    *sdpa.SPECS,
    *roles.SPECS,
)
