"""The account of a launch by the model of its loop, where one reproduces the launch.

What vanishes without each set of parts of the loop is simulated (``calibration``) and shared out as
what was measured is (``account.shares``): by the Shapley value. Other parts keep what samples and
the timeline say of them, as far as there is room. Where no model fits, the account is that of the
samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from ncubble.analysis.account.account import BubbleAccount, exact
from ncubble.analysis.account.account import account as sampled_account
from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.account.shares import Gone, shapley
from ncubble.analysis.model.calibration import Calibrated, calibrated
from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.report.launch import Launch, once_per_launch

DATA, COPY = "data_wait", "copy_cost"
LOOP = (DATA, COPY, "sync_wait", "smem_wait")
"""Simulated parts. Nothing waits for a copy that is not made."""


@once_per_launch
def account(launch: Launch) -> BubbleAccount | None:
    """The account of one launch; None where the report holds no utilization of any unit. Its
    ``alone`` says what vanishes with each simulated part alone; it is empty where no model fits."""
    sampled = sampled_account(launch)
    model = loop_model(launch)
    if sampled is None or model is None:
        return sampled
    gone = _gone(model)
    shares = _without_negative(shapley(gone, LOOP, [(DATA, COPY)]) or {})
    alone = {part: gone[frozenset({part, DATA} if part == COPY else {part})] for part in LOOP}
    return replace(sampled, parts=_joined(sampled.parts, shares), alone=alone)


@once_per_launch
def loop_model(launch: Launch) -> Calibrated | None:
    """The simulated loop of one launch; None where none fits."""
    now = pipeline_of(launch)
    return None if isinstance(now, Unidentified) else calibrated(launch, now)


def _gone(model: Calibrated) -> Gone:
    """What vanishes with every set of parts in which waits go before copies."""
    sets = {
        frozenset(parts) | (frozenset({DATA}) if COPY in parts else frozenset())
        for count in range(1, len(LOOP) + 1)
        for parts in combinations(LOOP, count)
    }
    return {parts: model.gone_pct(parts) for parts in sets}


def _without_negative(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares without negative ones, which are taken off the largest."""
    below = math.fsum(share for share in shares.values() if share < 0)
    kept = {part: max(0.0, share) for part, share in shares.items()}
    largest = max(kept, key=lambda part: kept[part])
    return {**kept, largest: max(0.0, kept[largest] + below)}


def _joined(sampled: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """The parts of the account with ``shares`` in place of the sampled ones. The remainder is
    ``issue``; where too much is there, other idle parts shrink, then the shares themselves."""
    work = {part: pct for part, pct in sampled.items() if part in WORK}
    others = {part: pct for part, pct in sampled.items() if part not in WORK and part not in shares}
    room = 100.0 - math.fsum(work.values())
    scale = min(1.0, room / max(math.fsum(shares.values()), 1e-9))
    shares = {part: share * scale for part, share in shares.items()}
    left = max(0.0, room - math.fsum(shares.values()))
    total = math.fsum(others.values())
    if total > left:
        others = {part: pct * left / total for part, pct in others.items()}
    parts = {**work, **others, **shares}
    parts["issue"] = parts.get("issue", 0.0) + max(0.0, left - total)
    return exact({part: parts[part] for part in PARTS if part in parts})
