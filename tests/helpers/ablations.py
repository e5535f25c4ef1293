"""Made-up ablations, and runs that were ablated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation, MeasuredLine, MeasuredPart, MeasuredVariant
from ncubble.recordings import VALIDATION

ABLATED: Path = VALIDATION / "ablation" / "agreement" / "gemm_tma-stages2"
"""A recorded run with its ablation."""


def ablation(
    parts: Sequence[MeasuredPart], lines: Sequence[MeasuredLine] = (), slack: Sequence[MeasuredVariant] = ()
) -> Ablation:
    """An ablation of five rounds with these parts."""
    return Ablation("gemm", "GPU", 1000.0, 0.1, 5, True, list(parts), {}, [], list(slack), list(lines))
