"""Rung 7, online softmax, and its twin in Numba."""

from __future__ import annotations

from typing import Any

from ncubble.chips import largest_cta_smem
from ncubble.kernels.catalog.shared import CUDA, NUMBA, integer, threads
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Parameters, Shape, Tolerance

MOST_ITEMS = 8  # pieces of 16 bytes that a thread keeps in registers
PARTIALS = 32 * 8  # bytes of static shared memory at most: maximum and sum of each warp


def _online(parameters: Parameters) -> bool:
    return bool(parameters["path"] == "async")


def _in_registers(parameters: Parameters) -> bool:
    return not _online(parameters)


def _vector(shape: Shape) -> int:
    """Floats of a piece: the most to which the start of every row is aligned."""
    return next(size for size in (4, 2, 1) if shape["cols"] % size == 0)


def _block(shape: Shape, parameters: Parameters) -> int:
    """Bytes of a block."""
    return integer(parameters, "threads") * integer(parameters, "items") * _vector(shape) * 4


def _row(shape: Shape, parameters: Parameters) -> int:
    """Bytes of the blocks of a row."""
    block = _block(shape, parameters)
    return -(-shape["cols"] * 4 // block) * block


def _kept(shape: Shape, parameters: Parameters) -> bool:
    """Whether a row stays in shared memory until its result is written."""
    return _row(shape, parameters) + PARTIALS <= largest_cta_smem()


def _smem(shape: Shape, parameters: Parameters) -> int:
    if not _online(parameters):
        return 0
    ring = integer(parameters, "stages") * _block(shape, parameters)
    return _row(shape, parameters) if _kept(shape, parameters) else ring


def _held(shape: Shape, parameters: Parameters) -> int:
    """Pieces that a thread keeps in registers (path=registers)."""
    return -(-shape["cols"] // (4 * integer(parameters, "threads")))


def _defines(shape: Shape, parameters: Parameters) -> dict[str, int]:
    if not _online(parameters):
        return {"HELD": _held(shape, parameters)}
    return {"VECTOR": _vector(shape), "KEPT": int(_kept(shape, parameters))}


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    if not _online(parameters) and (shape["cols"] % 4 or _held(shape, parameters) > MOST_ITEMS):
        most = 4 * MOST_ITEMS * integer(parameters, "threads")
        return f"path=registers needs cols that are a multiple of 4 and at most {MOST_ITEMS} x 4 x threads = {most}"
    return None


SOFTMAX: dict[str, Any] = {
    "arrays": (Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), output=True)),
    "scalars": ("rows", "cols"),
    "grid": lambda shape, parameters: (shape["rows"],),
    "block": threads,
    "reference": reference.softmax,
    "tolerance": Tolerance(absolute=1e-8, relative=2e-5),
    "peer": "softmax",
}

SOFTMAX_ONLINE = KernelSpec(
    name="softmax_online",
    folder=CUDA,
    source="softmax_online.cu",
    idea="running maximum and sum, updated while cp.async copies the row: one pass over memory",
    **SOFTMAX,
    dims=(Dim("rows", 16384), Dim("cols", 4096, maximum=2**31 - 2**17)),  # a column + 9 blocks is still an int
    parameters=(
        Parameter("path", "async", ("async", "registers"), "online as blocks arrive, or maximum, then sum"),
        Parameter("threads", 256, (128, 256, 512, 1024), "threads per row"),
        Parameter("items", 1, (1, 2, 4), "pieces of up to 16 bytes per thread and block (path=async)"),
        Parameter("stages", 4, (1, 2, 3, 4, 6, 8), "blocks in flight (path=async)"),
    ),
    defines=_defines,
    smem=_smem,
    requires=_requires,
    sass={"LDGSTS.E.BYPASS.128": _online, "LDG.E.EF.128": _in_registers, "STG.E.EF.128 MUFU.EX2 SHFL": True},
    demonstrates="a truly memory-bound kernel: no tensor work, no bubble to fix",
)

NUMBA_SOFTMAX_ONLINE = KernelSpec(
    name="numba_softmax_online",
    folder=NUMBA,
    source="numba_softmax_online.py",
    language="numba",
    idea="twin of softmax_online in Numba-CUDA; the result reads the row again",
    **SOFTMAX,
    dims=(Dim("rows", 16384), Dim("cols", 4096)),
    parameters=(Parameter("threads", 256, (128, 256, 512), "threads per row"),),
    sass={"SHFL MUFU.EX2": True},
    demonstrates="scalar loads from Python, still bound by DRAM",
)

SPECS: tuple[KernelSpec, ...] = (SOFTMAX_ONLINE, NUMBA_SOFTMAX_ONLINE)
