"""The four copies: ways to stage global memory in shared memory, on the same y = 2 x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import CUDA, integer, threads
from ncubble.kernels.spec.spec import (
    Array,
    Arrays,
    Dim,
    Extent,
    KernelSpec,
    Parameter,
    Parameters,
    Shape,
    TensorMap,
    Tolerance,
)

BOX = 256  # floats: the longest row that a TMA box can have
PIECE = 4  # floats of 16 bytes: a map does not clip within them
EXACT = Tolerance()  # doubling a float is exact, and so is what ``work`` adds
THROUGH_CP_ASYNC = {"LDGSTS.E.BYPASS.128 LDS.128 STG.E.128": True, "STS.128 LDG.E.128": False}


def doubled(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``y[rows] = 2 x[rows]`` for x (n,)."""
    return {"y": 2.0 * inputs["x"][rows].astype(np.float64)}


def chunk_floats(parameters: Parameters) -> int:
    """Floats of a chunk: ``items`` pieces of 16 bytes per thread."""
    return 4 * integer(parameters, "threads") * integer(parameters, "items")


def copy_grid(sms: int, shape: Shape, parameters: Parameters) -> Extent:
    """``ctas`` CTAs for each of ``sms`` SMs, but none without a chunk."""
    chunks = -(-shape["n"] // chunk_floats(parameters))
    return (max(1, min(sms * integer(parameters, "ctas"), chunks)),)


def _pieces(shape: Shape) -> Extent:
    """What a tensor map covers: whole pieces. Without one the kernel does not use the map, which
    must not be empty."""
    return (shape["n"] // PIECE * PIECE or shape["n"],)


def _copy(name: str, stages: Parameter, *more: Parameter, items: int = 4, ctas: int = 32, **rules: Any) -> KernelSpec:
    """A copy with these defaults of ``items`` and ``ctas``; ``rules``: further members."""
    return KernelSpec(
        name=name,
        folder=CUDA,
        source=f"{name}.cu",
        dims=(Dim("n", 2**28),),
        arrays=(Array("x", ("n",)), Array("y", ("n",), output=True)),
        scalars=("n",),
        parameters=(
            stages,
            Parameter("threads", 512, (128, 256, 512), "threads per CTA"),
            Parameter("items", items, (1, 2, 4, 8), "16-byte pieces per thread and chunk"),
            Parameter("ctas", ctas, (1, 2, 3, 4, 6, 8, 16, 32, 64), "CTAs per SM in the grid; they loop over chunks"),
            Parameter("work", 0, (0, 16, 64, 256), "FMAs per element on the data in shared memory", problem=True),
            *more,
        ),
        persistent=copy_grid,
        block=threads,
        smem=lambda shape, parameters: 4 * chunk_floats(parameters) * integer(parameters, "stages"),
        reference=doubled,
        tolerance=EXACT,
        peer="copy",
        **rules,
    )


ASYNC_COPY_MANUAL = _copy(
    "async_copy_manual",
    Parameter("stages", 2, (1, 2), "buffers; with 2 the next chunk is loaded ahead"),
    items=8,
    ctas=64,
    idea="global to shared memory through registers, with early loads of the next chunk",
    demonstrates="without async copies, only loads held in registers overlap",
    sass={"LDG.E.128 STS.128 LDS.128 STG.E.128": True, "LDGSTS": False},
)

ASYNC_COPY_PIPELINE = _copy(
    "async_copy_pipeline",
    Parameter("stages", 4, (1, 2, 3, 4), "stages of the pipeline"),
    ctas=64,
    idea="cuda::memcpy_async and a block-wide cuda::pipeline",
    demonstrates="one buffer cannot overlap; two or more can, with two mbarrier waits per chunk",
    sass={**THROUGH_CP_ASYNC, "ARRIVES": True},
)

ASYNC_COPY_COOP = _copy(
    "async_copy_coop",
    Parameter("stages", 4, (1, 2, 3, 4), "buffers in the ring"),
    idea="cooperative_groups::memcpy_async and wait_prior",
    demonstrates="one buffer cannot overlap; two or more can, with one barrier per chunk",
    sass={**THROUGH_CP_ASYNC, "LDGDEPBAR": True},
)

ASYNC_COPY_TMA = _copy(
    "async_copy_tma",
    Parameter("stages", 4, (1, 2, 3, 4), "buffers in the ring"),
    Parameter("path", "tensor", ("tensor", "bulk"), "tensor maps in boxes, or one bulk copy per chunk"),
    idea="the copy engine (TMA) loads and stores whole chunks, issued by one thread",
    demonstrates="high bandwidth with almost no copy instructions; one buffer still cannot overlap",
    sass={
        "UTMALDG UTMASTG": lambda parameters: parameters["path"] == "tensor",
        "UBLKCP": lambda parameters: parameters["path"] == "bulk",
        "LDS.128 STS.128": True,
        "LDGSTS LDG.E.128 STG.E.128": False,
    },
    min_arch=90,
    tensor_maps=tuple(TensorMap(array, box=(BOX,), swizzle=0, view=_pieces) for array in "xy"),
)

SPECS: tuple[KernelSpec, ...] = (ASYNC_COPY_MANUAL, ASYNC_COPY_PIPELINE, ASYNC_COPY_COOP, ASYNC_COPY_TMA)
