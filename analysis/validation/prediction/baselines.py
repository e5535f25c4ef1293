"""Simple predictions of depth that a model has to beat, from the same launch. Busy share of the
unit, in percent.

``no_change``: as now. ``nsight``: a deeper ring gains the largest global speedup that Nsight's
rules estimate for this launch. ``linear``: the account's share of waits for data falls and grows as
1 / depth. ``little``: Little's law, an iteration takes what the unit needs for all resident CTAs,
what L2 needs to bring their tiles, or the latency divided by the tiles on their way, whichever is
most; the latency is calibrated on the present iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.diagnosis.advise import DEPTHS
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import PORT, ctas_at
from ncubble.analysis.report.launch import Launch

BASELINES = ("no_change", "nsight", "linear", "little")


def baselines(launch: Launch, stages: int | None = None, depths: Sequence[int] = DEPTHS) -> dict[int, dict[str, float]]:
    """For each depth what the baselines say; those that need the present depth are absent where
    nothing tells it."""
    found = account(launch)
    now = pipeline_of(launch, found, stages)
    if found is None:
        return {depth: {} for depth in depths}
    busy, estimate = found.parts["tensor_busy"] + found.parts["unit_busy"], _largest_estimate(launch)
    table = {}
    for depth in depths:
        table[depth] = {"no_change": busy}
        if now.stages:
            gain = estimate if depth > now.stages else 0.0
            table[depth]["nsight"] = min(100.0, busy / (1.0 - gain / 100.0))
            table[depth]["linear"] = linear(found, now.stages, depth)
        if not isinstance(now, Unidentified):
            table[depth]["little"] = little(now, depth)
    return table


def linear(found: BubbleAccount, stages: int, depth: int) -> float:
    """Busy share if the share of waits for data went as 1 / depth."""
    busy, wait = found.parts["tensor_busy"] + found.parts["unit_busy"], found.parts.get("data_wait", 0.0)
    return min(100.0, 100.0 * busy / (100.0 - wait + wait * stages / depth))


def little(now: Pipeline, depth: int) -> float:
    """Busy share by Little's law."""
    if depth == now.stages:
        return now.busy_pct
    ctas = ctas_at(now, depth)
    latency = now.cycle * (now.stages - 1) if now.stages > 1 else now.cycle - now.busy
    bound = max(ctas * now.busy, ctas * now.tile_B / PORT)
    cycle = max(bound, latency / (depth - 1) if depth > 1 else latency + now.busy)
    return min(100.0, now.busy_pct * (now.cycle / now.ctas) / (cycle / ctas))


def _largest_estimate(launch: Launch) -> float:
    """The largest global speedup, in percent of time, that a rule of the report estimates; 0
    without one."""
    rules = launch.rules[launch.rules["speedup_kind"] == "global"]
    largest = rules["speedup_pct"].max() if len(rules) else 0.0
    return min(99.0, float(largest)) if largest > 0 else 0.0
