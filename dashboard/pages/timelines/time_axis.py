"""The time axis of lanes: its unit follows the window, and a place on it is told as finely as the
window shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ncubble.text.values import SI_TIME

_STEPS = 2000
"""Resolvable positions in a window: about its width in pixels."""


class AxisUnit(NamedTuple):
    """A unit of time, and how many ns it has."""

    ns: float
    name: str


UNITS = tuple(AxisUnit(ns, name) for ns, name in SI_TIME)
MICROSECONDS = UNITS[2]


def unit_of(span_ns: float) -> AxisUnit:
    """The largest unit of which a window has two."""
    return next((unit for unit in UNITS if span_ns >= 2 * unit.ns), UNITS[-1])


@dataclass(frozen=True)
class TimeAxis:
    """From ``low`` to ``high`` (ns), in ``unit``."""

    low: float
    high: float
    unit: AxisUnit

    @property
    def span(self) -> float:
        """In ns."""
        return self.high - self.low

    @property
    def range(self) -> list[float]:
        """Its ends in its unit."""
        return [self.low / self.unit.ns, self.high / self.unit.ns]

    def place(self, ns: float) -> str:
        """A time with as many digits as the window tells apart, a hundredth of a ns at most."""
        finest = max(self.span / _STEPS, 0.01) / self.unit.ns
        return f"{ns / self.unit.ns:,.{max(0, math.ceil(-math.log10(finest)))}f} {self.unit.name}"
