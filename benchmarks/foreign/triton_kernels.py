"""Triton kernels with switches that take one cause of lost time away. Sizes are multiples of tiles:
nothing is masked.

``LOAD`` of the kernels that walk a dimension: ``each`` step loads its own tile; ``twice`` loads
each tile two times in a row, so that half of the bytes come from DRAM and all copies stay; ``once``
loads one tile ahead of the loop and computes on it in every step, so that nothing is copied.
``store`` = 0 leaves the result unwritten; it is an argument, so that the compiler cannot know it.
With anything but ``each`` and 1 the result is wrong: these exist to be measured.
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
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LOAD: tl.constexpr, MMA: tl.constexpr,  # noqa: N803
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
    if LOAD == "once":
        a_part = tl.load(a_tile)
        b_part = tl.load(b_tile)
        for _ in range(0, k // BK):
            total = tl.dot(a_part, b_part, total)
    elif LOAD == "twice":
        for step in range(0, k // BK):
            at = (step // 2) * BK
            total = tl.dot(tl.load(a_tile + at), tl.load(b_tile + at * n), total)
    else:
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
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, LOAD: tl.constexpr, SOFTMAX: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """softmax(Q · Kᵀ · scale) · V of one head, by running maximum and sum. Without SOFTMAX the
    scores are weights.

    ``scale`` holds log2(e): exponentials are of base 2.
    """
    base = tl.program_id(1) * sequence * D
    rows_at = base + (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * D + tl.arange(0, D)[None, :]
    tile_at = base + tl.arange(0, BN)[:, None] * D + tl.arange(0, D)[None, :]
    query = tl.load(q + rows_at)
    greatest = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    if LOAD == "once":
        k_part = tl.load(k + tile_at)
        v_part = tl.load(v + tile_at)
    for first in range(0, sequence, BN):
        if LOAD != "once":
            k_part = tl.load(k + tile_at + first * D)
            v_part = tl.load(v + tile_at + first * D)
        score = tl.dot(query, tl.trans(k_part))
        if SOFTMAX:
            above = tl.maximum(greatest, tl.max(score, 1) * scale)
            score = tl.exp2(score * scale - above[:, None])
            fade = tl.exp2(greatest - above)
            weight = weight * fade + tl.sum(score, 1)
            total = total * fade[:, None]
            greatest = above
        total = tl.dot(score.to(tl.float16), v_part, total)
    if SOFTMAX:
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
