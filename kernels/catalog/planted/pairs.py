"""All pairs of a planted disease and its cure, by which the diagnosis is scored, and controls
without a disease.

A pair is a claim about a kernel, made by how it was written: what its dominant loss is, and which
change removes it.
"""

from __future__ import annotations

from ncubble.kernels.catalog.planted import gemm as planted_gemm
from ncubble.kernels.catalog.planted import structure_pairs as planted_pairs
from ncubble.kernels.catalog.planted.pair import PlantedPair, PlantedSide

__all__ = ["PAIRS", "PlantedPair", "PlantedSide"]

PAIRS: tuple[PlantedPair, ...] = (*planted_gemm.PAIRS, *planted_pairs.PAIRS)
