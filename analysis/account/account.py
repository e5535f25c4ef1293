"""The bubble account: where the elapsed SM cycles of one launch went, in parts that sum to 100 %.

All time is ``idle`` at first. Three passes take their parts out of it, in this order: cycles with
the unit busy, by counters; ramp, tail and gaps between waves, by the timeline and the counter of
cycles in which SMs had no CTA; and what is left, the steady idle time, by classified warp samples
(``stalls``). Waits on the MMA coincide with a busy pipe and get no share, up to the share of active
time in which the pipe was busy; beyond that they are dependent latency and count as ``issue``.
Warps that delay nothing (``bystanders``) are ignored. If a report lacks the data for a split, the
finer parts are merged into a coarser one: ``no_cta`` for ramp and tail, ``idle`` for all steady
parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import COARSE, PARTS, STEADY, WORK
from ncubble.analysis.account.phases import Phases
from ncubble.analysis.account.stalls import by_instruction
from ncubble.analysis.account.units import busy_of
from ncubble.analysis.report.frames import without_text
from ncubble.analysis.report.report import Launch, once_per_launch

MOST_UNREAD_PCT = 3.0
"""Maximum percent of kernel time that samples at instructions without text stand for. A split is of
the others, and no part of it is wrong by more: less than the smallest gain that is named
(``changes.change.LEAST_PCT``). Of 19 launches of public reports that have such samples, 8 have up
to 1.5 % of their samples there (of functions that are called), the others all."""
MIN_SAMPLES = 50
"""Minimum warp samples for a split: at 50 a share of 10 % has a standard error of 4 points."""


@dataclass(frozen=True)
class BubbleAccount:
    """Parts of one launch in percent of elapsed SM cycles. ``weights`` holds samples per
    instruction and class, weighted by the rules of ``stalls``; ``steady`` their sum for each steady
    part, with what ``issue`` gets of the waits on the MMA."""

    launch: int
    unit: str
    parts: Mapping[str, float]
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    phases: Phases | None = None
    weights: pd.DataFrame | None = None
    steady: Mapping[str, float] = field(default_factory=dict)

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

    @property
    def busy_pct(self) -> float:
        """Percent in which the bounding unit works."""
        return sum(self.parts.get(part, 0.0) for part in WORK)


Pass = Callable[[Evidence, BubbleAccount], BubbleAccount]
"""Takes parts out of the idle time of an account. Parts that do not sum to 100 % make no
account."""


@once_per_launch
def account(launch: Launch) -> BubbleAccount | None:
    """The account of one launch; None if the report has no utilization of any unit. ``busy_of``
    selects the unit."""
    return None if busy_of(launch) is None else build(evidence(launch))


def build(found: Evidence) -> BubbleAccount:
    """The account of a launch whose bounding unit is known: all ``PASSES``, one after the other."""
    missing = found.busy.missing if found.busy else ()
    counted = BubbleAccount(found.launch, found.unit, {"idle": 100.0}, missing=missing, phases=found.phases)
    for take in PASSES:
        counted = take(found, counted)
    return replace(counted, parts=exact({part: counted.parts[part] for part in PARTS if part in counted.parts}))


def judged_account(launch: Launch, parts: Mapping[str, float] | None, weighed: bool) -> BubbleAccount | None:
    """The account of one launch of which a verdict already says the ``parts`` (None: no account).

    What only the parts follow from is not computed again: samples are classified only if
    ``weighed``.
    """
    if parts is None or (busy := busy_of(launch)) is None:
        return None
    if weighed and (counted := account(launch)):
        return replace(counted, parts=parts)
    return BubbleAccount(launch.number, busy.unit, parts, {}, busy.missing, evidence(launch).phases)


def busy_time(found: Evidence, account: BubbleAccount) -> BubbleAccount:
    """First pass: the time in which the bounding unit works."""
    work = "tensor_busy" if found.unit == "tensor" else "unit_busy"
    return _taking(account, dict.fromkeys(WORK, 0.0) | {work: found.busy.pct if found.busy else 0.0})


def launch_shape(found: Evidence, account: BubbleAccount) -> BubbleAccount:
    """Second pass: idle time outside the steady state. The counter of CTA-less cycles bounds ramp
    and tail together from below."""
    room, timed = account.parts["idle"], found.phases
    without = 0.0 if math.isnan(found.with_cta) else min(room, 100.0 * (1.0 - found.with_cta))
    if timed is None:
        if math.isnan(found.with_cta):
            return account
        return replace(_taking(account, {"no_cta": without}), merged={"no_cta": COARSE["no_cta"]})
    tail = timed.tail + max(0.0, without - timed.ramp - timed.tail)
    lost = {"ramp": timed.ramp, "tail": tail, "wave_gap": timed.wave_gap}
    scale = min(1.0, room / total) if (total := sum(lost.values())) > 0 else 1.0
    return _taking(account, {part: pct * scale for part, pct in lost.items()})


def steady_time(found: Evidence, account: BubbleAccount) -> BubbleAccount:
    """Last pass: steady idle time by warp samples, if there are enough of them, at instructions
    whose text is known; else it stays ``idle``."""
    samples = float(found.source["samples"].sum()) if len(found.source) else 0.0
    if samples < MIN_SAMPLES or unread_samples(found.source) * account.parts["idle"] > MOST_UNREAD_PCT * samples:
        outer = () if found.phases else ("wave_gap",) if "no_cta" in account.parts else ("ramp", "tail", "wave_gap")
        beside = found.quantity("issue_pct") - account.busy_pct  # slots in which warps issue while the unit is idle
        issue = {"issue": min(beside, account.parts["idle"])} if beside > 0 else {}
        unsplit = (part for part in STEADY if part not in issue)
        return replace(_taking(account, issue), merged={**account.merged, "idle": (*outer, *unsplit)})
    weights = by_instruction(found.samples, len(found.source))
    share = found.with_cta if found.with_cta > 0 else 1.0
    steady = steady_weights(weights.sum(), account.busy_pct / max(share, 0.01), samples)
    total, room = math.fsum(steady.values()), account.parts["idle"]
    split = {part: room * steady[part] / total if total > 0 else 0.0 for part in STEADY}
    if total <= 0:
        split["other"] = room
    others = {part: pct for part, pct in account.parts.items() if part != "idle"}
    return replace(account, parts=others | split, weights=weights, steady=steady)


PASSES: tuple[Pass, ...] = (busy_time, launch_shape, steady_time)
"""In the order in which they apply."""


def _taking(account: BubbleAccount, parts: Mapping[str, float]) -> BubbleAccount:
    """The account with ``parts`` in place of as much idle time."""
    known = {**account.parts, **parts}
    rest = math.fsum(pct for part, pct in known.items() if part != "idle")
    return replace(account, parts=known | {"idle": max(0.0, 100.0 - rest)})


def unread_samples(source: pd.DataFrame) -> float:
    """Warp samples at instructions without text, whose class is unknown."""
    return float(source.loc[without_text(source), "samples"].sum())


def steady_weights(weighed: pd.Series, busy_of_active: float, samples: float) -> dict[str, float]:
    """Weight of each steady part from weighted samples per class; ``busy_of_active`` is the pipe's
    share of CTA time in percent, ``samples`` the number of all samples."""
    weights = {part: float(weighed[part]) for part in STEADY}
    counted = samples - float(weighed["aside"])
    weights["issue"] += max(0.0, float(weighed["unit"]) - counted * min(busy_of_active, 100.0) / 100.0)
    return weights


def exact(parts: dict[str, float]) -> dict[str, float]:
    """Remove rounding so that the parts sum to 100 to the last bit that matters."""
    largest = max(parts, key=lambda part: parts[part])
    rest = math.fsum(value for part, value in parts.items() if part != largest)
    return {**parts, largest: 100.0 - rest}
