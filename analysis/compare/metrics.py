"""Every metric of a launch beside that of another one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MetricChange:
    """``before`` in the other launch, None where it lacks the metric or holds another unit of it;
    ``pct`` by which this launch differs from it, None where that is not defined."""

    before: float | None
    pct: float | None


def metric_changes(
    now: Mapping[str, tuple[float, str]], before: Mapping[str, tuple[float, str]]
) -> dict[str, MetricChange]:
    """The change of each metric of ``now``; metrics are pairs of value and unit by name."""
    return {name: _change(value, unit, before.get(name)) for name, (value, unit) in now.items()}


def _change(value: float, unit: str, before: tuple[float, str] | None) -> MetricChange:
    if before is None or before[1] != unit or not math.isfinite(before[0]):
        return MetricChange(None, None)
    old = before[0]
    if not math.isfinite(value) or (old == 0.0 and value != 0.0):
        return MetricChange(old, None)
    return MetricChange(old, 0.0 if value == old else 100.0 * (value - old) / abs(old))
