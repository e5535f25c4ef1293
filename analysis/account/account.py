"""The bubble account: where the elapsed SM cycles of one launch went, in parts that sum to 100 %.

First the counters: cycles with the unit busy, and cycles in which SMs had no CTA. Then the
timeline: ramp, tail and gaps between waves. The remainder is steady idle time, split by classified
warp samples (``stalls``). Waits on the MMA coincide with a busy pipe and get no share, up to the
share of active time in which the pipe was busy; beyond that they are dependent latency and count as
``issue``. Warps that delay nothing (``bystanders``) are ignored. If a report lacks the data for a
split, the finer parts are merged into a coarser one: ``no_cta`` for ramp and tail, ``idle`` for all
steady parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from ncubble.analysis.account.parts import COARSE, PARTS, STEADY, WORK
from ncubble.analysis.account.phases import Phases, phases
from ncubble.analysis.account.sm_load import SmLoad, sm_load
from ncubble.analysis.account.stalls import CLASSES, classify
from ncubble.analysis.account.units import Busy, busy_of, cta_share
from ncubble.analysis.report import frames as timeline
from ncubble.analysis.report.frames import without_text
from ncubble.analysis.report.report import Launch, once_per_launch

MOST_UNREAD = 0.01
"""Maximum share of samples at instructions without text for a split."""
MIN_SAMPLES = 50
"""Minimum warp samples for a split: at 50 a share of 10 % has a standard error of 4 points."""


@dataclass(frozen=True)
class BubbleAccount:
    """Parts of one launch in percent of elapsed SM cycles. ``weights`` holds samples per
    instruction and class, weighted by ``overlap``."""

    launch: int
    unit: str
    parts: Mapping[str, float]
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    phases: Phases | None = None
    weights: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        unknown = set(self.parts) - set(PARTS)
        total = math.fsum(self.parts.values())
        if (
            unknown
            or not abs(total - 100.0) <= 0.005
            or any(not 0.0 <= value <= 100.0 for value in self.parts.values())
        ):
            raise ValueError(
                f"not a bubble account: it sums to {total}, unknown parts {sorted(unknown)}, parts {dict(self.parts)}"
            )

    @property
    def bubbles(self) -> dict[str, float]:
        """The parts in which the unit was idle, largest first."""
        idle = {part: pct for part, pct in self.parts.items() if part not in WORK and pct > 0}
        return dict(sorted(idle.items(), key=lambda item: -item[1]))


@once_per_launch
def account(launch: Launch) -> BubbleAccount | None:
    """The account of one launch; None if the report has no utilization of any unit. ``busy_of``
    selects the unit."""
    busy = busy_of(launch)
    if busy is None:
        return None
    load = sm_load(launch, busy.pct)
    return build(launch.number, busy, cta_share(launch), phases_of(launch), launch.source, load)


def judged_account(launch: Launch, parts: Mapping[str, float] | None, weighed: bool) -> BubbleAccount | None:
    """The account of one launch of which a verdict already says the ``parts`` (None: no account).

    What only the parts follow from is not computed again: samples are classified only if
    ``weighed``.
    """
    if parts is None or (busy := busy_of(launch)) is None:
        return None
    if weighed and (counted := account(launch)):
        return replace(counted, parts=parts)
    return BubbleAccount(launch.number, busy.unit, parts, {}, busy.missing, phases_of(launch))


@once_per_launch
def phases_of(launch: Launch) -> Phases | None:
    """The phases of one launch; None where its timeline shows none."""
    busy = busy_of(launch)
    return find_phases(launch, busy)[1] if busy else None


def find_phases(launch: Launch, busy: Busy) -> tuple[str, Phases | None]:
    """Phases from the unit's series, or from issued instructions if that was not sampled; with the
    series' name, empty without phases."""
    frame = launch.timeline
    active = timeline.series(frame, "sm_active")
    for name in (busy.series, "issue"):
        if name and (timed := phases(timeline.series(frame, name), active)):
            return name, timed
    return "", None


