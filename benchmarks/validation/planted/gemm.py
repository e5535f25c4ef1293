"""GEMMs with one planted disease of the main loop each, and the same GEMMs without: ``planted_gemm``
in half, and ``planted_dequant``, whose A comes in bytes and is converted in the main loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.shared import HALF_TOLERANCE, LARGEST, TILE, gemm_flops, gemm_spec, integer
from ncubble.kernels.spec.spec import Array, Arrays, Dim, KernelSpec, Parameter, Parameters, Scalar, Shape

FOLDER = Path(__file__).parent
TILE_N = 256  # columns of C per CTA
HALF = 2  # bytes
BLOCK = (256,)


def planted_dims() -> tuple[Dim, ...]:
    """m, n, k that give each of an H200's 132 SMs one CTA with a long loop, so that the loop is
    what a launch does."""
    return Dim("m", 12 * TILE, TILE, LARGEST), Dim("n", 11 * TILE_N, TILE_N, LARGEST), Dim("k", 12288, 64, LARGEST)


def planted_grid(shape: Shape, parameters: Parameters) -> tuple[int]:
    """A CTA for every ``TILE`` x ``TILE_N`` of C."""
    return (shape["m"] // TILE * (shape["n"] // TILE_N),)


def ring_bytes(stage: int, stages: int) -> int:
    """Shared memory of a ring of ``stages`` buffers of ``stage`` bytes, through which the finished
    tile passes, too."""
    return max(stages * stage, TILE * TILE_N * HALF)


def refused_strength(disease: str, strength: int, allowed: tuple[int, ...]) -> str | None:
    """Why ``strength`` does not fit ``disease``, or None; 0 stands for the usual strength and
    always fits."""
    if not strength or strength in allowed:
        return None
    takes = ", ".join(str(value) for value in (0, *allowed))
    return f"disease={disease} does not exist at strength={strength}, only at {takes}"


NONE = "none"
STRENGTHS = {  # besides 0, the default strength
    "address_arithmetic": (64,),
    "bank_conflicts": (2, 4),
    "smem_rereads": (2,),
    "barrier_imbalance": (4, 8, 32, 64),
    "excess_barriers": (2, 4, 16, 32),
    "spills": (160, 176, 192, 200),
    "dependent_mma": (2, 4),
}
DISEASES = (
    NONE,
    "no_async",
    "narrow_copies",
    "uncoalesced",
    "address_arithmetic",
    "bank_conflicts",
    "smem_rereads",
    "barrier_imbalance",
    "excess_barriers",
    "spills",
    "dependent_mma",
)


def _gemm_smem(shape: Shape, parameters: Parameters) -> int:
    return ring_bytes((TILE + TILE_N) * integer(parameters, "tile_k") * HALF, integer(parameters, "stages"))


def _gemm_requires(shape: Shape, parameters: Parameters) -> str | None:
    disease = str(parameters["disease"])
    alone = integer(parameters, "stages") == 1
    if disease == "no_async" and not alone:
        return "disease=no_async copies into one buffer: it needs stages=1"
    if alone and disease not in (NONE, "no_async"):
        return f"disease={disease} is planted into a prefetching ring: it needs stages=2 or more"
    return refused_strength(disease, integer(parameters, "strength"), STRENGTHS.get(disease, ()))


def _gemm_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    disease = parameters["disease"]
    asynchronous, wide = disease != "no_async", disease != "narrow_copies"
    return {
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4": True,
        "LDSM.16.MT88.4": True,
        "LDGSTS": asynchronous,
        "LDGSTS.E.BYPASS": asynchronous and wide,
        "LDG": not asynchronous,
        "LDGDEPBAR": asynchronous,
        "STL": disease == "spills",
        "LDL": disease == "spills",
        "FFMA": disease == "barrier_imbalance",
    }


PLANTED_GEMM = gemm_spec(
    "planted_gemm",
    "float16",
    "float16",
    folder=FOLDER,
    idea="a healthy mma.sync GEMM, or the same with one disease planted in its main loop",
    dims=planted_dims(),
    parameters=(
        Parameter("disease", NONE, DISEASES, "planted disease; stages=1 and stages=2 are diseases, too"),
        Parameter("stages", 4, (1, 2, 3, 4, 5, 6), "buffers in the ring"),
        Parameter("tile_k", 64, (32, 64), "depth of a tile: k per barrier"),
        Parameter(
            "strength",
            0,
            tuple(sorted({0}.union(*STRENGTHS.values()))),
            "strength of the disease, in its own unit (see the source); 0: the default",
            tacit=True,
        ),
    ),
    grid=planted_grid,
    block=lambda shape, parameters: BLOCK,
    smem=_gemm_smem,
    requires=_gemm_requires,
    sass=_gemm_sass,
    demonstrates="the causes of lost time inside a main loop, one at a time",
)

TILE_K = 64
ZERO = 128  # the byte that represents 0
SCALE = 2.0**-5  # of a step; a power of two, so that scaled operands are exact in half
ORDER = np.array([[2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9] for q in range(4)]).ravel()
"""Column (of 16) of each byte of A: the four columns of one mma lane are adjacent."""
CONVERSIONS = (1, 4)


def columns(k: int) -> NDArray[np.intp]:
    """Which column of A each of ``k`` stored bytes of a row holds."""
    return np.ravel(np.arange(0, k, 16)[:, np.newaxis] + ORDER)


def draw(generator: np.random.Generator, shape: Shape) -> dict[str, NDArray[Any]]:
    """A from N(0, 1) in steps of ``SCALE`` (beyond four standard deviations cut off), B from N(0,
    1)."""
    a = generator.standard_normal((shape["m"], shape["k"]), dtype=np.float32)
    b = generator.standard_normal((shape["k"], shape["n"]), dtype=np.float32)
    steps = np.rint(a / np.float32(SCALE)) + ZERO
    return {"a": steps.clip(0, 255).astype(np.uint8), "b": b.astype(np.float16)}


def matmul(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``c[rows]``: what the bytes of A (m, k) stand for, times B (k, n) in the order in which A is
    stored."""
    a, b = inputs["a"][rows].astype(np.float64), inputs["b"].astype(np.float64)
    return {"c": (a - ZERO) * SCALE @ b[columns(len(b))]}


