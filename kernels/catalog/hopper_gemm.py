"""Rungs 5 and 6: tiles by TMA, products by wgmma; then with specialized warps, persistent CTAs and
clusters."""

from __future__ import annotations

import math
from collections.abc import Callable

from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.gemm_tiles import BARRIERS, DEPTH, LARGEST_SMEM, ROW, best_tile
from ncubble.kernels.catalog.shared import (
    DEEPER,
    LARGEST,
    PLANNED_SMS,
    TILE,
    gemm_spec,
    integer,
)
from ncubble.kernels.spec.spec import DOWN, UP, Dim, KernelSpec, Parameter, Parameters, Shape, TensorMap

STORE_BOX = (16, DEPTH)  # what a warp stores at once; kBoxRows in wgmma_tile.cuh
BOX_BYTES = STORE_BOX[0] * ROW
WARPGROUP = 128  # threads


def _ceil(size: int, tile: int) -> int:
    return -(-size // tile)


def _dims() -> tuple[Dim, ...]:
    """Any size: TMA clips at the edges. That rows have to be multiples of 16 bytes is checked with
    the tensor maps."""
    return tuple(Dim(name, 4096, 1, LARGEST) for name in ("m", "n", "k"))


def wgmma_maps(rows: Callable[[Parameters], int] | None = None) -> tuple[TensorMap, ...]:
    """A by 128 rows x 64 of k and B by 64 of k x 64 columns, C by what a warp stores; ``rows`` of a
    box, if not all."""
    return (
        TensorMap("a", box=lambda shape, parameters: (rows(parameters) if rows else TILE, DEPTH)),
        TensorMap("b", box=lambda shape, parameters: (rows(parameters) if rows else DEPTH, DEPTH)),
        TensorMap("c", box=lambda shape, parameters: STORE_BOX),
    )


GEMM_TMA = gemm_spec(
    "gemm_tma",
    "bfloat16",
    "bfloat16",
    idea="tiles by TMA into a ring with mbarriers, products by wgmma directly from shared memory",
    dims=_dims(),
    tensor_maps=wgmma_maps(),
    ablate=("wait", "copy", "epilogue", "wait_sync", "copy_sync", "copy_sync_epilogue"),
    parameters=(
        Parameter("stages", 3, (1, 2, 3, 4, 5, 6), "slots in the ring; up to 3, two CTAs share an SM", cures=DEEPER),
    ),
    grid=lambda shape, parameters: (_ceil(shape["m"], TILE) * _ceil(shape["n"], TILE),),
    block=lambda shape, parameters: (2 * WARPGROUP,),
    smem=lambda shape, parameters: integer(parameters, "stages") * 2 * TILE * ROW + 64,
    sass=lambda arch, parameters: {
        "HGMMA.64x128x16.F32.BF16": True,
        "UTMALDG.2D": "copy" not in ablation.removed(parameters),
        "UTMASTG.2D": True,
        "STSM.16.M88.4": True,
        "LDG": False,
        "STG": False,
        "LDGSTS": False,
    },
    min_arch=90,
    only_arch=lambda parameters: 90,
    demonstrates="stages=1: single_buffer at an mbarrier; more: no copy_cost, no smem_wait, little data_wait",
)


def _tile(parameters: Parameters) -> tuple[int, int]:
    """Rows and columns of C per tile."""
    return integer(parameters, "tile_m"), integer(parameters, "tile_n")


def _part(parameters: Parameters) -> tuple[int, int]:
    """What a consumer has of a tile: all of it, or half of the rows or of the columns, where wgmma
    has a multiple of 64 left."""
    rows, columns = _tile(parameters)
    if parameters["schedule"] == "pingpong":
        return rows, columns
    if parameters["form"] == "turned" and columns % 128 == 0:
        return rows, columns // 2
    return rows // 2, columns


def _stage_bytes(parameters: Parameters) -> int:
    return sum(_tile(parameters)) * ROW


def _buffers(parameters: Parameters) -> int:
    """Store boxes per warp: as many as a tile of C takes, or as many as fit beside the ring; 0 if
    none does."""
    consumer_warps = 8
    boxes = -(-math.prod(_part(parameters)) // (BOX_BYTES // 2 * 4))
    left = LARGEST_SMEM - BARRIERS - integer(parameters, "stages") * _stage_bytes(parameters)
    return max(0, min(boxes, 4, left // (consumer_warps * BOX_BYTES)))


def _ws_smem(shape: Shape, parameters: Parameters) -> int:
    ring = integer(parameters, "stages") * _stage_bytes(parameters)
    return ring + 8 * _buffers(parameters) * BOX_BYTES + BARRIERS


def _ws_requires(shape: Shape, parameters: Parameters) -> str | None:
    rows, columns = _part(parameters)
    turned = parameters["form"] == "turned"
    if rows % (8 if turned else 64):
        return f"a warpgroup would get {rows} rows, which must be a multiple of {8 if turned else 64}"
    if (rows if turned else columns) not in range(64, 257):
        return f"a product of {rows if turned else columns} columns is not supported by wgmma (64 to 256)"
    if rows * columns > 192 * WARPGROUP:
        return f"a warpgroup cannot hold {rows} x {columns} of C: it has room for {192 * WARPGROUP} elements"
    if parameters["edge"] == "moved" and parameters["walk"] == "snake":
        return "moved tiles overlap, and walk=snake would add up their products in two orders"
    if not _buffers(parameters):
        return f"{parameters['stages']} stages of {_stage_bytes(parameters)} bytes leave no shared memory for C"
    return None


def _cluster_tiles(shape: Shape, parameters: Parameters) -> int:
    rows, columns = _tile(parameters)
    return _ceil(shape["m"], rows * integer(parameters, "cluster")) * _ceil(shape["n"], columns)


def _ws_grid(sms: int, shape: Shape, parameters: Parameters) -> tuple[int]:
    """As many CTAs as finish in the fewest rounds: a CTA more would not save a round, only take
    power and cache.

    Every SM counts: SMs come in pairs, so clusters of 2 leave none idle. For larger clusters that
    is not so, and a grid of more clusters than can be resident would leave the last ones to run
    alone.
    """
    cluster, tiles = integer(parameters, "cluster"), _cluster_tiles(shape, parameters)
    rounds = _ceil(tiles, max(1, sms // cluster))
    return (_ceil(tiles, rounds) * cluster,)


def _ws_defaults(sms: int, shape: Shape, given: Parameters) -> Parameters:
    """The tile that suits shape and device. If any parameter but ``ablate`` is given, the others
    keep their own defaults: a sweep over one parameter holds the rest."""
    if set(given) - {"ablate"}:
        return {}
    return best_tile(shape["m"], shape["n"], shape["k"], sms).parameters(shape["m"], shape["n"], sms)


def _box_of_b(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    """A block of 64 columns, or the share of its rows that a CTA of a cluster loads."""
    cluster = integer(parameters, "cluster")
    return DEPTH // (cluster if integer(parameters, "tile_n") // DEPTH % cluster else 1), DEPTH


def _ws_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    copies = "copy" not in ablation.removed(parameters)
    rows, columns = _part(parameters)
    return {
        f"HGMMA.64x{rows if parameters['form'] == 'turned' else columns}x16.F32.BF16": True,
        "UTMALDG.2D": copies,
        "UTMALDG.2D.MULTICAST": copies and parameters["cluster"] != 1,
        "UTMASTG.2D": True,
        "STSM.16.MT88.4" if parameters["form"] == "turned" else "STSM.16.M88.4": True,
        "USETMAXREG": True,
        "LDG": False,
        "STG": False,
        "LDGSTS": False,
    }


PERSISTENT = (
    Parameter("cluster", 2, (1, 2), "vertically adjacent CTAs that share tiles of B", cures={"data_wait": UP}),
    Parameter(
        "schedule",
        "cooperative",
        ("cooperative", "pingpong"),
        "two warpgroups per tile, or a tile each",
        cures={"epilogue": "pingpong", "wave_gap": "pingpong"},
    ),
    Parameter(
        "band",
        2048,
        (512, 1024, 2048, 4096, 8192),
        "rows of C shared by concurrently running clusters",
        cures={"l2_thrash": UP},
    ),
)
"""Parameters of products whose CTAs stay and go from tile to tile."""

GEMM_WS = gemm_spec(
    "gemm_ws",
    "bfloat16",
    "bfloat16",
    idea="specialized warps, persistent CTAs, clusters with multicast",
    dims=_dims(),
    tensor_maps=(
        TensorMap("a", box=lambda shape, parameters: (integer(parameters, "tile_m"), DEPTH)),
        TensorMap("b", box=_box_of_b),
        TensorMap("c", box=lambda shape, parameters: (8 if _part(parameters)[0] % 16 else STORE_BOX[0], DEPTH)),
    ),
    ablate=("copy", "epilogue", "copy_epilogue"),
    parameters=(
        Parameter("stages", 4, tuple(range(2, 9)), "slots in the ring", cures=DEEPER),
        Parameter(
            "tile_n",
            256,
            (64, 128, 192, 256),
            "columns of C per tile; default chosen by shape",
            cures={"data_wait": UP, "copy_cost": UP, "tail": DOWN},
        ),
        *PERSISTENT,
        Parameter(
            "walk",
            "forward",
            ("forward", "snake"),
            "order along k; snake: every other tile backward",
            cures={"l2_thrash": "snake"},
        ),
        Parameter("tile_m", 128, tuple(range(64, 257, 8)), "rows of C per tile", tacit=True),
        Parameter(
            "form",
            "plain",
            ("plain", "turned"),
            "turned: C^T = B^T A^T, tile_m a multiple of 8 instead of 64",
            tacit=True,
        ),
        Parameter(
            "edge",
            "cut",
            ("cut", "moved"),
            "the last tiles: cut by the edge of C, or moved back into C",
            tacit=True,
        ),
    ),
    grid=lambda shape, parameters: _ws_grid(PLANNED_SMS, shape, parameters),
    persistent=_ws_grid,
    cluster=lambda shape, parameters: (integer(parameters, "cluster"),),
    block=lambda shape, parameters: (3 * WARPGROUP,),
    smem=_ws_smem,
    defines=lambda shape, parameters: {"BUFFERS": _buffers(parameters), **ablation.defines(shape, parameters)},
    defaults=_ws_defaults,
    requires=_ws_requires,
    sass=_ws_sass,
    min_arch=90,
    only_arch=lambda parameters: 90,
    demonstrates="bubble-free reference: busy except for first load, last store and last wave",
)

SPECS: tuple[KernelSpec, ...] = (GEMM_TMA, GEMM_WS)
