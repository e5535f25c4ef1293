"""Builds the launches of the plan: inputs on the GPU, a call that launches once, and what the result
should be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional

from benchmarks.truth import triton_kernels as kernels

Options = Mapping[str, Any]
DEVICE = "cuda"
TOLERANCE = 0.02
"""Largest error, of the largest value of the result: half precision gives 0.004 and less, a wrong
tile 1."""


@dataclass(frozen=True)
class Call:
    """``run`` launches and gives the result; ``expect`` computes it otherwise.

    None for a library's calls, which are believed.
    """

    run: Callable[[], torch.Tensor]
    expect: Callable[[], torch.Tensor] | None = None

    def error(self) -> float:
        """Largest error of a run, of the largest expected value; 0 where nothing is expected."""
        found = self.run()
        if self.expect is None:
            return 0.0
        wanted = self.expect().float()
        return float((found.float() - wanted).abs().max() / wanted.abs().max())


def call_of(program: str, options: Options) -> Call:
    """The call of one launch, its inputs filled."""
    torch.manual_seed(0)
    return _BUILDERS[program](options)


def normal(*shape: int, dtype: str = "float16") -> torch.Tensor:
    """Random inputs."""
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(getattr(torch, dtype))


def unset(*shape: int, dtype: str = "float16") -> torch.Tensor:
    """A place for results: NaN, so that one that is not written shows."""
    return torch.full(shape, math.nan, device=DEVICE, dtype=getattr(torch, dtype))


def _compiled(options: Options) -> dict[str, Any]:
    """What Triton's compiler is told."""
    return {"num_stages": options["stages"], "num_warps": options["warps"]}


