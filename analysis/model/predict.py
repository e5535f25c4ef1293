"""Utilization and cycles of a pipelined loop at other depths, from one profile. Pure functions over
``Pipeline``.

The loop is simulated (``simulation``) at the present depth and at the other, with as many CTAs as
an SM then holds. Steps and buffers come from the code, work between the steps from warp samples,
the pipe's work from counters. Two numbers are fitted, within bounds: the flight of a tile, and a
factor on the work, so that an iteration takes the measured cycles and groups wait for data as long
as their samples say. Waits for a tile that other CTAs or products hide say nothing of its flight:
it is a usual one, unless so long a one would show. Work is stretched no more than samples may miss.
What the fit leaves unexplained is taken to be the same at all depths. What no depth changes bounds
it: L2 and DRAM do no more than loops reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from ncubble.analysis.model.loops import at_depth, loop_of
from ncubble.analysis.model.pipeline import Pipeline, sharing
from ncubble.analysis.model.simulation import SimulatedLoop, simulate
from ncubble.chips import CopyLatency, chip_of

LATENCY_OF = "9.0"
"""Compute capability whose copy latency is used for chips without one in ``chips.toml``."""
MOSTLY = 0.6
"""Share of time in which warps wait for data above which a flight may be longer than usual."""
FULL = 0.8
"""Share of the reachable L2 or DRAM bandwidth above which waits are due to bandwidth and do not
show the flight."""
MOST_STRETCH = 1.6
"""Maximum factor by which work may be stretched (chosen on the training launches of the truth)."""
FINE = 100.0
"""Tolerances of the fit: flights to a hundredth of the measured cycles, work factors to a
hundredth."""
OVER = 1.01
"""A flight is too long where an iteration takes more than this factor of the measured cycles."""
FULL_WAVE = 0.02
"""A last wave that fills less than this share of the SMs is ignored."""

MARGIN, OTHER_MARGIN = 10.8, 8.9
"""Deviations of a measured share above and below the expected one, in points, that hold in 90 % of
all cases: for a deeper ring with equally many CTAs, and for any other. Split conformal prediction
(Y. Romano, E. Patterson and E. Candès, "Conformalized quantile regression", NeurIPS 2019) on the
training launches of the truth; ``make validate`` shows the required margins."""
NEARLY = 0.5
"""A depth within this many points of the best one may be chosen."""
LEAST_SHARE = 0.1
"""Minimum of a lower bound, in percent: cycles are divided by it."""


@dataclass(frozen=True)
class Prediction:
    """Busy share of the bounding unit in percent of elapsed cycles, with the bounds of an interval
    of 90 %, and elapsed cycles."""

    tensor_elapsed_pct: float
    cycles: float
    low: float
    high: float


def predict(now: Pipeline, stages: int) -> Prediction | None:
    """What to expect at depth ``stages``; None where it does not fit an SM or is not identified
    (``refusal`` says)."""
    if stages == now.stages:
        return Prediction(now.busy_pct, now.elapsed, now.busy_pct, now.busy_pct)
    if refusal(now, stages):
        return None
    ratio = max(_cycles(now, stages) / _cycles(now, now.stages), now.busy_pct / 100.0)
    if ratio < 1.0:
        ratio = max(ratio, min(1.0, now.memory))
    share, margin = now.busy_pct / ratio, margin_of(now, stages)
    low, high = min(share, max(LEAST_SHARE, share - margin)), min(100.0, share + margin)
    return Prediction(share, now.elapsed * ratio, low, high)


def margin_of(now: Pipeline, stages: int) -> float:
    """Points from what is expected to either bound of its interval."""
    return MARGIN if stages > now.stages and ctas_at(now, stages) == now.ctas else OTHER_MARGIN


def chosen_depth(shares: Mapping[int, float]) -> int:
    """The depth with the largest share; of nearly equal ones the deepest, as simulated waits end at
    fewer stages than measured ones."""
    best = max(shares.values())
    return max(depth for depth, share in shares.items() if share >= best - NEARLY)


def refusal(now: Pipeline, stages: int) -> str:
    """Why nothing is predicted for this depth; empty where something is."""
    if now.residency and now.residency.ctas(stages) < 1:
        return f"more shared memory than the {now.residency.cta_B:.0f} B that a CTA may have"
    if now.plain:
        return "not identified, because tiles go through registers: a ring of asynchronous copies is a different loop"
    if stages == 1 and now.compiled and now.stages > 1:
        return "not identified, because the compiler builds a different loop for it, with plain loads"
    if stages < now.stages and not _chip_latency(now.measured_on):
        named = now.measured_on or "unknown"
        return f"not identified, because the copy latency of compute capability {named} was not measured"
    if not math.isfinite(_cycles(now, stages) / _cycles(now, now.stages)):
        return "not identified, because the loop in its code would never end with that many stages"
    return ""


@cache
def _chip_latency(capability: str) -> CopyLatency | None:
    chip = chip_of(capability)
    return chip.copy_latency if chip else None


def _copy_latency(now: Pipeline) -> CopyLatency:
    """The latency of the launch's chip, else that of ``LATENCY_OF``."""
    return next(latency for name in (now.measured_on, LATENCY_OF) if (latency := _chip_latency(name)))


