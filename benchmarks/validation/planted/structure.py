"""Planted diseases of structure (grid, waves, roles, memory): small kernels with one loss each, and
their cures.

All of them are C = A x B in bfloat16 by wgmma, on the healthy ring of ``tile_ring.cuh``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.gemm_tiles import DEPTH, ROW
from ncubble.kernels.catalog.hopper_gemm import BOX_BYTES, wgmma_maps
from ncubble.kernels.catalog.shared import (
    LARGEST,
    PLANNED_SMS,
    TILE,
    gemm_arrays,
    gemm_dims,
    gemm_spec,
    integer,
)
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import (
    Array,
    Arrays,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Shape,
)

STORES = 8 * BOX_BYTES  # a store box for each multiplying warp
MOST_CTAS = 256  # of schedule=stream: kMostCtas in planted_waves.cu
STAYS = Parameter("stages", 5, (4, 5, 6), "slots in the ring: enough for one CTA to fill an SM")
SHARES = Parameter("stages", 3, (2, 3, 4), "slots in the ring; up to 3, two CTAs share an SM")


def ring_bytes(stages: int, columns: int = TILE) -> int:
    """Shared memory of a ``TileRing``: slots, store boxes, two barriers per slot."""
    return stages * (TILE + columns) * ROW + STORES + 16 * stages


def _grid(shape: Shape, parameters: Parameters) -> Extent:
    return (shape["m"] // TILE * (shape["n"] // TILE),)


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {
        "HGMMA.64x128x16.F32.BF16": True,
        "UTMALDG.2D": True,
        "UTMASTG.2D": True,
        "LDGSTS": False,
        "STL": False,
    }


WAVES = gemm_spec(
    "planted_waves",
    "bfloat16",
    "bfloat16",
    folder=Path(__file__).parent,
    idea="a CTA per tile, or one per SM with the tiles of the last wave split along k (stream-K)",
    dims=gemm_dims(TILE, DEPTH),
    tensor_maps=wgmma_maps(),
    parameters=(STAYS, Parameter("schedule", "stream", ("tiles", "stream"), "a CTA per tile, or stream-K")),
    grid=lambda shape, parameters: _waves_grid(PLANNED_SMS, shape, parameters),
    persistent=lambda sms, shape, parameters: _waves_grid(sms, shape, parameters),
    block=lambda shape, parameters: (288,),
    smem=lambda shape, parameters: ring_bytes(integer(parameters, "stages")),
    sass=_sass,
    min_arch=90,
    only_arch=lambda parameters: 90,
    demonstrates="schedule=tiles: tail (partial_wave, too_few_ctas), if the number of tiles does not fit the SMs",
    peer="",
)


def _waves_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    tiles = shape["m"] // TILE * (shape["n"] // TILE)
    if parameters["schedule"] == "tiles":
        return (tiles,)
    return (min(sms, MOST_CTAS, tiles * (shape["k"] // DEPTH)),)  # every CTA has a step


def scaled(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``c[rows]`` = a x b, times the scale of the group that a row lies in: the first that ends
    behind it."""
    group = np.searchsorted(inputs["ends"], rows, side="right")
    factor = inputs["scale"][group].astype(np.float64)
    return {"c": reference.matmul(inputs, rows)["c"] * factor[:, np.newaxis]}


