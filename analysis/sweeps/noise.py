"""Whether the best and the worst point of a series differ by more than repeats of one launch do.
Pure.

Welch's test of the two means, two-sided: it takes neither equal variances nor a prior. As best and
worst were picked among all points, its p-value is multiplied by the number of pairs they were
picked from (Bonferroni). Repeats are taken as independent and about normal. A difference that the
test cannot see may still be there: few repeats see little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ncubble.analysis.sweeps.model import SweepPoint
from ncubble.text.values import number

ALPHA = 0.05
"""Differences with a larger corrected p-value may be chance."""


def noise_words(best: SweepPoint, worst: SweepPoint, name: str, points: int) -> str:
    """What repeats say of the difference in ``name`` between two of ``points`` points; empty where
    it is no chance.

    Empty, too, where either point has no repeats: then nothing is tested.
    """
    p = p_value(best, worst, name, points)
    if p is None or p <= ALPHA:
        return ""
    pairs = math.comb(points, 2)
    among = f", corrected for the best and worst of {points} values" if pairs > 1 else ""
    return f", which noise alone can explain (p = {p:.2f} from the spread of the repeats{among})"


def p_value(best: SweepPoint, worst: SweepPoint, name: str, points: int) -> float | None:
    """Of no difference between the means of ``name``, corrected for the choice of two among
    ``points``; at most 1.

    None where either point has fewer than two values.
    """
    first, second = ([value for row in point.rows if (value := number(row.get(name)))] for point in (best, worst))
    if len(first) < 2 or len(second) < 2:
        return None
    return min(1.0, welch(first, second) * max(math.comb(points, 2), 1))


def welch(left_values: Sequence[float], right_values: Sequence[float]) -> float:
    """Two-sided p-value of equal means (B. L. Welch, Biometrika 34, 1947); each side has two values
    or more."""
    from scipy.special import stdtr

    from ncubble.analysis.gate.noise import mean_sd

    (first, spread), (second, scatter) = mean_sd(left_values), mean_sd(right_values)
    left, right = spread**2 / len(left_values), scatter**2 / len(right_values)
    if left + right == 0.0:
        return 1.0 if first == second else 0.0
    freedom = (left + right) ** 2 / (left**2 / (len(left_values) - 1) + right**2 / (len(right_values) - 1))
    return float(2 * stdtr(freedom, -abs(first - second) / math.sqrt(left + right)))
