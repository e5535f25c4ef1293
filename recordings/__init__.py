"""Real runs recorded on real GPUs, shipped with the package so that the product works without a
GPU.

Made by ``benchmarks/record.py`` on an NVIDIA H200, where nothing else is said.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent / "h200"
"""One launch of every kernel and variant with the default sets: ``KERNEL/VARIANT`` run
directories."""
FULL = Path(__file__).resolve().parent / "h200-full"
"""A few of them with everything that Nsight Compute offers: all its rules, and warp states over
time."""
REPEATS = Path(__file__).resolve().parent / "h200-repeats"
"""Five launches of each with the sets tensor and dram: what the baselines in ``baselines/`` were
recorded from."""
VALIDATION = Path(__file__).resolve().parent / "validation"
"""What ``make validate`` is scored on: ``account``, ``diagnosis``, ``prediction``, as
``--measure`` writes them. In a checkout only: they would be two thirds of the wheel."""
CHECKS = Path(__file__).resolve().parent / "h200-checks"
"""Results of ``ncubble check`` on another H200 than the one of the baselines, six in a row and one
of narrower copies: what the page Checks shows without one's own."""
LANES = Path(__file__).resolve().parent / "h200-lanes"
"""Lanes of warps (``trace-*``) and of streams (``streams-*``): run directories for the page
Timelines."""
LEVELS = Path(__file__).resolve().parent / "h100-lanes"
"""Streams of a run with the warps of its kernels, of an H100:
``ncubble streams warp_pipeline --shape n=8388608 --warps``."""
H100 = Path(__file__).resolve().parent / "h100"
"""Kernels that were recorded on an H100 only, as in ``ROOT``; ``h100-repeats`` is as
``REPEATS``."""
RANKS = Path(__file__).resolve().parent / "h200-ranks"
"""One program on two GPUs (``examples/torch_ranks.py``): a run directory for each rank."""
PROGRAM = Path(__file__).resolve().parent / "h100-program"
"""A whole program, a small training step of an H100: ``python -m benchmarks.program.cost --ship``.
Code of other functions was cut out of its report (``benchmarks/program/cut.py``)."""
