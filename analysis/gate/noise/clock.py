"""How much of a change the SM clock explains.

A kernel that waits for L2 or DRAM, which keep their own clocks, spends *more SM cycles* when the
SMs run faster: its cycles grow as ``clock^e`` with an exponent between 0 (all of it is SM work) and
1 (its time is constant), and its tensor utilization falls likewise. The clock moves with
temperature, power and from one GPU to the next, so between two recordings of the same kernel such a
metric moves, and no repeat averages that out.

The exponent is taken from the repeats themselves, from how metric and clock vary together around
the mean of each side, where that is known to KNOWN or better; else it may be anything in the range
that physics allows. What a kernel does when the clock varies from launch to launch is not quite
what it does on another GPU: SLACK widens the range. The most favourable exponent of the range is
believed, so that a change counts only as far as no clock explains it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

KNOWN = 0.25
"""Standard error of an exponent above which the repeats do not determine it."""
SLACK = 0.15
_ERRORS = 2.0


@dataclass(frozen=True)
class ClockShift:
    """``clock_pct``: change of the mean clock. ``low`` and ``high``: the change of the metric that
    it may have made, in percent. ``exponent`` and ``squares`` (what is left of the squares around
    the means of the sides) are None where the exponent is not known."""

    clock_pct: float
    low: float
    high: float
    exponent: float | None = None
    squares: float | None = None

    def explains(self, change_pct: float) -> float:
        """The part of ``change_pct`` that the clock may have made: of its sign, and no larger."""
        if change_pct > 0:
            return min(change_pct, max(self.high, 0.0))
        return max(change_pct, min(self.low, 0.0))


NO_CLOCK = ClockShift(0.0, 0.0, 0.0)


def clock_shift(
    sides: Sequence[tuple[Sequence[float], Sequence[float]]], allowed: tuple[float, float], cv_pct: float
) -> ClockShift:
    """The shift between two sides of (values in percent of the first side's mean, clocks in Hz).

    ``allowed``: range of the exponent; ``cv_pct``: the noise expected, by which the exponent's
    error is judged where the repeats happen to show less. ``NO_CLOCK`` where a clock is unknown.
    """
    if any(not (clock > 0 and math.isfinite(clock)) for _, clocks in sides for clock in clocks):
        return NO_CLOCK
    logs = [[100 * math.log(clock) for clock in clocks] for _, clocks in sides]
    moved = _mean(logs[1]) - _mean(logs[0])
    xx = xy = yy = 0.0
    for (values, _), x in zip(sides, logs, strict=True):
        dx, dy = _centred(x), _centred(values)
        xx += math.fsum(a * a for a in dx)
        xy += math.fsum(a * b for a, b in zip(dx, dy, strict=True))
        yy += math.fsum(b * b for b in dy)
    df = sum(len(x) for x in logs) - 3
    low, high = allowed
    exponent = squares = None
    if xx > 0 and df > 0:
        slope = min(max(xy / xx, low), high)
        left = yy - 2 * slope * xy + slope**2 * xx
        error = math.sqrt(max(left / df, cv_pct**2 / 4) / xx)
        if error <= KNOWN:
            exponent, squares = slope, max(left, 0.0)
            reach = _ERRORS * error + SLACK
            low, high = max(low, slope - reach), min(high, slope + reach)
    ends = (low * moved, high * moved)
    return ClockShift(moved, min(ends), max(ends), exponent, squares)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _centred(values: Sequence[float]) -> list[float]:
    mean = _mean(values)
    return [value - mean for value in values]
