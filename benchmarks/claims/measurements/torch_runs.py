"""PyTorch's allocator and streams, each in a process of its own: limits that it is given stay with
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.claims.measurements.tools import FOLDER
from benchmarks.claims.registry import measurement


def _told(what: str, **environment: str) -> dict[str, Any]:
    argv = [sys.executable, str(FOLDER / "torch_probe.py"), what]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=os.environ | environment, check=False)
    if done.returncode:
        raise RuntimeError(f"torch_probe.py {what}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@measurement(timeout_s=70)
def torch_pool() -> dict[str, Any]:
    """What PyTorch reserves for one element, what a hit costs, and whether holes are used."""
    return _told("pool")


@measurement(timeout_s=130)
def torch_backend() -> dict[str, Any]:
    """The allocator that PyTorch uses, without and with PYTORCH_ALLOC_CONF."""
    with ThreadPoolExecutor(2) as pool:
        chosen_one = pool.submit(_told, "backend", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
        default_one = pool.submit(_told, "backend")
        chosen, default = chosen_one.result(), default_one.result()
    return {
        "default_backend": default["backend"],
        "chosen_backend": chosen["backend"],
        "hit_us": chosen["hit_us"],
    }


@measurement(timeout_s=70)
def torch_streams() -> dict[str, Any]:
    """The stream that PyTorch's work goes to, and whether a matrix product waits for what was
    queued there."""
    return _told("streams")
