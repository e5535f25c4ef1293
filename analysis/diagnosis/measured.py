"""Changes of a verdict as they were measured: a measurement takes the place of a prediction, and
what gained nothing is not named again."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.changes.change import BYTES, LEAST_PCT, MEASURED, NONE, PART_OF_KIND, Change, Gain, value_of
from ncubble.analysis.changes.tried import LEFT, OK, Tried, TriedChange
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import NEGLIGIBLE_PCT, biggest_bubble

TIE_PCT = 1.0
"""Values whose measured gains differ by less are as good."""


def as_tried(verdict: LaunchVerdict, tried: Tried | None) -> LaunchVerdict:
    """The verdict with changes that ``ncubble try`` made of its launch in place of predictions:
    those that gain first, and without those that do not."""
    if tried is None or verdict.launch != 0:
        return verdict
    made = [change for change in tried.base.changes if change.outcome == OK and change.gain_pct is not None]
    parts = {change.kind: change.part for change in verdict.changes if change.part}
    reached = [change for change in tried.base.changes if change.outcome != LEFT]
    gaining: dict[str, list[TriedChange]] = defaultdict(list)
    for change in made:
        if change.gains:
            gaining[change.name].append(change)
    ranked = sorted(gaining.values(), key=lambda alike: -max(one.gain_pct or 0.0 for one in alike))
    measured = [_measured(alike, parts, verdict.account or {}) for alike in ranked]
    if made and not measured:
        measured = [Change(kind=NONE, text="no single change gains, as measured", basis=MEASURED)]
    return replace(verdict, changes=[*measured, *_unmeasured(verdict.changes, reached)])


def _measured(changes: Sequence[TriedChange], parts: Mapping[str, str], account: Mapping[str, float]) -> Change:
    """The change to the least value that gains as much as the best one, within ``TIE_PCT``. Where
    the part of its kind takes no time (fewer stages gain), it acts on the largest part."""
    best = max(change.gain_pct or 0.0 for change in changes)
    change, *others = [one for one in changes if (one.gain_pct or 0.0) >= best - TIE_PCT]
    same = f" (so do {' and '.join(str(one.after) for one in others)})" if others else ""
    text = f"use {change.name}={change.after} instead of {change.before}{same}"
    part = parts.get(change.kind) or PART_OF_KIND.get(change.kind)
    if account.get(part or "", math.inf) < NEGLIGIBLE_PCT and (largest := biggest_bubble(account)):
        part = largest[0]
    return Change(
        kind=change.kind, before=change.before, after=change.after, text=text, part=part,
        gain_pct=change.gain_pct, low=change.low, high=change.high, basis=MEASURED,
    )  # fmt: skip


def _unmeasured(changes: Iterable[Change], tried: Iterable[TriedChange]) -> Iterator[Change]:
    """Changes of which nothing was made."""
    there = list(tried)
    kinds = {change.kind for change in there}
    values = {(change.kind, change.after) for change in there}
    for change in changes:
        if (change.kind == NONE and there) or (change.after is None and change.kind in kinds):
            continue
        base = next((one for one in there if one.kind == change.kind), None)
        if base is None or (change.kind, value_of(change.after, base.before)) not in values:
            yield change


def as_measured(verdict: LaunchVerdict, ablation: Ablation | None) -> LaunchVerdict:
    """The verdict with what was measured of its parts: no change gains more than what vanishes with
    the part that it acts on. Its account stays the estimate."""
    if ablation is None:
        return verdict
    alone = {part.part: part.measured for part in ablation.removed_parts if len(part.names) == 1}
    return replace(verdict, changes=_within(verdict.changes, ablation), measured=alone)


def _within(changes: Sequence[Change], ablation: Ablation) -> list[Change]:
    """The changes with gains of at most what vanishes with their parts, and in that order; of those
    without a gain, first what acts on the part that costs most."""
    limited = [_limited(change, ablation) for change in changes]
    heads = [change for change in limited if change.kind in (NONE, BYTES)]
    known = [change for change in limited if change.known and not change.blocked]
    kept = [change for change in known if change.basis == MEASURED or (change.gain_pct or 0.0) >= LEAST_PCT]
    kept.sort(key=lambda change: (change.basis != MEASURED, -(change.gain_pct or 0.0)))
    if known and not kept and not heads:
        heads = [Change(kind=NONE, text=f"nothing is known to gain {LEAST_PCT:g} %, as measured")]
    most = ablation.first_cause.names if ablation.first_cause else []
    untried = [change for change in limited if not change.known and not change.blocked and change not in heads]
    untried.sort(key=lambda change: change.part not in most)
    return [*heads, *kept, *untried, *(change for change in limited if change.blocked)]


def _limited(change: Change, ablation: Ablation) -> Change:
    part = ablation.part_of(change.part) if change.part else None
    if part is None or change.gain_pct is None or change.basis == MEASURED:
        return change
    most = max(0.0, part.measured, part.alone or 0.0)
    gain = Gain(change.gain_pct, change.low or 0.0, change.high or change.gain_pct).at_most(most)
    return replace(change, gain_pct=gain.expected, low=gain.low, high=gain.high)
