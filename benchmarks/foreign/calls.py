"""Builds the launches: inputs on the GPU, a call that launches once, and what the result should
be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional

from benchmarks.foreign.experiment import Launch, Options

DEVICE = "cuda"
TOLERANCE = 0.02
"""Largest error, of the largest value of the result: half precision gives 0.004 and less, a wrong
tile 1."""


@dataclass(frozen=True)
class Call:
    """``run`` launches and gives the result; ``expect`` computes it otherwise.

    None where a cause was taken away, so that the result is wrong, and for a library's calls, which
    are believed.
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


def build(launch: Launch) -> Call:
    """The call of one launch, its inputs filled."""
    torch.manual_seed(0)
    return _BUILDERS[launch.program](launch.options)


def normal(*shape: int, dtype: str = "float16") -> torch.Tensor:
    """Random inputs."""
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(getattr(torch, dtype))


def unset(*shape: int, dtype: str = "float16") -> torch.Tensor:
    """A place for results: NaN, so that one that is not written shows."""
    return torch.full(shape, math.nan, device=DEVICE, dtype=getattr(torch, dtype))


def _compiled(options: Options) -> dict[str, Any]:
    most = {"maxnreg": options["registers"]} if "registers" in options else {}
    return {"num_stages": options["stages"], "num_warps": options["warps"], **most}


def _gemm(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_gemm

    (m, n, k), (bm, bn, bk), dtype = _cube(options), options["tile"], options["dtype"]
    a, b, c = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), unset(m, n, dtype=dtype)
    load, store, mma = options.get("load", "each"), options.get("store", 1), options.get("mma", "wgmma")

    def run() -> torch.Tensor:
        if mma != "wgmma":
            os.environ["DISABLE_MMA_V3"] = "1"  # read by Triton's compiler
        try:
            grid = (m // bm * (n // bn),)
            foreign_gemm[grid](a, b, c, m, n, k, store, bm, bn, bk, load, mma, **_compiled(options))
        finally:
            os.environ.pop("DISABLE_MMA_V3", None)
        return c

    return Call(run, (lambda: a @ b) if load == "each" and store else None)


def _gemm_persistent(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_gemm_persistent

    (m, n, k), (bm, bn, bk), dtype = _cube(options), options["tile"], options["dtype"]
    a, b, c = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), unset(m, n, dtype=dtype)
    sms = torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 4

    def run() -> torch.Tensor:
        grid = (min(sms, m // bm * (n // bn)),)
        foreign_gemm_persistent[grid](a, b, c, m, n, k, bm, bn, bk, sms, **_compiled(options))
        return c

    return Call(run, lambda: a @ b)


def _dequant(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_dequant

    (m, n, k), (bm, bn, bk), mode = _cube(options), options["tile"], options["mode"]
    whole = torch.randint(-8, 8, (m, k), device=DEVICE, dtype=torch.int8)
    w, x, c = whole if mode == "int8" else whole.half(), normal(k, n), unset(m, n)
    scale = 1.0 if mode == "plain" else 0.125
    store, scaled = options.get("store", 1), mode != "plain"

    def run() -> torch.Tensor:
        grid = (m // bm * (n // bn),)
        foreign_dequant[grid](w, x, c, m, n, k, scale, store, bm, bn, bk, scaled, **_compiled(options))
        return c

    return Call(run, (lambda: (whole.half() * scale) @ x) if store else None)


def _attention(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_attention

    heads, sequence, dim, (bm, bn) = options["heads"], options["sequence"], options["dim"], options["tile"]
    q, k, v = (normal(heads, sequence, dim) for _ in range(3))
    out, scale = unset(heads, sequence, dim), math.log2(math.e) / math.sqrt(dim)
    load, softmax, store = options.get("load", "each"), options.get("softmax", True), options.get("store", 1)

    def run() -> torch.Tensor:
        grid = (sequence // bm, heads)
        foreign_attention[grid](q, k, v, out, sequence, scale, store, bm, bn, dim, load, softmax, **_compiled(options))
        return out

    return Call(run, (lambda: attend(q, k, v)) if load == "each" and softmax and store else None)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of (heads, sequence, dim) by PyTorch's own choice of kernel."""
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def _softmax(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_softmax

    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, out = normal(rows, columns, dtype=dtype), unset(rows, columns, dtype=dtype)

    def run() -> torch.Tensor:
        foreign_softmax[(rows,)](x, out, columns, num_warps=options["warps"])
        return out

    return Call(run, lambda: torch.softmax(x, -1))


def _layernorm(options: Options) -> Call:
    from benchmarks.foreign.triton_kernels import foreign_layernorm

    rows, columns, dtype = options["rows"], options["columns"], options["dtype"]
    x, out = normal(rows, columns, dtype=dtype), unset(rows, columns, dtype=dtype)

    def run() -> torch.Tensor:
        foreign_layernorm[(rows,)](x, out, columns, options["block"], num_warps=options["warps"])
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
    x, y = normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype)
    functions: dict[str, Callable[[], torch.Tensor]] = {
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, (columns,)),
        "sum": lambda: x.sum(-1),
        "add": lambda: x + y,
        "lgamma": lambda: torch.lgamma(x),
        "cumsum": lambda: torch.cumsum(x, -1),
    }
    return Call(functions[options["op"]])


def _cube(options: Options) -> tuple[int, int, int]:
    return options["m"], options["n"], options["k"]


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
}
