"""Rung 10, warp specialization: loading, computing and storing warps against the same work by all warps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import CUDA, PLANNED_SMS, integer
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
    Tolerance,
)

TILE = 1024  # floats
MIRROR = 1020  # element i of a tile meets element i ^ 1020 of the other array's: quads from the back
RATIO = -255.0 / 256.0  # kRatio in the source
SLOT = 3 * 4 * TILE + 4 * 8  # bytes: A, B and C, and four barriers


def recurrence(parameters: Parameters) -> Reference:
    """``c``: ``work`` steps x <- RATIO x + y from x = a + y, with y the mirrored element of b, in closed form."""
    decay = RATIO ** integer(parameters, "work")

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        a, y = inputs["a"][rows].astype(np.float64), inputs["b"][rows ^ MIRROR].astype(np.float64)
        limit = y / (1.0 - RATIO)
        return {"c": limit + decay * (a + y - limit)}

    return reference


def _grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    return (min(shape["n"] // TILE, sms * integer(parameters, "ctas")),)


def _tolerance(shape: Shape) -> Tolerance:
    # A step rounds values below 16 by less than 2^-21, and RATIO damps what 256 steps add up to below 256 x 2^-21.
    # Signs differ: a tenth of that is never reached. A step too many or too few is off by about 1.
    return Tolerance(absolute=1.2e-5)


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    specialized = parameters["roles"] == "specialized"
    return {
        "LDGSTS.E.BYPASS.128": True,
        "ARRIVES": specialized,  # copies that arrive at a barrier by themselves
        "STS.128": specialized,  # C passes through shared memory on its way to the storers
        "STG.E.EF.128": True,
        "LDG": False,
        "FFMA": True,
        "WARPSYNC": False,  # every lane arrives for itself
    }


WARP_SPECIALIZED = KernelSpec(
    name="warp_specialized",
    folder=CUDA,
    source="warp_specialized.cu",
    idea="warps that load, compute and store, joined by two pipelines; or all warps alike",
    dims=(Dim("n", 2**25, TILE, 2**31 - TILE),),
    arrays=(Array("a", ("n",)), Array("b", ("n",)), Array("c", ("n",), output=True)),
    scalars=("n",),
    parameters=(
        Parameter("roles", "specialized", ("fused", "specialized"), "all warps alike, or a role for each warp"),
        Parameter("slots", 2, (1, 2, 3, 4), "tiles of A, B and C in shared memory"),
        Parameter("work", 64, (0, 16, 32, 64, 96, 128, 256, 512), "FMAs per element: how long computing takes"),
        Parameter("ctas", 1, (1, 2, 4), "CTAs per SM; with one, no other hides what it waits for"),
    ),
    grid=lambda shape, parameters: _grid(PLANNED_SMS, shape, parameters),
    persistent=_grid,
    block=lambda shape, parameters: (256,),
    smem=lambda shape, parameters: SLOT * integer(parameters, "slots"),
    reference=recurrence({"work": 64}),
    reference_of=recurrence,
    work=lambda shape, parameters: 2.0 * (integer(parameters, "work") + 1) * shape["n"],
    tolerance=_tolerance,
    sass=_sass,
    demonstrates="load, compute and store side by side; data_wait while (latency + copy) / slots exceeds the computing",
)

SPECS: tuple[KernelSpec, ...] = (WARP_SPECIALIZED,)
