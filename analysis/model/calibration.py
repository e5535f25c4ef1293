"""The simulated loop of a launch, fitted to its own profile, and what vanishes with parts of it.

Steps and buffers come from the code, work between the steps from warp samples, the pipe's work
from counters. Two numbers are fitted: the flight of a tile, and a factor on the work, so that an
iteration takes the measured cycles and groups wait for data no longer than their samples say.
Loops that wait for nothing fill at a roof of their own, below what waiting ones reach: L2 serves
requests of several SMs for one sector together, and CTAs that do not wait drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.sm_load import WAVEFRONT_B, sm_load
from ncubble.analysis.account.stalls import classified, context_of
from ncubble.analysis.model.pipeline import Pipeline, ctas_of, launch_ring
from ncubble.analysis.model.ring import Ring
from ncubble.analysis.model.simulation import (
    DRAIN,
    MEET,
    PRODUCT,
    WAIT,
    WORK,
    LoopStep,
    SimulatedLoop,
    SimulatedRun,
    simulate,
)
from ncubble.analysis.model.steps import LoopSteps, steps_of
from ncubble.analysis.report.launch import Launch
from ncubble.profiling.metrics.generations import load_generations
from ncubble.sass.opcodes import is_wgmma

ROOF, BULK_ROOF = 0.66, 0.77
"""Share of L2's peak, in bytes that come to SMs, at which loops fill that wait for nothing: by
cp.async and by TMA (launches of the truth that may be learned from, H100 and H200)."""
FIT = 0.05
"""A simulation that misses the measured cycles by more than this share is not used."""
FULL_WAVE = 0.02
"""A last wave that fills the SMs less than this is taken to be none."""
MOST_WORK = 4.0
HALVINGS, ROUNDS = 9, 3
SECTOR_B = 32
GROUP = 4
"""Warps of a group: ``wgmma`` is issued by four."""


@dataclass(frozen=True)
class Calibrated:
    """``loop`` as fitted, its ``cycle``, and ``filled``: the share of the present cycle that
    filling takes where nothing is awaited."""

    loop: SimulatedLoop
    cycle: float
    filled: float

    def gone_pct(self, parts: Collection[str]) -> float:
        """What vanishes with some parts of the account, in percent; negative where the launch gets
        slower."""
        cycle = simulate(self.loop.without(parts)).cycle
        if "data_wait" in parts and "copy_cost" not in parts:
            cycle = max(cycle, self.filled * self.cycle)
        return 100.0 * (1.0 - cycle / self.cycle)


def calibrated(launch: Launch, account: BubbleAccount, pipeline: Pipeline) -> Calibrated | None:
    """The fitted loop of one launch; None where it is no loop of ``wgmma``, warps take turns at
    named barriers, the report lacks L2's peak, or no fit reproduces the measured cycles."""
    ring = launch_ring(launch)
    if ring is None or not ring.asynchronous:
        return None
    filled = _filled(launch, ring)
    if math.isnan(filled):
        return None
    waves = max(1, math.ceil(pipeline.grid / pipeline.ctas - FULL_WAVE))
    target = pipeline.elapsed / waves / pipeline.iterations
    loop = _loop(launch, account, pipeline, ring)
    if loop is None:
        return None
    fitted = _fitted(loop, target, pipeline.waiting * pipeline.cycle)
    cycle = simulate(fitted).cycle
    if not abs(cycle / target - 1.0) <= FIT:
        return None
    return Calibrated(fitted, cycle, max(filled, min(1.0, filled * _fullest(pipeline))))


