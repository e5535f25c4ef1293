"""Rows of launches as sweeps read them."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.sweeps.sweeps import Sweep, sweeps

SPLIT = [["tensor_busy", 60.0], ["data_wait", 30.0], ["issue", 10.0]]
UNSPLIT = [["tensor_busy", 50.0], ["idle", 50.0]]


def row(number: int = 0, took: float | None = 1e5, **changes: Any) -> dict[str, Any]:
    """A row of the overview, with what sweeps read of it; ``stages`` and ``k`` stand for parameters
    and shape."""
    base = {
        "id": f"0123456789abcdef/{number}",
        "kernel": "gemm",
        "name": "gemm",
        "demangled": "gemm",
        "gpu": "H200",
        "launch": number,
        "path": f"runs/{number}",
        "duration_ns": took,
        "cycles": None if took is None else took * 1.75,
        "tensor": 60.0,
        "busy": 60.0,
        "unit": "tensor",
        "account": SPLIT,
        "parameters": {"stages": changes.pop("stages", 2), "vec": changes.pop("vec", 16)},
        "dims": {"m": 4096, "k": changes.pop("k", 4096)},
        "shape": "",
    }
    return {**base, **changes}


def sweep_over(rows: list[dict[str, Any]], parameter: str = "stages") -> Sweep:
    """The only sweep of ``parameter`` among the rows."""
    (sweep,) = [sweep for sweep in sweeps(rows) if sweep.parameter == parameter]
    return sweep
