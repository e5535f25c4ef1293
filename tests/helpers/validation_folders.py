"""Recordings of validations as ``--measure`` writes them: fabricated cycles and a recorded run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ncubble.analysis.account.shares import removed
from ncubble.kernels.catalog import ablation
from ncubble.recordings import ROOT

RUN = ROOT / "tensor_core_gemm" / "stages3"
COST = {"wait": 5.0, "copy": 20.0, "sync": 8.0, "smem": 10.0, "epilogue": 2.0}
"""Percent of cycles that each part takes in a fabricated kernel."""


def cell(gone: float, work: float = 1.0, products: float = 1000.0) -> dict[str, Any]:
    """A variant without ``gone`` percent of 1000 cycles, measured twice."""
    cycles = (100.0 - gone) * 10.0 * work
    return {"cycles": [cycles * 0.99, cycles * 1.01], "tensor_pct": [50.0], "products": products * work, "work": work}


def measured(words: Iterable[str] = ablation.VARIANTS, cost: Mapping[str, float] = COST) -> dict[str, Any]:
    """Cells of variants whose parts do not overlap, the tail among them."""
    found = {word: cell(sum(cost[part] for part in removed(word))) for word in ("none", *words)}
    return {**found, "tail": cell(1.5, work=33 / 32)}


def account_folder(folder: Path) -> Path:
    """A case with a recorded run, and one whose run is missing."""
    case = {"case": "k/stages3", "split": "dev", "run": str(RUN), "launch": 0, "variants": measured()}
    content = {"schema": 1, "device": {"name": "GPU"}, "cases": [case, {**case, "case": "k/lost", "run": "whole/two"}]}
    (folder / "ablation.json").write_text(json.dumps(content))
    return folder
