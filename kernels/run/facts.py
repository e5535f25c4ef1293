"""The facts file: what a profiled kernel program tells about itself (contract in docs/reference/runs.md)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.prepared import Prepared
from ncubble.kernels.spec.case import Case

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
    return {
        "kernel": kernel_facts(prepared.case),
        "build": asdict(prepared.build),
        "device": device_facts(prepared.gpu),
        "clocks": clocks,
    }


def device_facts(gpu: Gpu) -> dict[str, str]:
    """Member ``device``."""
    capability = ".".join(str(part) for part in gpu.facts.compute_capability)
    return {"name": gpu.facts.name, "compute_capability": capability, "driver": gpu.facts.driver}


def write_facts(prepared: Prepared, clocks: dict[str, int]) -> None:
    """Writes the facts to the path in ``NCUBBLE_FACTS``, if set; raises MeasurementError if that cannot be written."""
    _write(facts(prepared, clocks))


def write_batch_facts(launches: list[dict[str, Any]], gpu: Gpu) -> None:
    """The same for a program of many launches, with what ``kernel_facts`` says of each, in their order."""
    _write({"launches": launches, "device": device_facts(gpu), "clocks": gpu.clocks()})


def _write(content: dict[str, Any]) -> None:
    target = os.environ.get(VARIABLE)
    if not target:
        return
    try:
        Path(target).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{VARIABLE}={target}: cannot be written: {error}", "name a writable file") from error
