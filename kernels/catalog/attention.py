"""Attention: in scalar code (document 004's phase 1, and its phase 2 with cp.async); rung 8,
FlashAttention forward, by cp.async and mma.sync on any GPU from Ampere on or by TMA and wgmma on
Hopper; and that on e4m3, V turned in shared memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.hopper_gemm import E4M3_LARGEST, WARPGROUP
from ncubble.kernels.catalog.shared import CUDA, integer
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import (
    Array,
    Arrays,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Reference,
    Shape,
    TensorMap,
    Tolerance,
    dtype_of,
)

AXES = ("batch", "heads", "tokens", "dim")
INPUTS = ("q", "k", "v")
WARPS = 8  # of attention_scalar
BARRIERS = 1024  # bytes: mbarriers and the tile number, as many as tiles are aligned to
GROUP_ROWS = 64  # queries of a consumer warpgroup
FEW_TOKENS = 4096  # two consumers were faster at 1024 and 4096 tokens on an H100, slower at 16384
RAW_TILES = 2  # of V as it comes
CAUSAL = Parameter("causal", 0, (0, 1), "causal mask: a token only sees itself and earlier tokens", problem=True)
FLASH: dict[str, Any] = {
    "folder": CUDA,
    "dims": (Dim("batch", 4), Dim("heads", 16), Dim("tokens", 4096, maximum=2**24), Dim("dim", 128, 64, 128)),
    "scalars": ("batch", "heads", "tokens"),
    "row_dims": 3,
}
"""Members of FlashAttention's specs."""


def work(shape: Shape, parameters: Parameters) -> float:
    """Two products of 2 x dim operations for every pair of a query and a key that it sees."""
    tokens = shape["tokens"]
    pairs = tokens * (tokens + 1) / 2 if int(parameters.get("causal", 0)) else tokens**2
    return 4.0 * shape["batch"] * shape["heads"] * shape["dim"] * pairs


