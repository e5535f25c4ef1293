"""Real runs recorded on real GPUs, shipped with the package so that the product works without a
GPU.

Made by ``benchmarks/record.py`` on an NVIDIA H200, where nothing else is said.
"""

from pathlib import Path

SHIPPED = Path(__file__).resolve().parent
"""All recordings; an installed package holds a part of them."""
ROOT = SHIPPED / "h200"
"""One launch of every kernel and variant with the default sets: ``KERNEL/VARIANT`` run
directories."""
FULL = SHIPPED / "h200-full"
"""A few of them with everything that Nsight Compute offers: all its rules, and warp states over
time."""
REPEATS = SHIPPED / "h200-repeats"
"""Five launches of each with the sets tensor and dram: what the baselines in ``baselines/`` were
recorded from."""
VALIDATION = SHIPPED / "validation"
"""What ``make validate`` is scored on: ``account``, ``diagnosis``, ``prediction``, as
``--measure`` writes them. In a checkout only: they would be two thirds of the wheel."""
CHECKS = SHIPPED / "h200-checks"
"""Results of ``ncubble check`` on another H200 than the one of the baselines, six in a row and one
of narrower copies: what the page Checks shows without one's own."""
LANES = SHIPPED / "h200-lanes"
"""Lanes of warps (``trace-*``) and of streams (``streams-*``): run directories for the page
Timelines."""
LEVELS = SHIPPED / "h100-lanes"
"""Streams of a run with the warps of its kernels, of an H100:
``ncubble streams warp_pipeline --shape n=8388608 --warps``."""
H100 = SHIPPED / "h100"
"""As ``ROOT``, of an H100: kernels that changed after the H200 had recorded them, and new ones.
``python -m benchmarks.record --stale`` names what has changed since. ``h100-repeats`` is as
``REPEATS``."""
RANKS = SHIPPED / "h200-ranks"
"""One program on two GPUs (``examples/torch_ranks.py``): a run directory for each rank."""
PROGRAM = SHIPPED / "h100-program"
"""A whole program, a small training step of an H100: ``python -m benchmarks.program.cost --ship``.
Code of other functions was cut out of its report (``benchmarks/program/cut.py``)."""
