"""A GEMM whose A comes in bytes and is converted in the main loop: fast, or slowly as a planted
disease."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.planted.pair import PlantedPair, PlantedSide
from ncubble.kernels.catalog.planted.shared import (
    BLOCK,
    HALF,
    TILE_N,
    planted_dims,
    planted_grid,
    refused_strength,
    ring_bytes,
)
from ncubble.kernels.catalog.shared import CUDA, HALF_TOLERANCE, TILE, gemm_flops, integer
from ncubble.kernels.spec.spec import Array, Arrays, KernelSpec, Parameter, Parameters, Scalar, Shape

TILE_K = 64
ZERO = 128  # the byte that represents 0
SCALE = 2.0**-5  # of a step; a power of two, so that scaled operands are exact in half
ORDER = np.array([[2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9] for q in range(4)]).ravel()
"""Column (of 16) of each byte of A: the four columns of one mma lane are adjacent."""
STRENGTHS = (1, 4)


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


def _smem(shape: Shape, parameters: Parameters) -> int:
    return ring_bytes((TILE + TILE_N * HALF) * TILE_K, integer(parameters, "stages"))


def _requires(shape: Shape, parameters: Parameters) -> str | None:
    disease = str(parameters["disease"])
    return refused_strength(disease, integer(parameters, "strength"), () if disease == "none" else STRENGTHS)


def _sass(arch: str, parameters: Parameters) -> dict[str, bool]:
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
    folder=CUDA,
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
        Parameter("strength", 0, (0, *STRENGTHS), "conversions per byte; 0: twice, the default", tacit=True),
    ),
    grid=planted_grid,
    block=lambda shape, parameters: BLOCK,
    smem=_smem,
    requires=_requires,
    draw=draw,
    reference=matmul,
    unit="tensor_fp16",
    dtype="float16",
    flops=gemm_flops,
    tolerance=HALF_TOLERANCE,
    sass=_sass,
    demonstrates="issue slots that conversions take from the tensor pipe, and how packed conversion recovers them",
)

DEQUANT_ISSUE = PlantedPair(
    "dequant_issue",
    PlantedSide("planted_dequant", {"disease": "dequant_issue"}),
    PlantedSide("planted_dequant"),
    ("issue",),
    "dequant_issue",
    (
        "Each byte is converted individually through a float, and twice; the twin converts two "
        "bytes to two halves at a time."
    ),
)
