"""The facts file: what a profiled kernel program tells about itself (contract in docs/architecture.md)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.kernels.case import Case
from ncubble.kernels.launch import Prepared

VARIABLE = "NCUBBLE_FACTS"


def kernel_facts(case: Case) -> dict[str, Any]:
    """Member ``kernel``: FLOPs and bytes are per launch; None where the spec counts none."""
    stages = case.parameters.get("stages")
    return {
        "name": case.spec.name,
        "function": case.spec.entry,
        "parameters": case.told,
        "shape": dict(case.shape),
        "stages": stages if isinstance(stages, int) else None,
        "flops": case.flops / case.launches or None,
        "bytes": case.bytes / case.launches,
        "dtype": case.spec.dtype,
    }


def facts(prepared: Prepared, clocks: dict[str, int]) -> dict[str, Any]:
    """The whole object: kernel, build, device, clocks."""
    device = prepared.gpu.facts
    return {
        "kernel": kernel_facts(prepared.case),
        "build": asdict(prepared.build),
        "device": {
            "name": device.name,
            "compute_capability": ".".join(str(part) for part in device.compute_capability),
            "driver": device.driver,
        },
        "clocks": clocks,
    }


def write_facts(prepared: Prepared, clocks: dict[str, int]) -> None:
    """Writes the facts to the path in ``NCUBBLE_FACTS``, if set; raises MeasurementError if that cannot be written."""
    target = os.environ.get(VARIABLE)
    if not target:
        return
    try:
        Path(target).write_text(json.dumps(facts(prepared, clocks), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{VARIABLE}={target}: cannot be written: {error}", "name a writable file") from error
