"""All pairs of a planted disease and its cure, by which the diagnosis is scored, and controls without a disease.

A pair is a claim about a kernel, made by how it was written: what its dominant loss is, and which change removes it.
"""

from __future__ import annotations

from ncubble.kernels.specs.pair import Pair, Side

__all__ = ["PAIRS", "Pair", "Side"]

CUBE = {"m": 4096, "n": 4096, "k": 4096}

EXISTING: tuple[Pair, ...] = (
    Pair(
        "single_buffer_tma",
        Side("gemm_tma", {"stages": 1}, CUBE),
        Side("gemm_tma", {"stages": 3}, CUBE),
        ("data_wait",),
        "single_buffer",
        "The only slot is filled while nobody multiplies; three slots let the copies run ahead.",
    ),
    Pair(
        "shallow_tma",
        Side("gemm_tma", {"stages": 2}, CUBE),
        Side("gemm_tma", {"stages": 3}, CUBE),
        ("data_wait",),
        "shallow_pipeline",
        "With two slots a copy has only the time of one product to arrive; a third slot gives it that of two.",
    ),
)
"""Diseases of the ladder's kernels, by their parameters and shapes."""

PAIRS: tuple[Pair, ...] = EXISTING
