"""Whether two points of a sweep differ by more than repeats of one launch do. Pure."""

from __future__ import annotations

from ncubble.dashboard.sweep_model import Point
from ncubble.dashboard.words import number


def explained_by_noise(best: Point, worst: Point, name: str) -> bool:
    """Whether the gate's noise model takes the means of ``name`` (``duration_ns`` or ``cycles``) for the same.

    False where the worse point has no repeats: then nothing is tested.
    """
    from ncubble.analysis.gate_metrics import BY_NAME
    from ncubble.analysis.noise import compare

    metric = BY_NAME.get(name)
    before, after = ([value for row in point.rows if (value := number(row.get(name)))] for point in (worst, best))
    if metric is None or len(before) < 2 or not after:
        return False
    found = compare(before, after, better=metric.better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct)
    return found.outcome == "pass"
