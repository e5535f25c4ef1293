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

takes the place of ``sd * sqrt(1/n + 1/m)``; the last term is 0 on one and the same GPU.

And the SM clock. A kernel that waits for L2 or DRAM, which keep their own clocks, spends *more SM
cycles* when the SMs run faster: its cycles grow as ``clock^e`` with an exponent between 0 (all of
it is SM work) and 1 (its time is constant), and its tensor utilization falls likewise. The clock
moves with temperature, power and from one GPU to the next, so between two recordings of the same
kernel such a metric moves, and no repeat averages that out. The exponent is taken from the repeats
themselves, from how metric and clock vary together around the mean of each side, where that is
known to KNOWN or better; else it may be anything in the range that physics allows. What a kernel
does when the clock varies from launch to launch is not quite what it does on another GPU: SLACK
widens the range. The most favourable exponent of the range is believed, so that a change counts
only as far as no clock explains it.

``benchmarks/gate/proof.py`` holds all of it against recorded repeats of several GPUs, and simulates
it. Repeats are taken as normal around what they share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import chdtri, ndtri, stdtr, stdtrit

ALPHA = 1e-3
POWER = 0.99
PRIOR_DF = 12
DOUBT = 1e-3
BLIND = 3.0
KNOWN = 0.25
"""Standard error of an exponent of the clock above which the repeats do not determine it."""
SLACK = 0.15
_ERRORS = 2.0


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


@dataclass(frozen=True)
class ClockShift:
    """``clock_pct``: change of the mean clock. ``low`` and ``high``: the change of the metric that
    it may have made, in percent. ``exponent`` and ``squares`` (what is left of the squares around
    the means of the sides) are None where the exponent is not known."""

    clock_pct: float = 0.0
    low: float = 0.0
    high: float = 0.0
    exponent: float | None = None
    squares: float | None = None

    def explains(self, change_pct: float) -> float:
        """The part of ``change_pct`` that the clock may have made: of its sign, and no larger."""
        if change_pct > 0:
            return min(change_pct, max(self.high, 0.0))
        return max(change_pct, min(self.low, 0.0))


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); the deviation of one value is NaN."""
    mean = fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(_squares(values) / (len(values) - 1))


def _squares(values: Sequence[float]) -> float:
    """Sum of the squared deviations from the mean."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


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
    before, after = fmean(first.values), fmean(other.values)
    if not (math.isfinite(before) and math.isfinite(after)) or before == 0:
        raise ValueError(f"cannot compare a mean of {after} with a baseline of {before}")
    sides = [[value / abs(before) * 100 for value in side.values] for side in (first, other)]
    clock = clock_shift(list(zip(sides, (first.clocks, other.clocks), strict=True)), shifts.clock, cv_pct)
    squares, df = clock.squares, len(first.values) + len(other.values) - 3
    if squares is None:  # the clock accounts for none of the scatter, and takes no degree of freedom
        squares, df = sum(_squares(side.values) for side in (first, other)) / before**2 * 1e4, df + 1
    sd, df, noisy = moderated(squares, df, cv_pct)
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


def clock_shift(
    sides: Sequence[tuple[Sequence[float], Sequence[float]]], allowed: tuple[float, float], cv_pct: float
) -> ClockShift:
    """The shift between two sides of (values in percent of the first side's mean, clocks in Hz).

    ``allowed``: range of the exponent; ``cv_pct``: the noise expected, by which the exponent's
    error is judged where the repeats happen to show less. None where a clock is unknown.
    """
    known = all(clocks and all(clock > 0 and math.isfinite(clock) for clock in clocks) for _, clocks in sides)
    if allowed == (0.0, 0.0) or not known:
        return ClockShift()
    logs = [[100 * math.log(clock) for clock in clocks] for _, clocks in sides]
    moved = fmean(logs[1]) - fmean(logs[0])
    xy = 0.0
    for (values, _), x in zip(sides, logs, strict=True):
        mean_x, mean_y = fmean(x), fmean(values)
        xy += math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, values, strict=True))
    xx, yy = sum(map(_squares, logs)), sum(_squares(values) for values, _ in sides)
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