def _loop(launch: Launch, account: BubbleAccount, pipeline: Pipeline, ring: Ring) -> SimulatedLoop | None:
    """The loop before it is fitted; None where its code is none that is simulated."""
    source = launch.source
    busy = account.parts["tensor_busy"] + account.parts["unit_busy"]
    table = classified(source, account.unit, sm_load(launch, busy))
    table = table[table["part"] != "aside"]
    total = float(table["samples"].sum())
    samples = [
        (int(row), str(part), float(count) / total)
        for row, part, count in zip(table["row"], table["part"], table["samples"], strict=True)
    ]
    context, executed = context_of(source, account.unit), source["executed"].tolist()
    read = steps_of(context, source["sass"].tolist(), executed, ring, pipeline.stages, samples)
    kinds = {step.kind for step in read.steps}
    if read.turns or not {WAIT, PRODUCT, DRAIN} <= kinds:
        return None
    products = [executed[row] for row in context.loop if is_wgmma(context.opcodes[row])]
    groups = max(1, round(max(products) / ctas_of(launch) / pipeline.iterations / GROUP))
    return SimulatedLoop(
        ctas=round(pipeline.ctas),
        groups=groups,
        tiles=max(1, round(pipeline.iterations)),
        steps=_in_cycles(read, pipeline, groups),
        ahead=read.ahead,
        fill=pipeline.tile_B / WAVEFRONT_B,
        ends=read.ends * pipeline.cycle * pipeline.iterations,
        own_shares=read.own_shares,
        pending=read.pending,
    )


def _in_cycles(read: LoopSteps, pipeline: Pipeline, groups: int) -> tuple[LoopStep, ...]:
    factor = {WORK: pipeline.cycle, PRODUCT: pipeline.busy / groups}
    return tuple(
        step._replace(amount=step.amount * factor.get(step.kind, 1.0))
        for step in read.steps
        if groups > 1 or step.kind != MEET
    )


def _filled(launch: Launch, ring: Ring) -> float:
    """Of the present cycle, what filling takes where nothing is awaited; NaN where L2's peak is not
    known."""
    sectors, share = (launch.value(f"lts__t_sectors.{form}") for form in ("sum", "avg.pct_of_peak_sustained_elapsed"))
    fill = launch.first(load_generations().quantities["fill_bytes"])
    if not (sectors > 0 and share > 0 and fill > 0):
        return math.nan
    return fill / SECTOR_B / (100.0 * sectors / share) / (BULK_ROOF if ring.copies == "tma" else ROOF)


def _fullest(pipeline: Pipeline) -> float:
    """What the fullest SM fills of what they fill on average, where all CTAs run at once."""
    return pipeline.ctas / pipeline.grid if pipeline.grid <= pipeline.ctas else 1.0


def _fitted(loop: SimulatedLoop, target: float, waiting: float) -> SimulatedLoop:
    """The loop with the flight and the factor on its work that fit best."""
    flown = _with_flight(loop, lambda run: run.cycle < target, target)
    now = simulate(flown)
    if flown.flight == 0.0 and now.cycle > target:  # even without a flight it takes too long
        return _with_work(loop, target, (0.0, 1.0))
    if now.waited <= waiting:
        return flown
    fitted = loop
    for _ in range(ROUNDS):  # as long as flight and work hold each other up
        fitted = _with_flight(fitted, lambda run: run.cycle < target and run.waited < waiting, target)
        fitted = _with_work(replace(loop, flight=fitted.flight), target, (1.0, MOST_WORK))
    return fitted


def _with_flight(loop: SimulatedLoop, short: Callable[[SimulatedRun], bool], cycle: float) -> SimulatedLoop:
    """The loop with the longest flight at which it is too ``short`` still."""
    if not short(simulate(replace(loop, flight=0.0))):
        return replace(loop, flight=0.0)
    most = cycle * (loop.ahead + 1)
    return replace(loop, flight=_halved(lambda flight: short(simulate(replace(loop, flight=flight))), 0.0, most))


def _with_work(loop: SimulatedLoop, target: float, bounds: tuple[float, float]) -> SimulatedLoop:
    """The loop with its work scaled so that an iteration takes ``target`` cycles."""
    return loop.scaled(_halved(lambda factor: simulate(loop.scaled(factor)).cycle < target, *bounds))


def _halved(small: Callable[[float], bool], low: float, high: float) -> float:
    """The largest argument for which ``small`` holds."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if small(middle) else (low, middle)
    return low
