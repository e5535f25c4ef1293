"""The families: a kernel, the inputs of one launch, and the meta-parameters to start from.

Read on machines without a GPU: torch and the kernels are imported when a call is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Meta = Mapping[str, int]
Grid = Callable[[Mapping[str, Any]], tuple[int, ...]]


@dataclass(frozen=True)
class Call:
    """One launch: the same inputs and result for all meta-parameters.

    ``prepare`` resets a result that launches accumulate into. ``finish`` computes ``out`` from what
    the kernel left.
    """

    kernel: Any
    args: tuple[Any, ...]
    grid: Grid
    expect: Callable[[], torch.Tensor]
    out: torch.Tensor
    prepare: Callable[[], object] | None = None
    finish: Callable[[], object] | None = None

    def run(self, meta: Meta) -> torch.Tensor:
        """Return the result of a launch with these meta-parameters, num_stages and num_warps included.
        What was left by a launch before is cleared, so that a launch that writes too little shows."""
        self.out.zero_()
        if self.prepare is not None:
            self.prepare()
        self.kernel[self.grid](*self.args, **meta)
        if self.finish is not None:
            self.finish()
        return self.out


@dataclass(frozen=True)
class Family:
    """``fair`` is what a competent engineer would write first."""

    name: str
    kind: str
    make: Callable[[], Call]
    fair: Meta


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def tiles(m: int, n: int) -> Grid:
    """A grid of one dimension, with a CTA for each tile."""
    return lambda meta: (cdiv(m, meta["BLOCK_M"]) * cdiv(n, meta["BLOCK_N"]),)


def normal(*shape: int, dtype: str = "float16", scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Return normal numbers; other seeds give other numbers of the same shape."""
    import torch

    source = torch.Generator("cuda").manual_seed(seed)
    made = torch.randn(shape, generator=source, device="cuda", dtype=torch.float32)
    return made.mul_(scale).to(getattr(torch, dtype))


def empty(*shape: int, dtype: str = "float16") -> torch.Tensor:
    import torch

    return torch.empty(shape, device="cuda", dtype=getattr(torch, dtype))


def meta(stages: int, warps: int, **tile: int) -> dict[str, int]:
    return {**tile, "num_stages": stages, "num_warps": warps}


def tile(m: int, n: int, k: int, stages: int, warps: int, **more: int) -> dict[str, int]:
    return meta(stages, warps, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, **{"GROUP_M": 8, **more})


# ---- gemm ----


def _gemm(kernel: str, m: int, n: int, k: int, dtype: str = "float16", out: str | None = None) -> Callable[[], Call]:
    """Return the maker of a call C = A · B by a kernel that takes a, b, c, m, n, k."""

    def make() -> Call:
        from . import kernels

        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
        c = empty(m, n, dtype=out or dtype)
        return Call(getattr(kernels, kernel), (a, b, c, m, n, k), tiles(m, n), lambda: (a @ b).to(c.dtype), c)

    return make


def _tma(m: int, n: int, k: int) -> Callable[[], Call]:
    def make() -> Call:
        import torch
        import triton

        # Each launch takes memory for the descriptors that its CTAs build.
        triton.set_allocator(lambda size, _align, _stream: torch.empty(size, device="cuda", dtype=torch.int8))
        return _gemm("gemm_tma", m, n, k)()

    return make


def _gemm_persistent() -> Call:
    from . import kernels

    m, n, k = 4096, 8192, 2048
    a, b, c = normal(m, k), normal(k, n, seed=1), empty(m, n)
    return Call(kernels.gemm_persistent, (a, b, c, m, n, k), lambda meta: (meta["NUM_SMS"],), lambda: a @ b, c)


# ---- fused ----


def _gated_mlp() -> Call:
    import torch

    from . import kernels

    m, n, k = 4096, 8192, 4096
    x, c = normal(m, k), empty(m, n)
    up, gate = (normal(k, n, scale=k**-0.5, seed=seed) for seed in (1, 2))

    def expect() -> torch.Tensor:
        return (x @ up).float() * torch.nn.functional.silu((x @ gate).float())

    return Call(kernels.gated_mlp, (x, up, gate, c, m, n, k), tiles(m, n), expect, c)


