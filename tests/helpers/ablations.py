"""Made-up ablations, and runs that were ablated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation, MeasuredLine, MeasuredPart, MeasuredVariant
from ncubble.recordings import VALIDATION

ABLATED: Path = VALIDATION / "ablation" / "agreement" / "gemm_tma-stages2"
"""A recorded run with its ablation."""


WHOLE = (MeasuredPart("data_wait", 28.0, 30.0, 0.2, 31.0), MeasuredPart("sync_wait", 5.0, -2.0, 0.2, -2.0))
"""Parts of an ablation that measured every set, beside the ``rest``."""
REST = MeasuredPart("rest", None, 20.0, None, None)


def ablation(
    parts: Sequence[MeasuredPart], lines: Sequence[MeasuredLine] = (), slack: Sequence[MeasuredVariant] = ()
) -> Ablation:
    """An ablation of five rounds with these parts."""
    return Ablation("gemm", "GPU", 1000.0, 0.1, 5, True, list(parts), {}, [], list(slack), list(lines))
