"""Rung 8 on 8 bits: FlashAttention forward on e4m3, V turned in shared memory."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.attention import AXES, BARRIERS
from ncubble.kernels.catalog.attention import work as attention_work
from ncubble.kernels.catalog.fp8.gemm import E4M3_LARGEST
from ncubble.kernels.catalog.shared import CUDA, PLANNED_SMS, integer
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

WARPGROUP = 128  # threads
GROUP_ROWS = 64  # queries of a consumer warpgroup
FEW_TOKENS = 4096  # two consumers were faster at 1024 and 4096 tokens on an H100, slower at 16384
RAW_TILES = 2  # of V as it comes
INPUTS = ("q", "k", "v")


def quantize(x: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """``x`` (batch, heads, tokens, dim) in e4m3, and a scale for each head: its largest magnitude
    becomes 448."""
    scale = np.abs(x).max(axis=(2, 3)) / np.float32(E4M3_LARGEST)
    return (x / scale[:, :, np.newaxis, np.newaxis]).astype(dtype_of("float8_e4m3fn")), scale.astype(np.float32)


def draw(generator: np.random.Generator, shape: Shape) -> dict[str, Any]:
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


def _reference(parameters: Parameters) -> Reference:
    """Attention of the numbers that e4m3 and scales stand for."""
    causal = bool(integer(parameters, "causal"))

    def attend(inputs: Arrays, rows: NDArray[np.intp]) -> reference.Result:
        whole = {
            name: inputs[name].astype(np.float64) * inputs[f"scale_{name}"].astype(np.float64)[..., None, None]
            for name in INPUTS
        }
        return reference.attention(whole, rows, causal=causal)

    return attend


def _rows(parameters: Parameters) -> int:
    """Queries of a CTA."""
    return GROUP_ROWS * integer(parameters, "consumers")


def _tiles(shape: Shape, parameters: Parameters) -> int:
    return shape["batch"] * shape["heads"] * -(-shape["tokens"] // _rows(parameters))


def _grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    return (min(sms, _tiles(shape, parameters)),)


def _smem(shape: Shape, parameters: Parameters) -> int:
    tiles = 2 * integer(parameters, "stages") + RAW_TILES
    return (_rows(parameters) + tiles * integer(parameters, "keys")) * shape["dim"] + BARRIERS


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    if _tiles(shape, parameters) >= 2**31:
        return (
            f"batch x heads x tokens / {_rows(parameters)} must be below 2^31: the kernel counts its tiles in 32 bits"
        )
    three = parameters["consumers"] == 3
    if three and shape["dim"] == 128:
        return "registers hold three consumers with dim=64 only: take consumers=2"
    if integer(parameters, "keys") > 128 and (
        three or (parameters["accumulate"] == "promoted" and shape["dim"] == 128)
    ):
        return "registers hold 192 keys with consumers=2 and, if dim=128, accumulate=fast only: take these or fewer"
    return None


def _defaults(sms: int, shape: Shape, given: Parameters) -> Parameters:
    """With 64 elements per head registers hold three consumers. Where a causal mask leaves short
    rows of tiles, two lose less to what the mask hides of a tile."""
    short = given.get("causal", 0) and shape["tokens"] <= FEW_TOKENS
    two = short or given.get("keys") == 192
    return {"stages": 2, "consumers": 2 if two else 3} if shape["dim"] == 64 else {}


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {
        f"QGMMA.64x{parameters['keys']}x32.F32.E4M3.E4M3": True,
        "UTMALDG.3D": True,
        "USETMAXREG": True,
        "F2FP.SATFINITE.E4M3.F32": True,
        "LDSM.16.MT88.4": True,
        "STSM.16.M88.4": True,
        "VIMNMX3": True,
        "MUFU.EX2": True,
        "STL": False,
        "LDL": False,
    }


def _map(array: str, tile_rows: bool) -> TensorMap:
    """A tile, its whole head dimension: 64 or 128 bytes a row, swizzled. Tiles end with a head."""
    return TensorMap(
        array,
        box=lambda shape, parameters: (
            1,
            _rows(parameters) if tile_rows else integer(parameters, "keys"),
            shape["dim"],
        ),
        swizzle=128,
        view=lambda shape: (shape["batch"] * shape["heads"], shape["tokens"], shape["dim"]),
    )


ATTENTION_FP8 = KernelSpec(
    name="attention_fp8",
    folder=CUDA,
    source="attention_fp8.cu",
    idea="attention_fwd on e4m3: V transposed in shared memory, P without exchange, O optionally summed in float",
    dims=(
        Dim("batch", 4),
        Dim("heads", 16),
        Dim("tokens", 4096, maximum=2**24),
        Dim("dim", 128, multiple=64, maximum=128),
    ),
    arrays=(
        *(Array(name, AXES, "float8_e4m3fn") for name in INPUTS),
        *(Array(f"scale_{name}", AXES[:2]) for name in INPUTS),
        Array("out", AXES, "bfloat16", output=True),
    ),
    tensor_maps=(_map("q", True), _map("k", False), _map("v", False)),
    scalars=("batch", "heads", "tokens"),
    parameters=(
        Parameter(
            "accumulate",
            "promoted",
            ("fast", "promoted"),
            "P V summed in tensor cores over all keys; or per tile, then in float",
        ),
        Parameter("causal", 0, (0, 1), "causal mask: a token only sees itself and earlier tokens", problem=True),
        Parameter("keys", 128, (64, 128, 192), "keys per tile"),
        Parameter("stages", 3, (2, 3, 4), "tiles in the ring of K, and in the ring of transposed V"),
        Parameter("polynomial", 0, (0, 2, 4), "number of 16 exponentials computed by the FMA pipe"),
        Parameter("consumers", 2, (2, 3), "warpgroups of 64 queries; default chosen by shape", tacit=True),
    ),
    defines=lambda shape, parameters: {"HEAD_DIM": shape["dim"]},
    grid=functools.partial(_grid, PLANNED_SMS),
    persistent=_grid,
    block=lambda shape, parameters: ((1 + integer(parameters, "consumers")) * WARPGROUP,),
    smem=_smem,
    min_arch=90,
    only_arch=lambda parameters: 90,
    requires=_requires,
    defaults=_defaults,
    row_dims=3,
    draw=draw,
    reference=_reference({"causal": 0}),
    reference_of=_reference,
    # Rounding P to e4m3 changes each term of the sum over keys by up to 2^-4 of it, at random: by
    # 2.6 % in the root mean square, and so O by as much of its row. 0.16 is six times that, beyond
    # the largest of millions. A lost tile of 128 keys of 4096 costs 0.18 in the root mean square.
    # What tensor cores cut off is far less for values of both signs, with accumulate=fast, too.
    tolerance=lambda shape: Tolerance(relative=2.0**-8, row=0.16),
    unit="tensor_fp8",
    dtype="float8_e4m3fn",
    work=attention_work,
    sass=_sass,
    demonstrates="issue: exponentials between products of half the length",
)

SPECS: tuple[KernelSpec, ...] = (ATTENTION_FP8,)