def _at_bias_gelu() -> Call:
    import torch

    from . import kernels

    m, n, k = 8192, 8192, 1024
    at, b, bias, c = normal(k, m), normal(k, n, scale=k**-0.5, seed=1), normal(n, seed=2), empty(m, n)

    def expect() -> torch.Tensor:
        return torch.nn.functional.gelu((at.T @ b).float() + bias.float())

    return Call(kernels.gemm_at_bias_gelu, (at, b, bias, c, m, n, k), tiles(m, n), expect, c)


def _norm_gemm() -> Call:
    import torch

    from . import kernels

    m, n, k, epsilon = 4096, 4096, 4096, 1e-6
    x, w, c = normal(m, k, scale=2.0), normal(k, n, scale=k**-0.5, seed=1), empty(m, n)

    def expect() -> torch.Tensor:
        wide = x.float()
        return (x @ w).float() * torch.rsqrt(wide.square().mean(1, keepdim=True) + epsilon)

    return Call(kernels.norm_gemm, (x, w, c, m, n, k, epsilon), tiles(m, n), expect, c)


def _gemm_residual() -> Call:

    from . import kernels

    m, n, k = 8192, 4096, 4096
    a, b = normal(m, k, dtype="bfloat16"), normal(k, n, dtype="bfloat16", scale=k**-0.5, seed=1)
    residual, c = normal(m, n, dtype="bfloat16", seed=2), empty(m, n, dtype="bfloat16")

    def expect() -> torch.Tensor:
        return (a @ b).float() + residual.float()

    return Call(kernels.gemm_residual, (a, b, residual, c, m, n, k), tiles(m, n), expect, c)


def _gemm_dual_out() -> Call:
    import torch

    from . import kernels

    m, n, k, scale = 4096, 8192, 2048, 0.125
    a, b, out = normal(m, k), normal(k, n, seed=1), empty(2, m, n)

    def expect() -> torch.Tensor:
        product = (a @ b).float()
        return torch.stack([product, product * scale])

    return Call(kernels.gemm_dual_out, (a, b, out[0], out[1], m, n, k, scale), tiles(m, n), expect, out)


# ---- narrow ----


def _fp8_gemm() -> Call:

    from . import kernels

    m, n, k = 4096, 8192, 4096
    a, b = normal(m, k, dtype="float8_e4m3fn"), normal(n, k, dtype="float8_e4m3fn", seed=1)
    c = empty(m, n)

    def expect() -> torch.Tensor:
        return a.half() @ b.half().T

    return Call(kernels.gemm_k_major, (a, b, c, m, n, k), tiles(m, n), expect, c)


def _tf32_gemm() -> Call:
    from . import kernels

    m, n, k = 4096, 4096, 2048
    a, b = normal(m, k, dtype="float32"), normal(n, k, dtype="float32", seed=1)
    c = empty(m, n, dtype="float32")
    return Call(kernels.gemm_k_major, (a, b, c, m, n, k), tiles(m, n), lambda: a @ b.T, c)


def int8s(*shape: int, seed: int) -> torch.Tensor:
    import torch

    source = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(-127, 128, shape, generator=source, device="cuda", dtype=torch.int8)


def _int8_gemm() -> Call:
    from . import kernels

    m, n, k = 4096, 8192, 4096
    a, b, c = int8s(m, k, seed=0), int8s(n, k, seed=1), empty(m, n, dtype="int32")
    return Call(kernels.gemm_int8, (a, b, c, m, n, k), tiles(m, n), lambda: a.float() @ b.float().T, c)


def _int8_weights() -> Call:

    from . import kernels

    m, n, k = 4096, 4096, 4096
    a, w, c = normal(m, k), int8s(k, n, seed=1), empty(m, n)
    scales = normal(n, seed=2).abs() / 128 + 1 / 256

    def expect() -> torch.Tensor:
        return a.float() @ (w.float() * scales.float())

    return Call(kernels.gemm_int8_weights, (a, w, scales, c, m, n, k), tiles(m, n), expect, c)


