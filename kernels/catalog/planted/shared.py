"""What the GEMMs with planted diseases of the main loop share: tiles and sizes."""

from __future__ import annotations

from ncubble.kernels.catalog.shared import LARGEST, TILE
from ncubble.kernels.spec.spec import Dim, Parameters, Shape

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
