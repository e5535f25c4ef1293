"""The table of kernels that ship with ncubble, in the order of the ladder."""

from __future__ import annotations

from ncubble.kernels.catalog import (
    attention,
    attention_scalar,
    copies,
    fp32,
    hopper_gemm,
    host,
    mma_gemm,
    sdpa,
    softmax,
    structure,
)
from ncubble.kernels.catalog.fp8 import attention as fp8_attention
from ncubble.kernels.catalog.fp8 import gemm as fp8_gemm
from ncubble.kernels.spec.spec import KernelSpec

SPECS: tuple[KernelSpec, ...] = (
    *copies.SPECS,
    *fp32.SPECS,
    *mma_gemm.SPECS,
    *hopper_gemm.SPECS,
    *fp8_gemm.SPECS,
    *softmax.SPECS,
    *attention_scalar.SPECS,
    *attention.SPECS,
    *fp8_attention.SPECS,
    *sdpa.SPECS,
    *structure.SPECS,
    *host.SPECS,
)