def groups_at_the_end(generator: np.random.Generator, shape: Shape) -> Mapping[str, NDArray[Any]]:
    """Inputs whose first groups are empty: what has rows stands last in the table, a group per 128
    rows, as far as there are groups; the last one has the rest. Scales lie in [0.5, 1)."""
    used = min(shape["groups"], shape["m"] // TILE)
    ends = np.zeros(shape["groups"], np.int32)
    ends[-used:] = TILE * np.arange(1, used + 1)
    ends[-1] = shape["m"]

    def normal(*extent: int) -> NDArray[Any]:
        return generator.standard_normal(extent, dtype=np.float32).astype(ml_dtypes.bfloat16)

    return {
        "a": normal(shape["m"], shape["k"]),
        "b": normal(shape["k"], shape["n"]),
        "ends": ends,
        "scale": 0.5 + 0.5 * generator.random(shape["groups"], dtype=np.float32),
    }


A, B, C = gemm_arrays("bfloat16", "bfloat16")
RAMP = replace(
    WAVES,
    name="planted_ramp",
    source="planted_ramp.cu",
    idea="CTAs search their group of rows before the first tile: entry by entry, or 32 at once",
    dims=(*gemm_dims(TILE, DEPTH), Dim("groups", 320, maximum=2**20)),
    arrays=(A, B, Array("ends", ("groups",), "int32"), Array("scale", ("groups",)), C),
    scalars=("m", "n", "k", "groups"),
    parameters=(STAYS, Parameter("search", "parallel", ("serial", "parallel"), "by one thread, or by a warp")),
    grid=_grid,
    persistent=None,
    smem=lambda shape, parameters: ring_bytes(integer(parameters, "stages")) + 16,
    reference=scaled,
    draw=groups_at_the_end,
    demonstrates="search=serial: ramp, the latency of one read per group before the first copy",
)


def _epilogue_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    narrow = parameters["store"] == "narrow"
    return {**_sass(arch, parameters), "UTMASTG.2D": not narrow, "STG.E.U16": narrow}


EPILOGUE = replace(
    WAVES,
    name="planted_epilogue",
    source="planted_epilogue.cu",
    idea="results stored directly from registers, 2 bytes at a time, or by TMA in whole rows",
    parameters=(SHARES, Parameter("store", "boxes", ("narrow", "boxes"), "by each thread, or by TMA")),
    grid=_grid,
    persistent=None,
    sass=_epilogue_sass,
    demonstrates="store=narrow with short k: epilogue (short_k), longer than the products that could hide it",
)


def _raster_requires(shape: Shape, parameters: Parameters) -> str | None:
    if shape["n"] % integer(parameters, "tile_n"):
        return f"n={shape['n']} is not a multiple of tile_n={parameters['tile_n']}"
    return None


RASTER = replace(
    WAVES,
    name="planted_raster",
    source="planted_raster.cu",
    idea="order and width of tiles: how often A is read from DRAM",
    dims=(Dim("m", 4096, TILE, LARGEST), Dim("n", 4096, 64, LARGEST), Dim("k", 4096, DEPTH, LARGEST)),
    parameters=(
        Parameter("stages", 3, (3,), "slots in the ring"),
        Parameter("tile_n", 128, (64, 128, 256), "columns of C per CTA; up to 128, two CTAs share an SM"),
        Parameter("raster", "banded", ("column", "banded"), "column by column, or in bands"),
    ),
    grid=lambda shape, parameters: (shape["m"] // TILE * (shape["n"] // integer(parameters, "tile_n")),),
    persistent=None,
    smem=lambda shape, parameters: ring_bytes(integer(parameters, "stages"), integer(parameters, "tile_n")),
    requires=_raster_requires,
    sass=lambda arch, parameters: {
        f"HGMMA.64x{parameters['tile_n']}x16.F32.BF16": True,
        "UTMALDG.2D": True,
        "UTMASTG.2D": True,
        "STL": False,
    },
    demonstrates="raster=column: memory_bound (l2_thrash) while products wait; banded: the same bytes once",
)

BOXES = replace(
    WAVES,
    name="planted_boxes",
    source="planted_boxes.cu",
    idea="tiles by TMA in boxes of a few rows, or as large as possible",
    tensor_maps=wgmma_maps(lambda parameters: integer(parameters, "box_rows")),
    parameters=(
        SHARES,
        Parameter("box_rows", 64, (1, 2, 4, 8, 16, 64), "rows of 128 bytes per box"),
    ),
    grid=_grid,
    persistent=None,
    demonstrates="boxes of a few rows: copy_cost (small_boxes) at the thread that issues them",
)


def _roles_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    warp = parameters["producer"] == "warp"
    return {**_sass(arch, parameters), "UTMALDG.2D": not warp, "LDGSTS.E.BYPASS.128": warp, "LDGSTS": warp}


ROLES = replace(
    WAVES,
    name="planted_roles",
    source="planted_roles.cu",
    idea="a copying warp that is slower than the multiplying warps, or a thread that uses the copy engine",
    parameters=(STAYS, Parameter("producer", "tma", ("warp", "tma"), "cp.async by one warp, or TMA by one thread")),
    grid=_grid,
    persistent=None,
    sass=_roles_sass,
    demonstrates="producer=warp: copy_cost (role_imbalance), whatever the number of slots",
)


def with_residual(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``c[rows]`` = a x b + r."""
    return {"c": reference.matmul(inputs, rows)["c"] + inputs["r"][rows].astype(np.float64)}


RESIDUAL = replace(
    WAVES,
    name="planted_residual",
    source="planted_residual.cu",
    idea="a matrix added in the epilogue: read element by element after the products, or before them",
    arrays=(A, B, Array("r", ("m", "n"), "bfloat16"), C),
    tensor_maps=wgmma_maps()[:2],
    parameters=(STAYS, Parameter("read", "early", ("late", "early"), "after the products, or before them")),
    grid=_grid,
    persistent=None,
    reference=with_residual,
    sass=lambda arch, parameters: {**_sass(arch, parameters), "UTMASTG.2D": False, "LDG": True, "STG.E": True},
    demonstrates="read=late: epilogue, one trip to DRAM per pair of elements",
)

SPECS: tuple[KernelSpec, ...] = (WAVES, RAMP, EPILOGUE, RASTER, BOXES, ROLES, RESIDUAL)
