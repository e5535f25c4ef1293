"""Rows of launches as the roofline reads them; names hold markup that must stay text."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.model.roofs import BUS, GUIDED


def row(index: int, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": f"{index:016x}/0",
        "name": "k<b>",
        "label": "",
        "gpu": "H<i>200",
        "cause": "issue",
        "cause_key": "issue",
        "tensor": 1.0,
        "dram": 1.0,
        "duration_ns": 1e3,
        "recoverable_ns": float(index),
        "tflops": 10.0,
        "intensity": 50.0,
        "dram_gbs": 200.0,
        "flops_from": "run",
        "roofs": {"DRAM": [4800.0, BUS], "FP32": [60.0, GUIDED]},
    }
    return {**base, **changes}
