"""What removing one cause gives back, from its share of the account.

Parts are not independent: kernels that were cured of one planted disease lost time of other parts,
too (barriers wait less where copies are cheap, for example), and the ablations show the same
overlaps. How much goes along is not known before. The estimate is the mean of two cases: nothing
else goes, or all other idle time shrinks in proportion. The least is half of the cause's share, the
rest of which others may take. How far all this is off is measured by
``make validate``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.model.predict import predict
from ncubble.analysis.report.report import Launch

ALONG = 0.5
"""Fraction of the other idle time's proportional share that vanishes with the cause."""
KEPT = 0.5
"""Fraction of the cause's own share that other causes may take over once it is removed (strongest
overlaps of the ablations)."""
DEEPEST = 8


@dataclass(frozen=True)
class Gain:
    """In percent of kernel time: expected, least, most."""

    expected: float
    low: float
    high: float

    def at_most(self, limit: float) -> Gain:
        """The same, where no more than ``limit`` can be had."""
        return Gain(min(self.expected, limit), min(self.low, limit), min(self.high, limit))


def gain_of(pct: float, idle_pct: float) -> Gain:
    """The gain from removing a cause of ``pct`` of kernel time, out of ``idle_pct`` that is idle in
    all."""
    others = max(0.0, idle_pct - pct)
    along = others * pct / idle_pct if idle_pct > 0 else 0.0
    return Gain(pct + ALONG * along, KEPT * pct, pct + along)


def depth_gain(launch: Launch) -> Gain | None:
    """The gain of the best depth beyond the present one, in percent of kernel time, 0 if none is
    better.

    None where the present depth or the effect of another is not identified, or no deeper ring fits.
    """
    now = pipeline_of(launch)
    if isinstance(now, Unidentified):
        return None
    deeper = (predict(now, depth) for depth in range(now.stages + 1, DEEPEST + 1))
    best = max(filter(None, deeper), key=lambda prediction: prediction.tensor_elapsed_pct, default=None)
    if best is None:
        return None
    expected, low, high = (
        max(0.0, 100.0 * (1.0 - now.busy_pct / share)) for share in (best.tensor_elapsed_pct, best.low, best.high)
    )
    return Gain(expected, low, high)
