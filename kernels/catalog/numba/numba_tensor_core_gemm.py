"""numba_tensor_core_gemm: C = A x B on tensor cores, half in, float out.  Numba-CUDA twin of gemm_mma_swizzled.

Shapes:       a (m, k), b (k, n) float16, c (m, n) float32, row-major; float accumulators.
Tile:         128 x tile_n x tile_k per CTA; a warp owns 64 x 64 of C: 4 warps with tile_n = 128, 8 with 256.
              ``stages`` (1..6) buffers of (128 + tile_n) x tile_k halves of dynamic shared memory, no padding.
Idea:         against numba_async_pipeline the products run on tensor cores. Python has no mma.sync, ldmatrix or
              cp.async: each is a device function of one PTX instruction (numba_mma.py). Tiles, ring, swizzle
              (swizzle.cuh) and fragments read one step ahead are Python. The compiler unrolls the loops over fragments,
              so that they and all 128 accumulators of a thread lie in registers.
Roofline:     tensor pipe; mma.sync reaches at most 2/3 of the wgmma FLOPs on Hopper.
Bubble:       a little of each, as in gemm_mma_swizzled; stages=1: data_wait. docs/kernels.md has its times
              on an H100 beside those of cuBLAS.
Launch:       grid (rows of tiles of a band: 16, n / tile_n, bands), so that the CTAs that run at one time form a
              near-square block of C, as in raster.cuh; block tile_n, dynamic shared memory: the ring.
Precondition: m a multiple of 128, n of tile_n, k of tile_k (checked before launch), C-contiguous arrays.
Parameters:   stages, tile_n, tile_k
"""

# Device code is typed by Numba; mypy sees the simulator's module.
# mypy: disable-error-code="attr-defined, no-untyped-call, no-untyped-def"
from __future__ import annotations

from typing import Any

from numba import cuda, float32, int64, uint8, uint32

from ncubble.kernels.catalog.numba.jit import inlined, jit
from ncubble.kernels.catalog.numba.numba_mma import (
    commit,
    copy_16,
    ldmatrix,
    ldmatrix_transposed,
    mma,
    shared_address,
    store_2,
    wait_for_all_but,
)

