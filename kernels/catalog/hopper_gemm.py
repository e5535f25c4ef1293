"""Rungs 5 and 6: tiles by TMA, products by wgmma; then with specialized warps, persistent CTAs and
clusters; and that on e4m3, scaled per tensor or per block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.gemm_tiles import BARRIERS, DEPTH, LARGEST_SMEM, ROW, SPARE, best_tile, bytes_sent
from ncubble.kernels.catalog.shared import TILE, gemm_dims, gemm_spec, integer
from ncubble.kernels.spec.reference import Result
from ncubble.kernels.spec.spec import (
    Array,
    Arrays,
    KernelSpec,
    Parameter,
    Parameters,
    Reference,
    Shape,
    TensorMap,
    Tolerance,
    dtype_of,
)

STORE_BOX = (16, DEPTH)  # what a warp stores at once; kBoxRows in wgmma_tile.cuh
BOX_BYTES = STORE_BOX[0] * ROW
WARPGROUP = 128  # threads
CONSUMER_WARPS = 8
BLOCK = 128  # elements that share a scale: along k of A, and in both directions of B
E4M3_LARGEST = 448.0


def wgmma_maps(rows: Callable[[Parameters], int] | None = None) -> tuple[TensorMap, ...]:
    """A by 128 rows x 64 of k and B by 64 of k x 64 columns, C by what a warp stores; ``rows`` of a
    box, if not all."""
    return (
        TensorMap("a", box=lambda shape, parameters: (rows(parameters) if rows else TILE, DEPTH)),
        TensorMap("b", box=lambda shape, parameters: (rows(parameters) if rows else DEPTH, DEPTH)),
        TensorMap("c", box=STORE_BOX),
    )


GEMM_TMA = gemm_spec(
    "gemm_tma",
    "bfloat16",
    "bfloat16",
    idea="tiles by TMA into a ring with mbarriers, products by wgmma directly from shared memory",
    dims=gemm_dims(1, 1),  # TMA clips at the edges; rows of 16 bytes are checked with the tensor maps
    tensor_maps=wgmma_maps(),
    ablate=("wait", "copy", "epilogue", "wait_sync", "copy_sync", "copy_sync_epilogue"),
    parameters=(Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "slots in the ring; up to 3, two CTAs share an SM"),),
    grid=lambda shape, parameters: (-(-shape["m"] // TILE) * -(-shape["n"] // TILE),),
    block=(2 * WARPGROUP,),
    smem=lambda shape, parameters: integer(parameters, "stages") * 2 * TILE * ROW + 64,
    sass={
        "HGMMA.64x128x16.F32.BF16 UTMASTG.2D STSM.16.M88.4": True,
        "UTMALDG.2D": ablation.keeps("copy"),
        "LDG STG LDGSTS": False,
    },
    only_arch=90,
    demonstrates="stages=1: single_buffer at an mbarrier; more: no copy_cost, no smem_wait, little data_wait",
)


def _part(parameters: Parameters) -> tuple[int, int]:
    """What a consumer has of a tile: all of it, or half of the rows or of the columns, where wgmma
    has a multiple of 64 left."""
    rows, columns = int(parameters.get("tile_m", TILE)), integer(parameters, "tile_n")
    if parameters["schedule"] == "pingpong":
        return rows, columns
    if parameters.get("form") == "turned" and columns % 128 == 0:
        return rows, columns // 2
    return rows // 2, columns


def _ring_bytes(parameters: Parameters) -> int:
    """A tile of A and one of B per stage; where blocks are scaled, a float for each row of A,
    too. Behind them what the other CTAs of a split send."""
    scales = 4 * TILE if parameters.get("scaling") == "block" else 0
    rows, columns = int(parameters.get("tile_m", TILE)), integer(parameters, "tile_n")
    sharers = 1 if parameters["schedule"] == "pingpong" else 2
    sums = sharers * bytes_sent(*_part(parameters), int(parameters.get("split", 1)))
    return integer(parameters, "stages") * ((rows + columns) * ROW + scales) + sums


def _buffers(parameters: Parameters) -> int:
    """Store boxes per warp: as many as a tile of C takes, 4 at most, or as many as fit beside the
    ring, the second and further ones with ``SPARE``; 0 if none does."""
    boxes = min(4, -(-math.prod(_part(parameters)) // (BOX_BYTES // 2 * 4)))
    room, box = LARGEST_SMEM - BARRIERS - _ring_bytes(parameters), CONSUMER_WARPS * BOX_BYTES
    return min(boxes, max(0, min(1, room // box), (room - SPARE) // box))


def _specialized_smem(shape: Shape, parameters: Parameters) -> int:
    return _ring_bytes(parameters) + CONSUMER_WARPS * _buffers(parameters) * BOX_BYTES + BARRIERS


def _no_room(parameters: Parameters) -> str:
    stage = _ring_bytes(parameters) // integer(parameters, "stages")
    return f"{parameters['stages']} stages of {stage} bytes leave no shared memory for C"


def _ws_requires(shape: Shape, parameters: Parameters) -> str | None:
    rows, columns = _part(parameters)
    turned = parameters["form"] == "turned"
    if rows % (8 if turned else 64):
        return f"a warpgroup would get {rows} rows, which must be a multiple of {8 if turned else 64}"
    if rows * columns > 192 * WARPGROUP:
        return f"a warpgroup cannot hold {rows} x {columns} of C: it has room for {192 * WARPGROUP} elements"
    if parameters["edge"] == "moved" and parameters["walk"] == "snake":
        return "moved tiles overlap, and walk=snake would add up their products in two orders"
    split = parameters["split"]
    if split > 1 and (split * parameters["cluster"] > 8 or not turned or shape["k"] <= DEPTH * (split - 1)):
        return f"split={split} needs form=turned, 8 CTAs in a cluster at most, a step along k for each"
    return None if _buffers(parameters) else _no_room(parameters)


def _ws_grid(sms: int, shape: Shape, parameters: Parameters) -> tuple[int]:
    """As many CTAs as finish in the fewest rounds: a CTA more would not save a round, only take
    power and cache.

    Every SM counts: SMs come in pairs, so clusters of 2 leave none idle. For larger clusters that
    is not so, and a grid of more clusters than can be resident would leave the last ones to run
    alone.
    """
    cluster, rows = integer(parameters, "cluster"), int(parameters.get("tile_m", TILE))
    tiles = -(-shape["m"] // (rows * cluster)) * -(-shape["n"] // integer(parameters, "tile_n"))
    if (split := int(parameters.get("split", 1))) > 1:
        return (tiles * cluster * split,)  # each cluster has a single tile
    rounds = -(-tiles // max(1, sms // cluster))
    return (-(-tiles // rounds) * cluster,)


def _ws_defaults(sms: int, shape: Shape, given: Parameters) -> Parameters:
    """The tile that suits shape and device. If any parameter but ``ablate`` is given, the others
    keep their own defaults: a sweep over one parameter holds the rest."""
    if set(given) - {"ablate"}:
        return {}
    sizes = shape["m"], shape["n"], shape["k"], sms
    return best_tile(*sizes).parameters(*sizes)


def _box_of_b(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    """A block of 64 columns, or the share of its rows that a CTA of a cluster loads."""
    cluster = integer(parameters, "cluster")
    return DEPTH // (cluster if integer(parameters, "tile_n") // DEPTH % cluster else 1), DEPTH


def _ws_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    copies, turned = "copy" not in ablation.removed(parameters), parameters["form"] == "turned"
    rows, columns = _part(parameters)
    return {
        f"HGMMA.64x{rows if turned else columns}x16.F32.BF16 UTMASTG.2D USETMAXREG": True,
        "STSM.16.MT88" if turned else "STSM.16.M88.4": True,
        "UTMALDG.2D": copies,
        "UTMALDG.2D.MULTICAST": copies and parameters["cluster"] != 1,
        "STAS": parameters["split"] != 1,
        "LDG STG LDGSTS": False,
    }


PERSISTENT = (
    Parameter("cluster", 2, (1, 2), "vertically adjacent CTAs that share tiles of B", change="ctas"),
    Parameter(
        "schedule", "cooperative", ("cooperative", "pingpong"), "two warpgroups a tile, or one each", change="epilogue"
    ),
    Parameter("band", 2048, (512, 1024, 2048, 4096, 8192), "rows of C shared by concurrently running clusters"),
)
"""Parameters of products whose CTAs stay and go from tile to tile."""
SPECIALIZED: dict[str, Any] = {
    "dims": gemm_dims(1, 1),
    "persistent": _ws_grid,
    "cluster": lambda shape, parameters: (integer(parameters, "cluster") * int(parameters.get("split", 1)),),
    "block": (3 * WARPGROUP,),
    "smem": _specialized_smem,
    "only_arch": 90,
}
"""Rules of products by specialized warps of persistent CTAs."""

GEMM_WS = gemm_spec(
    "gemm_ws",
    "bfloat16",
    "bfloat16",
    idea="specialized warps, persistent CTAs, clusters with multicast",
    **SPECIALIZED,
    tensor_maps=(
        TensorMap("a", box=lambda shape, parameters: (integer(parameters, "tile_m"), DEPTH)),
        TensorMap("b", box=_box_of_b),
        TensorMap(
            "c", box=lambda shape, given: (8 if _part(given)[0] % 16 or given["split"] > 1 else STORE_BOX[0], DEPTH)
        ),
    ),
    ablate=("copy", "epilogue", "copy_epilogue"),
    parameters=(
        Parameter("stages", 4, tuple(range(2, 15)), "slots in the ring"),
        Parameter("tile_n", 256, (64, 128, 192, 256), "columns of C per tile; default chosen by shape"),
        *PERSISTENT,
        Parameter("walk", "forward", ("forward", "snake"), "order along k; snake: every other tile backward"),
        Parameter("tile_m", 128, tuple(range(8, 257, 8)), "rows of C per tile", tacit=True),
        Parameter(
            "split", 1, tuple(range(1, 9)), "CTAs of a cluster that share the steps along k of a tile", tacit=True
        ),
        Parameter("form", "plain", ("plain", "turned"), "turned: C^T = B^T A^T, tile_m a multiple of 8", tacit=True),
        Parameter("edge", "cut", ("cut", "moved"), "tiles at the edge of C: cut, or moved back into C", tacit=True),
    ),
    defines=lambda shape, parameters: {"BUFFERS": _buffers(parameters), **ablation.defines(shape, parameters)},
    defaults=_ws_defaults,
    requires=_ws_requires,
    sass=_ws_sass,
    demonstrates="bubble-free reference: busy except for first load, last store and last wave",
)


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


def _scaled_product(parameters: Parameters) -> Reference:
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


def _fp8_tolerance(shape: Shape, parameters: Parameters) -> Tolerance:
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


def _fp8_requires(shape: Shape, parameters: Parameters) -> str | None:
    promoted, pingpong = parameters["accumulate"] == "promoted", parameters["schedule"] == "pingpong"
    if parameters["scaling"] == "block" and not promoted:
        return "scaling=block scales sums outside the tensor cores: it needs accumulate=promoted"
    if parameters["scaling"] == "block" and shape["m"] % 4:
        return "with scaling=block m must be a multiple of 4: the scales of A are copied in pieces of 16 bytes"
    if promoted and pingpong:
        return "with accumulate=promoted both warpgroups multiply at the same time: it needs schedule=cooperative"
    if (promoted or pingpong) and parameters["tile_n"] > 128:
        return "accumulate=promoted and schedule=pingpong need tile_n=128: larger tiles lack registers"
    return None if _buffers(parameters) else _no_room(parameters)


def _fp8_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {
        f"QGMMA.64x{parameters['tile_n']}x32.F32.E4M3.E4M3": True,
        "UTMALDG.2D UTMASTG.2D STSM.16.M88.4 USETMAXREG": True,
        "UBLKCP": parameters["scaling"] == "block",
        "UTMALDG.2D.MULTICAST": parameters["cluster"] != 1,
        "STG LDGSTS LDL": False,  # LDL: the accumulators are indexed by constants alone
    }


GEMM_FP8 = gemm_spec(
    "gemm_fp8",
    "float8_e4m3fn",
    "bfloat16",
    idea="gemm_ws on e4m3 (B transposed), scaled per tensor or per block, sums optionally promoted to float",
    **SPECIALIZED,
    arrays=(
        Array("a", ("m", "k"), "float8_e4m3fn"),
        Array("b", ("n", "k"), "float8_e4m3fn"),
        Array("scale_a", ("k/128", "m")),
        Array("scale_b", ("n/128", "k/128")),
        Array("c", ("m", "n"), "bfloat16", output=True),
    ),
    draw=_draw,
    reference=_scaled_product({"scaling": "tensor"}),
    reference_of=_scaled_product,
    tolerance_of=_fp8_tolerance,
    unit="tensor_fp8",
    peer="scaled_matmul",
    tensor_maps=(
        TensorMap("a", box=(TILE, ROW)),
        # The columns of a tile that a CTA of a cluster loads.
        TensorMap(
            "b", box=lambda shape, parameters: (integer(parameters, "tile_n") // integer(parameters, "cluster"), ROW)
        ),
        TensorMap("c", box=STORE_BOX),
    ),
    parameters=(
        Parameter("scaling", "tensor", ("tensor", "block"), "per operand, or 1x128 of A, 128x128 of B", problem=True),
        Parameter("accumulate", "fast", ("fast", "promoted"), "tensor cores sum all of k, or 128 of it", problem=True),
        Parameter("stages", 4, (2, 3, 4, 5, 6), "slots in the ring"),
        Parameter("tile_n", 256, (128, 256), "columns of C per tile"),
        *PERSISTENT,
    ),
    defines=lambda shape, parameters: {"BUFFERS": _buffers(parameters)},
    requires=_fp8_requires,
    sass=_fp8_sass,
    demonstrates="ramp, tail and wave gaps weigh twice, as products take half as long; promoted: issue",
)

SPECS: tuple[KernelSpec, ...] = (GEMM_TMA, GEMM_WS, GEMM_FP8)
