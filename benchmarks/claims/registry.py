"""Measurements by name. Each returns a flat dictionary of numbers, booleans or short texts."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MODULES = (
    "compile_checks",
    "device_checks",
    "probe_runs",
    "layout_runs",
    "gemm_runs",
    "copy_runs",
    "attention_runs",
    "stream_runs",
    "host_runs",
    "memory_runs",
    "torch_runs",
    "two_gpus.peer_runs",
)


@dataclass(frozen=True)
class Measurement:
    """``run`` gives numbers, booleans or short texts by name; it is ended after ``timeout_s`` seconds. ``gpus``: how
    many GPUs of one host it needs."""

    name: str
    run: Callable[[], dict[str, Any]]
    timeout_s: float = 40.0
    needs_gpu: bool = True
    gpus: int = 1

    def take(self) -> dict[str, Any]:
        """The values, as JSON knows them."""
        return {key: _plain(value) for key, value in self.run().items()}


KNOWN: dict[str, Measurement] = {}
Run = Callable[[], dict[str, Any]]


def measurement(timeout_s: float = 40.0, needs_gpu: bool = True, gpus: int = 1) -> Callable[[Run], Run]:
    """Registers the decorated function under its own name."""

    def register(function: Run) -> Run:
        KNOWN[function.__name__] = Measurement(function.__name__, function, timeout_s, needs_gpu, gpus)
        return function

    return register


def load_all() -> dict[str, Measurement]:
    """Every measurement, in the order of the modules."""
    for name in MODULES:
        importlib.import_module(f"benchmarks.claims.measurements.{name}")
    return KNOWN


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's, NaN as None; floats with six digits, more than any measurement
    here repeats."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(f"{value:.6g}") if isinstance(value, float) else value
