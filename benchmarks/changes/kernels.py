"""The Triton kernels of the families.

Names of meta-parameters that may change between launches start with BLOCK, CHUNK, GROUP, SPLIT or NUM.
Other constants (D, QUANT, ...) belong to the problem. Edges of m and n are masked, or wrapped by a
remainder. Kernels that do not mask k need k to be a multiple of BLOCK_K: every k is a multiple of 256,
so tiles of up to 256 are safe.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(number, rows, columns, GROUP_M: tl.constexpr):  # noqa: N803
    """Row and column of a tile; GROUP_M rows of tiles are walked together, so that L2 serves them."""
    group = number // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    inside = number % (GROUP_M * columns)
    return group * GROUP_M + inside % height, inside // height


@triton.jit
def store_tile(c, total, rows_at, columns_at, m, n):
    """Stores a tile of row-major C, without what lies beyond its edges."""
    inside = (rows_at < m)[:, None] & (columns_at < n)[None, :]
    tl.store(c + rows_at[:, None] * n + columns_at[None, :], total.to(c.dtype.element_ty), mask=inside)


# ---- gemm ----


@triton.jit
def gemm(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B, row-major; rows and columns wrap around at the edges."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + (columns_at % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_masked(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B, row-major; every load is masked on both of its edges."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth_at = first + tl.arange(0, BLOCK_K)
        a_mask = (rows_at < m)[:, None] & (depth_at < k)[None, :]
        b_mask = (depth_at < k)[:, None] & (columns_at < n)[None, :]
        a_part = tl.load(a + rows_at[:, None] * k + depth_at[None, :], mask=a_mask, other=0.0)
        b_part = tl.load(b + depth_at[:, None] * n + columns_at[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a_part, b_part, total)
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_tma(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B by tensor descriptors, which each CTA builds for the sizes of its tiles."""
    a_box = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_box = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_box = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BLOCK_M, BLOCK_N])
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        a_part = a_box.load([row * BLOCK_M, first])
        b_part = b_box.load([first, column * BLOCK_N])
        total = tl.dot(a_part, b_part, total)
    c_box.store([row * BLOCK_M, column * BLOCK_N], total.to(c.dtype.element_ty))


