"""What vanishes with each variant in time, from launches that were timed in turns.

A round holds every variant once, so that each is compared with the whole kernel of its own round:
what the GPU's clock or temperature does meanwhile meets both. Shares are medians over the rounds;
their intervals hold 95 % of what rounds drawn anew give (bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from ncubble.analysis.ablation.result import Interval, MeasuredPart, MeasuredVariant

DRAWS = 400
BOUNDS = (2.5, 97.5)
CLOCK_PCT = 1.0
"""Variants whose SM clock differs from the whole kernel's by more are noted: their time does not
follow their cycles."""
OFF_CYCLES = "shares of time were within 3.4 points of shares of cycles in 95 % of 69 measured sets of parts"
"""``python -m benchmarks.ablation.timed``, six kernels on an H100."""
OVERHEAD_PCT = 2.0
"""Share of a launch's time that the stamp kernel takes, above which it is noted."""

Parts = Callable[[Sequence[MeasuredVariant]], Sequence[MeasuredPart]]


def median_and_interval(times: Sequence[float]) -> tuple[float, Interval, float]:
    """Median of times, its interval, and its standard error in percent of it."""
    drawn = np.median(np.asarray(times)[_draws(len(times))], axis=1)
    middle = median(times)
    return middle, _interval(drawn), 100.0 * float(drawn.std()) / middle


def gone_by_round(times: Sequence[float], whole: Sequence[float]) -> np.ndarray:
    """What vanishes in each round, in percent of the whole kernel of that round."""
    gone: np.ndarray = 100.0 * (1.0 - np.asarray(times, dtype=float) / np.asarray(whole, dtype=float))
    return gone


def vanished_time(variant: MeasuredVariant, whole: Sequence[float]) -> MeasuredVariant:
    """The variant with what vanishes with it, its standard error and its interval."""
    gone = gone_by_round(variant.times_ns, whole)
    drawn = np.median(gone[_draws(len(gone))], axis=1)
    return replace(variant, gone_pct=float(np.median(gone)), se=float(drawn.std()), interval=_interval(drawn))


def with_intervals(
    parts: Sequence[MeasuredPart], variants: Sequence[MeasuredVariant], whole: Sequence[float], share: Parts
) -> list[MeasuredPart]:
    """``parts``, which ``share`` makes of ``variants``, with the interval of each: that of the
    shares which rounds drawn anew give. Variants without times stay as they are."""
    timed = {variant.name: gone_by_round(variant.times_ns, whole) for variant in variants if variant.times_ns}
    drawn: dict[str, list[float]] = {part.part: [] for part in parts}
    for rounds in _draws(len(whole)):
        medians = {name: float(np.median(gone[rounds])) for name, gone in timed.items()}
        again = [
            replace(variant, gone_pct=medians[variant.name]) if _counts(variant, medians) else variant
            for variant in variants
        ]
        for part in share(again):
            if part.part in drawn:
                drawn[part.part].append(part.measured)
    return [_with_interval(part, drawn[part.part]) for part in parts]


def _counts(variant: MeasuredVariant, medians: Mapping[str, float]) -> bool:
    return variant.gone_pct is not None and variant.name in medians


def _with_interval(part: MeasuredPart, drawn: Sequence[float]) -> MeasuredPart:
    if not drawn:
        return part
    values = np.asarray(drawn)
    return replace(part, se=float(values.std()), interval=_interval(values))


def _draws(rounds: int) -> np.ndarray:
    """``DRAWS`` rows of rounds, drawn with replacement; the same each time."""
    return np.random.default_rng(rounds).integers(0, rounds, (DRAWS, rounds))


def _interval(values: np.ndarray) -> Interval:
    low, high = np.percentile(values, BOUNDS)
    return float(low), float(high)


def doubts(
    variants: Sequence[MeasuredVariant], clock_mhz: float | None, time_ns: float, overhead_ns: float | None, late: int
) -> Iterator[str]:
    """What makes the times of an ablation doubtful, in sentences."""
    yield OFF_CYCLES
    if clock_mhz is None:
        yield "the SM clock is not known: savings in time may come from a change of the clock"
    else:
        off = {v.name: 100.0 * (v.clock_mhz / clock_mhz - 1.0) for v in variants if v.clock_mhz}
        named = ", ".join(f"{name} {pct:+.1f} %" for name, pct in off.items() if abs(pct) > CLOCK_PCT)
        if named:
            yield f"the SM clock, and with it the time, changes with the removed parts: {named}"
    if overhead_ns is not None and overhead_ns > time_ns * OVERHEAD_PCT / 100.0:
        share = 100.0 * overhead_ns / time_ns
        least = f"a launch of a few stores takes {overhead_ns / 1e3:.1f} µs, {share:.0f} % of this one"
        yield f"{least}: shares are underestimated by up to that"
    if late:
        yield f"{late} launches may have waited for the host, which queued them too slowly"
