"""The statistical test of the gate: repeats against repeats, with the measured noise of the machine as prior.

The rule. A metric *regressed* if its mean is worse than the baseline's mean by more than

    decision = max(limit / 2, t(1 - ALPHA, df) * sd * sqrt(1/n + 1/m))        [percent of the baseline's mean]

so a loss must be large enough to matter *and* beyond chance (one-sided, ALPHA = 0.1 % per metric). ``limit`` is the
loss that must not slip through; deciding at half of it is what makes a loss of the whole limit very likely to be
found.

With five repeats a side, a t test on their own variance has 8 degrees of freedom and finds a 1 % loss at a
coefficient of variation of 0.26 % in only 87 of 100 cases. But the noise of the machine is known beforehand: so the
variance is moderated,

    sd^2 = (PRIOR_DF * cv^2 + sum of squared deviations) / (PRIOR_DF + n + m - 2),   df = PRIOR_DF + n + m - 2

(G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004, doi:10.2202/1544-6115.1027).
Where the repeats themselves contradict the prior (chi-square test at DOUBT) they are believed alone. Both sides
share one variance: a single new launch has none of its own, and the rule then is a prediction interval.

A loss of at least ``limit`` that chance could explain is *inconclusive*, not passed; so is no loss at all where the
repeats scatter so much that ``decision`` exceeds BLIND times ``limit``: a gate that cannot fail must not pass.
False alarms stay below ALPHA while the true variation does not exceed the prior; ``benchmarks/gate_power.py``
prints both error rates, also beyond it. Repeats are taken as independent and normal: drift between machine starts
is not part of this model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtri, ndtri, stdtr, stdtrit

ALPHA = 1e-3
POWER = 0.99
PRIOR_DF = 12
DOUBT = 1e-3
BLIND = 3.0


@dataclass(frozen=True)
class Comparison:
    """New repeats against a baseline's. All ``*_pct`` are percent of the baseline's mean.

    ``loss_pct`` is positive where the new mean is worse; ``decision_pct`` is the loss beyond which it counts;
    ``detectable_pct`` the true loss that is found with a probability of ``POWER``; ``p_value`` one-sided;
    ``noisy`` says that the repeats scatter more than the prior allows.
    """

    outcome: str
    change_pct: float
    loss_pct: float
    decision_pct: float
    detectable_pct: float
    p_value: float
    noisy: bool


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); the deviation of one value is NaN."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(_squares(values, mean) / (len(values) - 1))


def _squares(values: Sequence[float], mean: float) -> float:
    return math.fsum((value - mean) ** 2 for value in values)


def moderated(squares: float, df: int, cv_pct: float) -> tuple[float, int, bool]:
    """(sd, its degrees of freedom, whether the prior was dropped) from squares with ``df`` and a prior ``cv_pct``."""
    if df and squares > chdtri(df, DOUBT) * cv_pct**2:
        return math.sqrt(squares / df), df, True
    return math.sqrt((PRIOR_DF * cv_pct**2 + squares) / (PRIOR_DF + df)), PRIOR_DF + df, False


def compare(
    baseline: Sequence[float], now: Sequence[float], *, better: str, limit_pct: float, cv_pct: float
) -> Comparison:
    """Compare ``now`` (at least 1 value) with ``baseline`` (at least 2, mean not 0) by the rule of this module.

    ``outcome`` is ``pass``, ``regressed``, ``improved`` or ``inconclusive``. ``better``: ``higher`` or ``lower``.
    Raises ValueError for fewer values, values that are not finite, or another direction.
    """
    if len(baseline) < 2 or not now or better not in ("higher", "lower"):
        raise ValueError(f"cannot compare {len(now)} with {len(baseline)} values, better={better!r}")
    before, after = math.fsum(baseline) / len(baseline), math.fsum(now) / len(now)
    if not (math.isfinite(before) and math.isfinite(after)) or before == 0:
        raise ValueError(f"cannot compare a mean of {after} with a baseline of {before}")
    squares = (_squares(baseline, before) + _squares(now, after)) / before**2 * 1e4
    sd, df, noisy = moderated(squares, len(baseline) + len(now) - 2, cv_pct)
    error = sd * math.sqrt(1 / len(baseline) + 1 / len(now))
    decision = max(limit_pct / 2, float(stdtrit(df, 1 - ALPHA)) * error)
    change = (after - before) / abs(before) * 100
    loss = -change if better == "higher" else change
    return Comparison(
        outcome=_outcome(loss, decision, limit_pct),
        change_pct=change,
        loss_pct=loss,
        decision_pct=decision,
        detectable_pct=decision + float(ndtri(POWER)) * error,
        p_value=float(stdtr(df, -loss / error)),
        noisy=noisy,
    )


def _outcome(loss: float, decision: float, limit: float) -> str:
    if loss > decision:
        return "regressed"
    if -loss > decision:
        return "improved"
    return "inconclusive" if loss >= limit or decision > BLIND * limit else "pass"
