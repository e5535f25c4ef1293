"""The loop of a pipeline as it is simulated, before it is fitted, and at other depths.

A loop of ``wgmma`` has the steps of its code. Of any other, samples and counters say how long its
warps work, copy and multiply in an iteration: by turns, or, where products of ``wgmma`` run in a
loop whose steps are not read, at the same time.
"""

from __future__ import annotations

from dataclasses import replace

from ncubble.analysis.model.pipeline import Pipeline
from ncubble.analysis.model.simulation import (
    COMMIT,
    COPY,
    DRAIN,
    PRODUCT,
    WAIT,
    WORK,
    LoopStep,
    SimulatedLoop,
)
from ncubble.analysis.model.steps import GROUP

PORT_B = 80.0
"""Maximum bytes per cycle that reach an SM: no training launch of the truth fills an SM faster
(``tma_flat``: 71 on an H100, 72 on an H200)."""
PARTS = 4
"""Number of parts of an iteration in which groups alternate between work and products."""


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
