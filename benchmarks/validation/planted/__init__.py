"""Kernels with one planted disease each, and the same kernels without: a catalog folder, used like
that of own kernels (``ncubble profile planted_gemm --catalog benchmarks/validation/planted``)."""

from pathlib import Path

PLANTED = Path(__file__).parent
"""The catalog folder."""
