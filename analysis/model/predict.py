"""Utilization and cycles of a pipelined loop at other depths, from one profile. Pure functions over
``Pipeline``.

The loop is simulated (``simulation``) at the present depth and at the other, with as many CTAs as
an SM then holds. Steps and buffers come from the code (of ``wgmma``; of any other loop, samples and
counters say how long its warps work, copy and multiply: by turns, or, where products of ``wgmma``
run in a loop whose steps are not read, at the same time), work between the steps from warp samples,
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

from ncubble.analysis.account.occupancy_limits import kib
from ncubble.analysis.model.pipeline import GROUP, Pipeline, sharing
from ncubble.analysis.model.simulation import (
    COMMIT,
    COPY,
    DRAIN,
    PRODUCT,
    WAIT,
    WORK,
    LoopStep,
    SimulatedLoop,
    simulate,
)
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
NEARLY = 0.01
"""A depth whose share is within this part of the best one's may be chosen."""
LEAST_SHARE = 0.1
"""Minimum of a lower bound, in percent: cycles are divided by it."""

PORT_B = 80.0
"""Maximum bytes per cycle that reach an SM: no training launch of the truth fills an SM faster
(``tma_flat``: 71 on an H100, 72 on an H200)."""
PARTS = 4
"""Number of parts of an iteration in which groups alternate between work and products."""


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
    ratio = max(_cycles(now, stages) / _cycles(now, now.stages), now.busy_pct / 100.0, min(1.0, now.memory))
    share, margin = now.busy_pct / ratio, margin_of(now, stages)
    low, high = min(share, max(LEAST_SHARE, share - margin)), min(100.0, share + margin)
    return Prediction(share, now.elapsed * ratio, low, high)


def margin_of(now: Pipeline, stages: int) -> float:
    """Points from what is expected to either bound of its interval."""
    return MARGIN if stages > now.stages and ctas_at(now, stages) == now.ctas else OTHER_MARGIN


def chosen_depth(shares: Mapping[int, float]) -> int:
    """The depth with the largest share; of nearly equal ones the shallowest, which costs least
    shared memory."""
    best = max(shares.values())
    return min(depth for depth, share in shares.items() if share >= (1.0 - NEARLY) * best)


def refusal(now: Pipeline, stages: int) -> str:
    """Why nothing is predicted for this depth; empty where something is."""
    if now.residency and now.residency.ctas(stages) < 1:
        return f"more shared memory than the {kib(now.residency.cta_B)} that a CTA may have"
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
    target = now.elapsed / _waves(now, now.ctas) / now.iterations
    usual = next(one for name in (now.measured_on, LATENCY_OF) if (one := _chip_latency(name)))
    loop = at_depth(loop_of(now), now, now.stages, now.ctas)
    longest = math.inf if now.waiting > MOSTLY and now.memory < FULL else usual.high
    flown = _with_flight(loop, target, now.waiting * now.cycle, usual.low, longest)
    most = OVER * max(target, simulate(replace(loop, flight=0.0)).cycle)
    if simulate(flown).cycle > most:  # such a long flight would show
        flown = _with_flight(loop, most)
    return _with_work(flown, target, (1.0, MOST_STRETCH))


def _waves(now: Pipeline, ctas: float) -> int:
    """Rounds in which an SM runs its CTAs, ``ctas`` at one time."""
    return max(1, math.ceil(now.grid / ctas - FULL_WAVE))


def _with_flight(
    loop: SimulatedLoop, target: float, most_waited: float = math.inf, least: float = 0.0, most: float = math.inf
) -> SimulatedLoop:
    """The loop with the longest flight, from ``least`` to ``most``, at which an iteration takes
    less than ``target`` cycles, and waits for less than ``most_waited``."""
    shortest, longest = 0.0, target * (loop.ahead + 1)
    while longest - shortest > target / FINE and longest > least and shortest < most:
        flight = (shortest + longest) / 2
        run = simulate(replace(loop, flight=flight))
        fits = run.cycle < target and run.waited < most_waited
        shortest, longest = (flight, longest) if fits else (shortest, flight)
    return replace(loop, flight=min(max(shortest, least), most))


def _with_work(loop: SimulatedLoop, target: float, bounds: tuple[float, float]) -> SimulatedLoop:
    """The loop with its work scaled so that an iteration takes ``target`` cycles."""
    least, most = bounds
    while most - least > 1.0 / FINE:
        factor = (least + most) / 2
        least, most = (factor, most) if simulate(loop.scaled(factor)).cycle < target else (least, factor)
    return loop.scaled(least)


