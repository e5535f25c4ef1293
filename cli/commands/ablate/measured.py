"""Computes savings per variant, and parts, from launches in turns: in cycles, or in time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ncubble.analysis.ablation.result import (
    NOISY_PCT,
    TIME,
    Ablation,
    MeasuredPart,
    MeasuredVariant,
    measured_parts,
    standard_error_pct,
    vanished,
)
from ncubble.analysis.ablation.timed import doubts, median_and_interval, vanished_time, with_intervals
from ncubble.analysis.ablation.variants import SLACK
from ncubble.analysis.account.shares import NONE, overlaps
from ncubble.cli.commands.ablate.turns import MeasuredTurns

SLOWER, SLOWER_PCT = "slower than the whole kernel", -20.0
"""A variant this much slower waits for something that never arrives: it does not measure the
part."""
BUSY = ("tensor_busy", "unit_busy")
LESS_WORK, TOLERANCE_PCT = "computes less than the kernel", 3.0
"""A variant faster than the tensor pipe's own time skips MMAs: its schedule broke."""
UNCHECKED = "without counters a variant that skips work of the unit goes unnoticed: compare with an ablation in cycles"


def counted_result(
    turns: MeasuredTurns,
    made: Sequence[MeasuredVariant],
    harmless: Collection[str],
    estimate: Mapping[str, float],
    present: Sequence[str],
) -> Ablation:
    """Cycles of the ``made`` and run variants, and the parts derived from them. ``estimate``: the
    account in percent; ``present``: parts in the code."""
    whole, moved = turns.values(NONE), turns.moved(NONE)
    tried = []
    for variant in made:
        if variant.status == "ok":
            own = turns.moved(variant.name)
            ratio = own / moved if moved > 0 and own >= 0 else None
            variant = vanished(replace(variant, cycles=turns.values(variant.name)), whole)
            variant = _believed(replace(variant, moved=ratio), harmless, estimate.get("tensor_busy", 0.0))
        tried.append(variant)
    base = fmean(whole)
    variants, slack = _apart(tried)
    busy = math.fsum(estimate.get(part, 0.0) for part in BUSY)
    parts, notes = measured_parts(variants, estimate, busy, present)
    if (se := standard_error_pct(whole, base)) > NOISY_PCT:
        notes.append(f"the launch is too short or too noisy: its cycles have a standard error of {se:.1f} %")
    return _ablation(len(whole), parts, variants, slack, notes, se, cycles=base)


def timed_result(
    turns: MeasuredTurns,
    made: Sequence[MeasuredVariant],
    harmless: Collection[str],
    estimate: Mapping[str, float],
    present: Sequence[str],
) -> Ablation:
    """Like ``counted_result``, in time; ``estimate`` is empty."""
    whole = turns.values(NONE)
    tried = []
    for variant in made:
        if variant.status == "ok":
            own = replace(variant, times_ns=turns.values(variant.name), clock_mhz=turns.clock_mhz(variant.name))
            variant = _believed(vanished_time(own, whole), harmless, 0.0)
        tried.append(variant)
    variants, slack = _apart(tried)
    parts, notes = measured_parts(variants, estimate, 0.0, present)

    def shared(again: Sequence[MeasuredVariant]) -> list[MeasuredPart]:
        return measured_parts(again, estimate, 0.0, present)[0]

    middle, interval, se = median_and_interval(whole)
    if se > NOISY_PCT:
        notes.append(f"the launch is too short or too noisy: its time has a standard error of {se:.1f} %")
    clock, overhead = turns.clock_mhz(NONE), turns.rounds.overhead_ns
    known = overhead if math.isfinite(overhead) else None
    notes += [UNCHECKED, *doubts(tried, clock, middle, known, turns.rounds.late)]
    found = _ablation(len(whole), with_intervals(parts, variants, whole, shared), variants, slack, notes, se)
    return replace(found, measure=TIME, time_ns=middle, interval_ns=interval, overhead_ns=known, clock_mhz=clock)


def _believed(variant: MeasuredVariant, harmless: Collection[str], tensor_busy: float) -> MeasuredVariant:
    """The variant, excluded from the parts by its status if it cannot be a valid one."""
    if variant.name in harmless or variant.gone_pct is None:
        return variant
    if variant.gone_pct > 100.0 - tensor_busy + TOLERANCE_PCT:
        status = LESS_WORK
    elif variant.gone_pct < SLOWER_PCT:
        status = SLOWER
    else:
        return variant
    return replace(variant, status=status, gone_pct=None, se=None, interval=None)


def _apart(tried: Sequence[MeasuredVariant]) -> tuple[list[MeasuredVariant], list[MeasuredVariant]]:
    """Variants with removed parts, and variants that only delay."""
    variants = [variant for variant in tried if not variant.name.startswith(SLACK)]
    return variants, [variant for variant in tried if variant.name.startswith(SLACK)]


def _ablation(
    rounds: int,
    parts: list[MeasuredPart],
    variants: list[MeasuredVariant],
    slack: list[MeasuredVariant],
    notes: list[str],
    se: float,
    cycles: float | None = None,
) -> Ablation:
    """Result fields from the turns; the others come from the launch."""
    alone = {variant.name: variant.gone_pct for variant in variants if variant.gone_pct is not None}
    return Ablation("", "", cycles, se, rounds, None, parts, overlaps(alone), variants, slack, [], notes)
