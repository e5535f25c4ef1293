"""numba_softmax_online: row-wise softmax with a running maximum and sum.  Numba-CUDA twin of softmax_online.

Shapes:       x (rows, cols), y (rows, cols), row-major float32; any sizes.
Tile:         one CTA of ``threads`` threads per row.
Idea:         (max, sum) pairs merge associatively, so one pass reduces the row. Unlike the CUDA twin it keeps no values
              in registers: the result reads the row a second time, mostly from L1 or L2.
Roofline:     DRAM: 8 bytes per element if the second read hits a cache.
Bubble:       no tensor work; scalar code, not memory, is the bound: ALU pipe 72 % busy on an H200, DRAM 42 %.
Launch:       grid rows, block threads (a power of two).
Precondition: C-contiguous arrays.
"""

# Device code is typed by Numba; mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from ncubble.kernels.catalog.numba.jit import jit


def make(threads: int) -> Any:
    """The kernel as a Numba-CUDA dispatcher for CTAs of ``threads`` threads."""
    lowest = float32(-3.4028235e38)  # not -inf: the difference of two empty partials must not be NaN

    def numba_softmax_online(x, y, rows, cols):
        maxima = cuda.shared.array(threads, float32)
        sums = cuda.shared.array(threads, float32)
        row, thread = cuda.blockIdx.x, cuda.threadIdx.x
        top, total = lowest, float32(0.0)
        for column in range(thread, cols, threads):
            value = x[row, column]
            higher = max(top, value)
            total = total * math.exp(top - higher) + math.exp(value - higher)
            top = higher
        maxima[thread] = top
        sums[thread] = total
        cuda.syncthreads()

        width = threads // 2
        while width > 0:
            if thread < width:
                left, right = maxima[thread], maxima[thread + width]
                higher = max(left, right)
                merged = sums[thread] * math.exp(left - higher) + sums[thread + width] * math.exp(right - higher)
                maxima[thread] = higher
                sums[thread] = merged
            cuda.syncthreads()  # the halves are merged before the next, narrower round reads them
            width //= 2

        top, scale = maxima[0], float32(1.0) / sums[0]
        for column in range(thread, cols, threads):
            y[row, column] = math.exp(x[row, column] - top) * scale

    return jit(numba_softmax_online)