def ctas_at(now: Pipeline, stages: int) -> float:
    """Resident CTAs per SM at depth ``stages``, as far as the grid has so many."""
    if now.residency is None:
        return now.ctas
    return sharing(now.grid, max(1, now.residency.ctas(stages)))


@lru_cache(maxsize=256)
def _cycles(now: Pipeline, stages: int) -> float:
    """Simulated cycles of the launch, per iteration: no more than with fewer stages and as many
    CTAs, as depth alone slows nothing down."""
    ctas = ctas_at(now, stages)
    cycles = _waves(now, ctas) * simulate(at_depth(_fitted(now), now, stages, ctas)).cycle
    return min(cycles, _cycles(now, stages - 1)) if stages > 1 and ctas_at(now, stages - 1) == ctas else cycles


@lru_cache(maxsize=64)
def _fitted(now: Pipeline) -> SimulatedLoop:
    """The loop at the present depth, fitted within bounds."""
    target, usual = now.elapsed / _waves(now, now.ctas) / now.iterations, _copy_latency(now)
    loop = at_depth(loop_of(now), now, now.stages, now.ctas)
    shown = _with_flight(loop, target, now.waiting * now.cycle)
    longest = math.inf if now.waiting > MOSTLY and now.memory < FULL else usual.high
    flown = replace(loop, flight=min(max(shown.flight, usual.low), longest))
    most = OVER * max(target, simulate(replace(loop, flight=0.0)).cycle)
    if simulate(flown).cycle > most:  # such a long flight would show
        flown = _with_flight(loop, most)
    return _with_work(flown, target, (1.0, MOST_STRETCH))


def _waves(now: Pipeline, ctas: float) -> int:
    """Rounds in which an SM runs its CTAs, ``ctas`` at one time."""
    return max(1, math.ceil(now.grid / ctas - FULL_WAVE))


def _with_flight(loop: SimulatedLoop, target: float, most_waited: float = math.inf) -> SimulatedLoop:
    """The loop with the longest flight at which an iteration takes less than ``target`` cycles, and
    waits for less than ``most_waited``."""
    shortest, longest = 0.0, target * (loop.ahead + 1)
    while longest - shortest > target / FINE:
        flight = (shortest + longest) / 2
        run = simulate(replace(loop, flight=flight))
        fits = run.cycle < target and run.waited < most_waited
        shortest, longest = (flight, longest) if fits else (shortest, flight)
    return replace(loop, flight=shortest)


def _with_work(loop: SimulatedLoop, target: float, bounds: tuple[float, float]) -> SimulatedLoop:
    """The loop with its work scaled so that an iteration takes ``target`` cycles."""
    least, most = bounds
    while most - least > 1.0 / FINE:
        factor = (least + most) / 2
        least, most = (factor, most) if simulate(loop.scaled(factor)).cycle < target else (least, factor)
    return loop.scaled(least)
