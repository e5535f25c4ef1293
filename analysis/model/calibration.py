"""The simulated loop of a launch, fitted to its own profile, and what vanishes with parts of it.

Steps and buffers come from the code, work between the steps from warp samples, the pipe's work
from counters. Two numbers are fitted: the flight of a tile, and a factor on the work, so that an
iteration takes the measured cycles and groups wait for data as long as their samples say. Loops
that wait for nothing fill at a roof of their own, below what waiting ones reach: L2 serves
requests of several SMs for one sector together, and CTAs that do not wait drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from ncubble.analysis.account.units import MEMORY, utilization
from ncubble.analysis.model.loops import loop_of
from ncubble.analysis.model.pipeline import Pipeline, launch_ring
from ncubble.analysis.model.simulation import SimulatedLoop, simulate
from ncubble.analysis.report.launch import Launch
from ncubble.profiling.metrics.generations import load_generations

ROOF, BULK_ROOF = 0.66, 0.77
"""Share of L2's peak bandwidth to SMs that loops without waits reach: by cp.async and by TMA
(training launches of the truth, H100 and H200). The first also applies to DRAM's peak
(``skinny``)."""
FIT = 0.05
"""Simulations that miss the measured cycles by more than this share are not used."""
FULL_WAVE = 0.02
"""A last wave that fills less than this share of the SMs is ignored."""
MOST_WORK = 4.0
"""Maximum factor by which work may be stretched so that groups wait no longer than their samples
show."""
FINE = 100.0
"""Tolerances of the fit: flights to a hundredth of the measured cycles, work factors to a
hundredth."""
OVER = 1.01
"""Work is not stretched beyond this factor of the measured cycles."""
SECTOR_B = 32


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


def calibrated(launch: Launch, now: Pipeline) -> Calibrated | None:
    """The fitted loop of one launch; None where its steps are not read from its code, the report
    lacks L2's peak, or no fit reproduces the measured cycles."""
    ring, filled = launch_ring(launch), _filled(launch)
    if now.code is None or ring is None or math.isnan(filled):
        return None
    filled = max(filled / (BULK_ROOF if ring.copies == "tma" else ROOF), _from_dram(launch))
    fitted = _fitted(loop_of(now), target_of(now), now.waiting * now.cycle)
    cycle = simulate(fitted).cycle
    if not abs(cycle / target_of(now) - 1.0) <= FIT:
        return None
    return Calibrated(fitted, cycle, max(filled, min(1.0, filled * _fullest(now))))


def waves_of(now: Pipeline, ctas: float) -> int:
    """Rounds in which an SM runs its CTAs, ``ctas`` at one time."""
    return max(1, math.ceil(now.grid / ctas - FULL_WAVE))


def target_of(now: Pipeline) -> float:
    """The measured cycles of an iteration, of as many CTAs as an SM runs at one time."""
    return now.elapsed / waves_of(now, now.ctas) / now.iterations


def _filled(launch: Launch) -> float:
    """Of the present cycle, what filling takes at L2's peak; NaN where that is not known."""
    names = load_generations().quantities
    sectors, share, fill = (launch.first(names[name]) for name in ("l2_sectors", "l2_sectors_pct", "fill_bytes"))
    if not (sectors > 0 and share > 0 and fill > 0):
        return math.nan
    return fill / SECTOR_B / (100.0 * sectors / share)


def _from_dram(launch: Launch) -> float:
    """Of the present cycle, what reading DRAM takes where nothing is awaited; 0 where that is not
    known."""
    share = utilization(launch, MEMORY["dram"])
    return share / 100.0 / ROOF if share > 0 else 0.0


def _fullest(now: Pipeline) -> float:
    """What the fullest SM fills of what they fill on average, where all CTAs run at once."""
    return now.ctas / now.grid if now.grid <= now.ctas else 1.0


def _fitted(loop: SimulatedLoop, target: float, waiting: float) -> SimulatedLoop:
    """The loop that takes ``target`` cycles, and waits for no more than ``waiting`` of them, or as
    little more as work allows that is stretched by up to ``MOST_WORK``."""
    fitted = with_flight(loop, target)
    now = simulate(fitted)
    if fitted.flight == 0.0 and now.cycle > target:  # too slow even without a flight
        return with_work(loop, target, (0.0, 1.0))
    if now.waited <= waiting:
        return fitted
    least, most = 1.0, MOST_WORK  # the more work, the shorter the flight
    shortest, longest = 0.0, fitted.flight
    while most - least > 1.0 / FINE:
        factor = (least + most) / 2
        stretched = loop.scaled(factor)
        flown = _with_flight(stretched, target, math.inf, shortest, longest)
        run = simulate(flown)
        if run.waited > waiting and run.cycle <= OVER * target:
            least, longest, fitted = factor, flown.flight, flown
        else:
            most, shortest = factor, flown.flight
    return fitted


def with_flight(loop: SimulatedLoop, target: float, most_waited: float = math.inf) -> SimulatedLoop:
    """The loop with the longest flight at which an iteration takes less than ``target`` cycles, and
    waits for less than ``most_waited``."""
    return _with_flight(loop, target, most_waited, 0.0, target * (loop.ahead + 1))


def _with_flight(loop: SimulatedLoop, target: float, waited: float, shortest: float, longest: float) -> SimulatedLoop:
    while longest - shortest > target / FINE:
        flight = (shortest + longest) / 2
        run = simulate(replace(loop, flight=flight))
        shortest, longest = (flight, longest) if run.cycle < target and run.waited < waited else (shortest, flight)
    return replace(loop, flight=shortest)


def with_work(loop: SimulatedLoop, target: float, bounds: tuple[float, float]) -> SimulatedLoop:
    """The loop with its work scaled so that an iteration takes ``target`` cycles."""
    least, most = bounds
    while most - least > 1.0 / FINE:
        factor = (least + most) / 2
        least, most = (factor, most) if simulate(loop.scaled(factor)).cycle < target else (least, factor)
    return loop.scaled(least)
