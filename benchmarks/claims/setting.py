"""Where and when the measurements were taken."""

from __future__ import annotations

import datetime
import re
from typing import Any

from ncubble.errors import NcubbleError
from ncubble.kernels.build import compiler_version, find_tool
from ncubble.kernels.run.device import Gpu


def setting() -> dict[str, Any]:
    """``date``, ``device``, ``driver``, ``nvcc`` and ``ncu``; None where it is not known."""
    device = driver = None
    try:
        gpu = Gpu.open()
        device, driver = gpu.facts.name, gpu.facts.driver
        gpu.close()
    except NcubbleError:
        pass
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": device,
        "driver": driver,
        "nvcc": _nvcc(),
        "ncu": _ncu(),
    }


def gpus() -> int:
    """GPUs that can be measured here; 0 without a driver."""
    from ncubble.kernels.run.device import call_driver

    try:
        call_driver("cuInit", 0)
        return int(call_driver("cuDeviceGetCount")[0])
    except Exception:  # the driver's absence shows as one of many types
        return 0


def _nvcc() -> str | None:
    try:
        found = re.search(r"V([\d.]+)", compiler_version(find_tool("nvcc")))
    except NcubbleError:
        return None
    return found[1] if found else None


def _ncu() -> str | None:
    from ncubble.profiling.ncu import find_ncu

    try:
        return find_ncu().release
    except NcubbleError:
        return None
