"""Attention forward in scalar code: document 004's phase 1, and its phase 2 with cp.async."""

from __future__ import annotations

import functools

from ncubble.kernels.catalog.shared import CUDA, integer
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Parameters, Shape, Tolerance

AXES = ("batch", "heads", "tokens", "dim")
WARPS = 8


def _queries(parameters: Parameters) -> int:
    """Queries per CTA."""
    return WARPS * integer(parameters, "rows")


def _tiles(shape: Shape, parameters: Parameters) -> int:
    return shape["batch"] * shape["heads"] * -(-shape["tokens"] // _queries(parameters))


def _smem(shape: Shape, parameters: Parameters) -> int:
    """Queries and 32 columns of P as floats; K, whose rows are padded by 16 bytes, and V as
    halves."""
    stage = integer(parameters, "keys") * (4 * shape["dim"] + 16)
    return _queries(parameters) * 4 * (shape["dim"] + 32) + integer(parameters, "stages") * stage


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    if _tiles(shape, parameters) >= 2**31:
        return "batch x heads x tokens / (8 x rows) must be below 2^31: the kernel counts its tiles in 32 bits"
    return None


def _work(shape: Shape) -> float:
    """Two products of 2 x dim operations for every pair of a query and a key."""
    return 4.0 * shape["batch"] * shape["heads"] * shape["dim"] * shape["tokens"] ** 2


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    copied = parameters["copy"] == "async"
    return {
        "FFMA": True,
        "LDGSTS.E.BYPASS.128": copied,
        "LDG.E.128": not copied,
        "STS.128": not copied,
        "HMMA": False,
        "HGMMA": False,
        "MUFU.EX2": True,
    }


ATTENTION_SCALAR = KernelSpec(
    name="attention_scalar",
    folder=CUDA,
    source="attention_scalar.cu",
    idea="attention in scalar code: the same FMAs with plain loads or a cp.async ring",
    # As many FLOPs as document 004's phase 1 has with 420 ms at 0.65 TFLOP/s: 273 GFLOP.
    dims=(Dim("batch", 1), Dim("heads", 8), Dim("tokens", 8192, maximum=2**24), Dim("dim", 128, 64, 128)),
    arrays=(*(Array(name, AXES, "float16") for name in ("q", "k", "v")), Array("out", AXES, "float16", output=True)),
    scalars=("batch", "heads", "tokens"),
    parameters=(
        Parameter("copy", "async", ("plain", "async"), "through registers, or cp.async"),
        Parameter("stages", 2, (1, 2, 3, 4), "tiles of keys in the ring"),
        Parameter("keys", 64, (64, 128), "keys per tile"),
        Parameter("rows", 16, (1, 4, 8, 16), "queries per warp: reuse of a value read from shared memory"),
    ),
    defines=lambda shape, parameters: {"HEAD_DIM": shape["dim"]},
    grid=lambda shape, parameters: (_tiles(shape, parameters),),
    block=lambda shape, parameters: (32 * WARPS,),
    smem=_smem,
    requires=_requires,
    row_dims=3,
    reference=functools.partial(reference.attention, causal=False),
    # Rounding the result to half costs at most 2^-11 of it, or 2^-25 where it is subnormal. All
    # else is fp32: scores of some tens are off by 2^-24 of that, so P by some 1e-6; 1e-4 of the row
    # leaves room for the largest of millions.
    tolerance=lambda shape: Tolerance(absolute=2.0**-24, relative=2.0**-11, row=1e-4),
    unit="fp32",
    dtype="float16",
    flops=_work,
    sass=_sass,
    peer="sdpa",
    demonstrates="only copies change: the FMA pipe bounds both paths, asynchronous copies hide only waits",
)

SPECS: tuple[KernelSpec, ...] = (ATTENTION_SCALAR,)
