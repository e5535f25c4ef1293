"""numba_async_pipeline: C = A x B in fp32, tiles brought by cp.async into a ring.  Numba-CUDA twin of async_pipeline.

Shapes:       a (m, k), b (k, n), c (m, n), row-major float32; any sizes.
Tile:         (16 * blocking)^2 x (64 / blocking) per CTA, 16 x 16 threads, blocking^2 results per thread; a ring of
              ``stages`` (2..4) buffers of 8 KB static shared memory, of which a thread copies 16 bytes for A and for B.
Idea:         against numba_tiled_matmul the copies bypass registers and run stages - 1 tiles ahead of the products, so
              that one barrier per tile is enough. Numba has no cp.async: it is a device function of one PTX
              instruction (numba_cp_async.py). What lies outside a matrix is not read: the copy writes zeros.
Roofline:     compute (fp32 FMA).
Bubble:       issue, as in numba_tiled_matmul: scalar shared-memory reads feed the FMAs, and the ring cannot take that
              away. On an H200, with blocking=4 as in numba_tiled_matmul's default, it takes 1105 us against 1084 us;
              what gains is blocking=8 with 631 us: fewer reads per FMA.
Launch:       grid (ceil(n / tile), ceil(m / tile)), block (16, 16).
Precondition: C-contiguous, 16-byte aligned arrays. Rows whose length is no multiple of 4 are copied by 4 bytes.
Parameters:   stages, blocking
"""

# Device code is typed by Numba; mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

from typing import Any

from numba import cuda, float32, int64

from ncubble.kernels.catalog.numba.jit import jit
from ncubble.kernels.catalog.numba.numba_cp_async import (
    ALIGNMENT,
    FLOAT,
    PIECE,
    commit,
    copy_piece,
    shared_address,
    wait_for_all_but,
)

SIDE = 16  # threads along m and n
FLOATS = SIDE * SIDE * PIECE  # of A in a stage, and of B: a thread copies one piece of each


def make(stages: int, blocking: int) -> Any:
    """The kernel as a Numba-CUDA dispatcher: ``stages`` buffers, ``blocking`` x ``blocking`` results per thread."""
    side, wait = SIDE, wait_for_all_but(stages - 2)
    tile = SIDE * blocking
    depth = FLOATS // tile
    pieces_a, pieces_b = depth // PIECE, tile // PIECE  # per row of A's part of a stage, and of B's

    def numba_async_pipeline(a, b, c, m, n, k):
        ring_a = cuda.shared.array((stages, tile, depth), float32, alignment=ALIGNMENT)
        ring_b = cuda.shared.array((stages, depth, tile), float32, alignment=ALIGNMENT)
        acc = cuda.local.array((blocking, blocking), float32)
        # The mask changes no value, but shows the compiler that none is negative: no index wraps around, and what
        # differs by a constant shares its address.
        x, y = cuda.threadIdx.x & (side - 1), cuda.threadIdx.y & (side - 1)
        row0, column0 = cuda.blockIdx.y * tile, cuda.blockIdx.x * tile
        for i in range(blocking):
            for j in range(blocking):
                acc[i, j] = float32(0.0)

        thread = y * side + x
        row_a, column_a = row0 + thread // pieces_a, thread % pieces_a * PIECE
        row_b, column_b = thread // pieces_b, column0 + thread % pieces_b * PIECE
        matrix_a, matrix_b = int64(a.ctypes.data), int64(b.ctypes.data)
        shared_a = shared_address(int64(ring_a.ctypes.data)) + thread * (PIECE * FLOAT)
        shared_b = shared_address(int64(ring_b.ctypes.data)) + thread * (PIECE * FLOAT)
        tiles = (k + depth - 1) // depth

        # Exactly one group is committed per tile, empty past the last one, so that counting groups counts tiles.
        for t in range(stages - 1):
            if t < tiles:
                offset = t * (FLOATS * FLOAT)
                copy_piece(shared_a + offset, matrix_a, row_a, column_a + t * depth, m, k)
                copy_piece(shared_b + offset, matrix_b, row_b + t * depth, column_b, k, n)
            commit()

        for t in range(tiles):
            # stages - 1 + t groups are committed: with at most stages - 2 pending, this thread's part of tile t is in.
            wait()
            cuda.syncthreads()  # everybody's part of tile t is in, and everybody has finished reading tile t - 1
            ahead = t + stages - 1
            if ahead < tiles:
                offset = ahead % stages * (FLOATS * FLOAT)  # the stage of tile t - 1
                copy_piece(shared_a + offset, matrix_a, row_a, column_a + ahead * depth, m, k)
                copy_piece(shared_b + offset, matrix_b, row_b + ahead * depth, column_b, k, n)
            commit()
            stage = t % stages
            for d in range(depth):
                for i in range(blocking):
                    for j in range(blocking):
                        acc[i, j] += ring_a[stage, y + i * side, d] * ring_b[stage, d, x + j * side]

        for i in range(blocking):
            for j in range(blocking):
                row, column = row0 + y + i * side, column0 + x + j * side
                if row < m and column < n:
                    c[row, column] = acc[i, j]

    return jit(numba_async_pipeline)