def build(
    launch: int,
    busy: Busy,
    with_cta: float,
    timed: Phases | None,
    source: pd.DataFrame,
    load: SmLoad | None = None,
) -> BubbleAccount:
    """Pure core of ``account``. ``with_cta`` may be NaN, ``timed`` None, ``source`` empty; each
    then merges parts. Without ``load`` all samples have equal weight."""
    parts = dict.fromkeys(WORK, 0.0)
    parts["tensor_busy" if busy.unit == "tensor" else "unit_busy"] = busy.pct
    room = 100.0 - busy.pct
    merged: dict[str, tuple[str, ...]] = {}
    outer = _outer(with_cta, timed, room, merged)
    parts |= outer
    room = max(0.0, 100.0 - math.fsum(parts.values()))
    weights = classify(source, busy.unit, load) if _splits(source) else None
    if weights is None:
        parts["idle"] = room
        merged["idle"] = (*_unseen(with_cta, timed), *STEADY)
    else:
        active = busy.pct / max(with_cta, 0.01) if with_cta > 0 else busy.pct
        parts |= _share(room, steady_weights(weights.sum(), active, float(source["samples"].sum())))
    ordered = {part: parts[part] for part in PARTS if part in parts}
    return BubbleAccount(launch, busy.unit, exact(ordered), merged, busy.missing, timed, weights)


def _splits(source: pd.DataFrame) -> bool:
    """Whether there are enough samples for a split, at instructions whose text is known."""
    samples = float(source["samples"].sum()) if len(source) else 0.0
    return samples >= MIN_SAMPLES and unread_samples(source) <= MOST_UNREAD * samples


def unread_samples(source: pd.DataFrame) -> float:
    """Warp samples at instructions without text, whose class is unknown."""
    return float(source.loc[without_text(source), "samples"].sum())


def _outer(with_cta: float, timed: Phases | None, room: float, merged: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """Idle time outside the steady state. The counter of CTA-less cycles bounds ramp and tail
    together from below."""
    without = 0.0 if math.isnan(with_cta) else min(room, 100.0 * (1.0 - with_cta))
    if timed is None:
        if math.isnan(with_cta):
            return {}
        merged["no_cta"] = COARSE["no_cta"]
        return {"no_cta": without}
    ramp, tail, gap = timed.ramp, timed.tail, timed.wave_gap
    tail += max(0.0, without - ramp - tail)
    scale = min(1.0, room / (ramp + tail + gap)) if ramp + tail + gap > 0 else 1.0
    return {"ramp": ramp * scale, "tail": tail * scale, "wave_gap": gap * scale}


def _unseen(with_cta: float, timed: Phases | None) -> tuple[str, ...]:
    """Parts outside the steady state that cannot be separated from it."""
    if timed:
        return ()
    return ("ramp", "tail", "wave_gap") if math.isnan(with_cta) else ("wave_gap",)


def steady_weights(weighed: pd.Series, busy_of_active: float, samples: float) -> dict[str, float]:
    """Weight of each steady part from weighted samples per class; ``busy_of_active`` is the pipe's
    share of CTA time in percent, ``samples`` the number of all samples."""
    weights = {part: float(weighed[part]) for part in CLASSES if part not in ("unit", "aside")}
    counted = samples - float(weighed["aside"])
    weights["issue"] += max(0.0, float(weighed["unit"]) - counted * min(busy_of_active, 100.0) / 100.0)
    return weights


def _share(room: float, weights: dict[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    if total <= 0:
        return {**dict.fromkeys(STEADY, 0.0), "other": room}
    return {part: room * weights[part] / total for part in STEADY}


def exact(parts: dict[str, float]) -> dict[str, float]:
    """Remove rounding so that the parts sum to 100 to the last bit that matters."""
    largest = max(parts, key=lambda part: parts[part])
    rest = math.fsum(value for part, value in parts.items() if part != largest)
    return {**parts, largest: 100.0 - rest}
