"""Real runs recorded on real GPUs, shipped with the package so that the product works without a GPU."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
"""Directory that holds one run directory per recording."""
