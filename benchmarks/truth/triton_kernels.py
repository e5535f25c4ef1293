"""The Triton kernels of the plan. Sizes are multiples of tiles: nothing is masked.

``store`` = 0 leaves the result unwritten. It is an argument, as it was when the launches of the store
were measured.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_of(number, rows, columns, GROUP: tl.constexpr):  # noqa: N803
    """Row and column of a tile; GROUP rows of tiles are walked together, so that L2 serves them."""
    group = number // (GROUP * columns)
    height = min(rows - group * GROUP, GROUP)
    inside = number % (GROUP * columns)
    return group * GROUP + inside % height, inside // height


@triton.jit
def foreign_gemm(
    a, b, c, m, n, k, store,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MMA: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B, row-major. ``MMA`` only tells variants apart that the environment makes the
    compiler build."""
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    rows_at = row * BM + tl.arange(0, BM)
    columns_at = column * BN + tl.arange(0, BN)
    depth_at = tl.arange(0, BK)
    a_tile = a + rows_at[:, None] * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + columns_at[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k // BK):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BK
        b_tile += BK * n
    if store != 0:
        tl.store(c + rows_at[:, None] * n + columns_at[None, :], total.to(c.dtype.element_ty))


@triton.jit
def foreign_gemm_persistent(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The same by a CTA per SM that takes one tile after the other, the loops flattened into one
    pipeline."""
    tiles = (m // BM) * (n // BN)
    depth_at = tl.arange(0, BK)
    for tile in tl.range(tl.program_id(0), tiles, SMS, flatten=True):
        row, column = tile_of(tile, m // BM, n // BN, 8)
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(0, k // BK):
            # Computed anew in each step: what a flattened loop carries is no longer known to be
            # contiguous.
            rows_at = row * BM + tl.arange(0, BM)
            columns_at = column * BN + tl.arange(0, BN)
            at = step * BK + depth_at
            a_part = tl.load(a + rows_at[:, None] * k + at[None, :])
            b_part = tl.load(b + at[:, None] * n + columns_at[None, :])
            total = tl.dot(a_part, b_part, total)
        rows_at = row * BM + tl.arange(0, BM)
        columns_at = column * BN + tl.arange(0, BN)
        tl.store(c + rows_at[:, None] * n + columns_at[None, :], total.to(c.dtype.element_ty))


@triton.jit
def foreign_dequant(
    w, x, c, m, n, k, scale, store,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SCALED: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = (scale · W) · X. W of 8-bit integers is converted on its way to the MMA.

    W of float16 is multiplied there all the same (SCALED), or left as it is: then it stays in
    shared memory.
    """
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    rows_at = row * BM + tl.arange(0, BM)
    columns_at = column * BN + tl.arange(0, BN)
    depth_at = tl.arange(0, BK)
    w_tile = w + rows_at[:, None] * k + depth_at[None, :]
    x_tile = x + depth_at[:, None] * n + columns_at[None, :]
    factor = scale.to(tl.float16)
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k // BK):
        w_part = tl.load(w_tile)
        if SCALED:
            w_part = w_part.to(tl.float16) * factor
        total = tl.dot(w_part, tl.load(x_tile), total)
        w_tile += BK
        x_tile += BK * n
    if store != 0:
        tl.store(c + rows_at[:, None] * n + columns_at[None, :], total.to(c.dtype.element_ty))


@triton.jit
def foreign_attention(
    q, k, v, out, sequence, scale, store,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """softmax(Q · Kᵀ · scale) · V of one head, by running maximum and sum.

    ``scale`` holds log2(e): exponentials are of base 2.
    """
    base = tl.program_id(1) * sequence * D
    rows_at = base + (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * D + tl.arange(0, D)[None, :]
    tile_at = base + tl.arange(0, BN)[:, None] * D + tl.arange(0, D)[None, :]
    query = tl.load(q + rows_at)
    greatest = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, sequence, BN):
        k_part = tl.load(k + tile_at + first * D)
        v_part = tl.load(v + tile_at + first * D)
        score = tl.dot(query, tl.trans(k_part))
        above = tl.maximum(greatest, tl.max(score, 1) * scale)
        score = tl.exp2(score * scale - above[:, None])
        fade = tl.exp2(greatest - above)
        weight = weight * fade + tl.sum(score, 1)
        total = tl.dot(score.to(tl.float16), v_part, total * fade[:, None])
        greatest = above
    total = total / weight[:, None]
    if store != 0:
        tl.store(out + rows_at, total.to(tl.float16))


@triton.jit
def foreign_softmax(x, out, COLUMNS: tl.constexpr):  # noqa: N803
    """Softmax of one row, which stays in registers."""
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(x + at).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, (row / tl.sum(row, 0)).to(out.dtype.element_ty))


@triton.jit
def foreign_layernorm(x, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """Layer norm of one row in steps of BLOCK: sums first, then the row again."""
    start = tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        part = tl.load(x + start + first + tl.arange(0, BLOCK)).to(tl.float32)
        total += part
        square += part * part
    mean = tl.sum(total, 0) / COLUMNS
    inverse = tl.rsqrt(tl.sum(square, 0) / COLUMNS - mean * mean + 1e-5)
    for first in range(0, COLUMNS, BLOCK):
        at = start + first + tl.arange(0, BLOCK)
        part = tl.load(x + at).to(tl.float32)
        tl.store(out + at, ((part - mean) * inverse).to(out.dtype.element_ty))


@triton.jit
def truth_gemm_k_major(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · Bᵀ with both operands along k, as wgmma wants fp8 and tf32."""
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    depth_at = tl.arange(0, BK)
    a_tile = a + (row * BM + tl.arange(0, BM))[:, None] * k + depth_at[None, :]
    b_tile = b + (column * BN + tl.arange(0, BN))[None, :] * k + depth_at[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k // BK):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BK
        b_tile += BK
    out = c + (row * BM + tl.arange(0, BM))[:, None] * n + (column * BN + tl.arange(0, BN))[None, :]
    tl.store(out, total.to(c.dtype.element_ty))


@triton.jit
def truth_gemm_tma(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = A · B; a, b and c are tensor descriptors."""
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, k // BK):
        total = tl.dot(a.load([row * BM, step * BK]), b.load([step * BK, column * BN]), total)
    c.store([row * BM, column * BN], total.to(tl.float16))


@triton.jit
def truth_gemm_grouped(
    tensors, sizes, count,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Products of several sizes in one launch: ``tensors`` holds the addresses of A, B and C of each,
    ``sizes`` its m, n and k. A CTA takes every SMS-th tile of all."""
    tile, first = tl.program_id(0), 0
    for product in range(count):
        m = tl.load(sizes + 3 * product)
        n = tl.load(sizes + 3 * product + 1)
        k = tl.load(sizes + 3 * product + 2)
        rows, columns = m // BM, n // BN
        a = tl.load(tensors + 3 * product).to(tl.pointer_type(tl.float16))
        b = tl.load(tensors + 3 * product + 1).to(tl.pointer_type(tl.float16))
        c = tl.load(tensors + 3 * product + 2).to(tl.pointer_type(tl.float16))
        while tile < first + rows * columns:
            row, column = (tile - first) // columns, (tile - first) % columns
            at_row = (row * BM + tl.arange(0, BM))[:, None]
            at_column = (column * BN + tl.arange(0, BN))[None, :]
            a_tile = a + at_row * k + tl.arange(0, BK)[None, :]
            b_tile = b + tl.arange(0, BK)[:, None] * n + at_column
            total = tl.zeros((BM, BN), tl.float32)
            for _ in range(0, k // BK):
                a_part = tl.load(tl.multiple_of(a_tile, [16, 16]))
                total = tl.dot(a_part, tl.load(tl.multiple_of(b_tile, [16, 16])), total)
                a_tile += BK
                b_tile += BK * n
            tl.store(c + at_row * n + at_column, total.to(tl.float16))
            tile += SMS
        first += rows * columns


@triton.jit
def truth_gemm_split_k(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C += A · B, each of SPLIT CTAs of a tile adding what its share of k gives."""
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    at_row = (row * BM + tl.arange(0, BM))[:, None]
    at_column = (column * BN + tl.arange(0, BN))[None, :]
    depth_at = tl.program_id(1) * (k // SPLIT) + tl.arange(0, BK)
    a_tile = a + at_row * k + depth_at[None, :]
    b_tile = b + depth_at[:, None] * n + at_column
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k // (BK * SPLIT)):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BK
        b_tile += BK * n
    tl.atomic_add(c + at_row * n + at_column, total, sem="relaxed")


@triton.jit
def truth_gemm_gated(
    x, up, gate, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """C = (X · Up) · silu(X · Gate): two products of one operand, and an epilogue that computes."""
    row, column = tile_of(tl.program_id(0), m // BM, n // BN, 8)
    at_row = (row * BM + tl.arange(0, BM))[:, None]
    at_column = (column * BN + tl.arange(0, BN))[None, :]
    x_tile = x + at_row * k + tl.arange(0, BK)[None, :]
    at = tl.arange(0, BK)[:, None] * n + at_column
    left = tl.zeros((BM, BN), tl.float32)
    right = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k // BK):
        x_part = tl.load(x_tile)
        left = tl.dot(x_part, tl.load(up + at), left)
        right = tl.dot(x_part, tl.load(gate + at), right)
        x_tile += BK
        at += BK * n
    tl.store(c + at_row * n + at_column, (left * right * tl.sigmoid(right)).to(c.dtype.element_ty))


@triton.jit
def truth_attention_causal(
    q, k, v, out, sequence, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Causal attention of one head: tiles above the diagonal are not read, those on it are masked.
    ``scale`` holds log2(e)."""
    base = tl.program_id(1) * sequence * D
    first = tl.program_id(0) * BM
    mine = first + tl.arange(0, BM)
    rows_at = base + mine[:, None] * D + tl.arange(0, D)[None, :]
    tile_at = base + tl.arange(0, BN)[:, None] * D + tl.arange(0, D)[None, :]
    query = tl.load(q + rows_at)
    greatest = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, first + BM, BN):
        score = tl.dot(query, tl.trans(tl.load(k + tile_at + start * D))) * scale
        score = tl.where(mine[:, None] >= (start + tl.arange(0, BN))[None, :], score, float("-inf"))
        above = tl.maximum(greatest, tl.max(score, 1))
        score = tl.exp2(score - above[:, None])
        fade = tl.exp2(greatest - above)
        weight = weight * fade + tl.sum(score, 1)
        total = tl.dot(score.to(tl.float16), tl.load(v + tile_at + start * D), total * fade[:, None])
        greatest = above
    tl.store(out + rows_at, (total / weight[:, None]).to(tl.float16))


@triton.jit
def truth_rms_norm(x, scale, out, COLUMNS: tl.constexpr):  # noqa: N803
    """Each row by its root mean square, times ``scale``."""
    at = tl.arange(0, COLUMNS)
    row_at = tl.program_id(0).to(tl.int64) * COLUMNS + at
    row = tl.load(x + row_at).to(tl.float32)
    factor = tl.rsqrt(tl.sum(row * row, 0) / COLUMNS + 1e-6)
    tl.store(out + row_at, (row * factor * tl.load(scale + at).to(tl.float32)).to(out.dtype.element_ty))


@triton.jit
def truth_matvec(a, x, y, k, BM: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    """y = A · x."""
    rows_at = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None].to(tl.int64) * k
    total = tl.zeros((BM, BK), tl.float32)
    for first in range(0, k, BK):
        at = first + tl.arange(0, BK)
        total += tl.load(a + rows_at + at[None, :]).to(tl.float32) * tl.load(x + at).to(tl.float32)[None, :]
    tl.store(y + tl.program_id(0) * BM + tl.arange(0, BM), tl.sum(total, 1).to(y.dtype.element_ty))
