"""Names of GPUs, short and full."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_LEFT_OUT = re.compile(r"NVIDIA|GeForce|Graphics|Device|\d+GB|HBM\w*")


def short_gpu(device: Any) -> str | None:
    """``H200`` of ``NVIDIA H200``; a long name loses the memory size and the form factor,
    ``device`` keeps them."""
    words = [word for word in str(device or "").split() if not _LEFT_OUT.fullmatch(word)]
    return " ".join(words).split("-")[0] or None


def device_of(row: Mapping[str, Any]) -> str:
    """The full name of a row's GPU, by which launches are grouped; the short one if there is no
    other."""
    return str(row.get("device") or row.get("gpu") or "")


def gpu_names(devices: Iterable[str]) -> dict[str, str]:
    """Display name of each GPU in ``devices``: its short name, or the full one if two share the
    short one."""
    short = {device: short_gpu(device) or device for device in devices}
    shared = Counter(short.values())
    return {device: name if shared[name] == 1 else device for device, name in short.items()}
