"""The four copies: ways to stage global memory in shared memory, on the same y = 2 x."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    Shape,
    TensorMap,
    Tolerance,
)

BOX = 256  # floats: the longest row that a TMA box can have
PIECE = 4  # floats of 16 bytes: a map does not clip within them


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


def exact(shape: Shape) -> Tolerance:
    """Doubling a float is exact, and so is what ``work`` adds."""
    return Tolerance()


def ring_bytes(shape: Shape, parameters: Parameters) -> int:
    """``stages`` buffers of one chunk."""
    return 4 * chunk_floats(parameters) * integer(parameters, "stages")


def _through_registers(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {"LDG.E.128": True, "STS.128": True, "LDS.128": True, "STG.E.128": True, "LDGSTS": False}


def _through_cp_async(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {"LDGSTS.E.BYPASS.128": True, "LDS.128": True, "STG.E.128": True, "STS.128": False, "LDG.E.128": False}


def _through_tma(arch: str, parameters: Parameters) -> dict[str, bool]:
    maps = parameters["path"] == "tensor"
    moved = {"UTMALDG": maps, "UTMASTG": maps, "UBLKCP": not maps}
    return {**moved, "LDGSTS": False, "LDG.E.128": False, "STG.E.128": False, "LDS.128": True, "STS.128": True}


def _pieces(shape: Shape) -> Extent:
    """What a tensor map covers: whole pieces. Without one the kernel does not use the map, which
    must not be empty."""
    return (shape["n"] // PIECE * PIECE or shape["n"],)


def _parameters(stages: Parameter, *more: Parameter, items: int = 4, ctas: int = 32) -> tuple[Parameter, ...]:
    return (
        stages,
        Parameter("threads", 512, (128, 256, 512), "threads per CTA"),
        Parameter("items", items, (1, 2, 4, 8), "16-byte pieces per thread and chunk"),
        Parameter("ctas", ctas, (1, 2, 3, 4, 6, 8, 16, 32, 64), "CTAs per SM in the grid; they loop over chunks"),
        Parameter("work", 0, (0, 16, 64, 256), "FMAs per element on the data in shared memory", problem=True),
        *more,
    )


def _spec(
    name: str,
    idea: str,
    demonstrates: str,
    parameters: tuple[Parameter, ...],
    sass: Callable[[str, Parameters], Mapping[str, bool]],
    min_arch: int = 80,
    tensor_maps: tuple[TensorMap, ...] = (),
) -> KernelSpec:
    return KernelSpec(
        name=name,
        folder=CUDA,
        source=f"{name}.cu",
        idea=idea,
        dims=(Dim("n", 2**28),),
        arrays=(Array("x", ("n",)), Array("y", ("n",), output=True)),
        scalars=("n",),
        parameters=parameters,
        grid=lambda shape, parameters: copy_grid(PLANNED_SMS, shape, parameters),
        persistent=copy_grid,
        block=lambda shape, parameters: (integer(parameters, "threads"),),
        smem=ring_bytes,
        reference=doubled,
        tolerance=exact,
        sass=sass,
        demonstrates=demonstrates,
        min_arch=min_arch,
        tensor_maps=tensor_maps,
        peer="copy",
    )


ASYNC_COPY_MANUAL = _spec(
    "async_copy_manual",
    "global to shared memory through registers, with early loads of the next chunk",
    "without async copies, only loads held in registers overlap",
    _parameters(Parameter("stages", 2, (1, 2), "buffers; with 2 the next chunk is loaded ahead"), items=8, ctas=64),
    _through_registers,
)

ASYNC_COPY_PIPELINE = _spec(
    "async_copy_pipeline",
    "cuda::memcpy_async and a block-wide cuda::pipeline",
    "one buffer cannot overlap; two or more can, with two mbarrier waits per chunk",
    _parameters(Parameter("stages", 4, (1, 2, 3, 4), "stages of the pipeline"), ctas=64),
    lambda arch, parameters: {**_through_cp_async(arch, parameters), "ARRIVES": True},
)

ASYNC_COPY_COOP = _spec(
    "async_copy_coop",
    "cooperative_groups::memcpy_async and wait_prior",
    "one buffer cannot overlap; two or more can, with one barrier per chunk",
    _parameters(Parameter("stages", 4, (1, 2, 3, 4), "buffers in the ring")),
    lambda arch, parameters: {**_through_cp_async(arch, parameters), "LDGDEPBAR": True},
)

ASYNC_COPY_TMA = _spec(
    "async_copy_tma",
    "the copy engine (TMA) loads and stores whole chunks, issued by one thread",
    "high bandwidth with almost no copy instructions; one buffer still cannot overlap",
    _parameters(
        Parameter("stages", 4, (1, 2, 3, 4), "buffers in the ring"),
        Parameter("path", "tensor", ("tensor", "bulk"), "tensor maps in boxes, or one bulk copy per chunk"),
    ),
    _through_tma,
    min_arch=90,
    tensor_maps=(
        TensorMap("x", box=lambda shape, parameters: (BOX,), swizzle=0, view=_pieces),
        TensorMap("y", box=lambda shape, parameters: (BOX,), swizzle=0, view=_pieces),
    ),
)


SPECS: tuple[KernelSpec, ...] = (ASYNC_COPY_MANUAL, ASYNC_COPY_PIPELINE, ASYNC_COPY_COOP, ASYNC_COPY_TMA)
