"""numba_tiled_matmul: C = A x B in fp32 through shared-memory tiles.  Numba-CUDA twin of tiled_matmul.

Shapes:       a (m, k), b (k, n), c (m, n), row-major float32; any sizes.
Tile:         (16 * blocking)^2 x 16 per CTA, 16 x 16 threads, blocking^2 results per thread; one buffer.
Idea:         against the CUDA twin: Python source, scalar loads, remainders filled with zeros.
Roofline:     compute (fp32 FMA).
Bubble:       issue (21 % at 2048^3 on an H200). Scalar shared-memory reads feed few FMAs: LSU 58 % busy.
Launch:       grid (ceil(n / tile), ceil(m / tile)), block (16, 16).
Precondition: C-contiguous arrays.
"""

# Device code is typed by Numba; mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

from typing import Any

from numba import cuda, float32

from ncubble.kernels.catalog.numba.jit import jit

SIDE = 16  # threads along m and n, and the depth of a tile


def make(blocking: int) -> Any:
    """The kernel as a Numba-CUDA dispatcher with ``blocking`` x ``blocking`` results per thread."""
    side = SIDE
    tile = SIDE * blocking

    def numba_tiled_matmul(a, b, c, m, n, k):
        stage_a = cuda.shared.array((tile, side), float32)
        stage_b = cuda.shared.array((side, tile), float32)
        acc = cuda.local.array((blocking, blocking), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        row0, column0 = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        zero = float32(0.0)
        for i in range(blocking):
            for j in range(blocking):
                acc[i, j] = zero

        for start in range(0, k, side):
            for i in range(blocking):
                row, column = row0 + y + i * side, start + x
                stage_a[y + i * side, x] = a[row, column] if row < m and column < k else zero
                row, column = start + y, column0 + x + i * side
                stage_b[y, x + i * side] = b[row, column] if row < k and column < n else zero
            cuda.syncthreads()  # the whole tile is in shared memory
            for depth in range(side):
                for i in range(blocking):
                    for j in range(blocking):
                        acc[i, j] += stage_a[y + i * side, depth] * stage_b[depth, x + j * side]
            cuda.syncthreads()  # nobody reads this tile any more

        for i in range(blocking):
            for j in range(blocking):
                row, column = row0 + y + i * side, column0 + x + j * side
                if row < m and column < n:
                    c[row, column] = acc[i, j]

    return jit(numba_tiled_matmul)
