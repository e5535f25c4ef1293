"""What several specs share: folders of sources, and the tiles, arrays, sizes and tolerances of the
GEMMs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ncubble.kernels.catalog import ablation
from ncubble.kernels.spec import reference
from ncubble.kernels.spec.case import PLANNED_SMS as PLANNED_SMS
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameters, Shape, Tolerance

SOURCES = Path(__file__).resolve().parents[1]
CUDA = SOURCES / "cuda"
NUMBA = SOURCES / "catalog" / "numba"

TILE = 128  # rows and columns of C per CTA in the CUDA GEMMs
LARGEST = 2**24 - TILE  # offsets within a tile, 128 x row length, are computed in 32 bits


def gemm_flops(shape: Shape) -> float:
    """Multiplications and additions of C (m, n) = A (m, k) x B (k, n)."""
    return 2.0 * shape["m"] * shape["n"] * shape["k"]


def gemm_grid(shape: Shape, parameters: Parameters) -> tuple[int, int]:
    """A CTA for every ``TILE`` x ``TILE`` of C: x along n, y along m."""
    return shape["n"] // TILE, shape["m"] // TILE


def gemm_dims(tile: int, tile_k: int, default: int = 4096) -> tuple[Dim, ...]:
    """m, n, k with the multiples that a kernel without remainders takes."""
    return tuple(
        Dim(name, default, multiple, LARGEST) for name, multiple in {"m": tile, "n": tile, "k": tile_k}.items()
    )


def gemm_arrays(dtype: str, result: str = "float32") -> tuple[Array, ...]:
    """A (m, k) and B (k, n) of ``dtype``, C (m, n) of the type ``result``, all row-major."""
    return Array("a", ("m", "k"), dtype), Array("b", ("k", "n"), dtype), Array("c", ("m", "n"), result, output=True)


def fp32_tolerance(shape: Shape) -> Tolerance:
    """What fp32 accumulation over k may err by."""
    # k terms of N(0, 1) x N(0, 1) add up to about sqrt(k), and k roundings of 2^-24 of that walk to
    # about k * 6e-8. Eight times that leaves room for the largest of millions, and is far below a
    # missing or doubled term (about 1).
    return Tolerance(absolute=5e-7 * shape["k"])


def tensor_tolerance(shape: Shape) -> Tolerance:
    """What the tensor cores' fp32 accumulation over k may err by."""
    # Tensor cores truncate when they add, so errors agree in sign in part and grow with k, not with
    # its root. On an H200 the largest error seen at k=4096 is 0.002, half of this.
    return Tolerance(absolute=1e-6 * shape["k"])


def rounded_tolerance(bits: int, shape: Shape) -> Tolerance:
    """What accumulation on tensor cores may err by, and C rounded to ``bits`` bits: half a unit in
    the last of them, which is 2^-bits of a number just above a power of two."""
    return Tolerance(absolute=tensor_tolerance(shape).absolute, relative=2.0**-bits)


HALF_TOLERANCE = functools.partial(rounded_tolerance, 11)
TOLERANCES = {
    "float32": tensor_tolerance,
    "float16": HALF_TOLERANCE,
    "bfloat16": functools.partial(rounded_tolerance, 8),
}
"""Tolerances of tensor-core products by the type of C."""


def integer(parameters: Parameters, name: str) -> int:
    """The value of an integer parameter."""
    return int(parameters[name])


def threads(shape: Shape, parameters: Parameters) -> tuple[int]:
    """The block of a kernel with a parameter ``threads``."""
    return (integer(parameters, "threads"),)


def gemm_spec(name: str, dtype: str, result: str = "float32", ablate: tuple[str, ...] = (), **rules: Any) -> KernelSpec:
    """C (m, n) of the type ``result`` = A (m, k) x B (k, n) of ``dtype``, by the CUDA source
    ``name``, or the Numba source if it begins so.

    ``ablate``: the variants that leave something out (``ablation``). ``rules``: further members, or
    others than usual.
    """
    numba = name.startswith("numba_")
    usual: dict[str, Any] = {
        "folder": NUMBA if numba else CUDA,
        "source": f"{name}.py" if numba else f"{name}.cu",
        "language": "numba" if numba else "cuda",
        "arrays": gemm_arrays(dtype, result),
        "scalars": ("m", "n", "k"),
        "reference": reference.matmul,
        "flops": gemm_flops,
        "tolerance": fp32_tolerance if dtype == "float32" else TOLERANCES[result],
        "unit": "fp32" if dtype == "float32" else "tensor_fp16",
        "dtype": dtype,
        "peer": "matmul",
    }
    if ablate:
        usual |= {"defines": ablation.defines, "unverified": ablation.unverified}
        rules["parameters"] = (*rules["parameters"], ablation.ablate(*ablate))
    return KernelSpec(name=name, **(usual | rules))
