"""Builds the launches of the plan: those of ``benchmarks.foreign``, and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from benchmarks.foreign.calls import DEVICE, Call, build, normal, unset
from benchmarks.foreign.experiment import Launch, Options


def call_of(program: str, options: Options) -> Call:
    """The call of one launch, its inputs filled."""
    if program not in _BUILDERS:
        return build(Launch("", program, options))
    torch.manual_seed(0)
    return _BUILDERS[program](options)


def _sizes(options: Options) -> tuple[tuple[int, int, int], tuple[int, int, int], dict[str, Any]]:
    """Shape, tile, and what Triton's compiler is told."""
    shape = options["m"], options["n"], options["k"]
    return shape, options["tile"], {"num_stages": options["stages"], "num_warps": options["warps"]}


def _grid(shape: tuple[int, int, int], tile: tuple[int, int, int]) -> int:
    return shape[0] // tile[0] * (shape[1] // tile[1])


def _k_major(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_gemm_k_major as kernel

    (m, n, k), tile, how = _sizes(options)
    out = "float32" if options["dtype"] == "float32" else "float16"
    a, b, c = normal(m, k, dtype=options["dtype"]), normal(n, k, dtype=options["dtype"]), unset(m, n, dtype=out)

    def run() -> torch.Tensor:
        kernel[(_grid((m, n, k), tile),)](a, b, c, m, n, k, *tile, **how)
        return c

    return Call(run, lambda: a.float() @ b.float().T)


def _tma(options: Options) -> Call:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from benchmarks.truth.triton_kernels import truth_gemm_tma as kernel

    (m, n, k), tile, how = _sizes(options)
    bm, bn, bk = tile
    a, b, c = normal(m, k), normal(k, n), unset(m, n)
    boxes = ((a, [bm, bk]), (b, [bk, bn]), (c, [bm, bn]))
    described = [TensorDescriptor.from_tensor(tensor, box) for tensor, box in boxes]

    def run() -> torch.Tensor:
        kernel[(_grid((m, n, k), tile),)](*described, m, n, k, *tile, **how)
        return c

    return Call(run, lambda: a @ b)


def _grouped(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_gemm_grouped as kernel

    products = [(normal(m, k), normal(k, n), unset(m, n)) for m, n, k in options["products"]]
    addresses = [tensor.data_ptr() for product in products for tensor in product]
    tensors = torch.tensor(addresses, dtype=torch.int64, device=DEVICE)
    sizes = torch.tensor([size for product in options["products"] for size in product], dtype=torch.int32).to(DEVICE)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    how = {"num_stages": options["stages"], "num_warps": options["warps"]}

    def run() -> torch.Tensor:
        kernel[(sms,)](tensors, sizes, len(products), *options["tile"], sms, **how)
        return products[-1][2]

    return Call(run, lambda: products[-1][0] @ products[-1][1])


def _split_k(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_gemm_split_k as kernel

    (m, n, k), tile, how = _sizes(options)
    a, b = normal(m, k), normal(k, n)
    c = torch.zeros(m, n, device=DEVICE, dtype=torch.float32)

    def run() -> torch.Tensor:
        kernel[(_grid((m, n, k), tile), options["split"])](a, b, c, m, n, k, *tile, options["split"], **how)
        return c

    return Call(run, lambda: a.float() @ b.float())


def _gated(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_gemm_gated as kernel

    (m, n, k), tile, how = _sizes(options)
    x, up, gate, c = normal(m, k), normal(k, n), normal(k, n), unset(m, n, dtype="float32")

    def run() -> torch.Tensor:
        kernel[(_grid((m, n, k), tile),)](x, up, gate, c, m, n, k, *tile, **how)
        return c

    return Call(run, lambda: (x @ up).float() * functional.silu((x @ gate).float()))


def _causal(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_attention_causal as kernel

    heads, sequence, dim, (bm, bn) = options["heads"], options["sequence"], options["dim"], options["tile"]
    q, k, v = (normal(heads, sequence, dim) for _ in range(3))
    out, scale = unset(heads, sequence, dim), math.log2(math.e) / math.sqrt(dim)
    how = {"num_stages": options["stages"], "num_warps": options["warps"]}

    def run() -> torch.Tensor:
        kernel[(sequence // bm, heads)](q, k, v, out, sequence, scale, bm, bn, dim, **how)
        return out

    return Call(run, lambda: functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0])


def _rms_norm(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_rms_norm as kernel

    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, scale, out = (
        normal(rows, columns, dtype=dtype),
        normal(columns, dtype=dtype),
        unset(rows, columns, dtype=dtype),
    )

    def run() -> torch.Tensor:
        kernel[(rows,)](x, scale, out, columns, num_warps=options["warps"])
        return out

    return Call(run, lambda: functional.rms_norm(x, (columns,), scale, 1e-6))


def _matvec(options: Options) -> Call:
    from benchmarks.truth.triton_kernels import truth_matvec as kernel

    rows, columns, (bm, bk) = options["rows"], options["columns"], options["tile"]
    a, x, y = normal(rows, columns), normal(columns), unset(rows, dtype="float32")

    def run() -> torch.Tensor:
        kernel[(rows // bm,)](a, x, y, columns, bm, bk, num_warps=options["warps"], num_stages=options["stages"])
        return y

    return Call(run, lambda: a.float() @ x.float())


def _inductor(options: Options) -> Call:
    """A block that ``torch.compile`` makes one kernel of."""
    rows, columns = options["rows"], options["columns"]
    x, weight = normal(rows, columns, dtype="bfloat16"), normal(columns, dtype="bfloat16")
    blocks: dict[str, Callable[[], torch.Tensor]] = {
        "gelu_norm": lambda: functional.gelu(functional.layer_norm(x, (columns,))) * x,
        "softmax": lambda: torch.softmax(x.float() * 0.5, -1).to(x.dtype),
        "rms_norm": lambda: functional.rms_norm(x, (columns,), weight) + x,
        "entropy": lambda: torch.logsumexp(x.float(), -1),
    }
    block = blocks[options["block"]]
    compiled = torch.compile(block)
    return Call(compiled, block)


_BUILDERS: dict[str, Callable[[Options], Call]] = {
    "k_major": _k_major,
    "tma": _tma,
    "grouped": _grouped,
    "split_k": _split_k,
    "gated": _gated,
    "causal": _causal,
    "rms_norm": _rms_norm,
    "matvec": _matvec,
    "inductor": _inductor,
}