TILE_M, WARP = 128, 64  # rows of C per CTA; rows and columns of C per warp
HALF, FLOAT, PIECE = 2, 4, 16  # bytes of an element of A or B, of C, and of what is copied at once
K, ROWS, COLUMNS = 16, 16, 8  # of an mma
ACCUMULATORS = (WARP // ROWS, WARP // COLUMNS, 4)  # of a thread: those of 4 x 8 mma
FRAGMENTS = (2, WARP // K, 4)  # two sets, of which one is read while the other is multiplied


def swizzled(row_bytes: int) -> Any:
    """Offset in bytes of a piece of 16 bytes in a tile whose rows have ``row_bytes`` (swizzle.cuh)."""
    rows, places = (2, 4) if row_bytes == 64 else (1, 8)

    @inlined
    def offset(row, piece):
        return row * row_bytes + (piece ^ row // rows % places) * PIECE

    return offset


def copying(rows: int, row_bytes: int, threads: int) -> Any:
    """Starts a thread's share of the copies that bring a tile of ``rows`` x ``row_bytes`` into shared memory."""
    at_once = threads * PIECE // row_bytes  # rows: a multiple of 8, so that the swizzle stays the same
    copies = rows // at_once

    @inlined
    def copy(shared, source, stride):
        for i in range(copies):
            copy_16(shared + i * at_once * row_bytes, source + i * at_once * stride)

    return copy


def bringing(tile_n: int, tile_k: int) -> Any:
    """Starts the copies of tile ``t``, if there is one, into the buffer at ``offset``; gives the sources of the next.
    Exactly one group is closed per tile, empty past the last one, so that counting groups counts tiles."""
    copy_a, copy_b = copying(TILE_M, tile_k * HALF, tile_n), copying(tile_k, tile_n * HALF, tile_n)

    @inlined
    def bring(shared_a, shared_b, offset, source_a, source_b, t, n, k):
        if t < k // tile_k:
            copy_a(shared_a + offset, source_a, k * HALF)
            copy_b(shared_b + offset, source_b, n * HALF)
        commit()
        return source_a + tile_k * HALF, source_b + n * (tile_k * HALF)

    return bring


def reading(row_a: int, row_b: int) -> Any:
    """Reads what a warp multiplies in one step, 64 x 16 of A and 16 x 64 of B, into one of two sets of fragments.

    A step moves along the rows of A and down the rows of B; the next 16 columns move along the rows of B.
    """

    @inlined
    def read(a, b, which, address_a, address_b, step):
        for i in range(WARP // ROWS):
            address = (address_a ^ step * (2 * PIECE)) + i * ROWS * row_a
            a[which, i, 0], a[which, i, 1], a[which, i, 2], a[which, i, 3] = ldmatrix(address)
        for j in range(WARP // K):
            address = (address_b ^ j * (2 * PIECE)) + step * K * row_b
            b[which, j, 0], b[which, j, 1], b[which, j, 2], b[which, j, 3] = ldmatrix_transposed(address)

    return read


@inlined
def multiply(acc, a, b, which):
    """acc += a x b for the fragments of one step."""
    for i in range(WARP // ROWS):
        for j in range(WARP // COLUMNS):
            acc[i, j, 0], acc[i, j, 1], acc[i, j, 2], acc[i, j, 3] = mma(
                a[which, i, 0],
                a[which, i, 1],
                a[which, i, 2],
                a[which, i, 3],
                b[which, j // 2, j % 2 * 2],
                b[which, j // 2, j % 2 * 2 + 1],
                acc[i, j, 0],
                acc[i, j, 1],
                acc[i, j, 2],
                acc[i, j, 3],
            )


@inlined
def store(acc, target, stride):
    """Writes a warp's part of C; ``target`` is the address of the lane's first element. Four lanes fill a sector."""
    for i in range(WARP // ROWS):
        for half in range(2):
            for j in range(WARP // COLUMNS):
                place = target + (i * ROWS + half * 8) * stride + j * COLUMNS * FLOAT
                store_2(place, acc[i, j, half * 2], acc[i, j, half * 2 + 1])


@inlined
def clear(acc):
    """acc = 0."""
    for i in range(WARP // ROWS):
        for j in range(WARP // COLUMNS):
            for e in range(4):
                acc[i, j, e] = float32(0.0)


@inlined
def address(matrix, row, offset, stride):
    """Address of the byte ``offset`` of a row of a matrix whose rows have ``stride`` bytes."""
    return int64(matrix.ctypes.data) + row * stride + offset


def make(stages: int, tile_n: int, tile_k: int) -> Any:
    """The kernel as a Numba-CUDA dispatcher: ``stages`` buffers for tiles of 128 x ``tile_n`` x ``tile_k``."""
    row_a, row_b, steps = tile_k * HALF, tile_n * HALF, tile_k // K
    bytes_a, bytes_stage = TILE_M * row_a, TILE_M * row_a + tile_k * row_b
    last = (stages - 1) * bytes_stage  # offset of the last buffer
    place_a, place_b, bring = swizzled(row_a), swizzled(row_b), bringing(tile_n, tile_k)
    read, wait = reading(row_a, row_b), wait_for_all_but(max(stages - 2, 0))

    def numba_tensor_core_gemm(a, b, c, m, n, k):
        ring = shared_address(int64(cuda.shared.array(0, uint8, alignment=128).ctypes.data))
        acc = cuda.local.array(ACCUMULATORS, float32)
        fragments_a = cuda.local.array(FRAGMENTS, uint32)
        fragments_b = cuda.local.array(FRAGMENTS, uint32)
        clear(acc)

        thread = cuda.threadIdx.x & (tile_n - 1)  # the mask shows the compiler that it is not negative
        row, column = (cuda.blockIdx.z * cuda.gridDim.x + cuda.blockIdx.x) * TILE_M, cuda.blockIdx.y * tile_n
        if row >= m:
            return  # past the last row of tiles, in a band that is not full
        y, x = thread // (row_a // PIECE), thread % (row_a // PIECE)
        source_a, target_a = address(a, row + y, x * PIECE, k * HALF), ring + place_a(y, x)
        y, x = thread // (row_b // PIECE), thread % (row_b // PIECE)
        source_b, target_b = address(b, y, column * HALF + x * PIECE, n * HALF), ring + bytes_a + place_b(y, x)
        warp, lane = thread // 32, thread % 32
        warp_row, warp_column = warp // (tile_n // WARP) * WARP, warp % (tile_n // WARP) * WARP
        lane_a = ring + place_a(warp_row + lane % 16, lane // 16)
        lane_b = ring + bytes_a + place_b(lane % 16, warp_column * HALF // PIECE + lane // 16)
        write, now = 0, 0  # offsets of buffers

        for t in range(stages - 1):
            source_a, source_b = bring(target_a, target_b, write, source_a, source_b, t, n, k)
            write += bytes_stage
        if stages > 1:
            wait()
            cuda.syncthreads()  # tile 0 is in
            read(fragments_a, fragments_b, 0, lane_a, lane_b, 0)

        for t in range(k // tile_k):
            if stages == 1:  # nothing runs ahead of the products of a tile, neither its copies nor its fragments
                source_a, source_b = bring(target_a, target_b, 0, source_a, source_b, t, n, k)
                wait()
                cuda.syncthreads()
                read(fragments_a, fragments_b, 0, lane_a, lane_b, 0)
            for step in range(steps):
                if step == steps - 1:
                    wait()
                    cuda.syncthreads()  # everybody's part of tile t + 1 is in, and everybody has read tile t
                    now = 0 if now == last else now + bytes_stage
                if stages > 1 or step < steps - 1:
                    # After the last tile this reads a buffer that nobody writes any more, and nobody uses its contents.
                    read(fragments_a, fragments_b, (step + 1) % 2, lane_a + now, lane_b + now, (step + 1) % steps)
                if step == 0 and stages > 1:  # into the buffer of tile t - 1
                    source_a, source_b = bring(target_a, target_b, write, source_a, source_b, t + stages - 1, n, k)
                    write = 0 if write == last else write + bytes_stage
                multiply(acc, fragments_a, fragments_b, step % 2)

        row, column = row + warp_row + lane // 4, column + warp_column + lane % 4 * 2
        store(acc, address(c, row, column * FLOAT, n * FLOAT), n * FLOAT)

    return jit(numba_tensor_core_gemm, launch_bounds=(tile_n, 256 // tile_n))