def _sizes(options: Options) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Shape, tile, and the number of tiles."""
    m, n, k = _cube(options)
    bm, bn, bk = options["tile"]
    return (m, n, k), (bm, bn, bk), m // bm * (n // bn)


def _operands(options: Options) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    (m, n, k), dtype = _cube(options), options["dtype"]
    return normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), unset(m, n, dtype=dtype)


def _sms() -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def _gemm(options: Options) -> Call:
    (shape, tile, tiles), mma = _sizes(options), options.get("mma", "wgmma")
    a, b, c = _operands(options)

    def run() -> torch.Tensor:
        if mma != "wgmma":
            os.environ["DISABLE_MMA_V3"] = "1"  # read by Triton's compiler
        try:
            kernels.foreign_gemm[(tiles,)](a, b, c, *shape, 1, *tile, mma, **_compiled(options))
        finally:
            os.environ.pop("DISABLE_MMA_V3", None)
        return c

    return Call(run, lambda: a @ b)


def _gemm_persistent(options: Options) -> Call:
    (shape, tile, tiles), sms = _sizes(options), _sms()
    a, b, c = _operands(options)

    def run() -> torch.Tensor:
        kernels.foreign_gemm_persistent[(min(sms, tiles),)](a, b, c, *shape, *tile, sms, **_compiled(options))
        return c

    return Call(run, lambda: a @ b)


def _dequant(options: Options) -> Call:
    (m, n, k), tile, tiles = _sizes(options)
    whole = torch.randint(-8, 8, (m, k), device=DEVICE, dtype=torch.int8)
    w, x, c = whole if options["mode"] == "int8" else whole.half(), normal(k, n), unset(m, n)

    def run() -> torch.Tensor:
        kernels.foreign_dequant[(tiles,)](w, x, c, m, n, k, 0.125, 1, *tile, True, **_compiled(options))
        return c

    return Call(run, lambda: (whole.half() * 0.125) @ x)


def _attention(options: Options, causal: bool = False) -> Call:
    heads, sequence, dim, (bm, bn) = options["heads"], options["sequence"], options["dim"], options["tile"]
    q, k, v = (normal(heads, sequence, dim) for _ in range(3))
    out, scale = unset(heads, sequence, dim), math.log2(math.e) / math.sqrt(dim)
    kernel, more = (kernels.truth_attention_causal, ()) if causal else (kernels.foreign_attention, (1,))

    def run() -> torch.Tensor:
        kernel[(sequence // bm, heads)](q, k, v, out, sequence, scale, *more, bm, bn, dim, **_compiled(options))
        return out

    attend = functional.scaled_dot_product_attention
    return Call(run, lambda: attend(q[None], k[None], v[None], is_causal=causal)[0])


def _softmax(options: Options) -> Call:
    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, out = normal(rows, columns, dtype=dtype), unset(rows, columns, dtype=dtype)

    def run() -> torch.Tensor:
        kernels.foreign_softmax[(rows,)](x, out, columns, num_warps=options["warps"])
        return out

    return Call(run, lambda: torch.softmax(x, -1))


def _layernorm(options: Options) -> Call:
    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, out = normal(rows, columns, dtype=dtype), unset(rows, columns, dtype=dtype)

    def run() -> torch.Tensor:
        kernels.foreign_layernorm[(rows,)](x, out, columns, options["block"], num_warps=options["warps"])
        return out

    return Call(run, lambda: functional.layer_norm(x, (columns,)))


def _matmul(options: Options) -> Call:
    (m, n, k), batch, dtype = _cube(options), options.get("batch", 1), options["dtype"]
    shape = (batch,) if batch > 1 else ()
    a, b = normal(*shape, m, k, dtype=dtype), normal(*shape, k, n, dtype=dtype)

    def run() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = bool(options.get("tf32", 0))
        return torch.matmul(a, b)

    return Call(run)


def _sdpa(options: Options) -> Call:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (options["batch"], options["heads"], options["sequence"], options["dim"])
    q, k, v = (normal(*shape, dtype=options["dtype"]) for _ in range(3))
    backend = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[options["backend"]]

    def run() -> torch.Tensor:
        with torch.inference_mode(), sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=bool(options.get("causal", 0)))

    return Call(run)


def _pointwise(options: Options) -> Call:
    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x = normal(rows, columns, dtype=dtype)
    functions: dict[str, Callable[[], torch.Tensor]] = {
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, (columns,)),
        "sum": lambda: x.sum(-1),
    }
    return Call(functions[options["op"]])


def _cube(options: Options) -> tuple[int, int, int]:
    return options["m"], options["n"], options["k"]


def _k_major(options: Options) -> Call:
    (m, n, k), tile, tiles = _sizes(options)
    out = "float32" if options["dtype"] == "float32" else "float16"
    a, b, c = normal(m, k, dtype=options["dtype"]), normal(n, k, dtype=options["dtype"]), unset(m, n, dtype=out)

    def run() -> torch.Tensor:
        kernels.truth_gemm_k_major[(tiles,)](a, b, c, m, n, k, *tile, **_compiled(options))
        return c

    return Call(run, lambda: a.float() @ b.float().T)


def _tma(options: Options) -> Call:
    from triton.tools.tensor_descriptor import TensorDescriptor

    (m, n, k), tile, tiles = _sizes(options)
    bm, bn, bk = tile
    a, b, c = normal(m, k), normal(k, n), unset(m, n)
    boxes = ((a, [bm, bk]), (b, [bk, bn]), (c, [bm, bn]))
    described = [TensorDescriptor.from_tensor(tensor, box) for tensor, box in boxes]

    def run() -> torch.Tensor:
        kernels.truth_gemm_tma[(tiles,)](*described, m, n, k, *tile, **_compiled(options))
        return c

    return Call(run, lambda: a @ b)


def _grouped(options: Options) -> Call:
    products = [(normal(m, k), normal(k, n), unset(m, n)) for m, n, k in options["products"]]
    addresses = [tensor.data_ptr() for product in products for tensor in product]
    tensors = torch.tensor(addresses, dtype=torch.int64, device=DEVICE)
    sizes = torch.tensor([size for product in options["products"] for size in product], dtype=torch.int32).to(DEVICE)
    sms = _sms()

    def run() -> torch.Tensor:
        kernels.truth_gemm_grouped[(sms,)](tensors, sizes, len(products), *options["tile"], sms, **_compiled(options))
        return products[-1][2]

    return Call(run, lambda: products[-1][0] @ products[-1][1])


def _split_k(options: Options) -> Call:
    (m, n, k), tile, tiles = _sizes(options)
    a, b = normal(m, k), normal(k, n)
    c = torch.zeros(m, n, device=DEVICE, dtype=torch.float32)

    def run() -> torch.Tensor:
        kernels.truth_gemm_split_k[(tiles, options["split"])](
            a, b, c, m, n, k, *tile, options["split"], **_compiled(options)
        )
        return c

    return Call(run, lambda: a.float() @ b.float())


def _gated(options: Options) -> Call:
    (m, n, k), tile, tiles = _sizes(options)
    x, up, gate, c = normal(m, k), normal(k, n), normal(k, n), unset(m, n, dtype="float32")

    def run() -> torch.Tensor:
        kernels.truth_gemm_gated[(tiles,)](x, up, gate, c, m, n, k, *tile, **_compiled(options))
        return c

    return Call(run, lambda: (x @ up).float() * functional.silu((x @ gate).float()))


def _rms_norm(options: Options) -> Call:
    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, scale, out = (
        normal(rows, columns, dtype=dtype),
        normal(columns, dtype=dtype),
        unset(rows, columns, dtype=dtype),
    )

    def run() -> torch.Tensor:
        kernels.truth_rms_norm[(rows,)](x, scale, out, columns, num_warps=options["warps"])
        return out

    return Call(run, lambda: functional.rms_norm(x, (columns,), scale, 1e-6))


def _matvec(options: Options) -> Call:
    rows, columns, (bm, bk) = options["rows"], options["columns"], options["tile"]
    a, x, y = normal(rows, columns), normal(columns), unset(rows, dtype="float32")

    def run() -> torch.Tensor:
        kernels.truth_matvec[(rows // bm,)](a, x, y, columns, bm, bk, **_compiled(options))
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
    "gemm": _gemm,
    "gemm_persistent": _gemm_persistent,
    "dequant": _dequant,
    "attention": _attention,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "matmul": _matmul,
    "sdpa": _sdpa,
    "pointwise": _pointwise,
    "k_major": _k_major,
    "tma": _tma,
    "grouped": _grouped,
    "split_k": _split_k,
    "gated": _gated,
    "causal": lambda options: _attention(options, causal=True),
    "rms_norm": _rms_norm,
    "matvec": _matvec,
    "inductor": _inductor,
}
