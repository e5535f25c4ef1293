"""Families that were added after the frozen side of the first ones was scored: unlike those, and unlike each other.

Sizes are parameters of the makers, so that a small launch can be checked without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .families import FAMILIES, MORE, Call, Family, Grid, Meta, cdiv, empty, int8s, meta, normal, tile, tiles

if TYPE_CHECKING:
    import torch


def _over(**sizes: int) -> Grid:
    """A grid with a dimension for each size, which the meta-parameter of that name cuts."""
    return lambda meta: tuple(cdiv(size, meta[name]) for name, size in sizes.items())


def _random(low: int, high: int, shape: tuple[int, ...], dtype: str = "int32", seed: int = 0) -> torch.Tensor:
    """Whole numbers from ``low`` to ``high`` - 1."""
    import torch

    source = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(low, high, shape, generator=source, device="cuda", dtype=getattr(torch, dtype))


def _zeros(*shape: int, dtype: str = "float32") -> torch.Tensor:
    return empty(*shape, dtype=dtype).zero_()


# ---- gemm ----


def _tail(m: int = 200, n: int = 5120, k: int = 5000) -> Call:
    from . import second_kernels as kernels

    a, b, c = normal(m, k), normal(k, n, seed=1), empty(m, n)

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return (cdiv(m, meta["BLOCK_SIZE_M"]) * cdiv(n, meta["BLOCK_SIZE_N"]),)

    return Call(kernels.matmul_tail, (a, b, c, m, n, k, k, n, n), grid, lambda: a @ b, c)


def _strided(layout: str, dtype: str, m: int, n: int, k: int) -> Call:
    """``layout``: whether A and B are stored as they are (n) or transposed (t)."""
    from . import second_kernels as kernels

    a = normal(m, k, dtype=dtype) if layout[0] == "n" else normal(k, m, dtype=dtype).T
    b = normal(k, n, dtype=dtype, seed=1) if layout[1] == "n" else normal(n, k, dtype=dtype, seed=1).T
    c = empty(m, n, dtype=dtype)
    args = (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
    return Call(kernels.matmul_strided, args, _over(BLOCK_M=m, BLOCK_N=n), lambda: a @ b, c)


def _precise(precision: str, m: int, n: int, k: int) -> Call:
    from . import second_kernels as kernels

    a, b = normal(m, k, dtype="float32"), normal(k, n, dtype="float32", seed=1)
    c = empty(m, n, dtype="float32")
    return Call(kernels.matmul_precise, (a, b, c, m, n, k, precision), tiles(m, n), lambda: a @ b, c)


def _block_pointers(m: int = 3000, n: int = 3000, k: int = 1000) -> Call:
    from . import second_kernels as kernels

    a, b, c = normal(m, k, dtype="bfloat16"), normal(k, n, dtype="bfloat16", seed=1), empty(m, n, dtype="bfloat16")
    return Call(kernels.matmul_block_pointers, (a, b, c, m, n, k), tiles(m, n), lambda: a @ b, c)


def _descriptor_persistent(m: int = 4096, n: int = 5120, k: int = 2560) -> Call:
    import torch
    import triton

    from . import second_kernels as kernels

    triton.set_allocator(lambda size, _align, _stream: torch.empty(size, device="cuda", dtype=torch.int8))
    a, b, c = normal(m, k), normal(n, k, seed=1), empty(m, n)
    args = (a, b, c, m, n, k)
    return Call(kernels.matmul_descriptor_persistent, args, lambda meta: (meta["NUM_SMS"],), lambda: a @ b.T, c)


def _stream_k(m: int = 1920, n: int = 1920, k: int = 4096) -> Call:
    from . import second_kernels as kernels

    a, b, c = normal(m, k), normal(k, n, seed=1), empty(m, n, dtype="float32")
    args = (a, b, c, m, n, k)
    return Call(kernels.matmul_stream_k, args, lambda meta: (meta["NUM_SMS"],), lambda: a @ b, c)


# ---- fused ----


def _swiglu(m: int = 2048, n: int = 5632, k: int = 2048) -> Call:
    import torch

    from . import second_kernels as kernels

    x, w = normal(m, k, dtype="bfloat16"), normal(2 * n, k, dtype="bfloat16", scale=k**-0.5, seed=1)
    y = empty(m, n, dtype="bfloat16")

    def expect() -> torch.Tensor:
        gate, up = (x @ w.T).float().split(n, 1)
        return torch.nn.functional.silu(gate) * up

    return Call(kernels.swiglu_packed, (x, w, y, m, n, k), tiles(m, n), expect, y)


def _residual_sums(m: int = 4096, n: int = 2048, k: int = 2048) -> Call:
    import torch

    from . import second_kernels as kernels

    x, w, residual = normal(m, k), normal(k, n, scale=k**-0.5, seed=1), normal(m, n, seed=2)
    y, sums = empty(m, n), empty(2, m, dtype="float32")
    out = empty(m, n + 2, dtype="float32")

    def prepare() -> None:
        y.zero_()
        sums.zero_()

    def finish() -> None:
        out[:, :n] = y
        out[:, n:] = sums.T / n

    def expect() -> torch.Tensor:
        whole = (x @ w).float() + residual.float()
        return torch.cat([whole, whole.mean(1, keepdim=True), whole.square().mean(1, keepdim=True)], 1)

    args = (x, w, residual, y, sums[0], sums[1], m, n, k)
    return Call(kernels.linear_residual_sums, args, _over(BLOCK_M=m, BLOCK_N=n), expect, out, prepare, finish)


def _sumexp(m: int = 1024, n: int = 32000, k: int = 1024) -> Call:
    from . import second_kernels as kernels

    x, w = normal(m, k, dtype="bfloat16"), normal(n, k, dtype="bfloat16", scale=k**-0.5, seed=1)
    total = empty(m, dtype="float32")

    def expect() -> torch.Tensor:
        return (x @ w.T).float().exp().sum(1)

    args = (x, w, total, m, n, k)
    return Call(kernels.linear_sumexp, args, _over(BLOCK_N=n, BLOCK_M=m), expect, total)


def _linear_norm(m: int = 16384, n: int = 256, k: int = 1024) -> Call:
    import torch

    from . import second_kernels as kernels

    x, w, bias, y = normal(m, k), normal(k, n, scale=k**-0.5, seed=1), normal(n, dtype="float32", seed=2), empty(m, n)

    def expect() -> torch.Tensor:
        return torch.nn.functional.layer_norm((x @ w).float() + bias, (n,), eps=1e-5)

    return Call(kernels.linear_layer_norm, (x, w, bias, y, m, k, 1e-5, n), _over(BLOCK_M=m), expect, y)


def _two_layers(m: int = 16384, hidden: int = 2048, dim: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(m, dim), empty(m, dim)
    w1, w2 = normal(dim, hidden, scale=dim**-0.5, seed=1), normal(hidden, dim, scale=hidden**-0.5, seed=2)

    def expect() -> torch.Tensor:
        return torch.relu(x.float() @ w1.float()) @ w2.float()

    return Call(kernels.two_layers, (x, w1, w2, y, m, hidden, dim), _over(BLOCK_M=m), expect, y)


def _lora(m: int = 4096, n: int = 4096, k: int = 2048, rank: int = 16) -> Call:
    from . import second_kernels as kernels

    x, w, y = normal(m, k), normal(k, n, scale=k**-0.5, seed=1), empty(m, n)
    low, high = normal(k, rank, scale=k**-0.5, seed=2), normal(rank, n, seed=3)

    def expect() -> torch.Tensor:
        return (x @ w).float() + 0.5 * ((x @ low).float() @ high.float())

    return Call(kernels.linear_lora, (x, w, low, high, y, m, n, k, 0.5, rank), tiles(m, n), expect, y)


def _nearest(m: int = 65536, n: int = 1024, dim: int = 64) -> Call:

    from . import second_kernels as kernels

    x, centers, best = normal(m, dim), normal(n, dim, seed=1), empty(m, dtype="float32")
    norms = centers.float().square().sum(1)

    def expect() -> torch.Tensor:
        return (norms - 2.0 * (x.float() @ centers.float().T)).amin(1)

    return Call(kernels.nearest_centroid, (x, centers, norms, best, m, n, dim), _over(BLOCK_M=m), expect, best)


# ---- narrow ----


def _w8a8(m: int = 4096, n: int = 4096, k: int = 4096) -> Call:
    from . import second_kernels as kernels

    a, b, c = int8s(m, k, seed=0), int8s(n, k, seed=1), empty(m, n, dtype="bfloat16")
    left, right = (normal(size, dtype="float32", seed=2).abs() / 128 + 1 / 256 for size in (m, n))

    def expect() -> torch.Tensor:
        return (a.float() @ b.float().T) * left[:, None] * right

    return Call(kernels.w8a8, (a, b, left, right, c, m, n, k), tiles(m, n), expect, c)


def _fp8_blocks(m: int = 2048, n: int = 7168, k: int = 2048, quant: int = 128) -> Call:
    from . import second_kernels as kernels

    a, b = normal(m, k, dtype="float8_e4m3fn"), normal(n, k, dtype="float8_e4m3fn", seed=1)
    left = normal(m, k // quant, dtype="float32", seed=2).abs() + 0.5
    right = normal(n // quant, k // quant, dtype="float32", seed=3).abs() + 0.5
    c = empty(m, n, dtype="bfloat16")

    def expect() -> torch.Tensor:
        wide = right.repeat_interleave(quant, 0).repeat_interleave(quant, 1)
        return (a.float() * left.repeat_interleave(quant, 1)) @ (b.float() * wide).T

    return Call(kernels.w8a8_fp8_blocks, (a, b, left, right, c, m, n, k, quant), tiles(m, n), expect, c)


def _fp8_promoted(m: int = 4096, n: int = 4096, k: int = 4096, promote: int = 64) -> Call:
    from . import second_kernels as kernels

    a, b = normal(m, k, dtype="float8_e4m3fn"), normal(n, k, dtype="float8_e4m3fn", seed=1)
    c = empty(m, n)
    args = (a, b, c, m, n, k, promote)
    return Call(kernels.fp8_promoted, args, tiles(m, n), lambda: a.half() @ b.half().T, c)


def _w4a16(m: int = 128, n: int = 11008, k: int = 4096, quant: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    a, c = normal(m, k), empty(m, n)
    words, zeros = (_random(-(2**31), 2**31, shape, seed=1) for shape in ((k // 8, n), (k // quant, n // 8)))
    scales = normal(k // quant, n, seed=2).abs() / 16 + 1 / 64

    def expect() -> torch.Tensor:
        shifts = 4 * torch.arange(8, device=a.device)
        weight = ((words[:, None, :] >> shifts[None, :, None]) & 15).reshape(k, n)
        zero = ((zeros[:, :, None] >> shifts) & 15).reshape(k // quant, n)
        wide = (weight - zero.repeat_interleave(quant, 0)).float() * scales.float().repeat_interleave(quant, 0)
        return a.float() @ wide

    args = (a, words, zeros, scales, c, m, n, k, quant)
    return Call(kernels.w4a16_zeros, args, _over(BLOCK_M=m, BLOCK_N=n), expect, c)


def _w8a16(m: int = 1024, n: int = 4096, k: int = 4096) -> Call:
    from . import second_kernels as kernels

    a, w, c = normal(m, k, dtype="bfloat16"), int8s(n, k, seed=1), empty(m, n, dtype="bfloat16")
    scales = normal(n, dtype="float32", seed=2).abs() / 128 + 1 / 256

    def expect() -> torch.Tensor:
        return a.float() @ (w.float() * scales[:, None]).T

    return Call(kernels.w8a16_rows, (a, w, scales, c, m, n, k), tiles(m, n), expect, c)


def _fp8_decode(m: int = 16, n: int = 14336, k: int = 4096) -> Call:
    from . import second_kernels as kernels

    x, w = normal(m, k, dtype="bfloat16"), normal(n, k, dtype="float8_e4m3fn", seed=1)
    scale, y = normal(1, dtype="float32", seed=2).abs(), empty(m, n, dtype="bfloat16")

    def expect() -> torch.Tensor:
        return x.float() @ w.float().T * scale

    return Call(kernels.fp8_weights_decode, (x, w, scale, y, m, n, k, 16), _over(BLOCK_N=n), expect, y)


# ---- shaped ----


def _cubes(batch: int = 8192, side: int = 64) -> Call:
    from . import second_kernels as kernels

    a, b, c = normal(batch, side, side), normal(batch, side, side, seed=1), empty(batch, side, side)
    return Call(kernels.batched_cubes, (a, b, c, side), lambda _meta: (batch,), lambda: a @ b, c)


def _moe(tokens: int = 2048, experts: int = 16, n: int = 2048, k: int = 2048) -> Call:
    import torch

    from . import second_kernels as kernels

    # Two experts for each token; the rows of an expert are filled up to a multiple of ``aligned``.
    aligned = 128
    chosen = [[(7 * token + token // 5) % experts, (11 * token + 3) % experts] for token in range(tokens)]
    slots: list[int] = []
    owners: list[int] = []
    for expert in range(experts):
        mine = [token for token, pair in enumerate(chosen) if expert in pair]
        filled = cdiv(len(mine), aligned) * aligned
        slots += mine + [tokens] * (filled - len(mine))
        owners += [expert] * (filled // aligned)
    token = torch.tensor(slots, device="cuda", dtype=torch.int32)
    expert_of = torch.tensor(owners, device="cuda", dtype=torch.int32)
    x, w = normal(tokens, k, dtype="bfloat16"), normal(experts, n, k, dtype="bfloat16", scale=k**-0.5, seed=1)
    gate, out = normal(len(slots), dtype="float32", seed=2).abs(), _zeros(len(slots), n, dtype="bfloat16")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return (cdiv(len(slots), meta["BLOCK_M"]) * cdiv(n, meta["BLOCK_N"]),)

    def expect() -> torch.Tensor:
        valid = token < tokens
        rows = x[token.clamp(max=tokens - 1).long()].view(-1, aligned, k)
        product = torch.cat([part @ w[owner].T for part, owner in zip(rows, owners, strict=True)]).float()
        return product * (gate * valid)[:, None]

    args = (x, w, out, token, expert_of, gate, tokens, n, k, aligned)
    return Call(kernels.moe_gathered, args, grid, expect, out)


def _block_sparse(rows: int = 64, n: int = 4096, side: int = 64) -> Call:
    import torch

    from . import second_kernels as kernels

    kept = [[column for column in range(rows) if (5 * row + 3 * column + row * column) % 7 < 2] for row in range(rows)]
    starts = [sum(len(one) for one in kept[:row]) for row in range(rows + 1)]
    a = normal(starts[-1], side, side)
    b, c = normal(rows * side, n, seed=1), empty(rows * side, n)
    row_ptr, columns = (
        torch.tensor(one, device="cuda", dtype=torch.int32) for one in (starts, [at for one in kept for at in one])
    )

    def expect() -> torch.Tensor:
        dense = torch.zeros(rows, side, rows, side, device=a.device, dtype=a.dtype)
        number = 0
        for row, one in enumerate(kept):
            for column in one:
                dense[row, :, column] = a[number]
                number += 1
        return dense.view(rows * side, rows * side) @ b

    args = (a, b, c, row_ptr, columns, n, side)
    return Call(kernels.block_sparse, args, lambda meta: (rows, cdiv(n, meta["BLOCK_N"])), expect, c)


def _decode_split(m: int = 8, n: int = 4096, k: int = 14336) -> Call:
    from . import second_kernels as kernels

    most = 32
    x, w = normal(m, k), normal(n, k, seed=1)
    parts, out = empty(most, m, n, dtype="float32"), empty(m, n, dtype="float32")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        if meta["SPLIT_K"] > most:
            raise ValueError(f"SPLIT_K is {meta['SPLIT_K']}: there is room for {most} parts.")
        return cdiv(n, meta["BLOCK_N"]), meta["SPLIT_K"]

    def finish() -> None:
        out.copy_(parts.sum(0))

    args = (x, w, parts, m, n, k, 16)
    return Call(kernels.decode_split_k, args, grid, lambda: x.float() @ w.float().T, out, parts.zero_, finish)


def _gram(m: int = 4096, k: int = 2048) -> Call:
    from . import second_kernels as kernels

    a, c = normal(m, k), _zeros(m, m, dtype="float16")
    return Call(kernels.gram_lower, (a, c, m, k), _over(BLOCK_M=m, BLOCK_N=m), lambda: (a @ a.T).tril(), c)


def _weight_gradient(tokens: int = 131072, n: int = 256, k: int = 256) -> Call:
    from . import second_kernels as kernels

    x, dy = normal(tokens, k, dtype="bfloat16"), normal(tokens, n, dtype="bfloat16", seed=1)
    dw = empty(k, n, dtype="float32")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return cdiv(k, meta["BLOCK_M"]), cdiv(n, meta["BLOCK_N"]), meta["SPLIT_K"]

    def expect() -> torch.Tensor:
        return x.float().T @ dy.float()

    return Call(kernels.weight_gradient, (x, dy, dw, tokens, n, k), grid, expect, dw)


# ---- attention ----


def _flash(heads: int, shared: int, n: int, d: int, window: int = 0, dtype: str = "bfloat16") -> Call:
    """Causal; ``shared`` heads of queries for each of keys."""
    import torch

    from . import second_kernels as kernels

    q, k, v = (
        normal(count, n, d, dtype=dtype, seed=s) for s, count in enumerate((heads, heads // shared, heads // shared))
    )
    out, scale = empty(heads, n, d, dtype=dtype), d**-0.5

    def expect() -> torch.Tensor:
        at = torch.arange(n, device=q.device)
        seen = at[:, None] >= at
        if window:
            seen &= at[:, None] - at <= window
        parts = []
        for head in range(heads):
            score = (q[head].float() @ k[head // shared].float().T * scale).masked_fill(~seen, -math.inf)
            parts.append(torch.softmax(score, 1) @ v[head // shared].float())
        return torch.stack(parts)

    args = (q, k, v, out, n, scale, shared, d, window)
    return Call(kernels.flash_grouped, args, lambda meta: (cdiv(n, meta["BLOCK_M"]), heads), expect, out)


def _biased(heads: int = 16, n: int = 2048, d: int = 64) -> Call:
    import torch

    from . import second_kernels as kernels

    q, k, v = (normal(heads, n, d, seed=seed) for seed in range(3))
    bias, out, scale = normal(heads, n, n, seed=3), empty(heads, n, d), d**-0.5

    def expect() -> torch.Tensor:
        pairs = zip(q, k, v, bias, strict=True)
        return torch.stack(
            [torch.softmax(a.float() @ b.float().T * scale + e.float(), 1) @ c.float() for a, b, c, e in pairs]
        )

    args = (q, k, v, bias, out, n, scale, d)
    return Call(kernels.flash_biased, args, lambda meta: (cdiv(n, meta["BLOCK_M"]), heads), expect, out)


def _flash_fp8(heads: int = 32, n: int = 4096, d: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    q, k = (normal(heads, n, d, dtype="float8_e4m3fn", seed=seed) for seed in range(2))
    v, out = normal(heads, d, n, dtype="float8_e4m3fn", seed=2), empty(heads, n, d)

    def expect() -> torch.Tensor:
        triples = zip(q, k, v, strict=True)
        return torch.stack([torch.softmax(a.float() @ b.float().T * d**-0.5, 1) @ c.float().T for a, b, c in triples])

    args = (q, k, v, out, n, d**-0.5 * math.log2(math.e), d)
    return Call(kernels.flash_fp8, args, lambda meta: (cdiv(n, meta["BLOCK_M"]), heads), expect, out)


def _cross(heads: int, queries: int, keys: int, d: int) -> Call:
    import torch

    from . import second_kernels as kernels

    q, out = normal(heads, queries, d), empty(heads, queries, d)
    k, v = (normal(heads, keys, d, seed=seed) for seed in (1, 2))

    def expect() -> torch.Tensor:
        pairs = zip(q, k, v, strict=True)
        return torch.stack([torch.softmax(a.float() @ b.float().T * d**-0.5, 1) @ c.float() for a, b, c in pairs])

    args = (q, k, v, out, queries, keys, d**-0.5, d)
    return Call(kernels.cross_attention, args, lambda meta: (cdiv(queries, meta["BLOCK_M"]), heads), expect, out)


def _paged(
    sequences: int = 32, kv_heads: int = 8, shared: int = 16, most: int = 4096, d: int = 128, page: int = 16
) -> Call:
    import torch

    from . import second_kernels as kernels

    lengths = [most - (most // 37) * (number % 29) for number in range(sequences)]
    pages = most // page
    order = torch.randperm(sequences * pages, generator=torch.Generator().manual_seed(5)).to(torch.int32)
    table = order.view(sequences, pages).to("cuda")
    lens = torch.tensor(lengths, device="cuda", dtype=torch.int32)
    k, v = (normal(sequences * pages, page, kv_heads, d, seed=seed) for seed in (1, 2))
    q, out = normal(sequences, kv_heads, shared, d), empty(sequences, kv_heads, shared, d)

    def expect() -> torch.Tensor:
        parts = []
        for number, length in enumerate(lengths):
            mine = table[number].long()
            keys, values = (one[mine].reshape(-1, kv_heads, d)[:length].transpose(0, 1).float() for one in (k, v))
            parts.append(torch.softmax(q[number].float() @ keys.mT * d**-0.5, -1) @ values)
        return torch.stack(parts)

    args = (q, k, v, table, lens, out, pages, d**-0.5, kv_heads, shared, d, page)
    return Call(kernels.paged_decode, args, lambda _meta: (sequences, kv_heads), expect, out)


def _backward_causal(heads: int = 16, n: int = 2048, d: int = 64) -> Call:
    import torch

    from . import second_kernels as kernels

    q, k, v, do = (normal(heads, n, d, dtype="bfloat16", scale=2.0 if s == 0 else 1.0, seed=s) for s in range(4))
    lse, delta = (empty(heads, n, dtype="float32") for _ in range(2))
    out, scale = empty(2, heads, n, d, dtype="bfloat16"), d**-0.5
    seen = torch.ones(n, n, device=q.device, dtype=torch.bool).tril()

    def chances(head: int) -> torch.Tensor:
        score = q[head].float() @ k[head].float().T * scale
        return torch.softmax(score.masked_fill(~seen, -math.inf), 1)

    for head in range(heads):
        score = (q[head].float() @ k[head].float().T * scale).masked_fill(~seen, -math.inf)
        lse[head] = torch.logsumexp(score, 1)
        delta[head] = (chances(head) @ v[head].float() * do[head].float()).sum(1)

    def expect() -> torch.Tensor:
        parts = []
        for head in range(heads):
            p = chances(head)
            ds = p * (do[head].float() @ v[head].float().T - delta[head][:, None]) * scale
            parts.append(torch.stack([ds.T @ q[head].float(), p.T @ do[head].float()]))
        return torch.stack(parts, 1)

    args = (q, k, v, do, lse, delta, out[0], out[1], n, scale, d)
    return Call(kernels.flash_backward_causal, args, lambda meta: (cdiv(n, meta["BLOCK_N"]), heads), expect, out)


def _combine(rows: int = 32768, parts: int = 16, d: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    part, lse = normal(parts, rows, d, dtype="float32"), normal(parts, rows, dtype="float32", seed=1)
    out = empty(rows, d)

    def expect() -> torch.Tensor:
        return (torch.softmax(lse, 0)[..., None] * part).sum(0)

    return Call(kernels.decode_combine, (part, lse, out, rows, parts, d), _over(BLOCK_M=rows), expect, out)


# ---- recurrence ----


def _chunk_scan(heads: int = 64, length: int = 4096, width: int = 64, state: int = 128, span: int = 256) -> Call:
    import torch

    from . import second_kernels as kernels

    c, b = (normal(heads, length, state, dtype="bfloat16", scale=state**-0.25, seed=seed) for seed in (0, 1))
    x, y = normal(heads, length, width, dtype="bfloat16", seed=2), empty(heads, length, width, dtype="bfloat16")
    dt = torch.sigmoid(normal(heads, length, dtype="float32", seed=3))
    cum = (-0.05 * dt).view(heads, -1, span).cumsum(-1).view(heads, length).contiguous()

    def expect() -> torch.Tensor:
        c_of, b_of, x_of = (one.float().view(heads, -1, span, one.shape[-1]) for one in (c, b, x))
        log = cum.view(heads, -1, span)
        fade = torch.exp((log[..., :, None] - log[..., None, :]).clamp(max=0)).tril()
        score = (c_of @ b_of.mT) * fade * dt.view(heads, -1, 1, span)
        return (score @ x_of).reshape(heads, length, width)

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return cdiv(span, meta["BLOCK_M"]), length // span, heads

    args = (c, b, x, dt, cum, y, length, width, state, span)
    return Call(kernels.ssd_chunk_scan, args, grid, expect, y)


def _chunk_state(spans: int = 1024, width: int = 64, state: int = 128, span: int = 256) -> Call:
    import torch

    from . import second_kernels as kernels

    b, x = normal(spans, span, state, dtype="bfloat16"), normal(spans, span, width, dtype="bfloat16", seed=1)
    fade, out = torch.sigmoid(normal(spans, span, dtype="float32", seed=2)), empty(spans, width, state, dtype="float32")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return cdiv(width, meta["BLOCK_M"]) * cdiv(state, meta["BLOCK_N"]), spans

    def expect() -> torch.Tensor:
        return x.float().mT @ (b.float() * fade[..., None])

    return Call(kernels.ssd_chunk_state, (b, x, fade, out, width, state, span), grid, expect, out)


def _retention(heads: int = 64, length: int = 2048, d: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    q, k = normal(heads, length, d), normal(heads, length, d, scale=d**-0.5, seed=1)
    v, out, log = normal(heads, length, d, seed=2), empty(heads, length, d), math.log2(0.98)

    def expect() -> torch.Tensor:
        at = torch.arange(length, device=q.device, dtype=torch.float32)
        fade = torch.exp2((at[:, None] - at).clamp(min=0) * log).tril()
        triples = zip(q, k, v, strict=True)
        return torch.stack([(a.float() @ b.float().T * fade) @ c.float() for a, b, c in triples])

    args = (q, k, v, out, length, log, d)
    return Call(kernels.retention, args, lambda meta: (cdiv(d, meta["BLOCK_V"]), heads), expect, out)


def _gated_delta(heads: int = 32, length: int = 4096, d: int = 128, span: int = 64) -> Call:
    import torch

    from . import second_kernels as kernels

    q = normal(heads, length, d, dtype="bfloat16")
    k, w = (normal(heads, length, d, dtype="bfloat16", scale=0.5 * d**-0.5, seed=seed) for seed in (1, 2))
    u, out = normal(heads, length, d, dtype="bfloat16", seed=3), empty(heads, length, d, dtype="bfloat16")
    step = -0.02 * torch.sigmoid(normal(heads, length, dtype="float32", seed=4))
    g = step.view(heads, -1, span).cumsum(-1).view(heads, length).contiguous()

    def expect() -> torch.Tensor:
        state = torch.zeros((heads, d, d), device=q.device)
        parts = []
        for first in range(0, length, span):
            q_of, k_of, w_of, u_of = (one[:, first : first + span].float() for one in (q, k, w, u))
            log = g[:, first : first + span]
            fresh = u_of - w_of @ state
            fade = torch.exp((log[:, :, None] - log[:, None, :]).clamp(max=0)).tril()
            parts.append(q_of @ state * log.exp()[..., None] + (q_of @ k_of.mT * fade) @ fresh)
            last = log[:, -1:]
            state = state * last.exp()[..., None] + k_of.mT @ (fresh * (last - log).exp()[..., None])
        return torch.cat(parts, 1)

    args = (q, k, w, u, g, out, length, d, span)
    return Call(kernels.gated_delta, args, lambda meta: (cdiv(d, meta["BLOCK_V"]), heads), expect, out)


def _cumsum(rows: int = 2048, columns: int = 16384) -> Call:
    from . import second_kernels as kernels

    x, out = normal(rows, columns), empty(rows, columns, dtype="float32")
    return Call(kernels.cumsum_rows, (x, out, columns), lambda _meta: (rows,), lambda: x.float().cumsum(1), out)


def _gated_scan(batch: int = 8, length: int = 2048, channels: int = 2048) -> Call:
    import torch

    from . import second_kernels as kernels

    a = torch.sigmoid(normal(batch, length, channels, dtype="float32", seed=1)).to(torch.bfloat16)
    b, h = normal(batch, length, channels, dtype="bfloat16"), empty(batch, length, channels, dtype="float32")

    def expect() -> torch.Tensor:
        state = torch.zeros((batch, channels), device=a.device)
        found = torch.empty((batch, length, channels), device=a.device)
        for time in range(length):
            state = state * a[:, time].float() + b[:, time].float()
            found[:, time] = state
        return found

    args = (a, b, h, length, channels)
    return Call(kernels.gated_scan, args, lambda meta: (cdiv(channels, meta["BLOCK_N"]), batch), expect, h)


def _selective(batch: int = 8, length: int = 512, channels: int = 2048, state: int = 16) -> Call:
    import torch

    from . import second_kernels as kernels

    u, y = normal(batch, length, channels, dtype="bfloat16"), empty(batch, length, channels, dtype="bfloat16")
    delta = torch.sigmoid(normal(batch, length, channels, dtype="float32", seed=1)).to(torch.bfloat16)
    a = -normal(channels, state, dtype="float32", seed=2).abs()
    b, c = (normal(batch, length, state, dtype="bfloat16", seed=seed) for seed in (3, 4))

    def expect() -> torch.Tensor:
        h = torch.zeros((batch, channels, state), device=u.device)
        found = torch.empty((batch, length, channels), device=u.device)
        for time in range(length):
            step = delta[:, time].float()
            h = h * torch.exp(step[..., None] * a)
            h = h + (step * u[:, time].float())[..., None] * b[:, time, None].float()
            found[:, time] = (h * c[:, time, None].float()).sum(-1)
        return found

    args = (u, delta, a, b, c, y, length, channels, state)
    return Call(kernels.selective_scan, args, lambda meta: (cdiv(channels, meta["BLOCK_N"]), batch), expect, y)


# ---- rows ----


def _softmax_short(rows: int = 131072, columns: int = 256) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(rows, columns, dtype="bfloat16"), empty(rows, columns, dtype="bfloat16")
    return Call(
        kernels.softmax_short, (x, y, rows, columns), _over(BLOCK_M=rows), lambda: torch.softmax(x.float(), 1), y
    )


def _norm_backward(rows: int = 8192, columns: int = 2048) -> Call:
    import torch

    from . import second_kernels as kernels

    x, dy, w = normal(rows, columns), normal(rows, columns, seed=1), normal(columns, seed=2)
    mean = x.float().mean(1)
    rstd = torch.rsqrt(x.float().var(1, unbiased=False) + 1e-5)
    dx, sums = empty(rows, columns), empty(2, columns, dtype="float32")
    out = empty(rows + 2, columns, dtype="float32")

    def prepare() -> None:
        dx.zero_()
        sums.zero_()

    def finish() -> None:
        out[:rows] = dx
        out[rows:] = sums / rows**0.5

    def expect() -> torch.Tensor:
        hat = (x.float() - mean[:, None]) * rstd[:, None]
        wide = dy.float() * w.float()
        grad = (wide - hat * (hat * wide).mean(1, keepdim=True) - wide.mean(1, keepdim=True)) * rstd[:, None]
        totals = torch.stack([(dy.float() * hat).sum(0), dy.float().sum(0)])
        return torch.cat([grad, totals / rows**0.5])

    args = (dx, dy, x, w, mean, rstd, sums[0], sums[1], rows, columns)
    grid: Grid = lambda meta: (meta["NUM_PROGRAMS"],)  # noqa: E731
    return Call(kernels.layer_norm_backward, args, grid, expect, out, prepare, finish)


def _cross_entropy(rows: int = 2048, vocabulary: int = 128256) -> Call:
    import torch

    from . import second_kernels as kernels

    given = normal(rows, vocabulary, dtype="bfloat16", scale=2.0)
    logits, target = torch.empty_like(given), _random(0, vocabulary, (rows,), "int64", seed=1)
    loss = empty(rows, dtype="float32")

    def expect() -> torch.Tensor:
        parts = zip(given.split(256), target.split(256), strict=True)
        return torch.cat([torch.nn.functional.cross_entropy(x.float(), y, reduction="none") for x, y in parts])

    args = (logits, target, loss, vocabulary)
    return Call(kernels.cross_entropy, args, lambda _meta: (rows,), expect, loss, lambda: logits.copy_(given))


def _add_norm(rows: int = 65536, columns: int = 512) -> Call:
    import torch

    from . import second_kernels as kernels

    x, given, w = (
        normal(*shape, dtype="bfloat16", seed=s) for s, shape in enumerate([(rows, columns)] * 2 + [(columns,)])
    )
    residual, y = torch.empty_like(given), empty(rows, columns, dtype="bfloat16")

    def expect() -> torch.Tensor:
        wide = x.float() + given.float()
        return wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6) * w.float()

    args = (x, residual, w, y, rows, 1e-6, columns)
    return Call(kernels.add_rms_norm, args, _over(BLOCK_M=rows), expect, y, lambda: residual.copy_(given))


def _route(tokens: int = 65536, experts: int = 128, top: int = 8) -> Call:
    import torch

    from . import second_kernels as kernels

    x, values = normal(tokens, experts, dtype="float32"), empty(tokens, top, dtype="float32")
    index = empty(tokens, top, dtype="int32")
    args = (x, values, index, tokens, experts, top)
    return Call(
        kernels.route_topk, args, _over(BLOCK_M=tokens), lambda: torch.softmax(x, 1).topk(top, 1).values, values
    )


def _column_sums(rows: int = 16384, columns: int = 4096) -> Call:
    from . import second_kernels as kernels

    x, out = normal(rows, columns, dtype="bfloat16"), empty(columns, dtype="float32")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return cdiv(columns, meta["BLOCK_N"]), meta["SPLIT_M"]

    return Call(kernels.column_sums, (x, out, rows, columns), grid, lambda: x.float().sum(0), out)


def _quantize(rows: int = 8192, columns: int = 8192) -> Call:
    import torch

    from . import second_kernels as kernels

    x, q = normal(rows, columns, dtype="bfloat16"), empty(rows, columns, dtype="float8_e4m3fn")
    scale, out = empty(rows, dtype="float32"), empty(rows, columns, dtype="float32")

    def finish() -> None:
        out.copy_(q.float() * scale[:, None])

    return Call(
        kernels.quantize_rows,
        (x, q, scale, columns),
        lambda _meta: (rows,),
        x.float,
        out,
        lambda: q.view(torch.uint8).zero_(),
        finish,
    )


def _group_norm(images: int = 32, pixels: int = 4096, channels: int = 256, groups: int = 16) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(images, pixels, channels), empty(images, pixels, channels)
    w, b = normal(channels, seed=1), normal(channels, seed=2)

    def expect() -> torch.Tensor:
        return torch.nn.functional.group_norm(x.float().mT, groups, w.float(), b.float(), 1e-5).mT

    args = (x, y, w, b, pixels, channels, channels // groups, 1e-5)
    return Call(kernels.group_norm, args, lambda _meta: (images, groups), expect, y)


# ---- elements ----


def _dropout(rows: int = 8192, columns: int = 4096) -> Call:
    import torch

    from . import second_kernels as kernels

    x, bias = normal(rows, columns, dtype="bfloat16"), normal(columns, dtype="bfloat16", seed=1)
    y, kept = empty(rows, columns, dtype="bfloat16"), _zeros(rows, columns, dtype="int8")

    def expect() -> torch.Tensor:
        return torch.nn.functional.gelu(x.float() + bias.float()) * kept / 0.9

    count = rows * columns
    args = (x, bias, y, kept, count, columns, 0.1, 1234)
    return Call(kernels.dropout_bias_gelu, args, _over(BLOCK_SIZE=count), expect, y)


def _adam(count: int = 1 << 24) -> Call:
    import torch

    from . import second_kernels as kernels

    given = torch.stack([normal(count, dtype="float32", seed=seed) for seed in range(3)])
    given[2].abs_()
    state, low = torch.empty_like(given), empty(count, dtype="bfloat16")
    g = normal(count, dtype="bfloat16", seed=3)

    def expect() -> torch.Tensor:
        m = 0.9 * given[1] + 0.1 * g.float()
        v = 0.95 * given[2] + 0.05 * g.float().square()
        return torch.stack([given[0] - 0.01 * (m / 0.2) / ((v / 0.1).sqrt() + 1e-8), m, v])

    args = (state[0], g, state[1], state[2], low, count, 0.01, 0.9, 0.95, 1e-8, 0.2, 0.1)
    return Call(kernels.adam_step, args, _over(BLOCK_SIZE=count), expect, state, lambda: state.copy_(given))


def _rotary(tokens: int = 16384, heads: int = 16, d: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(tokens, heads, d, dtype="bfloat16"), empty(tokens, heads, d, dtype="bfloat16")
    angle = normal(tokens, d // 2, dtype="float32", seed=1)
    cos, sin = angle.cos(), angle.sin()

    def expect() -> torch.Tensor:
        left, right = x.float().split(d // 2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat([left * c - right * s, right * c + left * s], -1)

    return Call(kernels.rotary, (x, cos, sin, y, tokens, heads, d // 2), _over(BLOCK_M=tokens), expect, y)


def _transpose(m: int = 8192, n: int = 6144) -> Call:
    from . import second_kernels as kernels

    x, y = normal(m, n), empty(n, m)
    return Call(kernels.transpose, (x, y, m, n), _over(BLOCK_M=m, BLOCK_N=n), lambda: x.T, y)


def _heat(height: int = 8192, width: int = 8192) -> Call:
    from . import second_kernels as kernels

    x, y = normal(height, width, dtype="float32"), empty(height, width, dtype="float32")

    def expect() -> torch.Tensor:
        found = x.clone()
        inner = x[1:-1, 1:-1]
        near = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        found[1:-1, 1:-1] = inner + 0.2 * (near - 4.0 * inner)
        return found

    return Call(kernels.heat_step, (x, y, height, width, 0.2), _over(BLOCK_N=width, BLOCK_M=height), expect, y)


# ---- scatter ----


def _embedding(count: int = 65536, words: int = 32000, width: int = 1024) -> Call:
    from . import second_kernels as kernels

    index, table, out = _random(0, words, (count,)), normal(words, width, seed=1), empty(count, width)
    args = (index, table, out, count, width)
    return Call(kernels.embedding, args, _over(BLOCK_M=count, BLOCK_N=width), lambda: table[index.long()], out)


def _embedding_gradient(count: int = 16384, words: int = 4096, width: int = 768) -> Call:
    import torch

    from . import second_kernels as kernels

    # The square of a uniform number: small ones are more frequent.
    index = (_random(0, 1 << 16, (count,)).float().div(1 << 16).square() * words).to(torch.int32)
    dy, table = normal(count, width, seed=1), empty(words, width, dtype="float32")

    def expect() -> torch.Tensor:
        return torch.zeros_like(table).index_add_(0, index.long(), dy.float())

    args = (index, dy, table, count, width)
    return Call(kernels.embedding_gradient, args, _over(BLOCK_M=count), expect, table)


def _count_bytes(count: int = 1 << 25, bins: int = 256) -> Call:
    import torch

    from . import second_kernels as kernels

    x, out = _random(0, bins, (count,), "uint8"), empty(bins, dtype="int32")

    def expect() -> torch.Tensor:
        return torch.bincount(x.int(), minlength=bins)

    args = (x, out, count, bins)
    return Call(kernels.count_bytes, args, lambda meta: (meta["NUM_PROGRAMS"],), expect, out)


def _sparse_rows(rows: int = 32768, width: int = 128) -> Call:
    import torch

    from . import second_kernels as kernels

    lengths = 8 + _random(0, 57, (rows,), "int64")
    ends = torch.cat([torch.zeros_like(lengths[:1]), lengths.cumsum(0)]).to(torch.int32)
    # The most that there can be: what lies behind the last row is not read.
    index, value = _random(0, rows, (64 * rows,), seed=1), normal(64 * rows, dtype="float32", seed=2)
    x, y = normal(rows, width, seed=3), empty(rows, width)

    def expect() -> torch.Tensor:
        owner = torch.repeat_interleave(torch.arange(rows, device=x.device), lengths)
        found = torch.zeros(rows, width, device=x.device)
        for first in range(0, len(owner), 1 << 17):
            part = slice(first, min(first + (1 << 17), len(owner)))
            found.index_add_(0, owner[part], x[index[part].long()].float() * value[part, None])
        return found

    return Call(kernels.sparse_rows, (ends, index, value, x, y, width), lambda _meta: (rows,), expect, y)


# ---- conv ----


def _conv(kernel: int, stride: int, images: int, side: int, channels: int, filters: int) -> Call:
    import torch

    from . import second_kernels as kernels

    out = cdiv(side, stride)
    x, y = normal(images, side, side, channels), empty(images, out, out, filters)
    w = normal(kernel * kernel * channels, filters, scale=0.03, seed=1)

    def expect() -> torch.Tensor:
        taps = w.view(kernel, kernel, channels, filters).permute(3, 2, 0, 1)
        found = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), taps, stride=stride, padding=kernel // 2)
        return found.permute(0, 2, 3, 1)

    args = (x, w, y, images, side, side, out, out, filters, channels, kernel, stride)
    return Call(kernels.conv_strided, args, _over(BLOCK_M=images * out * out, BLOCK_N=filters), expect, y)


def _depthwise(images: int = 32, side: int = 56, channels: int = 384) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(images, side, side, channels), empty(images, side, side, channels)
    w = normal(9, channels, seed=1)

    def expect() -> torch.Tensor:
        taps = w.T.reshape(channels, 1, 3, 3).float()
        return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2).float(), taps, padding=1, groups=channels).permute(
            0, 2, 3, 1
        )

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return cdiv(side, meta["BLOCK_M"]), images * side, cdiv(channels, meta["BLOCK_N"])

    return Call(kernels.depthwise3x3, (x, w, y, side, side, channels), grid, expect, y)


def _pool(images: int = 64, side: int = 56, channels: int = 256) -> Call:
    import torch

    from . import second_kernels as kernels

    x, y = normal(images, 2 * side, 2 * side, channels), empty(images, side, side, channels)

    def expect() -> torch.Tensor:
        return torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

    args = (x, y, images, side, side, channels)
    return Call(kernels.max_pool, args, _over(BLOCK_M=images * side * side, BLOCK_N=channels), expect, y)


def _mnk(m: int, n: int, k: int, stages: int, warps: int, **more: int) -> Meta:
    """Tiles of a kernel that does not walk them in groups."""
    return meta(stages, warps, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, **more)


def _flat(warps: int, **tile: int) -> Meta:
    """Of a kernel without a loop, whose depth changes nothing."""
    return {**tile, "num_warps": warps}


_SIZED = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8}


def _family(name: str, kind: str, make: Callable[..., Call], fair: Meta, *sizes: Any) -> Family:
    return Family(name, kind, partial(make, *sizes), fair)


SECOND: tuple[Family, ...] = (
    _family("matmul_tail", "gemm", _tail, meta(3, 4, **_SIZED)),
    _family("matmul_nt", "gemm", _strided, _mnk(128, 128, 32, 3, 4), "nt", "bfloat16", 4096, 4096, 1024),
    _family("matmul_tn", "gemm", _strided, _mnk(64, 128, 64, 3, 4), "tn", "float16", 2048, 2048, 4096),
    _family("matmul_tt", "gemm", _strided, _mnk(128, 64, 32, 4, 4), "tt", "float16", 1536, 3072, 2048),
    _family("matmul_ieee", "gemm", _precise, tile(64, 64, 32, 2, 4), "ieee", 1024, 1024, 1024),
    _family("matmul_tf32x3", "gemm", _precise, tile(64, 128, 32, 3, 4), "tf32x3", 2048, 2048, 1024),
    _family("matmul_block_pointers", "gemm", _block_pointers, _mnk(128, 128, 64, 3, 8)),
    _family("matmul_descriptors", "gemm", _descriptor_persistent, tile(128, 128, 64, 3, 8, NUM_SMS=132)),
    _family("matmul_stream_k", "gemm", _stream_k, _mnk(128, 128, 64, 3, 8, NUM_SMS=132)),
    _family("swiglu_packed", "fused", _swiglu, tile(64, 128, 64, 3, 4)),
    _family("residual_sums", "fused", _residual_sums, _mnk(128, 128, 32, 3, 4)),
    _family("linear_sumexp", "fused", _sumexp, _mnk(128, 128, 64, 3, 8)),
    _family("linear_norm", "fused", _linear_norm, meta(3, 4, BLOCK_M=64, BLOCK_K=32)),
    _family("two_layers", "fused", _two_layers, meta(2, 4, BLOCK_M=128, BLOCK_N=64)),
    _family("linear_lora", "fused", _lora, tile(128, 128, 32, 3, 8)),
    _family("nearest_centroid", "fused", _nearest, meta(3, 4, BLOCK_M=128, BLOCK_N=64)),
    _family("w8a8", "narrow", _w8a8, tile(128, 128, 64, 4, 4)),
    _family("fp8_blocks", "narrow", _fp8_blocks, tile(64, 128, 128, 3, 4)),
    _family("fp8_promoted", "narrow", _fp8_promoted, tile(128, 128, 64, 4, 4)),
    _family("w4a16_zeros", "narrow", _w4a16, _mnk(64, 64, 64, 4, 4)),
    _family("w8a16_rows", "narrow", _w8a16, tile(64, 128, 64, 4, 8)),
    _family("fp8_decode", "narrow", _fp8_decode, meta(4, 4, BLOCK_N=64, BLOCK_K=128)),
    _family("batched_cubes", "shaped", _cubes, meta(2, 4, BLOCK_K=32)),
    _family("moe_gathered", "shaped", _moe, tile(64, 128, 64, 3, 4)),
    _family("block_sparse", "shaped", _block_sparse, meta(3, 4, BLOCK_N=128)),
    _family("decode_split_k", "shaped", _decode_split, meta(3, 4, BLOCK_N=64, BLOCK_K=128, SPLIT_K=4)),
    _family("gram_lower", "shaped", _gram, _mnk(128, 128, 32, 4, 4)),
    _family("weight_gradient", "shaped", _weight_gradient, _mnk(128, 128, 32, 3, 4, SPLIT_K=32)),
    _family("flash_gqa", "attention", _flash, meta(3, 8, BLOCK_M=128, BLOCK_N=64), 32, 4, 4096, 128),
    _family("flash_window", "attention", _flash, meta(3, 4, BLOCK_M=64, BLOCK_N=64), 16, 1, 8192, 64, 512, "float16"),
    _family("flash_biased", "attention", _biased, meta(2, 4, BLOCK_M=128, BLOCK_N=64)),
    _family("flash_fp8", "attention", _flash_fp8, meta(3, 8, BLOCK_M=128, BLOCK_N=128)),
    _family("cross_short", "attention", _cross, meta(1, 4, BLOCK_M=64, BLOCK_N=32), 64, 4096, 77, 64),
    _family("attention_d256", "attention", _cross, meta(2, 8, BLOCK_M=64, BLOCK_N=64), 16, 2048, 2048, 256),
    _family("paged_decode", "attention", _paged, meta(3, 4, BLOCK_N=64)),
    _family("flash_backward_causal", "attention", _backward_causal, meta(2, 4, BLOCK_M=64, BLOCK_N=64)),
    _family("decode_combine", "attention", _combine, meta(2, 4, BLOCK_M=16)),
    _family("ssd_chunk_scan", "recurrence", _chunk_scan, meta(2, 4, BLOCK_M=64, BLOCK_N=64)),
    _family("ssd_chunk_state", "recurrence", _chunk_state, _mnk(64, 64, 32, 3, 4)),
    _family("retention", "recurrence", _retention, meta(2, 4, CHUNK=64, BLOCK_V=64)),
    _family("gated_delta", "recurrence", _gated_delta, meta(2, 4, BLOCK_V=32)),
    _family("cumsum_rows", "recurrence", _cumsum, meta(2, 4, BLOCK=2048)),
    _family("gated_scan", "recurrence", _gated_scan, meta(2, 4, BLOCK_T=64, BLOCK_N=64)),
    _family("selective_scan", "recurrence", _selective, meta(2, 4, BLOCK_N=64)),
    _family("softmax_short", "rows", _softmax_short, _flat(4, BLOCK_M=16)),
    _family("norm_backward", "rows", _norm_backward, meta(2, 8, NUM_PROGRAMS=132)),
    _family("cross_entropy", "rows", _cross_entropy, meta(3, 8, BLOCK_SIZE=4096)),
    _family("add_rms_norm", "rows", _add_norm, _flat(4, BLOCK_M=16)),
    _family("route_topk", "rows", _route, _flat(4, BLOCK_M=16)),
    _family("column_sums", "rows", _column_sums, meta(3, 4, BLOCK_M=32, BLOCK_N=64, SPLIT_M=8)),
    _family("quantize_fp8", "rows", _quantize, meta(2, 4, BLOCK=1024)),
    _family("group_norm", "rows", _group_norm, meta(2, 4, BLOCK_M=64)),
    _family("dropout_bias_gelu", "elements", _dropout, _flat(4, BLOCK_SIZE=1024)),
    _family("adam_step", "elements", _adam, _flat(8, BLOCK_SIZE=1024)),
    _family("rotary", "elements", _rotary, meta(2, 4, BLOCK_M=16)),
    _family("transpose", "elements", _transpose, _flat(4, BLOCK_M=32, BLOCK_N=32)),
    _family("heat_step", "elements", _heat, _flat(4, BLOCK_M=32, BLOCK_N=32)),
    _family("embedding", "scatter", _embedding, _flat(4, BLOCK_M=16, BLOCK_N=128)),
    _family("embedding_gradient", "scatter", _embedding_gradient, meta(2, 4, BLOCK_M=16, BLOCK_N=64)),
    _family("count_bytes", "scatter", _count_bytes, meta(2, 4, BLOCK=2048, NUM_PROGRAMS=264)),
    _family("sparse_rows", "scatter", _sparse_rows, meta(2, 4, BLOCK_K=16)),
    _family("conv3x3_stride2", "conv", _conv, _mnk(128, 64, 32, 3, 4), 3, 2, 32, 56, 128, 256),
    _family("conv1x1_stride2", "conv", _conv, _mnk(64, 128, 64, 3, 4), 1, 2, 64, 56, 256, 512),
    _family("depthwise3x3", "conv", _depthwise, meta(2, 4, BLOCK_M=16, BLOCK_N=64)),
    _family("max_pool", "conv", _pool, _flat(4, BLOCK_M=16, BLOCK_N=128)),
)

BY_NAME: Mapping[str, Family] = {family.name: family for family in (*FAMILIES, *MORE, *SECOND)}
"""All families, the first ones included."""
