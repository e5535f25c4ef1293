"""Utilization and cycles of a pipelined loop at other depths, from one profile. Pure functions over
``Pipeline``.

An iteration of a CTA's loop takes as long as its own work beside that of its neighbours
(``queueing``), or as long as a tile is on its way, divided by the tiles that are on their way at
one time, whichever is longer. What a CTA does before and after its loop is added. Warp samples say
how long warps wait for data, so that the own work is what remains. On its way, a tile takes its
turn at the port through which an SM takes all of them; the rest of its flight is a latency, which
follows from the present cycle where data bound it, and is the chip's ``copy_latency`` where they do
not. How far each of these is known decides how wide the interval is, and whether anything is
predicted at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

from ncubble.analysis.model.pipeline import Pipeline
from ncubble.analysis.model.queueing import cycle_time, flight_time, idle_flight, own_time
from ncubble.chips import CopyLatency, chip_of

LATENCY_OF = "9.0"
"""Compute capability whose copy latency stands in for that of chips without one of their own in
``chips.toml``."""
PORT = 64.0
"""Bytes that an SM takes from L2 in a cycle at most (NVIDIA V100 and A100 architecture white
papers)."""
ROOF = 0.92
"""Share of its peak that a plain copy reaches of DRAM; a kernel does no better."""
SHARPNESS = 24.0
"""Exponent of the norm that joins two bounds: where they are equal, the cycle is 3 % longer than
either."""
SHOWN = 1.15
"""Latency shows where the cycle is longer than without waits by this factor."""
WAIT_SPREAD = (0.75, 1.0, 1.2)
"""Factors on the measured wait for data."""
SHOWN_SPREAD = (0.9, 1.0, 1.1)
"""Factors on a latency that shows."""
NOISE = 0.06
"""Cycles of kernels that differ in depth alone, and have nothing to gain from it, spread by this
share."""

MARGIN, OTHER_MARGIN = 1.9, 6.6
"""Points by which an interval is wider than what the cases say, so that 90 % of intervals hold: for
a deeper ring of as many CTAs, and for any other. Split conformal prediction (Y. Romano, E.
Patterson and E. Candès, "Conformalized quantile regression", NeurIPS 2019) on the launches of the
truth that may be learned from; ``ncubble validate truth`` shows the margins that were needed."""
LEAST_SHARE = 0.1
"""Of a lower bound, in percent: cycles are divided by it."""

DOUBT = 0.15
"""Of the distance from what is expected to the lower bound, what a choice of depth leaves out: a
depth that is known to be as good is not left for one that may be worse (chosen on the launches of
the truth that may be learned from)."""


@dataclass(frozen=True)
class Prediction:
    """Busy share of the bounding unit in percent of elapsed cycles, with the bounds of an interval
    of 90 %, and elapsed cycles."""

    tensor_elapsed_pct: float
    cycles: float
    low: float
    high: float


@dataclass(frozen=True)
class _Case:
    """One combination of what is not known: the factor on the wait for data, the latency, and where
    the loop and the ends of other numbers of CTAs lie between their bounds (0 to 1)."""

    wait: float
    latency: float
    sharing: float


def predict(now: Pipeline, stages: int) -> Prediction | None:
    """What to expect at depth ``stages``; None where it does not fit an SM or is not identified
    (``refusal`` says)."""
    if stages == now.stages:
        return Prediction(now.busy_pct, now.elapsed, now.busy_pct, now.busy_pct)
    if refusal(now, stages):
        return None
    middle, *others = (_elapsed(now, stages, case) for case in _cases(now))
    shares = [now.busy_pct * now.elapsed / cycles for cycles in (middle, *others)]
    margin = margin_of(now, stages)
    low, high = min(shares) / (1.0 + NOISE) - margin, max(shares) * (1.0 + NOISE) + margin
    return Prediction(shares[0], middle, min(max(low, LEAST_SHARE), shares[0]), min(high, 100.0))


def margin_of(now: Pipeline, stages: int) -> float:
    """Points that an interval is wider than what its cases say."""
    return MARGIN if stages > now.stages and ctas_at(now, stages) == now.ctas else OTHER_MARGIN


def sure(prediction: Prediction) -> float:
    """The busy share by which depths are chosen: less than what is expected, the more so the less
    it is known. The present depth is known."""
    return prediction.tensor_elapsed_pct - DOUBT * (prediction.tensor_elapsed_pct - prediction.low)


def chosen_depth(shares: Mapping[int, float]) -> int:
    """The depth with the largest share, by ``sure`` where it is predicted; of equal ones the
    shallowest, which takes the least shared memory."""
    return max(sorted(shares), key=lambda depth: shares[depth])


def refusal(now: Pipeline, stages: int) -> str:
    """Why nothing is predicted for this depth; empty where something is."""
    if now.residency and now.residency.ctas(stages) < 1:
        return f"more shared memory than the {now.residency.cta_B:.0f} B that a CTA may have"
    if stages == 1 and now.compiled and now.stages > 1:
        return "not identified, as the compiler builds another loop for it, with plain loads"
    if stages < now.stages and not _shows(now) and not _chip_latency(now.measured_on):
        return (
            "not identified, as the wait for data does not show at the present depth, and the latency of a GPU of "
            f"compute capability {now.measured_on or 'unknown'} was not measured"
        )
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
    return max(1.0, min(float(now.residency.ctas(stages)), now.grid))


def _cases(now: Pipeline) -> Iterator[_Case]:
    """The expected case first."""
    shows = _shows(now)
    usual = _copy_latency(now)
    latencies = (1.0, *SHOWN_SPREAD) if shows else (usual.cycles, usual.low, usual.high)
    yield _Case(1.0, latencies[0], 0.5)
    for wait, latency, sharing in product(WAIT_SPREAD, latencies[1:], (0.0, 1.0)):
        yield _Case(wait, latency, sharing)


def _elapsed(now: Pipeline, stages: int, case: _Case) -> float:
    ctas, ends = ctas_at(now, stages), _ends(now)
    own, free = _without_waits(now, case.wait)
    latency = _latency(now, own, free, case)
    if ctas != now.ctas:
        ends *= _at_ends(ctas, case.sharing) / _at_ends(now.ctas, case.sharing)
        free = _shared_out(now, free, ctas, case.sharing)
        own = own_time(free, (now.busy, now.shared), ctas)
    flight = flight_time(latency, now.tile_B / PORT, ctas * _ahead(now, stages))
    loop = _norm(free, (flight + _start(now, own, ctas)) / max(1, stages - 1))
    if stages == 1:  # a CTA copies while its neighbours compute, and the other way round
        loop = max(loop, own + latency + _behind(now, ctas))
    cycle = loop + ends
    if ctas == now.ctas:  # more depth alone slows nothing down
        cycle = min(cycle, now.cycle) if stages > now.stages else max(cycle, now.cycle)
    return now.elapsed * max(now.busy_pct / 100, (cycle / ctas) / (now.cycle / now.ctas))


def _ends(now: Pipeline) -> float:
    """Cycles per iteration before and after the loop, with the wait for the first tile.

    CTAs that share an SM start together and hold each other up in their loops, so that they also
    end together: none hides the ends of another, as far as the unit was idle for so long.
    """
    return min(now.outside + _fill(now), now.cycle - now.ctas * now.busy)


def _at_ends(ctas: float, where: float) -> float:
    """How much longer ends take among so many CTAs: as long as alone (``where`` 1), or each in its
    turn (0)."""
    return ctas + where * (1.0 - ctas)


@lru_cache(maxsize=64)
def _without_waits(now: Pipeline, factor: float = 1.0) -> tuple[float, float]:
    """(own time of a CTA alone, cycle among its neighbours) of an iteration in the loop if data
    were always there."""
    demands, loop = (now.busy, now.shared), now.cycle - _ends(now)
    own = own_time(loop, demands, now.ctas)
    waiting = min(max(0.0, factor * _exposed(now) - _fill(now)), own - now.busy)
    least = max(now.ctas * now.tile_B / PORT, now.roof / ROOF, now.ctas * now.busy)
    free = max(cycle_time(own - max(0.0, waiting), demands, now.ctas), least)
    return own - max(0.0, waiting), min(free, loop)


def _exposed(now: Pipeline) -> float:
    """Cycles of an iteration in which warps wait for data and their own products do not run.

    Products of wgmma run by themselves: the pipe works for a CTA longer than its samples at the
    unit say. What lacks there is hidden below what warps do between issuing a product and waiting
    for data, such as copies, and only what is left of it below the wait.
    """
    waiting = now.waiting * now.cycle
    if not now.asynchronous:
        return waiting
    neighbours = (now.ctas - 1.0) * now.busy / now.cycle
    hidden = max(0.0, now.busy * (1.0 + neighbours) - now.working * now.cycle)
    before = max(0.0, (1.0 - now.working) * now.cycle - waiting)
    return max(0.0, waiting - max(0.0, hidden - before))


def _fill(now: Pipeline) -> float:
    """The wait for a CTA's first tile, which no depth removes, per iteration. With one stage all
    waits are alike."""
    return (_copy_latency(now).cycles + now.tile_B / PORT) / now.iterations if now.stages > 1 else 0.0


def _shows(now: Pipeline) -> bool:
    """Whether the latency can be read off the present cycle."""
    return now.cycle - _ends(now) > SHOWN * _without_waits(now)[1]


def _latency(now: Pipeline, own: float, free: float, case: _Case) -> float:
    """Cycles of a tile's flight on an idle SM. ``case.latency`` is a factor where it shows, else
    the value itself, as far as the present cycle allows so much."""
    loop = now.cycle - _ends(now)
    if now.stages == 1:
        return max(0.0, case.latency * (loop - own - _behind(now, now.ctas))) if _shows(now) else case.latency
    bound = loop * (now.stages - 1)
    if _shows(now):
        bound = (loop**SHARPNESS - min(free, loop / 1.01) ** SHARPNESS) ** (1 / SHARPNESS) * (now.stages - 1)
        bound *= case.latency
    flight = max(0.0, bound - _start(now, own, now.ctas))
    most = idle_flight(flight, now.tile_B / PORT, now.ctas * _ahead(now, now.stages))
    return most if _shows(now) else min(case.latency, most)


def _ahead(now: Pipeline, stages: int) -> float:
    """Tiles of a CTA that are on their way at one time."""
    return min(max(1, stages - 1), now.iterations)


def _start(now: Pipeline, own: float, ctas: float) -> float:
    """Cycles from the end of a wait until the tile that takes the free slot could start, if all of
    it started at once.

    Copies that stand among products pass the port around their mean. Others follow the wait, and
    where issuing them takes longer than the port, that is what it takes.
    """
    if now.stages == 1:
        return 0.0
    service = now.tile_B / PORT
    return max(0.0, now.delay * own - service / 2 if now.delay > 0 else _copying(now, ctas) - service)


def _behind(now: Pipeline, ctas: float) -> float:
    """Cycles that the port needs for a tile after its last copy was issued."""
    return max(0.0, now.tile_B / PORT - _copying(now, ctas))


def _copying(now: Pipeline, ctas: float) -> float:
    """Cycles in which a CTA issues the copies of a tile."""
    return now.copying * now.cycle * ctas / now.ctas


def _shared_out(now: Pipeline, free: float, ctas: float, where: float) -> float:
    """Cycle of the loop without waits with another number of CTAs, between two bounds (``where`` 0
    and 1).

    One: an SM does as much work in a cycle as now, which more CTAs do not change. The other, with
    fewer: products that run by themselves keep the pipe busy, while products that warps issue in
    turn with other work leave it idle as they do in a CTA that is alone.
    """
    demands, same = (now.busy, now.shared), free * ctas / now.ctas
    if ctas > now.ctas:
        return max(ctas * now.busy, same)
    if now.asynchronous:
        return max(ctas * now.busy, same + where * (ctas * now.busy - same))
    alone = cycle_time(own_time(free, demands, now.ctas), demands, ctas)
    return same + where * max(0.0, alone - same)


def _norm(first: float, second: float) -> float:
    largest = max(first, second)
    return float(largest * ((first / largest) ** SHARPNESS + (second / largest) ** SHARPNESS) ** (1 / SHARPNESS))