def _tiles(shape: Shape, rows: int) -> int:
    """Tiles of ``rows`` queries."""
    return shape["batch"] * shape["heads"] * -(-shape["tokens"] // rows)


def _countable(shape: Shape, rows: int, words: object) -> str | None:
    if _tiles(shape, rows) < 2**31:
        return None
    return f"batch x heads x tokens / {words} must be below 2^31: the kernel counts its tiles in 32 bits"


def _heads(name: str, sizes: Shape) -> Extent:
    heads = sizes["heads"] // (1 if name == "q" else sizes.get("group", 1))
    return sizes["batch"] * heads, sizes["tokens"], sizes["dim"]


def _maps(
    rows: Callable[[Shape, Parameters], int],
    keys: Callable[[Parameters], int],
    columns: Callable[[Shape], int],
    when: Callable[[Parameters], bool] | None = None,
) -> tuple[TensorMap, ...]:
    """Tiles of q by ``rows``, of k and v by ``keys``, all ``columns`` wide: 64 or 128 bytes a row,
    swizzled. Heads are a dimension of their own, so tiles end with a head."""

    def box(name: str, shape: Shape, parameters: Parameters) -> Extent:
        return 1, rows(shape, parameters) if name == "q" else keys(parameters), columns(shape)

    rule = functools.partial
    return tuple(TensorMap(name, rule(box, name), view=rule(_heads, name), when=when) for name in INPUTS)


def _queries(parameters: Parameters) -> int:
    """Queries per CTA of ``attention_scalar``."""
    return WARPS * integer(parameters, "rows")


def _scalar_smem(shape: Shape, parameters: Parameters) -> int:
    """Queries and 32 columns of P as floats; K, whose rows are padded by 16 bytes, and V as
    halves."""
    stage = integer(parameters, "keys") * (4 * shape["dim"] + 16)
    return _queries(parameters) * 4 * (shape["dim"] + 32) + integer(parameters, "stages") * stage


def _by_tma(parameters: Parameters) -> bool:
    return bool(parameters["copy"] == "tma")


def _key_box(pad: int, shape: Shape, parameters: Parameters) -> Extent:
    return 1, integer(parameters, "keys"), shape["dim"] + pad


ATTENTION_SCALAR = KernelSpec(
    name="attention_scalar",
    source="attention_scalar.cu",
    idea="attention in scalar code: the same FMAs behind plain loads, cp.async, cuda::pipeline or TMA",
    # As many FLOPs as document 004's phase 1 has with 420 ms at 0.65 TFLOP/s: 273 GFLOP.
    **FLASH
    | {"dims": (Dim("batch", 1), Dim("heads", 8), Dim("tokens", 8192, maximum=2**24), Dim("dim", 128, 64, 128))},
    arrays=(*(Array(name, AXES, "float16") for name in INPUTS), Array("out", AXES, "float16", output=True)),
    parameters=(
        Parameter("copy", "async", ("plain", "async", "pipeline", "tma"), "tma: Hopper or later", change="copies"),
        Parameter("stages", 2, (1, 2, 3, 4), "tiles of keys in the ring"),
        Parameter("keys", 64, (64, 128), "keys per tile"),
        Parameter("rows", 16, (1, 4, 8, 16), "queries per warp: reuse of a value read from shared memory"),
    ),
    # A row of K is padded by 16 bytes: the box is wider than the array; outside are zeros.
    tensor_maps=tuple(
        TensorMap(name, functools.partial(_key_box, pad), 0, functools.partial(_heads, name), _by_tma)
        for name, pad in (("k", 8), ("v", 0))
    ),
    arch_of=lambda parameters: 90 if _by_tma(parameters) else 80,
    defines=lambda shape, parameters: {"HEAD_DIM": shape["dim"]},
    grid=lambda shape, parameters: (_tiles(shape, _queries(parameters)),),
    block=(32 * WARPS,),
    smem=_scalar_smem,
    requires=lambda shape, parameters: _countable(shape, _queries(parameters), "(8 x rows)"),
    reference=functools.partial(reference.attention, causal=False),
    # Rounding the result to half costs at most 2^-11 of it, or 2^-25 where it is subnormal. All
    # else is fp32: scores of some tens are off by 2^-24 of that, so P by some 1e-6; 1e-4 of the row
    # leaves room for the largest of millions.
    tolerance=Tolerance(absolute=2.0**-24, relative=2.0**-11, row=1e-4),
    unit="fp32",
    dtype="float16",
    work=work,
    sass={
        "FFMA MUFU.EX2": True,
        "LDGSTS.E.BYPASS.128": lambda parameters: parameters["copy"] in ("async", "pipeline"),
        "ARRIVES": lambda parameters: parameters["copy"] == "pipeline",
        "UTMALDG.3D": _by_tma,
        "LDG.E.128 STS.128": lambda parameters: parameters["copy"] == "plain",
        "HMMA HGMMA": False,
    },
    peer="sdpa",
    demonstrates="only copies change: the FMA pipe bounds all paths, asynchronous copies hide only waits",
)


def _tma(parameters: Parameters) -> bool:
    return bool(parameters["path"] == "tma")


def _rows(shape: Shape, parameters: Parameters) -> int:
    """Queries per CTA: 64 per consumer warpgroup, of which there are 2 or 3; 32 per warp on the
    other path."""
    return 192 if _tma(parameters) and shape["dim"] == 64 else 128


def _keys(parameters: Parameters) -> int:
    """Keys per tile."""
    return 128 if _tma(parameters) else 64


def _slack(shape: Shape, parameters: Parameters) -> int:
    """Binary orders by which the running maximum may lag behind; 0: never.

    On an H200 it was faster to rescale the 64 columns of a small O for every tile than to ask
    whether it must be.
    """
    return 8 if _tma(parameters) and shape["dim"] == 128 else 0


def _grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    tiles = _tiles(shape, _rows(shape, parameters))
    return (min(sms, tiles) if _tma(parameters) else tiles,)


def _smem(shape: Shape, parameters: Parameters) -> int:
    rows = _rows(shape, parameters) + integer(parameters, "stages") * _keys(parameters)
    return rows * shape["dim"] * 2 + (BARRIERS if _tma(parameters) else 0)


def _fwd_requires(shape: Shape, parameters: Parameters) -> str | None:
    if shape["heads"] % integer(parameters, "group"):
        return f"heads must be a multiple of group={parameters['group']}"
    return _countable(shape, _rows(shape, parameters), 128)


ATTENTION_FWD = KernelSpec(
    name="attention_fwd",
    source="attention_fwd.cu",
    idea="FlashAttention: softmax fused between two products; S and P stay in registers",
    **FLASH,
    arrays=(
        Array("q", AXES, "bfloat16"),
        *(Array(name, ("batch", "heads/group", *AXES[2:]), "bfloat16") for name in ("k", "v")),
        Array("out", AXES, "bfloat16", output=True),
    ),
    tensor_maps=_maps(_rows, _keys, lambda shape: 64, when=_tma),
    parameters=(
        Parameter("path", "tma", ("cp_async", "tma"), "by mma.sync, or wgmma (Hopper only)", elsewhere="cp_async"),
        CAUSAL,
        # Elsewhere 2, so that two CTAs fit the 164 KB of an SM of compute capability 8.0.
        Parameter("stages", 4, (2, 3, 4, 5, 6), "tiles in the ring shared by K and V", elsewhere=2),
        Parameter("group", 1, (*range(1, 9), 16), "heads of q that share one of k and v", tacit=True, problem=True),
    ),
    defines=lambda shape, parameters: {
        "HEAD_DIM": shape["dim"],
        "KEYS": _keys(parameters),
        "SLACK": _slack(shape, parameters),
    },
    persistent=_grid,
    block=lambda shape, parameters: (2 * _rows(shape, parameters) + 128 if _tma(parameters) else 128,),
    smem=_smem,
    only_arch=lambda parameters: 90 if _tma(parameters) else None,
    requires=_fwd_requires,
    reference=reference.attention,
    reference_of=lambda parameters: functools.partial(reference.attention, causal=bool(integer(parameters, "causal"))),
    # Rounding the result to bfloat16 costs at most 2^-8 of it; rounding P up to 2^-8 of every term,
    # at random: the sum is off by some 2^-9 of the row's root mean square. 2^-6 is beyond the
    # largest of millions, and an eighth of what a lost tile of keys costs among four thousand.
    tolerance=Tolerance(relative=2.0**-8, row=2.0**-6),
    unit="tensor_fp16",
    dtype="bfloat16",
    work=work,
    sass={
        "HGMMA UTMALDG USETMAXREG": _tma,
        "HMMA.16816.F32.BF16 LDSM LDGSTS.E.BYPASS": lambda parameters: not _tma(parameters),
        "MUFU.EX2 STG.E.128": True,
        "STS.128": False,
    },
    peer="sdpa",
    demonstrates="issue: exponentials between two products; alternating warpgroups (tma) hide part of it",
)


def quantize(x: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """``x`` (batch, heads, tokens, dim) in e4m3, and a scale for each head: its largest magnitude
    becomes 448."""
    scale = np.abs(x).max(axis=(2, 3)) / np.float32(E4M3_LARGEST)
    return (x / scale[:, :, np.newaxis, np.newaxis]).astype(dtype_of("float8_e4m3fn")), scale.astype(np.float32)


def _draw(generator: np.random.Generator, shape: Shape) -> dict[str, Any]:
    """q, k, v from N(0, 1), quantized; then each head's scales change, so that a scale of another
    head shows, but scores keep their size."""
    extent = tuple(shape[name] for name in AXES)
    drawn: dict[str, Any] = {}
    for name in INPUTS:
        drawn[name], drawn[f"scale_{name}"] = quantize(generator.standard_normal(extent, dtype=np.float32))
    factor = (2.0 ** generator.uniform(-2, 2, extent[:2])).astype(np.float32)
    drawn["scale_q"] *= factor
    drawn["scale_k"] /= factor
    drawn["scale_v"] *= factor
    return drawn


def _scaled_attention(parameters: Parameters) -> Reference:
    """Attention of the numbers that e4m3 and scales stand for."""
    causal = bool(integer(parameters, "causal"))

    def attend(inputs: Arrays, rows: NDArray[np.intp]) -> reference.Result:
        whole = {
            name: inputs[name].astype(np.float64) * inputs[f"scale_{name}"].astype(np.float64)[..., None, None]
            for name in INPUTS
        }
        return reference.attention(whole, rows, causal=causal)

    return attend


def _fp8_rows(parameters: Parameters) -> int:
    """Queries of a CTA."""
    return GROUP_ROWS * integer(parameters, "consumers")


def _fp8_smem(shape: Shape, parameters: Parameters) -> int:
    tiles = 2 * integer(parameters, "stages") + RAW_TILES
    return (_fp8_rows(parameters) + tiles * integer(parameters, "keys")) * shape["dim"] + BARRIERS


def _fp8_requires(shape: Shape, parameters: Parameters) -> str | None:
    if many := _countable(shape, _fp8_rows(parameters), _fp8_rows(parameters)):
        return many
    three = parameters["consumers"] == 3
    if three and shape["dim"] == 128:
        return "registers hold three consumers with dim=64 only: take consumers=2"
    promoted = parameters["accumulate"] == "promoted"
    if integer(parameters, "keys") > 128 and (three or (promoted and shape["dim"] == 128)):
        return "registers hold 192 keys with consumers=2 and, if dim=128, accumulate=fast only: take these or fewer"
    return None


def _fp8_defaults(sms: int, shape: Shape, given: Parameters) -> Parameters:
    """With 64 elements per head registers hold three consumers. Where a causal mask leaves short
    rows of tiles, two lose less to what the mask hides of a tile."""
    short = given.get("causal", 0) and shape["tokens"] <= FEW_TOKENS
    two = short or given.get("keys") == 192
    return {"stages": 2, "consumers": 2 if two else 3} if shape["dim"] == 64 else {}


ATTENTION_FP8 = KernelSpec(
    name="attention_fp8",
    source="attention_fp8.cu",
    idea="attention_fwd on e4m3: V transposed in shared memory, P without exchange, O optionally summed in float",
    **FLASH,
    arrays=(
        *(Array(name, AXES, "float8_e4m3fn") for name in INPUTS),
        *(Array(f"scale_{name}", AXES[:2]) for name in INPUTS),
        Array("out", AXES, "bfloat16", output=True),
    ),
    tensor_maps=_maps(
        lambda shape, parameters: _fp8_rows(parameters),
        lambda parameters: integer(parameters, "keys"),
        lambda shape: shape["dim"],
    ),
    parameters=(
        Parameter("accumulate", "promoted", ("fast", "promoted"), "P V summed in tensor cores, or per tile in float"),
        CAUSAL,
        Parameter("keys", 128, (64, 128, 192), "keys per tile"),
        Parameter("stages", 3, (2, 3, 4), "tiles in the ring of K, and in the ring of transposed V"),
        Parameter("polynomial", 0, (0, 2, 4), "number of 16 exponentials computed by the FMA pipe"),
        Parameter("consumers", 2, (2, 3), "warpgroups of 64 queries; default chosen by shape", tacit=True),
    ),
    defines=lambda shape, parameters: {"HEAD_DIM": shape["dim"]},
    persistent=lambda sms, shape, parameters: (min(sms, _tiles(shape, _fp8_rows(parameters))),),
    block=lambda shape, parameters: ((1 + integer(parameters, "consumers")) * WARPGROUP,),
    smem=_fp8_smem,
    only_arch=90,
    requires=_fp8_requires,
    defaults=_fp8_defaults,
    draw=_draw,
    reference=_scaled_attention({"causal": 0}),
    reference_of=_scaled_attention,
    # Rounding P to e4m3 changes each term of the sum over keys by up to 2^-4 of it, at random: by
    # 2.6 % in the root mean square, and so O by as much of its row. 0.16 is six times that, beyond
    # the largest of millions. A lost tile of 128 keys of 4096 costs 0.18 in the root mean square.
    # What tensor cores cut off is far less for values of both signs, with accumulate=fast, too.
    tolerance=Tolerance(relative=2.0**-8, row=0.16),
    unit="tensor_fp8",
    dtype="float8_e4m3fn",
    work=work,
    sass=lambda arch, parameters: {
        f"QGMMA.64x{parameters['keys']}x32.F32.E4M3.E4M3 UTMALDG.3D USETMAXREG F2FP.SATFINITE.E4M3.F32": True,
        "LDSM.16.MT88.4 STSM.16.M88.4 VIMNMX3 MUFU.EX2": True,
        "STL LDL": False,
    },
    demonstrates="issue: exponentials between products of half the length",
)

SPECS: tuple[KernelSpec, ...] = (ATTENTION_SCALAR, ATTENTION_FWD, ATTENTION_FP8)
