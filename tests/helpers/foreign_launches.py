"""The modules of benchmarks/foreign, and what its launches could have measured."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MODULES = ("experiment", "rules", "facts", "plan", "programs", "prepare", "measure", "depths", "__main__")


def modules(repository: Path) -> Iterator[Any]:
    """Those that need no GPU, by name; for a fixture to yield from."""
    yield SimpleNamespace(**{name: importlib.import_module(f"benchmarks.foreign.{name}") for name in MODULES})


def measured(foreign: Any, cycles: float, **other: Any) -> Any:
    values = {"kernel": "k", "duration_ns": cycles, "tensor_pct": 50.0, "products": 100.0, **other}
    return foreign.rules.Measured(cycles=cycles, **values)


def tried(foreign: Any, name: str, cycles: float, causes: str = "", work: float = 1.0, **other: Any) -> Any:
    """A change with as many MMAs as its work wants; other members of Change and of Measured by
    name."""
    known = {key: other.pop(key) for key in ("kernel", "products", "tensor_pct") if key in other}
    change = foreign.experiment.Change(name, tuple(causes.split()), **other)
    return foreign.rules.Tried(change, work, measured(foreign, cycles, **{"products": 100.0 * work, **known}))