@triton.jit
def gemm_persistent(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
    NUM_SMS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B by NUM_SMS CTAs; each computes every NUM_SMS-th tile, in one flattened loop."""
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), rows * columns, NUM_SMS, flatten=True):
        row, column = tile_of(tile, rows, columns, GROUP_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(0, k // BLOCK_K):
            # Pointers carried through a flattened loop are no longer known to be contiguous.
            rows_at = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % m
            columns_at = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % n
            depth_at = step * BLOCK_K + tl.arange(0, BLOCK_K)
            a_part = tl.load(a + rows_at[:, None] * k + depth_at[None, :])
            b_part = tl.load(b + depth_at[:, None] * n + columns_at[None, :])
            total = tl.dot(a_part, b_part, total)
        rows_to = row * BLOCK_M + tl.arange(0, BLOCK_M)
        columns_to = column * BLOCK_N + tl.arange(0, BLOCK_N)
        store_tile(c, total, rows_to, columns_to, m, n)


# ---- fused ----


@triton.jit
def gated_mlp(
    x, up, gate, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = (X · Up) · silu(X · Gate): two products of one operand."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    x_tile = x + (rows_at % m)[:, None] * k + depth_at[None, :]
    at = depth_at[:, None] * n + (columns_at % n)[None, :]
    left = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    right = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        x_part = tl.load(x_tile)
        left = tl.dot(x_part, tl.load(up + at), left)
        right = tl.dot(x_part, tl.load(gate + at), right)
        x_tile += BLOCK_K
        at += BLOCK_K * n
    store_tile(c, left * right * tl.sigmoid(right), rows_at, columns_at, m, n)


@triton.jit
def gemm_at_bias_gelu(
    at, b, bias, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = gelu(Aᵀ · B + bias), where the first operand is stored as k rows of m."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        depth_at = first + tl.arange(0, BLOCK_K)
        a_mask = (rows_at < m)[:, None] & (depth_at < k)[None, :]
        b_mask = (depth_at < k)[:, None] & (columns_at < n)[None, :]
        a_part = tl.load(at + rows_at[:, None] + depth_at[None, :] * m, mask=a_mask, other=0.0)
        b_part = tl.load(b + depth_at[:, None] * n + columns_at[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a_part, b_part, total)
    total += tl.load(bias + columns_at, mask=columns_at < n, other=0.0).to(tl.float32)[None, :]
    total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def norm_gemm(
    x, w, c, m, n, k, epsilon,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = rms_norm(X) · W; squares of the rows of X are summed while they are multiplied."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    x_tile = x + (rows_at % m)[:, None] * k + depth_at[None, :]
    w_tile = w + depth_at[:, None] * n + (columns_at % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for _ in range(0, k // BLOCK_K):
        x_part = tl.load(x_tile)
        wide = x_part.to(tl.float32)
        squares += tl.sum(wide * wide, 1)
        total = tl.dot(x_part, tl.load(w_tile), total)
        x_tile += BLOCK_K
        w_tile += BLOCK_K * n
    total = total * tl.rsqrt(squares / k + epsilon)[:, None]
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_residual(
    a, b, residual, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B + residual."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + rows_at[:, None] * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + columns_at[None, :]
    a_mask = (rows_at < m)[:, None]
    b_mask = (columns_at < n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        a_part = tl.load(a_tile, mask=a_mask, other=0.0)
        b_part = tl.load(b_tile, mask=b_mask, other=0.0)
        total = tl.dot(a_part, b_part, total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    c_at = rows_at[:, None] * n + columns_at[None, :]
    total += tl.load(residual + c_at, mask=a_mask & b_mask, other=0.0).to(tl.float32)
    tl.store(c + c_at, total.to(c.dtype.element_ty), mask=a_mask & b_mask)


@triton.jit
def gemm_dual_out(
    a, b, c, scaled, m, n, k, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B, and the same times ``scale`` into a second result."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + (columns_at % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    store_tile(c, total, rows_at, columns_at, m, n)
    store_tile(scaled, total * scale, rows_at, columns_at, m, n)


# ---- narrow ----


@triton.jit
def gemm_k_major(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · Bᵀ with both operands along k, as wgmma wants fp8 and tf32."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    b_tile = b + (columns_at % n)[None, :] * k + depth_at[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        # The precision matters to float32 only.
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, input_precision="tf32")
        a_tile += BLOCK_K
        b_tile += BLOCK_K
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_int8(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · Bᵀ of 8-bit integers, summed as 32-bit ones; both operands along k."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    b_tile = b + (columns_at % n)[None, :] * k + depth_at[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for _ in range(0, k // BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, out_dtype=tl.int32)
        a_tile += BLOCK_K
        b_tile += BLOCK_K
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_int8_weights(
    a, w, scales, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · (W · scales), with a scale per column; W of 8-bit integers is converted in each step."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    w_tile = w + depth_at[:, None] * n + (columns_at % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        w_part = tl.load(w_tile).to(a.dtype.element_ty)
        total = tl.dot(tl.load(a_tile), w_part, total)
        a_tile += BLOCK_K
        w_tile += BLOCK_K * n
    total = total * tl.load(scales + columns_at, mask=columns_at < n, other=0.0).to(tl.float32)[None, :]
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_int4_weights(
    a, w, scales, c, m, n, k, QUANT: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · W with weights of 4 bits and a scale for each QUANT rows of a column.

    A byte of ``w`` holds rows 2i (low nibble) and 2i + 1 (high nibble) of a column; 8 stands for zero.
    """
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    wrapped = columns_at % n
    depth_at = tl.arange(0, BLOCK_K)
    shift = ((depth_at % 2) * 4)[:, None].to(tl.uint8)
    a_tile = a + (rows_at % m)[:, None] * k + depth_at[None, :]
    w_tile = w + (depth_at // 2)[:, None] * n + wrapped[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        nibble = (tl.load(w_tile) >> shift) & 15
        if BLOCK_K <= QUANT:
            scale = tl.load(scales + (first // QUANT) * n + wrapped)[None, :]
        else:
            scale = tl.load(scales + ((first + depth_at) // QUANT)[:, None] * n + wrapped[None, :])
        w_part = (nibble.to(tl.float16) - 8.0) * scale
        total = tl.dot(tl.load(a_tile), w_part.to(tl.float16), total)
        a_tile += BLOCK_K
        w_tile += (BLOCK_K // 2) * n
    store_tile(c, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_fp8_scaled(
    a, b, a_scales, b_scales, c, m, n, k, QUANT: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · Bᵀ of fp8 with a scale for each QUANT of k, of each row of A and of B.

    Scales are stored as k / QUANT rows of m or n. A step longer than QUANT is a chain of products.
    """
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    rows_in = rows_at % m
    columns_in = columns_at % n
    PART: tl.constexpr = BLOCK_K if BLOCK_K < QUANT else QUANT  # noqa: N806
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, k, BLOCK_K):
        for ahead in tl.static_range(0, BLOCK_K, PART):
            depth_at = first + ahead + tl.arange(0, PART)
            a_part = tl.load(a + rows_in[:, None] * k + depth_at[None, :])
            b_part = tl.load(b + columns_in[None, :] * k + depth_at[:, None])
            a_scale = tl.load(a_scales + ((first + ahead) // QUANT) * m + rows_in)
            b_scale = tl.load(b_scales + ((first + ahead) // QUANT) * n + columns_in)
            total += tl.dot(a_part, b_part) * (a_scale[:, None] * b_scale[None, :])
    store_tile(c, total, rows_at, columns_at, m, n)


# ---- shaped ----


@triton.jit
def gemm_batched(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B of each product of a batch, which the second index of the grid counts."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    product = tl.program_id(1)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    a_tile = a + product * m * k + (rows_at % m)[:, None] * k + depth_at[None, :]
    b_tile = b + product * k * n + depth_at[:, None] * n + (columns_at % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k // BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    store_tile(c + product * m * n, total, rows_at, columns_at, m, n)


@triton.jit
def gemm_grouped(
    a, b, c, offsets, count, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_SMS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Products of several heights in one launch: rows offsets[i] to offsets[i + 1] of A by matrix i of B.

    NUM_SMS CTAs; each computes every NUM_SMS-th tile of all products.
    """
    columns = tl.cdiv(n, BLOCK_N)
    depth_at = tl.arange(0, BLOCK_K)
    tile = tl.program_id(0)
    before = 0
    for product in range(count):
        low = tl.load(offsets + product)
        high = tl.load(offsets + product + 1)
        tiles = tl.cdiv(high - low, BLOCK_M) * columns
        while tile < before + tiles:
            row, column = (tile - before) // columns, (tile - before) % columns
            rows_at = low + row * BLOCK_M + tl.arange(0, BLOCK_M)
            columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
            a_mask = (rows_at < high)[:, None]
            b_mask = (columns_at < n)[None, :]
            a_tile = a + rows_at[:, None] * k + depth_at[None, :]
            b_tile = b + product * k * n + depth_at[:, None] * n + columns_at[None, :]
            total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(0, k // BLOCK_K):
                a_part = tl.load(a_tile, mask=a_mask, other=0.0)
                b_part = tl.load(b_tile, mask=b_mask, other=0.0)
                total = tl.dot(a_part, b_part, total)
                a_tile += BLOCK_K
                b_tile += BLOCK_K * n
            store_tile(c, total, rows_at, columns_at, high, n)
            tile += NUM_SMS
        before += tiles


@triton.jit
def gemm_split_k(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
    SPLIT_K: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C += A · B; each of SPLIT_K CTAs of a tile adds the product of its share of k."""
    row, column = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M)
    rows_at = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.cdiv(tl.cdiv(k, BLOCK_K), SPLIT_K) * BLOCK_K
    start = tl.program_id(1) * share
    stop = min(start + share, k)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(start, stop, BLOCK_K):
        depth_at = first + tl.arange(0, BLOCK_K)
        a_mask = (rows_at < m)[:, None] & (depth_at < k)[None, :]
        b_mask = (depth_at < k)[:, None] & (columns_at < n)[None, :]
        a_part = tl.load(a + rows_at[:, None] * k + depth_at[None, :], mask=a_mask, other=0.0)
        b_part = tl.load(b + depth_at[:, None] * n + columns_at[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a_part, b_part, total)
    inside = (rows_at < m)[:, None] & (columns_at < n)[None, :]
    tl.atomic_add(c + rows_at[:, None] * n + columns_at[None, :], total, mask=inside, sem="relaxed")


# ---- attention: tensors of heads × sequence × D; sequences are powers of two, so only tiles that do not
# ---- divide them evenly would need masks, and there are none.


@triton.jit
def attention(
    q, k, v, out, sequence, scale, D: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """softmax(Q · Kᵀ · scale) · V of one head, by running maximum and sum.

    ``scale`` holds log2(e): exponentials are of base 2.
    """
    base = tl.program_id(1) * sequence * D
    deep = tl.arange(0, D)
    rows_at = base + (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None] * D + deep[None, :]
    tile_at = base + tl.arange(0, BLOCK_N)[:, None] * D + deep[None, :]
    query = tl.load(q + rows_at)
    greatest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    for first in range(0, sequence, BLOCK_N):
        k_part = tl.load(k + tile_at + first * D)
        v_part = tl.load(v + tile_at + first * D)
        score = tl.dot(query, tl.trans(k_part))
        above = tl.maximum(greatest, tl.max(score, 1) * scale)
        score = tl.exp2(score * scale - above[:, None])
        fade = tl.exp2(greatest - above)
        weight = weight * fade + tl.sum(score, 1)
        total = tl.dot(score.to(v.dtype.element_ty), v_part, total * fade[:, None])
        greatest = above
    tl.store(out + rows_at, (total / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def attend_span(
    query, k, v, tile_at, mine, start, stop, scale, greatest, weight, total,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attends to keys from ``start`` to ``stop``; MASKED hides those after the query."""
    for first in range(start, stop, BLOCK_N):
        k_part = tl.load(k + tile_at + first * D)
        v_part = tl.load(v + tile_at + first * D)
        score = tl.dot(query, tl.trans(k_part)) * scale
        if MASKED:
            score = tl.where(mine[:, None] >= (first + tl.arange(0, BLOCK_N))[None, :], score, float("-inf"))
        above = tl.maximum(greatest, tl.max(score, 1))
        score = tl.exp2(score - above[:, None])
        fade = tl.exp2(greatest - above)
        weight = weight * fade + tl.sum(score, 1)
        total = tl.dot(score.to(v.dtype.element_ty), v_part, total * fade[:, None])
        greatest = above
    return greatest, weight, total


@triton.jit
def attention_causal(
    q, k, v, out, sequence, scale, D: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Causal attention of one head: first the tiles below the diagonal, then those on it.

    The first tile of keys holds key 0, which every query sees: no running maximum stays infinite.
    """
    base = tl.program_id(1) * sequence * D
    first = tl.program_id(0) * BLOCK_M
    mine = first + tl.arange(0, BLOCK_M)
    deep = tl.arange(0, D)
    rows_at = base + mine[:, None] * D + deep[None, :]
    tile_at = base + tl.arange(0, BLOCK_N)[:, None] * D + deep[None, :]
    query = tl.load(q + rows_at)
    greatest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    below = first // BLOCK_N * BLOCK_N
    greatest, weight, total = attend_span(
        query, k, v, tile_at, mine, 0, below, scale, greatest, weight, total, D, BLOCK_N, False
    )
    greatest, weight, total = attend_span(
        query, k, v, tile_at, mine, below, first + BLOCK_M, scale, greatest, weight, total, D, BLOCK_N, True
    )
    tl.store(out + rows_at, (total / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def attention_backward_dkdv(
    q, k, v, d_out, lse, delta, dk, dv, sequence, scale, D: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Gradients of a tile of K and V; the loop runs over queries, and scores are transposed.

    ``lse`` is the logarithm (natural) of each row's sum, ``delta`` the row sum of out · d_out.
    """
    base = tl.program_id(1) * sequence * D
    deep = tl.arange(0, D)
    keys_at = base + (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[:, None] * D + deep[None, :]
    tile_at = base + tl.arange(0, BLOCK_M)[:, None] * D + deep[None, :]
    sums_at = tl.program_id(1) * sequence + tl.arange(0, BLOCK_M)
    k_part = tl.load(k + keys_at)
    v_part = tl.load(v + keys_at)
    k_total = tl.zeros((BLOCK_N, D), tl.float32)
    v_total = tl.zeros((BLOCK_N, D), tl.float32)
    for first in range(0, sequence, BLOCK_M):
        q_part = tl.load(q + tile_at + first * D)
        o_part = tl.load(d_out + tile_at + first * D)
        row_lse = tl.load(lse + sums_at + first) * 1.4426950408889634
        row_delta = tl.load(delta + sums_at + first)
        score = tl.dot(k_part, tl.trans(q_part)) * (scale * 1.4426950408889634)
        chance = tl.exp2(score - row_lse[None, :])
        v_total = tl.dot(chance.to(q.dtype.element_ty), o_part, v_total)
        slope = chance * (tl.dot(v_part, tl.trans(o_part)) - row_delta[None, :])
        k_total = tl.dot(slope.to(q.dtype.element_ty), q_part, k_total)
    tl.store(dk + keys_at, (k_total * scale).to(dk.dtype.element_ty))
    tl.store(dv + keys_at, v_total.to(dv.dtype.element_ty))


@triton.jit
def attention_backward_dq(
    q, k, v, d_out, lse, delta, dq, sequence, scale, D: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Gradient of a tile of Q; the loop runs over keys. ``lse`` and ``delta`` as for dK and dV."""
    base = tl.program_id(1) * sequence * D
    deep = tl.arange(0, D)
    mine = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows_at = base + mine[:, None] * D + deep[None, :]
    tile_at = base + tl.arange(0, BLOCK_N)[:, None] * D + deep[None, :]
    q_part = tl.load(q + rows_at)
    o_part = tl.load(d_out + rows_at)
    row_lse = tl.load(lse + tl.program_id(1) * sequence + mine) * 1.4426950408889634
    row_delta = tl.load(delta + tl.program_id(1) * sequence + mine)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    for first in range(0, sequence, BLOCK_N):
        k_part = tl.load(k + tile_at + first * D)
        v_part = tl.load(v + tile_at + first * D)
        score = tl.dot(q_part, tl.trans(k_part)) * (scale * 1.4426950408889634)
        chance = tl.exp2(score - row_lse[:, None])
        slope = chance * (tl.dot(o_part, tl.trans(v_part)) - row_delta[:, None])
        total = tl.dot(slope.to(q.dtype.element_ty), k_part, total)
    tl.store(dq + rows_at, (total * scale).to(dq.dtype.element_ty))


@triton.jit
def attention_decode(
    q, k, v, partial, lse, length, scale, D: tl.constexpr, QUERIES: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr, SPLITS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """QUERIES query heads of one key head attend to one of SPLITS parts of the keys.

    Writes the part's result and the base-2 logarithm of its sum, to be merged later. ``scale`` holds
    log2(e).
    """
    split, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    deep = tl.arange(0, D)
    queries = tl.arange(0, QUERIES)
    query = tl.load(q + (head * QUERIES + queries)[:, None] * D + deep[None, :])
    share = tl.cdiv(length, SPLITS)
    start = split * share
    stop = min(start + share, length)
    greatest = tl.full((QUERIES,), float("-inf"), tl.float32)
    weight = tl.zeros((QUERIES,), tl.float32)
    total = tl.zeros((QUERIES, D), tl.float32)
    for first in range(start, stop, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        at = (head * length + keys)[:, None] * D + deep[None, :]
        inside = keys < stop
        k_part = tl.load(k + at, mask=inside[:, None], other=0.0)
        v_part = tl.load(v + at, mask=inside[:, None], other=0.0)
        score = tl.dot(query, tl.trans(k_part)) * scale
        score = tl.where(inside[None, :], score, float("-inf"))
        above = tl.maximum(greatest, tl.max(score, 1))
        score = tl.exp2(score - above[:, None])
        fade = tl.exp2(greatest - above)
        weight = weight * fade + tl.sum(score, 1)
        total = tl.dot(score.to(v.dtype.element_ty), v_part, total * fade[:, None])
        greatest = above
    # An empty part has weight 0 and logarithm -inf.
    total = total / tl.where(weight > 0.0, weight, 1.0)[:, None]
    row = (split * heads + head) * QUERIES + queries
    tl.store(partial + row[:, None] * D + deep[None, :], total)
    tl.store(lse + row, greatest + tl.log2(weight))


# ---- recurrence ----


@triton.jit
def linear_attention(
    q, k, v, out, length, width, D: tl.constexpr,  # noqa: N803
    CHUNK: tl.constexpr, BLOCK_V: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Causal linear attention of one head: out = tril(Q · Kᵀ) · V within a chunk, and Q · S of those before.

    ``length`` is a power of two, so that chunks divide it. V has ``width`` columns, of which a CTA
    computes BLOCK_V.
    """
    order = tl.arange(0, CHUNK)
    deep = tl.arange(0, D)
    columns_at = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    inside = (columns_at < width)[None, :]
    causal = order[:, None] >= order[None, :]
    state = tl.zeros((D, BLOCK_V), tl.float32)
    for first in range(0, length, CHUNK):
        rows_at = tl.program_id(1) * length + first + order
        q_part = tl.load(q + rows_at[:, None] * D + deep[None, :])
        k_part = tl.load(k + rows_at[:, None] * D + deep[None, :])
        v_at = rows_at[:, None] * width + columns_at[None, :]
        v_part = tl.load(v + v_at, mask=inside, other=0.0)
        score = tl.where(causal, tl.dot(q_part, tl.trans(k_part)), 0.0)
        result = tl.dot(q_part, state.to(v.dtype.element_ty))
        result = tl.dot(score.to(v.dtype.element_ty), v_part, result)
        state = tl.dot(tl.trans(k_part), v_part, state)
        tl.store(out + v_at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def delta_state(
    q, k, v, decay, out, length, width, D: tl.constexpr, SPAN: tl.constexpr,  # noqa: N803
    BLOCK_V: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """A delta rule over spans: out = Q · S, then S = decay · S + Kᵀ · (V - K · S).

    The result depends on SPAN, which therefore belongs to the problem. ``decay`` holds a factor for
    each span of each head.
    """
    order = tl.arange(0, SPAN)
    deep = tl.arange(0, D)
    columns_at = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    inside = (columns_at < width)[None, :]
    spans = length // SPAN
    state = tl.zeros((D, BLOCK_V), tl.float32)
    for span in range(0, spans):
        rows_at = tl.program_id(1) * length + span * SPAN + order
        q_part = tl.load(q + rows_at[:, None] * D + deep[None, :])
        k_part = tl.load(k + rows_at[:, None] * D + deep[None, :])
        v_at = rows_at[:, None] * width + columns_at[None, :]
        v_part = tl.load(v + v_at, mask=inside, other=0.0)
        factor = tl.load(decay + tl.program_id(1) * spans + span)
        narrow = state.to(v.dtype.element_ty)
        change = v_part.to(tl.float32) - tl.dot(k_part, narrow)
        tl.store(out + v_at, tl.dot(q_part, narrow).to(out.dtype.element_ty), mask=inside)
        state = tl.dot(tl.trans(k_part), change.to(v.dtype.element_ty), state * factor)


# ---- rows ----


@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Softmax of one row in steps of BLOCK: running maximum and sum, then the row again."""
    start = tl.program_id(0).to(tl.int64) * columns
    greatest = float("-inf")
    weight = 0.0
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        above = tl.maximum(greatest, tl.max(part, 0))
        weight = weight * tl.exp(greatest - above) + tl.sum(tl.exp(part - above), 0)
        greatest = above
    inverse = 1.0 / weight
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        part = tl.exp(part - greatest) * inverse
        tl.store(out + start + at, part.to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):  # noqa: N803
    """Layer norm of one row in steps of BLOCK: mean, variance, then the row again."""
    start = tl.program_id(0).to(tl.int64) * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + start + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / columns
    square = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < columns, other=0.0).to(tl.float32)
        part = tl.where(at < columns, part - mean, 0.0)
        square += part * part
    inverse = tl.rsqrt(tl.sum(square, 0) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        part = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
        gain = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        offset = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
        part = (part - mean) * inverse * gain + offset
        tl.store(out + start + at, part.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):  # noqa: N803
    """Each row by its root mean square, times ``weight``, in steps of BLOCK."""
    start = tl.program_id(0).to(tl.int64) * columns
    square = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < columns, other=0.0).to(tl.float32)
        square += part * part
    inverse = tl.rsqrt(tl.sum(square, 0) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < columns, other=0.0).to(tl.float32)
        gain = tl.load(weight + at, mask=at < columns, other=0.0).to(tl.float32)
        tl.store(out + start + at, (part * inverse * gain).to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def matvec(a, x, y, m, k, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):  # noqa: N803
    """y = A · x."""
    rows_at = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows_from = a + rows_at[:, None].to(tl.int64) * k
    total = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for first in range(0, k, BLOCK_K):
        at = first + tl.arange(0, BLOCK_K)
        inside = (rows_at < m)[:, None] & (at < k)[None, :]
        part = tl.load(rows_from + at[None, :], mask=inside, other=0.0).to(tl.float32)
        total += part * tl.load(x + at, mask=at < k, other=0.0).to(tl.float32)[None, :]
    tl.store(y + rows_at, tl.sum(total, 1).to(y.dtype.element_ty), mask=rows_at < m)


# ---- conv ----


@triton.jit
def conv3x3(
    x, w, out, images, height, width, filters, CHANNELS: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Convolution of 3 × 3 with a border of zeros as a product of pixels × (9 · CHANNELS) by filters.

    ``x`` and ``out`` have channels last; ``w`` has 9 · CHANNELS rows. A step longer than CHANNELS is a
    chain of products, each of one tap; taps beyond the ninth load zeros.
    """
    pixels = images * height * width
    row, column = tile_of(tl.program_id(0), tl.cdiv(pixels, BLOCK_M), tl.cdiv(filters, BLOCK_N), GROUP_M)
    pixel = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = column * BLOCK_N + tl.arange(0, BLOCK_N)
    x_at = pixel % width
    y_at = pixel // width % height
    PART: tl.constexpr = BLOCK_K if BLOCK_K < CHANNELS else CHANNELS  # noqa: N806
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, 9 * CHANNELS, BLOCK_K):
        for ahead in tl.static_range(0, BLOCK_K, PART):
            depth = first + ahead
            tap = depth // CHANNELS
            # The compiler does not see that PART divides the remainder, without which loads are narrow.
            channel = tl.multiple_of(depth % CHANNELS, PART) + tl.arange(0, PART)
            down, right = tap // 3 - 1, tap % 3 - 1
            inside = (pixel < pixels) & (y_at + down >= 0) & (y_at + down < height)
            inside = inside & (x_at + right >= 0) & (x_at + right < width) & (tap < 9)
            source = (pixel + down * width + right) * CHANNELS
            x_part = tl.load(x + source[:, None] + channel[None, :], mask=inside[:, None], other=0.0)
            w_at = (depth + tl.arange(0, PART))[:, None] * filters + columns_at[None, :]
            w_part = tl.load(w + w_at, mask=(columns_at < filters)[None, :] & (tap < 9), other=0.0)
            total = tl.dot(x_part, w_part, total)
    store_tile(out, total, pixel, columns_at, pixels, filters)


@triton.jit
def conv1d_depthwise(
    x, w, bias, out, length, channels, WIDTH: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """silu of a causal convolution of each channel along the sequence; ``x`` has channels last."""
    times = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_at = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    base = tl.program_id(2) * length * channels
    known = columns_at < channels
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    total += tl.load(bias + columns_at, mask=known, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(0, WIDTH):
        source = times + tap - (WIDTH - 1)
        inside = ((source >= 0) & (source < length))[:, None] & known[None, :]
        x_at = base + source[:, None] * channels + columns_at[None, :]
        part = tl.load(x + x_at, mask=inside, other=0.0).to(tl.float32)
        total += part * tl.load(w + tap * channels + columns_at, mask=known, other=0.0).to(tl.float32)[None, :]
    store_tile(out + base, total * tl.sigmoid(total), times, columns_at, length, channels)
