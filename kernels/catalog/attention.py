"""Rung 8, FlashAttention forward: cp.async and mma.sync on any GPU from Ampere on, TMA and wgmma on
Hopper."""

from __future__ import annotations

import functools

from ncubble.kernels.catalog.shared import CUDA, PLANNED_SMS, integer
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import (
    Array,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Shape,
    TensorMap,
    Tolerance,
)

AXES = ("batch", "heads", "tokens", "dim")
BARRIERS = 2048  # bytes: mbarriers, the tile number, and twice the room to align to 1024


def _tma(parameters: Parameters) -> bool:
    return parameters["path"] == "tma"


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


def _threads(shape: Shape, parameters: Parameters) -> int:
    return 2 * _rows(shape, parameters) + 128 if _tma(parameters) else 128


def _tiles(shape: Shape, parameters: Parameters) -> int:
    return shape["batch"] * shape["heads"] * -(-shape["tokens"] // _rows(shape, parameters))


def _grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    tiles = _tiles(shape, parameters)
    return (min(sms, tiles) if _tma(parameters) else tiles,)


def _smem(shape: Shape, parameters: Parameters) -> int:
    rows = _rows(shape, parameters) + integer(parameters, "stages") * _keys(parameters)
    return rows * shape["dim"] * 2 + (BARRIERS if _tma(parameters) else 0)


def work(shape: Shape, parameters: Parameters) -> float:
    """Two products of 2 x dim operations for every pair of a query and a key that it sees."""
    tokens = shape["tokens"]
    pairs = tokens * (tokens + 1) / 2 if integer(parameters, "causal") else tokens**2
    return 4.0 * shape["batch"] * shape["heads"] * shape["dim"] * pairs


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    if _tiles(shape, parameters) >= 2**31:
        return "batch x heads x tokens / 128 must be below 2^31: the kernel counts its tiles in 32 bits"
    return None


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    hopper = _tma(parameters)
    return {
        "HGMMA": hopper,
        "UTMALDG": hopper,
        "USETMAXREG": hopper,
        "HMMA.16816.F32.BF16": not hopper,
        "LDSM": not hopper,
        "LDGSTS.E.BYPASS": not hopper,
        "MUFU.EX2": True,
        "STS.128": False,
        "STG.E.128": True,
    }


def _map(array: str, tile_rows: bool) -> TensorMap:
    """64 columns of a tile: 128 bytes a row, swizzled. Heads are a dimension of their own, so tiles
    end with a head."""
    return TensorMap(
        array,
        box=lambda shape, parameters: (1, _rows(shape, parameters) if tile_rows else _keys(parameters), 64),
        swizzle=128,
        view=lambda shape: (shape["batch"] * shape["heads"], shape["tokens"], shape["dim"]),
        when=_tma,
    )


ATTENTION_FWD = KernelSpec(
    name="attention_fwd",
    folder=CUDA,
    source="attention_fwd.cu",
    idea="FlashAttention: softmax fused between two products; S and P stay in registers",
    dims=(
        Dim("batch", 4),
        Dim("heads", 16),
        Dim("tokens", 4096, maximum=2**24),
        Dim("dim", 128, multiple=64, maximum=128),
    ),
    arrays=(
        *(Array(name, AXES, "bfloat16") for name in ("q", "k", "v")),
        Array("out", AXES, "bfloat16", output=True),
    ),
    tensor_maps=(_map("q", True), _map("k", False), _map("v", False)),
    scalars=("batch", "heads", "tokens"),
    parameters=(
        Parameter(
            "path",
            "tma",
            ("cp_async", "tma"),
            "cp.async and mma.sync, or TMA and wgmma (Hopper only)",
            elsewhere="cp_async",
        ),
        Parameter("causal", 0, (0, 1), "causal mask: a token only sees itself and earlier tokens", problem=True),
        # Elsewhere 2, so that two CTAs fit the 164 KB of an SM of compute capability 8.0.
        Parameter("stages", 4, (2, 3, 4, 5, 6), "tiles in the ring shared by K and V", elsewhere=2),
    ),
    defines=lambda shape, parameters: {
        "HEAD_DIM": shape["dim"],
        "KEYS": _keys(parameters),
        "SLACK": _slack(shape, parameters),
    },
    grid=functools.partial(_grid, PLANNED_SMS),
    persistent=_grid,
    block=lambda shape, parameters: (_threads(shape, parameters),),
    smem=_smem,
    arch_of=lambda parameters: 90 if _tma(parameters) else 80,
    only_arch=lambda parameters: 90 if _tma(parameters) else None,
    requires=_requires,
    row_dims=3,
    reference=reference.attention,
    reference_of=lambda parameters: functools.partial(reference.attention, causal=bool(integer(parameters, "causal"))),
    # Rounding the result to bfloat16 costs at most 2^-8 of it; rounding P up to 2^-8 of every term,
    # at random: the sum is off by some 2^-9 of the row's root mean square. 2^-6 is beyond the
    # largest of millions, and an eighth of what a lost tile of keys costs among four thousand.
    tolerance=lambda shape: Tolerance(relative=2.0**-8, row=2.0**-6),
    unit="tensor_fp16",
    dtype="bfloat16",
    work=work,
    sass=_sass,
    peer="sdpa",
    demonstrates="issue: exponentials between two products; alternating warpgroups (tma) hide part of it",
)

SPECS: tuple[KernelSpec, ...] = (ATTENTION_FWD,)