def _int4_weights() -> Call:
    import torch

    from . import kernels

    m, n, k, quant = 2048, 4096, 4096, 128
    source = torch.Generator("cuda").manual_seed(1)
    w = torch.randint(0, 256, (k // 2, n), generator=source, device="cuda", dtype=torch.uint8)
    a, scales, c = normal(m, k), normal(k // quant, n, seed=2).abs() / 16 + 1 / 64, empty(m, n)

    def expect() -> torch.Tensor:
        nibbles = torch.stack([w & 15, w >> 4], 1).reshape(k, n)
        return a.float() @ ((nibbles.float() - 8) * scales.float().repeat_interleave(quant, 0))

    return Call(kernels.gemm_int4_weights, (a, w, scales, c, m, n, k, quant), tiles(m, n), expect, c)


def _fp8_scaled() -> Call:

    from . import kernels

    m, n, k, quant = 4096, 4096, 4096, 128
    a, b = normal(m, k, dtype="float8_e4m3fn"), normal(n, k, dtype="float8_e4m3fn", seed=1)
    a_scales = normal(k // quant, m, dtype="float32", seed=2).abs() + 0.5
    b_scales = normal(k // quant, n, dtype="float32", seed=3).abs() + 0.5
    c = empty(m, n, dtype="bfloat16")

    def expect() -> torch.Tensor:
        left = a.float() * a_scales.T.repeat_interleave(quant, 1)
        right = b.float() * b_scales.T.repeat_interleave(quant, 1)
        return left @ right.T

    args = (a, b, a_scales, b_scales, c, m, n, k, quant)
    return Call(kernels.gemm_fp8_scaled, args, tiles(m, n), expect, c)


# ---- shaped ----


def _batched() -> Call:
    from . import kernels

    batch, m, n, k = 256, 512, 512, 512
    a, b, c = normal(batch, m, k), normal(batch, k, n, seed=1), empty(batch, m, n)
    return Call(kernels.gemm_batched, (a, b, c, m, n, k), lambda meta: (*tiles(m, n)(meta), batch), lambda: a @ b, c)


def _grouped() -> Call:
    import torch

    from . import kernels

    n, k = 4096, 2048
    # Rows of each product, most of them no multiple of a tile.
    heights = [1024, 384, 77, 640, 1500, 130, 256, 901, 512, 33, 720, 448, 1, 980, 300, 286]
    offsets = [sum(heights[:i]) for i in range(len(heights) + 1)]
    m = offsets[-1]
    a, b, c = normal(m, k), normal(len(heights), k, n, seed=1), empty(m, n)
    table = torch.tensor(offsets, device="cuda", dtype=torch.int32)

    def expect() -> torch.Tensor:
        spans = zip(offsets, offsets[1:], b, strict=False)
        return torch.cat([a[low:high] @ matrix for low, high, matrix in spans])

    args = (a, b, c, table, len(heights), n, k)
    return Call(kernels.gemm_grouped, args, lambda meta: (meta["NUM_SMS"],), expect, c)


def _split_k() -> Call:
    from . import kernels

    m, n, k = 512, 512, 65536
    a, b, c = normal(m, k), normal(k, n, seed=1), empty(m, n, dtype="float32")
    return Call(
        kernels.gemm_split_k,
        (a, b, c, m, n, k),
        lambda meta: (*tiles(m, n)(meta), meta["SPLIT_K"]),
        lambda: a @ b,
        c,
        prepare=c.zero_,
    )


# ---- attention ----


def _attention(kernel: str, heads: int, sequence: int, d: int, causal: bool = False) -> Callable[[], Call]:
    def make() -> Call:
        import torch

        from . import kernels

        q, k, v = (normal(heads, sequence, d, seed=seed) for seed in range(3))
        out, scale = empty(heads, sequence, d), d**-0.5

        def expect() -> torch.Tensor:
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(q[None], k[None], v[None], is_causal=causal)[0]

        return Call(
            getattr(kernels, kernel),
            (q, k, v, out, sequence, scale * math.log2(math.e), d),
            lambda meta: (cdiv(sequence, meta["BLOCK_M"]), heads),
            expect,
            out,
        )

    return make


@dataclass(frozen=True)
class _Backward:
    """Inputs of the backward kernels, and their results by torch."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    d_out: torch.Tensor
    lse: torch.Tensor
    delta: torch.Tensor
    scale: float

    @classmethod
    def make(cls, heads: int, sequence: int, d: int) -> _Backward:
        import torch

        # Queries of twice the size give gradients of Q and K that are not all near zero.
        q, k, v, d_out = (normal(heads, sequence, d, scale=2.0 if s == 0 else 1.0, seed=s) for s in range(4))
        lse, delta = (empty(heads, sequence, dtype="float32") for _ in range(2))
        scale = d**-0.5
        for head in range(heads):
            score = q[head].float() @ k[head].float().T * scale
            lse[head] = torch.logsumexp(score, 1)
            delta[head] = (torch.softmax(score, 1) @ v[head].float() * d_out[head].float()).sum(1)
        return cls(q, k, v, d_out, lse, delta, scale)

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.q, self.k, self.v, self.d_out, self.lse, self.delta

    def gradients(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the gradients of q, k and v, computed in float32."""
        import torch

        results: tuple[list[torch.Tensor], ...] = ([], [], [])
        for head in range(len(self.q)):
            q, k, v, d_out = (part[head].float() for part in (self.q, self.k, self.v, self.d_out))
            chance = torch.softmax(q @ k.T * self.scale, 1)
            slope = chance * (d_out @ v.T - self.delta[head][:, None]) * self.scale
            for result, part in zip(results, (slope @ k, slope.T @ q, chance.T @ d_out), strict=True):
                result.append(part)
        dq, dk, dv = (torch.stack(result) for result in results)
        return dq, dk, dv


def _attn_bwd_dkdv() -> Call:
    import torch

    from . import kernels

    heads, sequence, d = 16, 4096, 64
    given = _Backward.make(heads, sequence, d)
    out = empty(2, heads, sequence, d)
    return Call(
        kernels.attention_backward_dkdv,
        (*given.inputs, out[0], out[1], sequence, given.scale, d),
        lambda meta: (cdiv(sequence, meta["BLOCK_N"]), heads),
        lambda: torch.stack(given.gradients()[1:]),
        out,
    )


def _attn_bwd_dq() -> Call:
    from . import kernels

    heads, sequence, d = 16, 4096, 128
    given = _Backward.make(heads, sequence, d)
    out = empty(heads, sequence, d)
    return Call(
        kernels.attention_backward_dq,
        (*given.inputs, out, sequence, given.scale, d),
        lambda meta: (cdiv(sequence, meta["BLOCK_M"]), heads),
        lambda: given.gradients()[0],
        out,
    )


def _attn_decode() -> Call:
    import torch

    from . import kernels

    # 64 splits at most: the partial results have room for no more.
    heads, queries, length, d, most = 64 * 2, 16, 8192, 128, 64
    q, scale = normal(heads, queries, d), d**-0.5
    k, v = (normal(heads, length, d, seed=seed) for seed in (1, 2))
    partial = torch.zeros((most, heads, queries, d), device="cuda", dtype=torch.float32)
    lse, out = empty(most, heads, queries, dtype="float32"), empty(heads, queries, d, dtype="float32")

    def prepare() -> None:
        lse.fill_(-math.inf)

    def merge() -> None:
        share = torch.softmax(lse * math.log(2), 0)
        torch.sum(partial * share[..., None], 0, out=out)

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        if meta["SPLITS"] > most:
            raise ValueError(f"SPLITS is {meta['SPLITS']}: there is room for {most} partial results.")
        return meta["SPLITS"], heads

    def expect() -> torch.Tensor:
        return torch.cat(
            [
                torch.softmax(q[i : i + 8].float() @ k[i : i + 8].float().mT * scale, -1) @ v[i : i + 8].float()
                for i in range(0, heads, 8)
            ]
        )

    return Call(
        kernels.attention_decode,
        (q, k, v, partial, lse, length, scale * math.log2(math.e), d, queries),
        grid,
        expect,
        out,
        prepare,
        merge,
    )


# ---- recurrence ----


def _linear_attn_chunk() -> Call:
    import torch

    from . import kernels

    heads, length, d, width = 128, 4096, 64, 128
    q, k = normal(heads, length, d), normal(heads, length, d, scale=d**-0.5, seed=1)
    v, out = normal(heads, length, width, seed=2), empty(heads, length, width)

    def expect() -> torch.Tensor:
        state = torch.zeros((heads, d, width), device="cuda")
        parts = []
        for first in range(0, length, 256):
            q_part, k_part, v_part = (part[:, first : first + 256].float() for part in (q, k, v))
            parts.append((q_part @ k_part.mT).tril() @ v_part + q_part @ state)
            state = state + k_part.mT @ v_part
        return torch.cat(parts, 1)

    return Call(
        kernels.linear_attention,
        (q, k, v, out, length, width, d),
        lambda meta: (cdiv(width, meta["BLOCK_V"]), heads),
        expect,
        out,
    )


def _delta_state() -> Call:
    import torch

    from . import kernels

    heads, length, d, width, span = 64, 8192, 128, 128, 64
    # Rows of K are of length 1/2, so that I - Kᵀ · K of a span contracts and the state stays bounded.
    q, k = normal(heads, length, d), normal(heads, length, d, scale=0.5 * d**-0.5, seed=1)
    v, out = normal(heads, length, width, seed=2), empty(heads, length, width)
    decay = 1 - 0.1 * torch.sigmoid(normal(heads, length // span, dtype="float32", seed=3))

    def expect() -> torch.Tensor:
        state = torch.zeros((heads, d, width), device="cuda")
        parts = []
        for i in range(length // span):
            q_part, k_part, v_part = (part[:, i * span : (i + 1) * span].float() for part in (q, k, v))
            parts.append(q_part @ state)
            state = state * decay[:, i, None, None] + k_part.mT @ (v_part - k_part @ state)
        return torch.cat(parts, 1)

    return Call(
        kernels.delta_state,
        (q, k, v, decay, out, length, width, d, span),
        lambda meta: (cdiv(width, meta["BLOCK_V"]), heads),
        expect,
        out,
    )


# ---- rows ----


def _softmax_rows() -> Call:
    import torch

    from . import kernels

    rows, columns = 8192, 16384
    x, out = normal(rows, columns), empty(rows, columns)
    return Call(
        kernels.softmax_rows, (x, out, columns), lambda _meta: (rows,), lambda: torch.softmax(x.float(), 1), out
    )


def _layer_norm() -> Call:
    import torch

    from . import kernels

    rows, columns, epsilon = 16384, 8192, 1e-5
    x, out = normal(rows, columns) + 1, empty(rows, columns)
    weight, bias = normal(columns, seed=1), normal(columns, seed=2)

    def expect() -> torch.Tensor:
        return torch.nn.functional.layer_norm(x.float(), (columns,), weight.float(), bias.float(), epsilon)

    args = (x, weight, bias, out, columns, epsilon)
    return Call(kernels.layer_norm, args, lambda _meta: (rows,), expect, out)


def _rms_norm() -> Call:
    import torch

    from . import kernels

    rows, columns, epsilon = 32768, 4096, 1e-6
    x, weight = normal(rows, columns, dtype="bfloat16"), normal(columns, dtype="bfloat16", seed=1)
    out = empty(rows, columns, dtype="bfloat16")

    def expect() -> torch.Tensor:
        wide = x.float()
        return wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + epsilon) * weight.float()

    return Call(kernels.rms_norm, (x, weight, out, columns, epsilon), lambda _meta: (rows,), expect, out)


def _matvec() -> Call:
    from . import kernels

    m, k = 16384, 16384
    a, x, y = normal(m, k), normal(k, seed=1), empty(m)
    return Call(kernels.matvec, (a, x, y, m, k), lambda meta: (cdiv(m, meta["BLOCK_M"]),), lambda: a @ x, y)


# ---- conv ----


def _conv3x3() -> Call:
    import torch

    from . import kernels

    images, height, width, channels, filters = 32, 56, 56, 128, 256
    x, w = normal(images, height, width, channels), normal(9 * channels, filters, scale=0.03, seed=1)
    out = empty(images, height, width, filters)

    def expect() -> torch.Tensor:
        taps = w.view(3, 3, channels, filters).permute(3, 2, 0, 1)
        return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), taps, padding=1).permute(0, 2, 3, 1)

    args = (x, w, out, images, height, width, filters, channels)
    return Call(kernels.conv3x3, args, tiles(images * height * width, filters), expect, out)


def _conv1d_depthwise() -> Call:
    import torch

    from . import kernels

    batch, length, channels, taps = 8, 4096, 4096, 4
    x, w = normal(batch, length, channels), normal(taps, channels, scale=0.5, seed=1)
    bias, out = normal(channels, seed=2), empty(batch, length, channels)

    def expect() -> torch.Tensor:
        total = bias.float().expand(batch, length, channels).clone()
        for tap in range(taps):
            late = taps - 1 - tap
            total[:, late:] += x[:, : length - late].float() * w[tap].float()
        return torch.nn.functional.silu(total)

    return Call(
        kernels.conv1d_depthwise,
        (x, w, bias, out, length, channels, taps),
        lambda meta: (cdiv(length, meta["BLOCK_M"]), cdiv(channels, meta["BLOCK_N"]), batch),
        expect,
        out,
    )


_PERSISTENT = {"NUM_SMS": 132}

FAMILIES: tuple[Family, ...] = (
    Family("gemm_f16", "gemm", _gemm("gemm", 4096, 4096, 4096), tile(128, 256, 64, 3, 8)),
    Family("gemm_bf16_wide", "gemm", _gemm("gemm", 4096, 8192, 4096, "bfloat16"), tile(128, 256, 64, 4, 8)),
    Family("gemm_tma", "gemm", _tma(4096, 4096, 4096), tile(128, 256, 64, 3, 8)),
    Family("gemm_persistent", "gemm", _gemm_persistent, tile(128, 256, 64, 3, 8, **_PERSISTENT)),
    Family("gemm_tall", "gemm", _gemm("gemm_masked", 8192, 512, 8192), tile(128, 128, 64, 4, 4)),
    Family(
        "gemm_two_stage_f32out",
        "gemm",
        _gemm("gemm", 2048, 8192, 2048, "float16", "float32"),
        tile(128, 128, 64, 2, 8),
    ),
    Family("gated_mlp", "fused", _gated_mlp, tile(128, 128, 64, 3, 8)),
    Family("at_bias_gelu", "fused", _at_bias_gelu, tile(128, 128, 64, 3, 8)),
    Family("norm_gemm", "fused", _norm_gemm, tile(128, 128, 64, 2, 8)),  # of 3 stages Triton 3.6 makes a wrong kernel
    Family("gemm_residual", "fused", _gemm_residual, tile(128, 256, 64, 3, 8)),
    Family("gemm_dual_out", "fused", _gemm_dual_out, tile(128, 128, 64, 4, 4)),
    Family("fp8_gemm", "narrow", _fp8_gemm, tile(128, 256, 128, 3, 8)),
    Family("tf32_gemm", "narrow", _tf32_gemm, tile(128, 128, 32, 4, 8)),
    Family("int8_gemm", "narrow", _int8_gemm, tile(128, 128, 128, 3, 8)),
    Family("int8_weights", "narrow", _int8_weights, tile(128, 128, 64, 3, 8)),
    Family("int4_weights", "narrow", _int4_weights, tile(64, 128, 64, 3, 4)),
    Family("fp8_scaled", "narrow", _fp8_scaled, tile(128, 128, 128, 3, 8)),
    Family("batched_512", "shaped", _batched, tile(128, 128, 64, 3, 8, GROUP_M=4)),
    Family("grouped", "shaped", _grouped, meta(3, 8, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, **_PERSISTENT)),
    Family("skinny", "shaped", _gemm("gemm_masked", 64, 16384, 8192), tile(64, 128, 128, 4, 4, GROUP_M=1)),
    Family("split_k", "shaped", _split_k, tile(128, 128, 64, 4, 8, GROUP_M=4, SPLIT_K=8)),
    Family("short_k", "shaped", _gemm("gemm", 8192, 8192, 256), tile(128, 128, 64, 3, 8)),
    Family("few_ctas", "shaped", _gemm("gemm_masked", 1024, 1024, 16384), tile(128, 128, 64, 4, 8)),
    Family("attn_d128", "attention", _attention("attention", 32, 4096, 128), meta(3, 8, BLOCK_M=128, BLOCK_N=64)),
    Family(
        "attn_causal_d64",
        "attention",
        _attention("attention_causal", 32, 8192, 64, causal=True),
        meta(3, 4, BLOCK_M=128, BLOCK_N=64),
    ),
    Family("attn_bwd_dkdv", "attention", _attn_bwd_dkdv, meta(2, 8, BLOCK_M=64, BLOCK_N=128)),
    Family("attn_bwd_dq", "attention", _attn_bwd_dq, meta(2, 8, BLOCK_M=128, BLOCK_N=64)),
    Family("attn_decode", "attention", _attn_decode, meta(3, 4, BLOCK_N=64, SPLITS=8)),
    Family("attn_few_heads", "attention", _attention("attention", 2, 8192, 128), meta(2, 8, BLOCK_M=128, BLOCK_N=128)),
    Family("linear_attn_chunk", "recurrence", _linear_attn_chunk, meta(2, 4, CHUNK=64, BLOCK_V=64)),
    Family("delta_state", "recurrence", _delta_state, meta(2, 4, BLOCK_V=64)),
    Family("softmax_rows", "rows", _softmax_rows, meta(3, 8, BLOCK=4096)),
    Family("layer_norm", "rows", _layer_norm, meta(3, 8, BLOCK=2048)),
    Family("rms_norm", "rows", _rms_norm, meta(3, 4, BLOCK=2048)),
    Family("matvec", "rows", _matvec, meta(3, 4, BLOCK_M=16, BLOCK_K=256)),
    Family("conv3x3", "conv", _conv3x3, tile(128, 128, 64, 3, 8)),
    Family("conv1d_depthwise", "conv", _conv1d_depthwise, meta(3, 4, BLOCK_M=32, BLOCK_N=128)),
)

MORE: tuple[Family, ...] = (
    Family("gemm_small", "gemm", _gemm("gemm", 2048, 2048, 2048), tile(64, 64, 32, 2, 4, GROUP_M=1)),
    Family("gemm_short", "gemm", _gemm("gemm", 2048, 4096, 1024), tile(128, 128, 64, 3, 8)),
    Family("gemm_long", "gemm", _gemm("gemm", 2048, 2048, 8192), tile(128, 128, 64, 3, 4)),
    Family("gemm_few", "gemm", _gemm("gemm", 1024, 2048, 8192, "bfloat16"), tile(128, 128, 64, 3, 8)),
    Family("tma_small", "gemm", _tma(2048, 2048, 4096), tile(128, 128, 64, 3, 8)),
    Family("tma_long", "gemm", _tma(2048, 4096, 8192), tile(128, 256, 64, 3, 8)),
    Family("masked_wide", "gemm", _gemm("gemm_masked", 512, 8192, 2048), tile(64, 128, 64, 3, 4)),
    Family("attn_short", "attention", _attention("attention", 64, 1024, 64), meta(2, 4, BLOCK_M=64, BLOCK_N=64)),
    Family("attn_long", "attention", _attention("attention", 8, 8192, 64), meta(3, 8, BLOCK_M=128, BLOCK_N=128)),
)
"""More to learn from, added after the first scoring of the frozen side."""
