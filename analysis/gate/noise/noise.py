"""The statistical test of the gate: repeats against repeats, with the measured noise of the machine
as prior.

The rule. A metric *regressed* if its mean is worse than the baseline's mean by more than

    decision = max(limit / 2, t(1 - ALPHA, df) * sd * sqrt(1/n + 1/m))        [percent of the baseline's mean]

so a loss must be large enough to matter *and* beyond chance (one-sided, ALPHA = 0.1 % per metric).
``limit`` is the loss that must not slip through; deciding at half of it is what makes a loss of the
whole limit very likely to be found.

With five repeats a side, a t test on their own variance has 8 degrees of freedom and finds a 1 %
loss at a coefficient of variation of 0.26 % in only 87 of 100 cases. But the noise of the machine
is known beforehand: so the variance is moderated,

    sd^2 = (PRIOR_DF * cv^2 + sum of squared deviations) / (PRIOR_DF + n + m - 2),   df = PRIOR_DF + n + m - 2

(G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004,
doi:10.2202/1544-6115.1027). Where the repeats themselves contradict the prior (chi-square test at
DOUBT) they are believed alone, with the degrees of freedom of the smaller side (Welch's lower
bound): such repeats are mostly far from normal, with rare slow launches. Both sides share one
variance: a single new launch has none of its own, and the rule then is a prediction interval.

A loss of at least ``limit`` that chance or the clock could explain is *inconclusive*, not passed;
so is no loss at all where the repeats scatter so much that ``decision`` exceeds BLIND times
``limit``: a gate that cannot fail must not pass.

Two things shift all repeats of a side together, and no number of repeats averages them out.
Launches of one process differ from those of the next, and one GPU from another of its model:
``Shifts`` holds their measured deviations, and

    error^2 = sd^2 * (1/n + 1/m) + run^2 * (1/runs + 1/runs') + gpu^2 * (sum over GPUs of (share - share')^2)

takes the place of ``sd * sqrt(1/n + 1/m)``; the last term is 0 on one and the same GPU. And the SM
clock: see ``clock_shift``. ``benchmarks/gate/proof.py`` holds all of it against recorded repeats of
several GPUs, ``benchmarks/gate/power.py`` simulates it. Repeats are taken as normal around what
they share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtri, ndtri, stdtr, stdtrit

from ncubble.analysis.gate.noise.clock import NO_CLOCK, ClockShift, clock_shift

ALPHA = 1e-3
POWER = 0.99
PRIOR_DF = 12
DOUBT = 1e-3
BLIND = 3.0


@dataclass(frozen=True)
class Sample:
    """Repeats of one side. What is not given is not modelled; what is given has one entry per
    value.

    ``clocks``: SM clock in Hz, NaN where unknown. ``runs``: names of the processes. ``gpus``:
    UUIDs; an empty one is unknown and counts as a GPU of its own.
    """

    values: tuple[float, ...]
    clocks: tuple[float, ...] = ()
    runs: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("clocks", "runs", "gpus"):
            if len(getattr(self, name)) not in (0, len(self.values)):
                raise ValueError(f"{len(getattr(self, name))} {name} for {len(self.values)} values")

    @classmethod
    def of(cls, values: Sequence[float] | Sample) -> Sample:
        """``values`` as they are, or as a sample of which nothing else is known."""
        return values if isinstance(values, Sample) else cls(tuple(values))


@dataclass(frozen=True)
class Shifts:
    """Deviations, in percent, of what all launches of a process share (``run``) and all on one GPU
    (``gpu``); range of the exponent by which the metric follows the SM clock (``clock``), (0, 0)
    for none."""

    run_pct: float = 0.0
    gpu_pct: float = 0.0
    clock: tuple[float, float] = (0.0, 0.0)


NO_SHIFTS = Shifts()


@dataclass(frozen=True)
class NoiseTest:
    """New repeats against a baseline's. All ``*_pct`` are percent of the baseline's mean.

    ``loss_pct`` is positive where the new mean is worse; ``decision_pct`` is the loss beyond which
    it counts; ``detectable_pct`` the true loss that is found with a probability of ``POWER``;
    ``p_value`` one-sided; ``noisy`` says that the repeats scatter more than the prior allows.
    ``clock_pct`` is the part of ``loss_pct`` that another SM clock may explain, of its sign: only
    the rest counts. ``clock_room_pct`` is how large a loss the clock may explain. ``other_gpu``:
    another GPU of the model has its part in the error.
    """

    outcome: str
    change_pct: float
    loss_pct: float
    decision_pct: float
    detectable_pct: float
    p_value: float
    noisy: bool
    clock_pct: float = 0.0
    clock_room_pct: float = 0.0
    other_gpu: bool = False

    @property
    def threshold_pct(self) -> float:
        """The loss beyond which the metric fails, with what the clock may explain."""
        return self.decision_pct + self.clock_room_pct


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); the deviation of one value is NaN."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def moderated(squares: float, df: int, cv_pct: float) -> tuple[float, int, bool]:
    """(sd, its degrees of freedom, whether the prior was dropped) from squares with ``df`` and a
    prior ``cv_pct``."""
    if df > 0 and squares > chdtri(df, DOUBT) * cv_pct**2:
        return math.sqrt(squares / df), df, True
    return math.sqrt((PRIOR_DF * cv_pct**2 + squares) / (PRIOR_DF + df)), PRIOR_DF + df, False


def compare(
    baseline: Sequence[float] | Sample,
    now: Sequence[float] | Sample,
    *,
    better: str,
    limit_pct: float,
    cv_pct: float,
    shifts: Shifts = NO_SHIFTS,
) -> NoiseTest:
    """Compare ``now`` (at least 1 value) with ``baseline`` (at least 2, mean not 0) by the rule of
    this module.

    ``outcome`` is ``pass``, ``regressed``, ``improved`` or ``inconclusive``. ``better``: ``higher``
    or ``lower``. Raises ValueError for fewer values, values that are not finite, or another
    direction.
    """
    first, other = Sample.of(baseline), Sample.of(now)
    if len(first.values) < 2 or not other.values or better not in ("higher", "lower"):
        raise ValueError(f"cannot compare {len(other.values)} with {len(first.values)} values, better={better!r}")
    before, after = (math.fsum(side.values) / len(side.values) for side in (first, other))
    if not (math.isfinite(before) and math.isfinite(after)) or before == 0:
        raise ValueError(f"cannot compare a mean of {after} with a baseline of {before}")
    clock = _clock(first, other, abs(before), cv_pct, shifts)
    sd, df, noisy = moderated(*_residual(first, other, abs(before), clock), cv_pct)
    if noisy:
        df = max(1, min(len(first.values), len(other.values)) - 1)
    other_gpu = _apart(first.gpus, other.gpus)
    error = math.sqrt(
        sd**2 * (1 / len(first.values) + 1 / len(other.values))
        + shifts.run_pct**2 * sum(1 / len(set(side.runs)) for side in (first, other) if side.runs)
        + shifts.gpu_pct**2 * other_gpu
    )
    decision = max(limit_pct / 2, float(stdtrit(df, 1 - ALPHA)) * error)
    change = (after - before) / abs(before) * 100
    sign = -1 if better == "higher" else 1
    loss, explained = sign * change, clock.explains(change)
    rest, room = loss - sign * explained, max(clock.high if sign > 0 else -clock.low, 0.0)
    hidden = max(-clock.low if sign > 0 else clock.high, 0.0)  # a gain from the clock, which may hide a loss
    return NoiseTest(
        outcome=_outcome(rest, loss, decision, limit_pct),
        change_pct=change,
        loss_pct=loss,
        decision_pct=decision,
        detectable_pct=decision + room + hidden + float(ndtri(POWER)) * error,
        p_value=float(stdtr(df, -rest / error)),
        noisy=noisy,
        clock_pct=sign * explained,
        clock_room_pct=room,
        other_gpu=other_gpu > 0,
    )


def _clock(first: Sample, other: Sample, before: float, cv_pct: float, shifts: Shifts) -> ClockShift:
    if shifts.clock == (0.0, 0.0) or not first.clocks or not other.clocks:
        return NO_CLOCK
    sides = [[value / before * 100 for value in side.values] for side in (first, other)]
    return clock_shift(list(zip(sides, (first.clocks, other.clocks), strict=True)), shifts.clock, cv_pct)


def _residual(first: Sample, other: Sample, before: float, clock: ClockShift) -> tuple[float, int]:
    """Squares around the means of the sides, less what the clock accounts for, and their degrees of
    freedom."""
    if clock.squares is not None:
        return clock.squares, len(first.values) + len(other.values) - 3
    squares = 0.0
    for side in (first, other):
        mean = math.fsum(side.values) / len(side.values)
        squares += math.fsum((value - mean) ** 2 for value in side.values)
    return squares / before**2 * 1e4, len(first.values) + len(other.values) - 2


def _apart(first: Sequence[str], other: Sequence[str]) -> float:
    """Variance, in units of that between GPUs, by which two sides differ: 0 on one GPU, 2 on one
    each."""
    if not first or not other:
        return 0.0
    shares: Counter[str] = Counter()
    for sign, side in ((1, first), (-1, other)):
        for gpu in side:
            shares[gpu or f"unknown {sign}"] += sign / len(side)  # type: ignore[assignment]
    variance = math.fsum(share**2 for share in shares.values())
    return variance if variance > 1e-9 else 0.0


def _outcome(rest: float, loss: float, decision: float, limit: float) -> str:
    """``rest`` is what the clock leaves of ``loss``; a loss of the whole limit that it may explain
    is not passed."""
    if rest > decision:
        return "regressed"
    if -rest > decision:
        return "improved"
    return "inconclusive" if loss >= limit or decision > BLIND * limit else "pass"