def loop_of(now: Pipeline) -> SimulatedLoop:
    """The loop at the present depth."""
    code = now.code
    if code is None:
        return _by_itself(now) if now.asynchronous else _in_turn(now)
    factor = {WORK: now.cycle, PRODUCT: now.busy / code.groups}
    steps = tuple(step._replace(amount=step.amount * factor.get(step.kind, 1.0)) for step in code.steps)
    return replace(
        _loop(now, code.groups, steps, code.ahead),
        ends=code.ends * now.cycle * now.iterations,
        own_shares=code.own_shares,
        pending=code.pending,
    )


def _in_turn(now: Pipeline) -> SimulatedLoop:
    """A loop of ``mma.sync``, or of another pipe: groups work and wait for their products in turn,
    a part of them each time. Copies stand where the code has them among the products, and behind
    all of them where only one buffer is there. With more buffers that is as if they stood first in
    the next iteration, of a ring whose copies do."""
    groups = max(1, round(now.warps / GROUP))
    spent = now.busy / groups
    own = max(0.0, _own(now) - spent)
    copying = min(now.copying * now.cycle, own)
    product = (LoopStep(WORK, (own - copying) / PARTS), LoopStep(PRODUCT, spent / PARTS), LoopStep(DRAIN))
    copies = (LoopStep(COPY), LoopStep(WORK, copying), LoopStep(COMMIT))
    before = PARTS if now.stages == 1 else round(PARTS * now.delay)
    steps = (LoopStep(WAIT), *product * before, *copies, *product * (PARTS - before))
    return _loop(now, groups, steps, max(1, now.stages - 1))


def _by_itself(now: Pipeline) -> SimulatedLoop:
    """A loop of ``wgmma`` whose steps are not known: one product runs while the next is prepared,
    and another warp copies."""
    work, pending = max(0.0, _own(now) - now.busy), min(1, now.stages - 1)
    steps = (
        LoopStep(WAIT),
        LoopStep(WORK, work),
        LoopStep(PRODUCT, now.busy),
        LoopStep(DRAIN, pending),
    )
    return replace(_loop(now, 1, steps, now.stages), own_shares=False, pending=pending)


def _own(now: Pipeline) -> float:
    """Cycles of an iteration in which warps neither wait for data nor are outside the loop."""
    return now.cycle * (1.0 - now.waiting) - now.outside


def _loop(now: Pipeline, groups: int, steps: tuple[LoopStep, ...], ahead: int) -> SimulatedLoop:
    return SimulatedLoop(
        ctas=round(now.ctas),
        groups=groups,
        tiles=max(1, round(now.iterations)),
        steps=steps,
        ahead=ahead,
        fill=now.tile_B / PORT_B,
        ends=now.outside * now.iterations,
    )


def at_depth(loop: SimulatedLoop, now: Pipeline, stages: int, ctas: float) -> SimulatedLoop:
    """The ``loop`` of a pipeline with ``stages`` buffers and ``ctas`` on an SM.

    Work of warps takes longer the more CTAs there are: they share issue slots, load/store unit and
    port. Into an only buffer the next tile is copied when all products of the present one are done;
    of several, those of ``wgmma`` still read one.
    """
    steps, ahead, pending = loop.steps, loop.ahead + stages - now.stages, loop.pending
    if ahead - (0 if loop.copies else pending) < 1:
        steps, ahead, pending = _with_one_buffer(steps), 1, 0
    elif stages > now.stages == loop.ahead == 1 and now.asynchronous:
        steps, ahead, pending = _with_one_pending(steps), stages - 1 if loop.copies else stages, 1
    factor = round(ctas) / loop.ctas
    steps = tuple(step._replace(amount=step.amount * factor) if step.kind == WORK else step for step in steps)
    return replace(loop, ctas=round(ctas), steps=steps, ahead=ahead, pending=pending)


def _with_one_pending(steps: tuple[LoopStep, ...]) -> tuple[LoopStep, ...]:
    """Steps that wait for all products but those of the present tile, each time they wait last."""
    last = max(at for at, step in enumerate(steps) if step.kind == DRAIN)
    return (*steps[:last], LoopStep(DRAIN, sum(step.kind == PRODUCT for step in steps)), *steps[last + 1 :])


def _with_one_buffer(steps: tuple[LoopStep, ...]) -> tuple[LoopStep, ...]:
    """Steps that wait for all products, and copy last."""
    drained = [LoopStep(DRAIN) if step.kind == DRAIN else step for step in steps]
    kinds = [step.kind for step in drained]
    if COPY not in kinds:
        return (*drained, LoopStep(DRAIN))
    begin, end = kinds.index(COPY), kinds.index(COMMIT)
    return (*drained[:begin], *drained[end + 1 :], LoopStep(DRAIN), *drained[begin : end + 1])
