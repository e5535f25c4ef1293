"""numba_softmax_online: row-wise softmax with a running maximum and sum.  Numba-CUDA twin of softmax_online.

Shapes:       x (rows, cols), y (rows, cols), row-major float32; any sizes.
Tile:         one CTA of ``threads`` threads per row.
Idea:         (max, sum) pairs merge associatively, so one pass reduces the row: a thread takes four elements into its
              pair at a time, lanes merge theirs by shuffles, then each warp those of all warps. Unlike the CUDA twin it
              keeps no values in registers: the result reads the row a second time, mostly from L1 or L2.
Roofline:     DRAM: 8 bytes per element if the second read hits a cache.
Bubble:       no tensor work; DRAM is the bound, and warps wait for scalar loads of 4 bytes.
Launch:       grid rows, block threads (a power of two, at least 32).
Precondition: C-contiguous arrays.
"""

# Device code is typed by Numba; mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32, uint32

from ncubble.kernels.catalog.numba.jit import jit

LANES, ALL_LANES = 32, 0xFFFFFFFF
AT_ONCE = 4  # elements of a thread


def make(threads: int) -> Any:
    """The kernel as a Numba-CUDA dispatcher for CTAs of ``threads`` threads."""
    lowest = float32(-3.4028235e38)  # not -inf: the difference of two empty partials must not be NaN
    warps, step = threads // LANES, AT_ONCE * threads

    def numba_softmax_online(x, y, rows, cols):
        maxima = cuda.shared.array(LANES, float32)
        sums = cuda.shared.array(LANES, float32)
        row, thread = cuda.blockIdx.x, cuda.threadIdx.x
        top, total = lowest, float32(0.0)
        whole = cols // step * step
        for first in range(thread, whole, step):
            at = uint32(first)  # unsigned: no index wraps around
            a, b = x[row, at], x[row, at + threads]
            c, d = x[row, at + 2 * threads], x[row, at + 3 * threads]
            higher = max(max(max(a, b), max(c, d)), top)
            total = total * math.exp(top - higher) + math.exp(a - higher)
            total += math.exp(b - higher) + math.exp(c - higher) + math.exp(d - higher)
            top = higher
        for column in range(whole + thread, cols, threads):
            value = x[row, uint32(column)]
            higher = max(top, value)
            total = total * math.exp(top - higher) + math.exp(value - higher)
            top = higher

        lane = thread & (LANES - 1)
        for level in range(2):  # the lanes of a warp, then the warps of the CTA
            for bit in range(5):
                other = cuda.shfl_xor_sync(ALL_LANES, top, 1 << bit)
                added = cuda.shfl_xor_sync(ALL_LANES, total, 1 << bit)
                higher = max(top, other)
                total = total * math.exp(top - higher) + added * math.exp(other - higher)
                top = higher
            if level == 0:
                if lane == 0:
                    maxima[thread // LANES] = top
                    sums[thread // LANES] = total
                cuda.syncthreads()  # the pairs of all warps are in shared memory
                top = maxima[lane] if lane < warps else lowest
                total = sums[lane] if lane < warps else float32(0.0)

        scale = float32(1.0) / total
        for column in range(thread, cols, threads):
            y[row, uint32(column)] = math.exp(x[row, uint32(column)] - top) * scale

    return jit(numba_softmax_online, fastmath=True)
