"""The Triton kernels of ``second.SECOND``, in the ways that they are commonly written.

Names of meta-parameters that may change between launches start with BLOCK, CHUNK, GROUP, SPLIT or NUM.
Other constants (HEAD_DIM, PAGE, ...) belong to the problem.
"""
# ruff: noqa: N803, N806

from __future__ import annotations

import triton
import triton.language as tl

from .kernels import tile_of

# ---- gemm ----


@triton.jit
def matmul_tail(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    """C = A · B where the last step of k is cut by a mask."""
    pid = tl.program_id(0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    first_pid_m = (pid // num_pid_in_group) * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (pid % num_pid_in_group) % group_size_m
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + offs_am[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_bn[None, :]
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptr + stride_cm * offs_cm[:, None] + offs_cn[None, :], c, mask=c_mask)


@triton.jit
def matmul_strided(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A · B of any strides, on a grid of two dimensions."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    A = a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak
    B = b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(K, 0, -BLOCK_K):
        a = tl.load(A, mask=(rm[:, None] < M) & (rk[None, :] < k), other=0.0)
        b = tl.load(B, mask=(rk[:, None] < k) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        A += BLOCK_K * stride_ak
        B += BLOCK_K * stride_bk
    C = c_ptr + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    tl.store(C, acc.to(c_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def matmul_precise(
    a_ptr, b_ptr, c_ptr, M, N, K, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A · B of float32 in ``ieee`` on CUDA cores, or in three products of tf32."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rm[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, input_precision=PRECISION)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def matmul_block_pointers(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A · B by block pointers, columns of tiles first."""
    pid_m = tl.program_id(0) % tl.cdiv(M, BLOCK_M)
    pid_n = tl.program_id(0) // tl.cdiv(M, BLOCK_M)
    a_block = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (pid_m * BLOCK_M, pid_n * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c_block, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def matmul_descriptor_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    NUM_SMS: tl.constexpr,
):  # fmt: skip
    """C = A · Bᵀ on tensor descriptors; NUM_SMS CTAs take every NUM_SMS-th tile."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    for tile_id in range(tl.program_id(0), num_pid_m * num_pid_n, NUM_SMS):
        pid_m, pid_n = tile_of(tile_id, num_pid_m, num_pid_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])
            b = b_desc.load([pid_n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_stream_k(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_SMS: tl.constexpr,
):  # fmt: skip
    """C += A · B; each CTA takes an equal share of the steps of all tiles, and adds what it has of a tile."""
    num_pid_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    total = tl.cdiv(M, BLOCK_M) * num_pid_n * steps
    share = tl.cdiv(total, NUM_SMS)
    start = tl.program_id(0) * share
    last = min(start + share, total)
    while start < last:
        tile = start // steps
        end = min((tile + 1) * steps, last)
        rm = (tile // num_pid_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = (tile % num_pid_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        rk = (start % steps) * BLOCK_K + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + rm[:, None] * K + rk[None, :]
        b_ptrs = b_ptr + rk[:, None] * N + rn[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for _ in range(start, end):
            a = tl.load(a_ptrs, mask=rm[:, None] < M, other=0.0)
            b = tl.load(b_ptrs, mask=rn[None, :] < N, other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K * N
        mask = (rm[:, None] < M) & (rn[None, :] < N)
        tl.atomic_add(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=mask, sem="relaxed")
        start = end


# ---- fused ----


@triton.jit
def swiglu_packed(
    x_ptr, w_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Y = silu(X · Wᵀ[:n]) · (X · Wᵀ[n:]) of one matrix that holds gate and up, each row along k."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    g_ptrs = w_ptr + offs_n[None, :] * K + offs_k[:, None]
    u_ptrs = g_ptrs + N * K
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        k_mask = offs_k < K - k * BLOCK_K
        x = tl.load(x_ptrs, mask=(offs_m < M)[:, None] & k_mask[None, :], other=0.0)
        gate = tl.dot(x, tl.load(g_ptrs, mask=k_mask[:, None], other=0.0), gate)
        up = tl.dot(x, tl.load(u_ptrs, mask=k_mask[:, None], other=0.0), up)
        x_ptrs += BLOCK_K
        g_ptrs += BLOCK_K
        u_ptrs += BLOCK_K
    y = gate / (1.0 + tl.exp(-gate)) * up
    mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def linear_residual_sums(
    x_ptr, w_ptr, res_ptr, y_ptr, sum_ptr, square_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Y = X · W + residual, and what a layer norm needs next: sums of each row, and of its squares."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x_ptrs), tl.load(w_ptrs), acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    out = offs_m[:, None] * N + offs_n[None, :]
    acc += tl.load(res_ptr + out).to(tl.float32)
    tl.store(y_ptr + out, acc.to(y_ptr.dtype.element_ty))
    tl.atomic_add(sum_ptr + offs_m, tl.sum(acc, axis=1))
    tl.atomic_add(square_ptr + offs_m, tl.sum(acc * acc, axis=1))


@triton.jit
def linear_sumexp(
    x_ptr, w_ptr, sum_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Adds up the exponentials of each row of X · Wᵀ, which is not stored itself."""
    pid_m, pid_n = tl.program_id(1), tl.program_id(0)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_n[None, :] * K + offs_k[:, None]
    logits = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs, mask=(offs_m < M)[:, None], other=0.0)
        w = tl.load(w_ptrs, mask=(offs_n < N)[None, :], other=0.0)
        logits = tl.dot(x, w, logits)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    weight = tl.where((offs_n < N)[None, :], tl.exp(logits), 0.0)
    tl.atomic_add(sum_ptr + offs_m, tl.sum(weight, axis=1), mask=offs_m < M)


@triton.jit
def linear_layer_norm(
    x_ptr, w_ptr, bias_ptr, y_ptr, M, K, eps, N: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Layer norm of X · W + bias, whose N columns one CTA holds."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, N)
    acc = tl.zeros((BLOCK_M, N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + offs_k[None, :], mask=rows[:, None] < M, other=0.0)
        w = tl.load(w_ptr + offs_k[:, None] * N + cols[None, :])
        acc = tl.dot(x, w, acc)
    acc += tl.load(bias_ptr + cols)[None, :]
    mean = tl.sum(acc, axis=1) / N
    centered = acc - mean[:, None]
    var = tl.sum(centered * centered, axis=1) / N
    y = centered * (1.0 / tl.sqrt(var + eps))[:, None]
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=rows[:, None] < M)


@triton.jit
def two_layers(
    x_ptr, w1_ptr, w2_ptr, y_ptr, M, HIDDEN, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Y = relu(X · W1) · W2, with the hidden layer kept on chip a piece at a time."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, DIM)
    x = tl.load(x_ptr + rows[:, None] * DIM + dim[None, :])
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for h in range(0, HIDDEN, BLOCK_N):
        hidden = h + tl.arange(0, BLOCK_N)
        w1 = tl.load(w1_ptr + dim[:, None] * HIDDEN + hidden[None, :])
        w2 = tl.load(w2_ptr + hidden[:, None] * DIM + dim[None, :])
        act = tl.maximum(tl.dot(x, w1), 0.0)
        acc += tl.dot(act.to(x.dtype), w2)
    tl.store(y_ptr + rows[:, None] * DIM + dim[None, :], acc.to(y_ptr.dtype.element_ty))


@triton.jit
def linear_lora(
    x_ptr, w_ptr, a_ptr, b_ptr, y_ptr, M, N, K, scaling, RANK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Y = X · W + scaling · (X · A) · B with A and B of rank RANK."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rank = tl.arange(0, RANK)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + offs_m[:, None] * K + offs_k[None, :])
        acc = tl.dot(x, tl.load(w_ptr + offs_k[:, None] * N + offs_n[None, :]), acc)
        low = tl.dot(x, tl.load(a_ptr + offs_k[:, None] * RANK + rank[None, :]), low)
    b = tl.load(b_ptr + rank[:, None] * N + offs_n[None, :])
    acc += tl.dot((low * scaling).to(b.dtype), b)
    tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(y_ptr.dtype.element_ty))


@triton.jit
def nearest_centroid(
    x_ptr, c_ptr, norm_ptr, best_ptr, M, N, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Smallest of |c|² - 2 x · c over all centroids c, for each row x."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, DIM)
    x = tl.load(x_ptr + rows[:, None] * DIM + dim[None, :], mask=rows[:, None] < M, other=0.0)
    best = tl.full((BLOCK_M,), float("inf"), tl.float32)
    for n in range(0, N, BLOCK_N):
        cols = n + tl.arange(0, BLOCK_N)
        c = tl.load(c_ptr + cols[None, :] * DIM + dim[:, None])
        distance = tl.load(norm_ptr + cols)[None, :] - 2.0 * tl.dot(x, c)
        best = tl.minimum(best, tl.min(distance, axis=1))
    tl.store(best_ptr + rows, best, mask=rows < M)


# ---- narrow ----


@triton.jit
def w8a8(
    a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = (A · Bᵀ) · scale of each row of A · scale of each row of B, of 8-bit integers."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    scale_a = tl.load(scale_a_ptr + offs_m)
    scale_b = tl.load(scale_b_ptr + offs_n)
    c = acc.to(tl.float32) * scale_a[:, None] * scale_b[None, :]
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c.to(c_ptr.dtype.element_ty))


@triton.jit
def w8a8_fp8_blocks(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, QUANT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A · Bᵀ of fp8 with a scale for 1 × QUANT of A, and QUANT × QUANT of B."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * K + offs_k[:, None]
    parts = K // QUANT
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        part = k * BLOCK_K // QUANT
        a_s = tl.load(as_ptr + offs_m * parts + part)
        b_s = tl.load(bs_ptr + (offs_n // QUANT) * parts + part)
        acc += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptr + offs_cm[:, None] * N + offs_cn[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def fp8_promoted(
    a_ptr, b_ptr, c_ptr, M, N, K, PROMOTE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A · Bᵀ of fp8, whose sums in tensor cores are added up as floats after each PROMOTE of k."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, max_num_imprecise_acc=PROMOTE)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def w4a16_zeros(
    a_ptr, qw_ptr, zeros_ptr, scales_ptr, c_ptr, M, N, K, QUANT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A · ((W - zeros) · scales): words of 32 bits hold eight weights along k, and eight zero points along n."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = qw_ptr + (offs_k // 8)[:, None] * N + offs_n[None, :]
    shift_k = (offs_k % 8) * 4
    shift_n = (offs_n % 8) * 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        group = (k * BLOCK_K + offs_k) // QUANT
        a = tl.load(a_ptrs, mask=offs_m[:, None] < M, other=0.0)
        packed = tl.load(w_ptrs)
        zeros = tl.load(zeros_ptr + group[:, None] * (N // 8) + (offs_n // 8)[None, :])
        scales = tl.load(scales_ptr + group[:, None] * N + offs_n[None, :])
        weight = (packed >> shift_k[:, None]) & 0xF
        zero = (zeros >> shift_n[None, :]) & 0xF
        w = (weight - zero).to(scales.dtype) * scales
        acc = tl.dot(a, w, acc)
        a_ptrs += BLOCK_K
        w_ptrs += (BLOCK_K // 8) * N
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def w8a16_rows(
    a_ptr, w_ptr, scales_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A · (Wᵀ · scales) of bfloat16 and 8-bit weights stored along k, scaled before the product."""
    pid_m, pid_n = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    scale = tl.load(scales_ptr + offs_n)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        w = tl.load(w_ptr + offs_n[:, None] * K + offs_k[None, :])
        w = (w.to(tl.float32) * scale[:, None]).to(a.dtype)
        acc += tl.dot(a, tl.trans(w))
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def fp8_weights_decode(
    x_ptr, w_ptr, scale_ptr, y_ptr, M, N, K, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Y = X · Wᵀ · scale of a few rows of bfloat16 and weights of fp8, converted in registers."""
    rows = tl.arange(0, ROWS)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + offs[None, :], mask=rows[:, None] < M, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + offs[:, None])
        acc = tl.dot(x, w.to(x.dtype), acc)
    y = acc * tl.load(scale_ptr)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=rows[:, None] < M)


# ---- shaped ----


@triton.jit
def batched_cubes(a_ptr, b_ptr, c_ptr, SIDE: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A · B of SIDE × SIDE matrices, one a CTA."""
    base = tl.program_id(0).to(tl.int64) * SIDE * SIDE
    rows = tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for k in range(0, SIDE, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + base + rows[:, None] * SIDE + offs_k[None, :])
        b = tl.load(b_ptr + base + offs_k[:, None] * SIDE + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + base + rows[:, None] * SIDE + rows[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def moe_gathered(
    x_ptr, w_ptr, out_ptr, token_ptr, expert_ptr, gate_ptr, tokens, N, K, ALIGNED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Rows of X that ``token_ptr`` names, by the matrix of the expert of each ALIGNED of them, times a gate.

    Rows that fill up an expert's last block name ``tokens``.
    """
    blocks = tl.num_programs(0) // tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tile_of(tl.program_id(0), blocks, tl.cdiv(N, BLOCK_N), GROUP_M)
    slots = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    token = tl.load(token_ptr + slots)
    valid = token < tokens
    expert = tl.load(expert_ptr + pid_m * BLOCK_M // ALIGNED).to(tl.int64)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + token[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + expert * N * K + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs, mask=valid[:, None], other=0.0)
        acc += tl.dot(x, tl.load(w_ptrs))
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    acc = acc * tl.load(gate_ptr + slots, mask=valid, other=0.0)[:, None]
    tl.store(out_ptr + slots[:, None] * N + offs_n[None, :], acc.to(out_ptr.dtype.element_ty))


@triton.jit
def block_sparse(a_ptr, b_ptr, c_ptr, row_ptr, column_ptr, N, SIDE: tl.constexpr, BLOCK_N: tl.constexpr):
    """C = A · B where A consists of SIDE × SIDE blocks, listed row by row."""
    row = tl.program_id(0)
    inner = tl.arange(0, SIDE)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    start = tl.load(row_ptr + row)
    stop = tl.load(row_ptr + row + 1)
    acc = tl.zeros((SIDE, BLOCK_N), dtype=tl.float32)
    for block in range(start, stop):
        column = tl.load(column_ptr + block)
        a = tl.load(a_ptr + block * SIDE * SIDE + inner[:, None] * SIDE + inner[None, :])
        b = tl.load(b_ptr + (column * SIDE + inner)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + (row * SIDE + inner)[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def decode_split_k(
    x_ptr, w_ptr, part_ptr, M, N, K, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """X · Wᵀ of a few rows; each of SPLIT_K CTAs of a tile writes its part into a buffer of its own."""
    pid_n, pid_k = tl.program_id(0), tl.program_id(1)
    rows = tl.arange(0, ROWS)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + rows[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + cols[None, :] * K + offs_k[:, None]
    acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        left = K - k * BLOCK_K * SPLIT_K
        x = tl.load(x_ptrs, mask=(rows[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        w = tl.load(w_ptrs, mask=offs_k[:, None] < left, other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K * SPLIT_K
        w_ptrs += BLOCK_K * SPLIT_K
    tl.store(part_ptr + (pid_k * M + rows)[:, None] * N + cols[None, :], acc, mask=rows[:, None] < M)


@triton.jit
def gram_lower(a_ptr, c_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A · Aᵀ below and on the diagonal; tiles above it return at once."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    if pid_n * BLOCK_N >= (pid_m + 1) * BLOCK_M:
        return
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs = k + tl.arange(0, BLOCK_K)
        left = tl.load(a_ptr + rows[:, None] * K + offs[None, :])
        right = tl.load(a_ptr + cols[:, None] * K + offs[None, :])
        acc = tl.dot(left, right.T, acc)
    tl.store(c_ptr + rows[:, None] * M + cols[None, :], acc.to(c_ptr.dtype.element_ty), mask=rows[:, None] >= cols)


@triton.jit
def weight_gradient(
    x_ptr, dy_ptr, dw_ptr, tokens, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):  # fmt: skip
    """dW += Xᵀ · dY over many rows, of which SPLIT_K CTAs of a tile each take a share."""
    offs_k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.cdiv(tokens, SPLIT_K)
    begin = tl.program_id(2) * share
    end = tl.minimum(begin + share, tokens)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for t in range(begin, end, BLOCK_K):
        rows = t + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + offs_k[None, :], mask=rows[:, None] < end, other=0.0)
        dy = tl.load(dy_ptr + rows[:, None] * N + offs_n[None, :], mask=rows[:, None] < end, other=0.0)
        acc += tl.dot(tl.trans(x), dy)
    tl.atomic_add(dw_ptr + offs_k[:, None] * N + offs_n[None, :], acc)


# ---- attention ----


@triton.jit
def flash_grouped(
    Q, K, V, Out, N_CTX, sm_scale, HEADS_PER_KV: tl.constexpr, HEAD_DIM: tl.constexpr, WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention of bfloat16 whose heads share keys; WINDOW > 0: only so many keys back. Every tile is masked."""
    start_m, head = tl.program_id(0), tl.program_id(1)
    kv = (head // HEADS_PER_KV).to(tl.int64) * N_CTX * HEAD_DIM
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    own = head.to(tl.int64) * N_CTX * HEAD_DIM + offs_m[:, None] * HEAD_DIM + offs_d[None, :]
    q = tl.load(Q + own)
    q = (q * sm_scale).to(q.dtype)
    m_i = tl.full((BLOCK_M,), -1e30, tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    first = 0
    if WINDOW > 0:
        first = tl.maximum(0, start_m * BLOCK_M - WINDOW) // BLOCK_N * BLOCK_N
    for start_n in range(first, (start_m + 1) * BLOCK_M, BLOCK_N):
        keys = start_n + offs_n
        k = tl.load(K + kv + keys[None, :] * HEAD_DIM + offs_d[:, None])
        qk = tl.dot(q, k)
        seen = offs_m[:, None] >= keys[None, :]
        if WINDOW > 0:
            seen = seen & (offs_m[:, None] - keys[None, :] <= WINDOW)
        qk = tl.where(seen, qk, -1e30)
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.where(seen, tl.exp(qk - m_new[:, None]), 0.0)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + kv + keys[:, None] * HEAD_DIM + offs_d[None, :])
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    tl.store(Out + own, (acc / l_i[:, None]).to(Out.dtype.element_ty))


@triton.jit
def flash_biased(
    Q, K, V, Bias, Out, N_CTX, sm_scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention with a bias of its own for each score."""
    head = tl.program_id(1)
    base = head * N_CTX * HEAD_DIM
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(Q + base + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
    m_i = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start_n in range(0, N_CTX, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(K + base + offs_n[:, None] * HEAD_DIM + offs_d[None, :])
        bias = tl.load(Bias + (head * N_CTX + offs_m)[:, None] * N_CTX + offs_n[None, :])
        qk = tl.dot(q, k.T) * sm_scale + bias
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + base + offs_n[:, None] * HEAD_DIM + offs_d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(Out + base + offs_m[:, None] * HEAD_DIM + offs_d[None, :], acc.to(Out.dtype.element_ty))


@triton.jit
def flash_fp8(Q, K, Vt, Out, N_CTX, qk_scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Attention of fp8 with V stored as HEAD_DIM rows; weights are rounded to fp8, too."""
    base = tl.program_id(1) * N_CTX * HEAD_DIM
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(Q + base + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
    m_i = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start_n in range(0, N_CTX, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(K + base + offs_n[:, None] * HEAD_DIM + offs_d[None, :])
        qk = tl.dot(q, tl.trans(k)) * qk_scale
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp2(qk - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(Vt + base + offs_d[:, None] * N_CTX + offs_n[None, :])
        acc = tl.dot(p.to(tl.float8e4nv), tl.trans(v), acc * alpha[:, None])
        m_i = m_new
    tl.store(Out + base + offs_m[:, None] * HEAD_DIM + offs_d[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty))


@triton.jit
def cross_attention(
    Q, K, V, Out, queries, keys, sm_scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention of many queries to a few keys, whose last tile is cut."""
    head = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    own = (head * queries + offs_m)[:, None] * HEAD_DIM + offs_d[None, :]
    q = tl.load(Q + own, mask=offs_m[:, None] < queries, other=0.0)
    m_i = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start_n in range(0, keys, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        inside = offs_n < keys
        at = (head * keys + offs_n)[:, None] * HEAD_DIM + offs_d[None, :]
        k = tl.load(K + at, mask=inside[:, None], other=0.0)
        qk = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * sm_scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        v = tl.load(V + at, mask=inside[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    tl.store(Out + own, (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=offs_m[:, None] < queries)


@triton.jit
def paged_decode(
    q_ptr, k_ptr, v_ptr, table_ptr, lens_ptr, out_ptr, most_pages, sm_scale,
    KV_HEADS: tl.constexpr, GROUP_Q: tl.constexpr, HEAD_DIM: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One new token of each sequence; keys lie in pages of PAGE tokens, which a table lists."""
    seq, kv_head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lens_ptr + seq)
    rows = tl.arange(0, GROUP_Q)
    dim = tl.arange(0, HEAD_DIM)
    q_at = ((seq * KV_HEADS + kv_head) * GROUP_Q + rows)[:, None] * HEAD_DIM + dim[None, :]
    q = tl.load(q_ptr + q_at)
    m_i = tl.full((GROUP_Q,), float("-inf"), tl.float32)
    l_i = tl.zeros((GROUP_Q,), tl.float32)
    acc = tl.zeros((GROUP_Q, HEAD_DIM), tl.float32)
    for start in range(0, length, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        inside = token < length
        page = tl.load(table_ptr + seq * most_pages + token // PAGE, mask=inside, other=0)
        at = ((page * PAGE + token % PAGE) * KV_HEADS + kv_head)[:, None] * HEAD_DIM + dim[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k)) * sm_scale
        score = tl.where(inside[None, :], score, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(score, 1))
        p = tl.exp(score - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    tl.store(out_ptr + q_at, (acc / l_i[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def flash_backward_causal(
    Q, K, V, DO, L, D, DK, DV, N_CTX, sm_scale, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Gradients of a tile of K and V below a causal mask, scores of queries × keys."""
    head = tl.program_id(1)
    base = head * N_CTX * HEAD_DIM
    first = tl.program_id(0) * BLOCK_N
    offs_n = first + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    own = base + offs_n[:, None] * HEAD_DIM + offs_d[None, :]
    k = tl.load(K + own)
    v = tl.load(V + own)
    dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    for start_m in range(first // BLOCK_M * BLOCK_M, N_CTX, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        at = base + offs_m[:, None] * HEAD_DIM + offs_d[None, :]
        q = tl.load(Q + at)
        do = tl.load(DO + at)
        lse = tl.load(L + head * N_CTX + offs_m)
        delta = tl.load(D + head * N_CTX + offs_m)
        p = tl.exp(tl.dot(q, tl.trans(k)) * sm_scale - lse[:, None])
        p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        dv += tl.dot(tl.trans(p.to(do.dtype)), do)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None]) * sm_scale
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(DK + own, dk.to(DK.dtype.element_ty))
    tl.store(DV + own, dv.to(DV.dtype.element_ty))


@triton.jit
def decode_combine(
    part_ptr, lse_ptr, out_ptr, rows, PARTS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Merges the results of PARTS parts of the keys by the logarithms of their sums."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)
    inside = row < rows
    m_i = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for split in range(PARTS):
        lse = tl.load(lse_ptr + split * rows + row, mask=inside, other=0.0)
        part = tl.load(
            part_ptr + (split * rows + row)[:, None] * HEAD_DIM + dim[None, :], mask=inside[:, None], other=0.0
        )
        m_new = tl.maximum(m_i, lse)
        alpha = tl.exp(m_i - m_new)
        weight = tl.exp(lse - m_new)
        acc = acc * alpha[:, None] + part * weight[:, None]
        l_i = l_i * alpha + weight
        m_i = m_new
    out = (acc / l_i[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row[:, None] * HEAD_DIM + dim[None, :], out, mask=inside[:, None])


# ---- recurrence ----


@triton.jit
def ssd_chunk_scan(
    c_ptr, b_ptr, x_ptr, dt_ptr, cum_ptr, y_ptr, length, WIDTH: tl.constexpr, STATE: tl.constexpr, SPAN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """What a span of a state-space model adds to its own results: (C · Bᵀ, faded) · (dt · X), below the diagonal.

    ``cum_ptr`` holds the logarithms of decays, summed from the begin of each span.
    """
    span, head = tl.program_id(1), tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    origin = head * length + span * SPAN
    state = tl.arange(0, STATE)
    width = tl.arange(0, WIDTH)
    c = tl.load(c_ptr + (origin + rows)[:, None] * STATE + state[None, :])
    here = tl.load(cum_ptr + origin + rows)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for first in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        cols = first + tl.arange(0, BLOCK_N)
        b = tl.load(b_ptr + (origin + cols)[None, :] * STATE + state[:, None])
        there = tl.load(cum_ptr + origin + cols)
        dt = tl.load(dt_ptr + origin + cols)
        score = tl.dot(c, b)
        score *= tl.exp(tl.minimum(here[:, None] - there[None, :], 0.0)) * dt[None, :]
        score = tl.where(rows[:, None] >= cols[None, :], score, 0.0)
        x = tl.load(x_ptr + (origin + cols)[:, None] * WIDTH + width[None, :])
        acc += tl.dot(score.to(x.dtype), x)
    tl.store(y_ptr + (origin + rows)[:, None] * WIDTH + width[None, :], acc.to(y_ptr.dtype.element_ty))


@triton.jit
def ssd_chunk_state(
    b_ptr, x_ptr, fade_ptr, state_ptr, WIDTH: tl.constexpr, STATE: tl.constexpr, SPAN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """State at the end of each span: Xᵀ · (B · fade)."""
    span = tl.program_id(1).to(tl.int64)
    columns = tl.cdiv(STATE, BLOCK_N)
    offs_w = (tl.program_id(0) // columns) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_s = (tl.program_id(0) % columns) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for t in range(0, SPAN, BLOCK_K):
        time = span * SPAN + t + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + time[None, :] * WIDTH + offs_w[:, None], mask=offs_w[:, None] < WIDTH, other=0.0)
        b = tl.load(b_ptr + time[:, None] * STATE + offs_s[None, :], mask=offs_s[None, :] < STATE, other=0.0)
        fade = tl.load(fade_ptr + time)
        acc += tl.dot(x, (b * fade[:, None]).to(x.dtype))
    at = span * WIDTH * STATE + offs_w[:, None] * STATE + offs_s[None, :]
    tl.store(state_ptr + at, acc, mask=(offs_w[:, None] < WIDTH) & (offs_s[None, :] < STATE))


@triton.jit
def retention(
    q_ptr, k_ptr, v_ptr, out_ptr, length, log_decay, HEAD_DIM: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr
):
    """Linear attention whose past fades by a factor for each token, in chunks."""
    head = tl.program_id(1)
    order = tl.arange(0, CHUNK)
    dim = tl.arange(0, HEAD_DIM)
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    gap = (order[:, None] - order[None, :]).to(tl.float32)
    inner = tl.where(gap >= 0, tl.exp2(gap * log_decay), 0.0)
    from_past = tl.exp2((order + 1).to(tl.float32) * log_decay)
    to_end = tl.exp2((CHUNK - 1 - order).to(tl.float32) * log_decay)
    whole = tl.exp2(CHUNK * log_decay)
    state = tl.zeros((HEAD_DIM, BLOCK_V), tl.float32)
    for t in range(0, length, CHUNK):
        rows = head * length + t + order
        q = tl.load(q_ptr + rows[:, None] * HEAD_DIM + dim[None, :])
        k = tl.load(k_ptr + rows[:, None] * HEAD_DIM + dim[None, :])
        v = tl.load(v_ptr + rows[:, None] * HEAD_DIM + cols[None, :])
        score = tl.dot(q, tl.trans(k)) * inner
        out = tl.dot(score.to(v.dtype), v)
        out += tl.dot(q, state.to(q.dtype)) * from_past[:, None]
        tl.store(out_ptr + rows[:, None] * HEAD_DIM + cols[None, :], out.to(out_ptr.dtype.element_ty))
        state = state * whole + tl.dot(tl.trans((k * to_end[:, None]).to(k.dtype)), v)


@triton.jit
def gated_delta(
    q_ptr,
    k_ptr,
    w_ptr,
    u_ptr,
    g_ptr,
    out_ptr,
    length,
    HEAD_DIM: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Gated delta rule over spans whose W and U were solved before: V = U - W · S, then the output and next state."""
    head = tl.program_id(1)
    order = tl.arange(0, SPAN)
    dim = tl.arange(0, HEAD_DIM)
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    causal = order[:, None] >= order[None, :]
    state = tl.zeros((HEAD_DIM, BLOCK_V), tl.float32)
    for t in range(0, length, SPAN):
        rows = head * length + t + order
        wide = rows[:, None] * HEAD_DIM + dim[None, :]
        at = rows[:, None] * HEAD_DIM + cols[None, :]
        g = tl.load(g_ptr + rows)
        last = tl.load(g_ptr + head * length + t + SPAN - 1)
        q = tl.load(q_ptr + wide)
        k = tl.load(k_ptr + wide)
        narrow = state.to(k.dtype)
        v = tl.load(u_ptr + at).to(tl.float32) - tl.dot(tl.load(w_ptr + wide), narrow)
        fade = tl.exp(tl.minimum(g[:, None] - g[None, :], 0.0))
        score = tl.where(causal, tl.dot(q, tl.trans(k)) * fade, 0.0)
        out = tl.dot(q, narrow) * tl.exp(g)[:, None] + tl.dot(score.to(k.dtype), v.to(k.dtype))
        tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty))
        v = (v * tl.exp(last - g)[:, None]).to(k.dtype)
        state = state * tl.exp(last) + tl.dot(tl.trans(k), v)


@triton.jit
def cumsum_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """Running sum of each row, a block at a time."""
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < columns, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + cols, tl.cumsum(x, axis=0) + carry, mask=cols < columns)
        carry += tl.sum(x, axis=0)


@triton.jit
def _compose(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def gated_scan(a_ptr, b_ptr, h_ptr, length, channels, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr):
    """h = a · h + b along time, by an associative scan of blocks."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    base = tl.program_id(1).to(tl.int64) * length * channels
    last = tl.full((1, BLOCK_N), 0.0, tl.float32)
    order = tl.arange(0, BLOCK_T)
    for t in range(0, length, BLOCK_T):
        at = base + (t + order)[:, None] * channels + cols[None, :]
        a = tl.load(a_ptr + at).to(tl.float32)
        b = tl.load(b_ptr + at).to(tl.float32)
        gone, h = tl.associative_scan((a, b), 0, _compose)
        h = h + gone * last
        tl.store(h_ptr + at, h.to(h_ptr.dtype.element_ty))
        last = tl.sum(tl.where((order == BLOCK_T - 1)[:, None], h, 0.0), axis=0, keep_dims=True)


@triton.jit
def selective_scan(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, length, channels, STATE: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Selective scan token by token: the state of BLOCK_N channels stays in registers."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    batch = tl.program_id(1)
    state = tl.arange(0, STATE)
    a = tl.load(a_ptr + cols[:, None] * STATE + state[None, :])
    h = tl.zeros((BLOCK_N, STATE), tl.float32)
    for t in range(length):
        row = batch * length + t
        u = tl.load(u_ptr + row * channels + cols).to(tl.float32)
        delta = tl.load(delta_ptr + row * channels + cols).to(tl.float32)
        b = tl.load(b_ptr + row * STATE + state).to(tl.float32)
        c = tl.load(c_ptr + row * STATE + state).to(tl.float32)
        h = h * tl.exp(delta[:, None] * a) + (delta * u)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], axis=1)
        tl.store(y_ptr + row * channels + cols, y.to(y_ptr.dtype.element_ty))


# ---- rows ----


@triton.jit
def softmax_short(x_ptr, y_ptr, rows, COLUMNS: tl.constexpr, BLOCK_M: tl.constexpr):
    """Softmax of BLOCK_M short rows at once."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + at, mask=row[:, None] < rows, other=0.0).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + at, (x / tl.sum(x, axis=1)[:, None]).to(y_ptr.dtype.element_ty), mask=row[:, None] < rows)


@triton.jit
def layer_norm_backward(
    dx_ptr,
    dy_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    rstd_ptr,
    dw_ptr,
    db_ptr,
    rows,
    COLUMNS: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    """Gradient of rows that a CTA walks through, and its part of the gradients of weight and bias."""
    cols = tl.arange(0, COLUMNS)
    w = tl.load(w_ptr + cols).to(tl.float32)
    dw = tl.zeros((COLUMNS,), tl.float32)
    db = tl.zeros((COLUMNS,), tl.float32)
    for row in range(tl.program_id(0), rows, NUM_PROGRAMS):
        x = tl.load(x_ptr + row * COLUMNS + cols).to(tl.float32)
        dy = tl.load(dy_ptr + row * COLUMNS + cols).to(tl.float32)
        xhat = (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
        wdy = w * dy
        c1 = tl.sum(xhat * wdy, axis=0) / COLUMNS
        c2 = tl.sum(wdy, axis=0) / COLUMNS
        dx = (wdy - (xhat * c1 + c2)) * tl.load(rstd_ptr + row)
        tl.store(dx_ptr + row * COLUMNS + cols, dx.to(dx_ptr.dtype.element_ty))
        dw += dy * xhat
        db += dy
    tl.atomic_add(dw_ptr + cols, dw)
    tl.atomic_add(db_ptr + cols, db)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, vocabulary, BLOCK_SIZE: tl.constexpr):
    """Loss of one token over a large vocabulary, and the gradient in place of its logits."""
    row = tl.program_id(0)
    base = logits_ptr + row.to(tl.int64) * vocabulary
    target = tl.load(target_ptr + row)
    m = float("-inf")
    d = 0.0
    for i in range(0, vocabulary, BLOCK_SIZE):
        offs = i + tl.arange(0, BLOCK_SIZE)
        x = tl.load(base + offs, mask=offs < vocabulary, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    tl.store(loss_ptr + row, m + tl.log(d) - tl.load(base + target).to(tl.float32))
    tl.debug_barrier()
    for i in range(0, vocabulary, BLOCK_SIZE):
        offs = i + tl.arange(0, BLOCK_SIZE)
        x = tl.load(base + offs, mask=offs < vocabulary, other=float("-inf")).to(tl.float32)
        grad = tl.exp(x - m) / d
        grad = tl.where(offs == target, grad - 1.0, grad)
        tl.store(base + offs, grad.to(logits_ptr.dtype.element_ty), mask=offs < vocabulary)


@triton.jit
def add_rms_norm(x_ptr, res_ptr, w_ptr, y_ptr, rows, eps, COLUMNS: tl.constexpr, BLOCK_M: tl.constexpr):
    """The residual grows by X in place, and Y is its RMS norm; whole rows are held."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, COLUMNS)
    at = row[:, None] * COLUMNS + cols[None, :]
    mask = row[:, None] < rows
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(res_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(res_ptr + at, x.to(res_ptr.dtype.element_ty), mask=mask)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / COLUMNS + eps)
    y = x * scale[:, None] * tl.load(w_ptr + cols).to(tl.float32)[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def route_topk(x_ptr, value_ptr, index_ptr, tokens, EXPERTS: tl.constexpr, TOP: tl.constexpr, BLOCK_M: tl.constexpr):
    """Softmax weights of the TOP largest logits of each token, one after the other."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    expert = tl.arange(0, EXPERTS)
    inside = row < tokens
    x = tl.load(x_ptr + row[:, None] * EXPERTS + expert[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    x = x / tl.sum(x, axis=1)[:, None]
    for i in tl.static_range(TOP):
        best = tl.argmax(x, axis=1)
        value = tl.max(x, axis=1)
        tl.store(value_ptr + row * TOP + i, value, mask=inside)
        tl.store(index_ptr + row * TOP + i, best, mask=inside)
        x = tl.where(expert[None, :] == best[:, None], -1.0, x)


@triton.jit
def column_sums(x_ptr, out_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT_M: tl.constexpr):
    """Sums of columns; SPLIT_M CTAs of each strip of columns add theirs."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(tl.program_id(1) * BLOCK_M, rows, BLOCK_M * SPLIT_M):
        row = start + tl.arange(0, BLOCK_M)
        mask = (row[:, None] < rows) & (cols[None, :] < columns)
        acc += tl.load(x_ptr + row[:, None] * columns + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + cols, tl.sum(acc, axis=0), mask=cols < columns)


@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    """Each row as fp8, with the scale that makes its largest element the largest of fp8."""
    row = tl.program_id(0)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + cols, mask=cols < columns, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.maximum(tl.max(largest, axis=0), 1e-6) / 448.0
    tl.store(scale_ptr + row, scale)
    for start in range(0, columns, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + cols, mask=cols < columns, other=0.0).to(tl.float32)
        tl.store(q_ptr + row * columns + cols, (x / scale).to(tl.float8e4nv), mask=cols < columns)


@triton.jit
def group_norm(
    x_ptr, y_ptr, w_ptr, b_ptr, pixels, CHANNELS: tl.constexpr, PER_GROUP: tl.constexpr, eps, BLOCK_M: tl.constexpr
):
    """Norm of PER_GROUP channels over all pixels of an image with channels last: sums first, then the image again."""
    image, group = tl.program_id(0), tl.program_id(1)
    channel = group * PER_GROUP + tl.arange(0, PER_GROUP)
    base = image * pixels * CHANNELS
    total = 0.0
    square = 0.0
    for start in range(0, pixels, BLOCK_M):
        pixel = start + tl.arange(0, BLOCK_M)
        at = base + pixel[:, None] * CHANNELS + channel[None, :]
        x = tl.load(x_ptr + at, mask=pixel[:, None] < pixels, other=0.0).to(tl.float32)
        total += tl.sum(x)
        square += tl.sum(x * x)
    mean = total / (pixels * PER_GROUP)
    rstd = tl.rsqrt(square / (pixels * PER_GROUP) - mean * mean + eps)
    w = tl.load(w_ptr + channel).to(tl.float32)
    b = tl.load(b_ptr + channel).to(tl.float32)
    for start in range(0, pixels, BLOCK_M):
        pixel = start + tl.arange(0, BLOCK_M)
        at = base + pixel[:, None] * CHANNELS + channel[None, :]
        x = tl.load(x_ptr + at, mask=pixel[:, None] < pixels, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * w[None, :] + b[None, :]
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=pixel[:, None] < pixels)


# ---- elements ----


@triton.jit
def dropout_bias_gelu(x_ptr, bias_ptr, y_ptr, kept_ptr, count, columns, p, seed, BLOCK_SIZE: tl.constexpr):
    """Y = gelu(X + bias), of which a share p is dropped; what was kept is stored for the backward pass."""
    offs = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < count
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32) + tl.load(bias_ptr + offs % columns, mask=mask).to(tl.float32)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.70710678))
    kept = tl.rand(seed, offs) > p
    tl.store(y_ptr + offs, tl.where(kept, y / (1.0 - p), 0.0).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(kept_ptr + offs, kept.to(tl.int8), mask=mask)


@triton.jit
def adam_step(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    low_ptr,
    count,
    lr,
    beta1,
    beta2,
    eps,
    correction1,
    correction2,
    BLOCK_SIZE: tl.constexpr,
):
    """One step of Adam in place, and a copy of the parameters in bfloat16."""
    offs = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < count
    g = tl.load(g_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    m = beta1 * tl.load(m_ptr + offs, mask=mask, other=0.0) + (1.0 - beta1) * g
    v = beta2 * tl.load(v_ptr + offs, mask=mask, other=0.0) + (1.0 - beta2) * g * g
    p = tl.load(p_ptr + offs, mask=mask, other=0.0)
    p -= lr * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(m_ptr + offs, m, mask=mask)
    tl.store(v_ptr + offs, v, mask=mask)
    tl.store(p_ptr + offs, p, mask=mask)
    tl.store(low_ptr + offs, p.to(tl.bfloat16), mask=mask)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, y_ptr, tokens, heads, HALF: tl.constexpr, BLOCK_M: tl.constexpr):
    """Rotates both halves of each head by the angles of its token, for all heads of BLOCK_M tokens in turn."""
    token = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    half = tl.arange(0, HALF)
    mask = token[:, None] < tokens
    cos = tl.load(cos_ptr + token[:, None] * HALF + half[None, :], mask=mask, other=1.0)
    sin = tl.load(sin_ptr + token[:, None] * HALF + half[None, :], mask=mask, other=0.0)
    for head in range(heads):
        at = (token[:, None] * heads + head) * (2 * HALF) + half[None, :]
        x1 = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        x2 = tl.load(x_ptr + at + HALF, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, (x1 * cos - x2 * sin).to(y_ptr.dtype.element_ty), mask=mask)
        tl.store(y_ptr + at + HALF, (x2 * cos + x1 * sin).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def transpose(x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Y = Xᵀ, a tile a CTA."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=(rows[:, None] < M) & (cols[None, :] < N))
    tl.store(y_ptr + cols[:, None] * M + rows[None, :], x.T, mask=(cols[:, None] < N) & (rows[None, :] < M))


@triton.jit
def heat_step(x_ptr, y_ptr, height, width, rate, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """One step of heat flow on a grid: each point and its four neighbours."""
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inner = (rows > 0) & (rows < height - 1) & (cols > 0) & (cols < width - 1)
    at = x_ptr + rows * width + cols
    x = tl.load(at, mask=(rows < height) & (cols < width), other=0.0)
    near = tl.load(at - width, mask=inner, other=0.0) + tl.load(at + width, mask=inner, other=0.0)
    near += tl.load(at - 1, mask=inner, other=0.0) + tl.load(at + 1, mask=inner, other=0.0)
    y = tl.where(inner, x + rate * (near - 4.0 * x), x)
    tl.store(y_ptr + rows * width + cols, y, mask=(rows < height) & (cols < width))


# ---- scatter ----


@triton.jit
def embedding(index_ptr, table_ptr, out_ptr, count, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Rows of a table by their numbers."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    index = tl.load(index_ptr + row, mask=row < count, other=0)
    mask = (row[:, None] < count) & (cols[None, :] < WIDTH)
    x = tl.load(table_ptr + index[:, None] * WIDTH + cols[None, :], mask=mask)
    tl.store(out_ptr + row[:, None] * WIDTH + cols[None, :], x, mask=mask)


@triton.jit
def embedding_gradient(index_ptr, dy_ptr, table_ptr, count, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Adds rows to those of a table that their numbers name; some are named often."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    index = tl.load(index_ptr + row, mask=row < count, other=0)
    for start in range(0, width, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = (row[:, None] < count) & (cols[None, :] < width)
        dy = tl.load(dy_ptr + row[:, None] * width + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        tl.atomic_add(table_ptr + index[:, None] * width + cols[None, :], dy, mask=mask, sem="relaxed")


@triton.jit
def count_bytes(x_ptr, out_ptr, count, BINS: tl.constexpr, BLOCK: tl.constexpr, NUM_PROGRAMS: tl.constexpr):
    """How often each number below BINS occurs."""
    bins = tl.zeros((BINS,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, count, BLOCK * NUM_PROGRAMS):
        offs = start + tl.arange(0, BLOCK)
        inside = offs < count
        bins += tl.histogram(tl.load(x_ptr + offs, mask=inside, other=0).to(tl.int32), BINS, mask=inside)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), bins)


@triton.jit
def sparse_rows(indptr_ptr, index_ptr, value_ptr, x_ptr, y_ptr, WIDTH: tl.constexpr, BLOCK_K: tl.constexpr):
    """Y = S · X of a sparse matrix in rows: a CTA adds BLOCK_K rows of X at a time."""
    row = tl.program_id(0)
    width = tl.arange(0, WIDTH)
    start = tl.load(indptr_ptr + row)
    stop = tl.load(indptr_ptr + row + 1)
    acc = tl.zeros((WIDTH,), tl.float32)
    for first in range(start, stop, BLOCK_K):
        offs = first + tl.arange(0, BLOCK_K)
        inside = offs < stop
        index = tl.load(index_ptr + offs, mask=inside, other=0)
        value = tl.load(value_ptr + offs, mask=inside, other=0.0)
        x = tl.load(x_ptr + index[:, None] * WIDTH + width[None, :], mask=inside[:, None], other=0.0)
        acc += tl.sum(x.to(tl.float32) * value[:, None], axis=0)
    tl.store(y_ptr + row * WIDTH + width, acc.to(y_ptr.dtype.element_ty))


# ---- conv ----


@triton.jit
def conv_strided(
    x_ptr, w_ptr, y_ptr, images, H, W, OH, OW, CO, CI: tl.constexpr, KERNEL: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Convolution with channels last, as a product for each tap: KERNEL² loops over the channels."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = offs_m // (OH * OW)
    oy = offs_m // OW % OH
    ox = offs_m % OW
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for tap in range(KERNEL * KERNEL):
        y = oy * STRIDE + tap // KERNEL - KERNEL // 2
        x = ox * STRIDE + tap % KERNEL - KERNEL // 2
        valid = (image < images) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
        pixel = (image * H + y) * W + x
        for k in range(0, CI, BLOCK_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            a = tl.load(x_ptr + pixel[:, None] * CI + offs_k[None, :], mask=valid[:, None], other=0.0)
            b = tl.load(
                w_ptr + (tap * CI + offs_k)[:, None] * CO + offs_n[None, :], mask=offs_n[None, :] < CO, other=0.0
            )
            acc = tl.dot(a, b, acc)
    mask = (offs_m[:, None] < images * OH * OW) & (offs_n[None, :] < CO)
    tl.store(y_ptr + offs_m[:, None] * CO + offs_n[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def depthwise3x3(x_ptr, w_ptr, y_ptr, H, W, C, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Convolution of 3 × 3 of each channel by itself, channels last; a CTA computes a strip of a row."""
    cols = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row = tl.program_id(1) % H
    image = tl.program_id(1) // H
    c = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            y = row + dy
            x = cols + dx
            mask = (x >= 0) & (x < W) & (y >= 0) & (y < H)
            value = tl.load(
                x_ptr + ((image * H + y) * W + x)[:, None] * C + c[None, :],
                mask=mask[:, None] & (c < C)[None, :],
                other=0.0,
            )
            weight = tl.load(w_ptr + ((dy + 1) * 3 + dx + 1) * C + c, mask=c < C, other=0.0)
            acc += value.to(tl.float32) * weight.to(tl.float32)[None, :]
    out = ((image * H + row) * W + cols)[:, None] * C + c[None, :]
    tl.store(y_ptr + out, acc.to(y_ptr.dtype.element_ty), mask=(cols < W)[:, None] & (c < C)[None, :])


@triton.jit
def max_pool(x_ptr, y_ptr, images, OH, OW, C, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Largest of 2 × 2 pixels, channels last."""
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (pixel < images * OH * OW)[:, None] & (c < C)[None, :]
    source = (pixel // OW * 2 * (2 * OW) + pixel % OW * 2)[:, None] * C + c[None, :]
    best = tl.load(x_ptr + source, mask=mask, other=0.0)
    best = tl.maximum(best, tl.load(x_ptr + source + C, mask=mask, other=0.0))
    best = tl.maximum(best, tl.load(x_ptr + source + 2 * OW * C, mask=mask, other=0.0))
    best = tl.maximum(best, tl.load(x_ptr + source + (2 * OW + 1) * C, mask=mask, other=0.0))
    tl.store(y_ptr + pixel[:, None] * C + c[None, :], best, mask=mask)