def _dequant_smem(shape: Shape, parameters: Parameters) -> int:
    return ring_bytes((TILE + TILE_N * HALF) * TILE_K, integer(parameters, "stages"))


def _dequant_requires(shape: Shape, parameters: Parameters) -> str | None:
    disease = str(parameters["disease"])
    return refused_strength(disease, integer(parameters, "strength"), () if disease == "none" else CONVERSIONS)


def _dequant_sass(arch: str, parameters: Parameters) -> dict[str, bool]:
    slow = parameters["disease"] == "dequant_issue"
    return {
        "HMMA.16816.F32": True,
        "LDSM.16.M88.4": True,
        "LDGSTS.E.BYPASS": True,
        "LDG": False,
        "I2F.U8": slow,
        "FADD": slow,
        "HADD2": not slow,
    }


PLANTED_DEQUANT = KernelSpec(
    name="planted_dequant",
    folder=FOLDER,
    source="planted_dequant.cu",
    idea="an mma.sync GEMM that converts A from bytes for the tensor cores, fast or slowly",
    dims=planted_dims(),
    arrays=(
        Array("a", ("m", "k"), "uint8"),
        Array("b", ("k", "n"), "float16"),
        Array("c", ("m", "n"), "float16", output=True),
    ),
    scalars=("m", "n", "k", Scalar("scale", "float32", SCALE)),
    parameters=(
        Parameter("disease", "none", ("none", "dequant_issue"), "dequant_issue: bytes are converted one by one"),
        Parameter("stages", 4, (2, 3, 4, 5), "buffers in the ring"),
        Parameter("strength", 0, (0, *CONVERSIONS), "conversions per byte; 0: twice, the default", tacit=True),
    ),
    grid=planted_grid,
    block=lambda shape, parameters: BLOCK,
    smem=_dequant_smem,
    requires=_dequant_requires,
    draw=draw,
    reference=matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=gemm_flops,
    tolerance=HALF_TOLERANCE,
    sass=_dequant_sass,
    demonstrates="issue slots that conversions take from the tensor pipe, and how packed conversion recovers them",
)

SPECS: tuple[KernelSpec, ...] = (PLANTED_GEMM, PLANTED_DEQUANT)
