"""Rung 6 on 8 bits: the specialized, persistent GEMM on e4m3, scaled per tensor or per block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.gemm_tiles import BARRIERS, DEPTH, LARGEST_SMEM, ROW
from ncubble.kernels.catalog.hopper_gemm import BOX_BYTES, PERSISTENT, STORE_BOX, WARPGROUP
from ncubble.kernels.catalog.shared import DEEPER, LARGEST, PLANNED_SMS, TILE, gemm_spec, integer
from ncubble.kernels.spec.reference import Result
from ncubble.kernels.spec.spec import (
    DOWN,
    UP,
    Array,
    Arrays,
    Dim,
    KernelSpec,
    Parameter,
    Parameters,
    Reference,
    Shape,
    TensorMap,
    Tolerance,
    dtype_of,
)

BLOCK = 128  # elements that share a scale: along k of A, and in both directions of B
E4M3_LARGEST = 448.0
CONSUMER_WARPS = 8


def _quantized(generator: np.random.Generator, rows: int, columns: int, block_rows: int) -> tuple[Any, Any]:
    """Random e4m3 (rows, columns) and float32 scales of its blocks of ``block_rows`` x ``BLOCK``:
    the largest element of each block is the largest of e4m3. Blocks differ in size."""
    shape = (-(-rows // block_rows), block_rows, -(-columns // BLOCK), BLOCK)
    values = generator.standard_normal(shape, dtype=np.float32)
    largest = np.abs(values).max(axis=(1, 3), keepdims=True)
    values *= E4M3_LARGEST / largest
    scales = largest[:, 0, :, 0] / E4M3_LARGEST * 2.0 ** generator.uniform(-2, 2, (shape[0], shape[2]))
    whole = values.astype(dtype_of("float8_e4m3fn")).reshape(shape[0] * block_rows, -1)
    return np.ascontiguousarray(whole[:rows, :columns]), scales.astype(np.float32)


def _draw(generator: np.random.Generator, shape: Shape) -> dict[str, Any]:
    a, scale_a = _quantized(generator, shape["m"], shape["k"], 1)
    b, scale_b = _quantized(generator, shape["n"], shape["k"], BLOCK)
    return {"a": a, "b": b, "scale_a": np.ascontiguousarray(scale_a.T), "scale_b": scale_b}


def _reference(parameters: Parameters) -> Reference:
    """c[rows] = a[rows] @ b.T of the numbers that e4m3 and scales stand for."""

    def product(inputs: Arrays, rows: NDArray[np.intp]) -> Result:
        a, b = inputs["a"][rows].astype(np.float64), inputs["b"].astype(np.float64)
        scale_a, scale_b = inputs["scale_a"].T[rows], inputs["scale_b"]
        if parameters["scaling"] == "tensor":
            return {"c": float(inputs["scale_a"][0, 0]) * float(scale_b[0, 0]) * (a @ b.T)}
        a *= np.repeat(scale_a, BLOCK, axis=1)[:, : a.shape[1]]
        b *= np.repeat(np.repeat(scale_b, BLOCK, axis=0), BLOCK, axis=1)[: b.shape[0], : b.shape[1]]
        return {"c": a @ b.T}

    return product


def _tolerance(shape: Shape, parameters: Parameters) -> Tolerance:
    """What the tensor cores' sums of e4m3 may err by, and C rounded to bfloat16.

    They cut each product 13 bits below the largest term of a sum, what was summed so far included
    (``summed`` in the unit tests: its root mean square error is within 6 % of an H100's at k = 2048
    to 32768). Cut parts have either sign, so that they walk: over k products to about
    4 sqrt(k) 2^-13 of the root mean square of a row's results at most; over 128 of them, where
    floats add up the rest, to 2^-9. On an H100 the largest of 2 million results at k = 8192 were
    off by 63 % and 36 % of that, rounding aside; cuBLASLt's had the same bits.
    """
    walk = 4.0 * math.sqrt(shape["k"]) * 2.0**-13 if parameters["accumulate"] == "fast" else 2.0**-9
    return Tolerance(relative=2.0**-8, row=walk)


def _tile_columns(parameters: Parameters) -> int:
    return integer(parameters, "tile_n")


def _ring_bytes(parameters: Parameters) -> int:
    """A tile of A, one of B, and where blocks are scaled a float for each row of A, per stage."""
    scales = 4 * TILE if parameters["scaling"] == "block" else 0
    return integer(parameters, "stages") * ((TILE + _tile_columns(parameters)) * ROW + scales)


def _buffers(parameters: Parameters) -> int:
    """Store boxes per warp: as many as a tile of C takes, or as many as fit beside the ring; 0 if
    none does."""
    boxes = _tile_columns(parameters) // DEPTH * (2 if parameters["schedule"] == "pingpong" else 1)
    return max(0, min(boxes, (LARGEST_SMEM - BARRIERS - _ring_bytes(parameters)) // (CONSUMER_WARPS * BOX_BYTES)))


def _smem(shape: Shape, parameters: Parameters) -> int:
    return _ring_bytes(parameters) + CONSUMER_WARPS * _buffers(parameters) * BOX_BYTES + BARRIERS


def _grid(sms: int, shape: Shape, parameters: Parameters) -> tuple[int]:
    """As many CTAs as finish in the fewest rounds, as of ``gemm_ws``."""
    cluster = integer(parameters, "cluster")
    tiles = -(-shape["m"] // (TILE * cluster)) * -(-shape["n"] // _tile_columns(parameters))
    rounds = -(-tiles // max(1, sms // cluster))
    return (-(-tiles // rounds) * cluster,)


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    promoted = parameters["accumulate"] == "promoted"
    if parameters["scaling"] == "block" and not promoted:
        return "scaling=block scales sums outside the tensor cores: it needs accumulate=promoted"
    if parameters["scaling"] == "block" and shape["m"] % 4:
        return "with scaling=block m must be a multiple of 4: the scales of A are copied in pieces of 16 bytes"
    if promoted and parameters["schedule"] == "pingpong":
        return "with accumulate=promoted both warpgroups multiply at the same time: it needs schedule=cooperative"
    if (promoted or parameters["schedule"] == "pingpong") and _tile_columns(parameters) > 128:
        return "accumulate=promoted and schedule=pingpong need tile_n=128: larger tiles lack registers"
    if not _buffers(parameters):
        return f"{parameters['stages']} stages of {_ring_bytes(parameters)} bytes leave no shared memory for C"
    return None


def _maps() -> tuple[TensorMap, ...]:
    """A by 128 rows x 128 of k, B by the columns of a tile that a CTA loads x 128 of k, C by what a
    warp stores."""
    return (
        TensorMap("a", box=lambda shape, parameters: (TILE, ROW)),
        TensorMap(
            "b", box=lambda shape, parameters: (_tile_columns(parameters) // integer(parameters, "cluster"), ROW)
        ),
        TensorMap("c", box=lambda shape, parameters: STORE_BOX),
    )


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {
        f"QGMMA.64x{parameters['tile_n']}x32.F32.E4M3.E4M3": True,
        "UTMALDG.2D": True,
        "UBLKCP": parameters["scaling"] == "block",
        "UTMALDG.2D.MULTICAST": parameters["cluster"] != 1,
        "UTMASTG.2D": True,
        "STSM.16.M88.4": True,
        "USETMAXREG": True,
        "STG": False,
        "LDGSTS": False,
        "LDL": False,  # the accumulators are indexed by constants alone
    }


GEMM_FP8 = gemm_spec(
    "gemm_fp8",
    "float8_e4m3fn",
    "bfloat16",
    idea="gemm_ws on e4m3 (B transposed), scaled per tensor or per block, sums optionally promoted to float",
    dims=tuple(Dim(name, 4096, 1, LARGEST) for name in ("m", "n", "k")),
    arrays=(
        Array("a", ("m", "k"), "float8_e4m3fn"),
        Array("b", ("n", "k"), "float8_e4m3fn"),
        Array("scale_a", ("k/128", "m")),
        Array("scale_b", ("n/128", "k/128")),
        Array("c", ("m", "n"), "bfloat16", output=True),
    ),
    draw=_draw,
    reference=_reference({"scaling": "tensor"}),
    reference_of=_reference,
    tolerance_of=_tolerance,
    unit="tensor_fp8",
    peer="scaled_matmul",
    tensor_maps=_maps(),
    parameters=(
        Parameter(
            "scaling",
            "tensor",
            ("tensor", "block"),
            "one scale per operand, or per 1 x 128 of A and 128 x 128 of B",
            problem=True,
        ),
        Parameter(
            "accumulate",
            "fast",
            ("fast", "promoted"),
            "sums in tensor cores over all of k, or over 128 of it and then in float",
            problem=True,
        ),
        Parameter("stages", 4, (2, 3, 4, 5, 6), "slots in the ring", cures=DEEPER),
        Parameter(
            "tile_n", 256, (128, 256), "columns of C per tile", cures={"data_wait": UP, "copy_cost": UP, "tail": DOWN}
        ),
        *PERSISTENT,
    ),
    grid=lambda shape, parameters: _grid(PLANNED_SMS, shape, parameters),
    persistent=_grid,
    cluster=lambda shape, parameters: (integer(parameters, "cluster"),),
    block=lambda shape, parameters: (3 * WARPGROUP,),
    smem=_smem,
    defines=lambda shape, parameters: {"BUFFERS": _buffers(parameters)},
    requires=_requires,
    sass=_sass,
    min_arch=90,
    only_arch=lambda parameters: 90,
    demonstrates="ramp, tail and wave gaps weigh twice, as products take half as long; promoted: issue",
)

SPECS: tuple[KernelSpec, ...] = (GEMM_FP8,)
