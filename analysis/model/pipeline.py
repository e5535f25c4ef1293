"""The few numbers that a prediction of depth rests on, read off one launch of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ncubble.analysis.account.account import MIN_SAMPLES, BubbleAccount
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.sm_load import sm_load
from ncubble.analysis.account.stalls import CLASSES, classified, context_of
from ncubble.analysis.account.units import MEMORY, cta_share, utilization
from ncubble.analysis.model.residency import Residency, residency
from ncubble.analysis.model.ring import Ring, rings_of, together
from ncubble.analysis.model.steps import LoopSteps, steps_of
from ncubble.analysis.report.report import Launch, once_per_launch
from ncubble.profiling.metrics.generations import load_generations

PADDING = 1.35
"""Maximum shared memory of a stage relative to the bytes copied into it: rows may be padded against
conflicts."""
LEAST_ITERATIONS = 2.0
REACHED = {"l2": 0.7, "dram": 0.92}
"""Shares of peak bandwidth: of L2 for pipelined loops (training launches of the truth), of DRAM for
plain copies."""


@dataclass(frozen=True)
class Pipeline:
    """A pipelined loop as it ran. Times are in cycles of one iteration of one CTA, shares from 0 to
    1.

    ``ctas`` of ``warps`` are resident on an SM, of ``grid`` for each SM in all. ``cycle`` is the
    CTA's whole life divided by its iterations, ``busy`` what the bounding unit works for it.
    ``waiting`` and ``copying`` are the shares of its warps' samples that wait for data (also at a
    barrier, for warps whose data came late), and stand at copies; ``outside`` is its time before
    and after the loop. ``memory`` is how full DRAM or L2 are, of what they reach. ``busy_pct`` and
    ``elapsed`` (cycles) are the launch's, and ``measured_on`` its compute capability. Of the code:
    ``delay``, ``asynchronous`` and ``compiled`` as in ``Ring``, ``plain`` where tiles go through
    registers, ``code`` the steps of a loop of ``wgmma``, None where they are not read. ``evidence``
    says in words what the depth was inferred from.
    """

    stages: int
    stages_from: str
    ctas: float
    warps: float
    grid: float
    iterations: float
    cycle: float
    busy: float
    tile_B: float  # noqa: N815
    waiting: float
    copying: float
    outside: float
    memory: float
    delay: float
    asynchronous: bool
    plain: bool
    compiled: bool
    busy_pct: float
    elapsed: float
    measured_on: str
    residency: Residency | None
    code: LoopSteps | None = None
    evidence: str = ""


@dataclass(frozen=True)
class Unidentified:
    """Why nothing can be predicted, and what to give or collect."""

    reason: str
    stages: int | None = None
    stages_from: str = ""


@dataclass(frozen=True)
class _Counted:
    """What the launch and its counters say: CTAs, ``warps`` of each, SMs, resident CTAs (mean while
    an SM has any), elapsed cycles, the share of them with a CTA, ``fill_B`` of traffic from L2 and
    ``shared_B`` of shared memory."""

    ctas: float
    warps: float
    sms: float
    resident: float
    elapsed: float
    active: float
    fill_B: float  # noqa: N815
    shared_B: float  # noqa: N815

    @classmethod
    def of(cls, launch: Launch) -> _Counted:
        row, quantities = launch.identity, load_generations().quantities
        warps = _ceil(_product(row.block) / 32)
        return cls(
            ctas=_product(row.grid),
            warps=warps,
            sms=launch.first(quantities["sms"]),
            resident=launch.value("sm__warps_active.avg.per_cycle_active") / warps,
            elapsed=row.cycles,
            active=cta_share(launch),
            fill_B=launch.first(quantities["fill_bytes"]),
            shared_B=row.smem_static_B + row.smem_dynamic_B,
        )

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, nor 0 where that cannot be."""
        positive = (self.ctas, self.warps, self.sms, self.resident, self.elapsed, self.active)
        return all(0 < value < math.inf for value in positive) and self.fill_B >= 0 and self.shared_B >= 0


def pipeline_of(launch: Launch, stages: int | None = None) -> Pipeline | Unidentified:
    """The pipeline of one launch. The code says its present depth, else the manifest does;
    ``stages`` overrules both. Raises UsageError for a launch that is not there."""
    return _present_pipeline(launch) if stages is None else _pipeline_of(launch, stages)


@once_per_launch
def _present_pipeline(launch: Launch) -> Pipeline | Unidentified:
    """The pipeline of one launch at the depth that its code or its manifest says."""
    return _pipeline_of(launch, None)


def _pipeline_of(launch: Launch, stages: int | None) -> Pipeline | Unidentified:
    ring, counted, account = launch_ring(launch), _Counted.of(launch), account_of(launch)
    depth = _depth(launch, ring, stages)
    if account is None or account.unit in MEMORY:
        unit = "no utilization was collected" if account is None else f"{account.unit} is its busiest unit"
        why = f"{unit}, but depth is only predicted for kernels bound by a pipe"
        return Unidentified(why, depth.stages, depth.source)
    lacking = _lacking(account, counted, ring)
    if ring is None or lacking:
        return Unidentified(lacking, depth.stages, depth.source)
    if depth.stages is None:
        return Unidentified(f"the present depth is unknown ({depth.evidence}): set it with --stages")
    return _pipeline(launch, account, counted, ring, depth)


@once_per_launch
def launch_ring(launch: Launch) -> Ring | None:
    """The rings of a launch together, by its code; None where it shows none."""
    found, grid, block = account_of(launch), launch.identity.grid, launch.identity.block
    return together(rings_of(launch.source, _product(grid), _ceil(_product(block) / 32), found.unit if found else ""))


def present_depth(launch: Launch) -> int | None:
    """Buffers of a launch's ring, by its code, else by its manifest; None where neither says."""
    return _depth(launch, launch_ring(launch), None).stages


def _lacking(account: BubbleAccount, counted: _Counted, ring: Ring | None) -> str:
    """What the report lacks for a prediction, and the remedy; empty where it is complete."""
    if not counted.complete:
        return "counters of residency or traffic are missing: profile with the set pipeline"
    if ring is None:
        return "no copies from global to shared memory in code with execution counts (set source)"
    if account.weights is None or account.weights.drop(columns="aside").to_numpy().sum() < MIN_SAMPLES:
        return "too few warp samples: profile with the set source"
    if ring.iterations < LEAST_ITERATIONS:
        return f"its loop over tiles runs {ring.iterations:.1f} times per CTA: nothing to pipeline"
    if not account.parts["tensor_busy"] + account.parts["unit_busy"] > 0:
        return "no unit was busy"
    return ""


class _Depth(NamedTuple):
    stages: int | None
    source: str
    evidence: str


def _depth(launch: Launch, ring: Ring | None, given: int | None) -> _Depth:
    """The present depth, what says so, and the evidence, with a word on a manifest that differs."""
    declared = stages if isinstance(stages := launch.declared.get("stages"), int) and stages > 0 else None
    seen, evidence = (ring.stages, ring.evidence) if ring else (None, "")
    if seen and declared and declared != seen:
        evidence += f"; the manifest says {declared}"
    for stages, source in ((given, "given"), (seen, "sass"), (declared, "manifest")):
        if stages:
            return _Depth(stages, source, evidence)
    return _Depth(None, "", evidence)


def _pipeline(launch: Launch, account: BubbleAccount, counted: _Counted, ring: Ring, depth: _Depth) -> Pipeline:
    traffic = counted.fill_B / counted.ctas / ring.iterations
    tile, stages = _tile_bytes(ring, traffic), depth.stages or 1
    places = residency(launch, stages, _stage_bytes(counted.shared_B, stages, tile, ring.copies))
    limit = places.ctas(stages) if places else round(counted.resident)
    per_iteration = counted.sms * counted.elapsed / counted.ctas / ring.iterations
    busy_pct = account.parts["tensor_busy"] + account.parts["unit_busy"]
    busy = busy_pct / 100 * per_iteration
    # Spare warps may have exited, so fewer warps may be resident than one CTA has.
    cycle = max(busy, max(1.0, counted.resident) * counted.active * per_iteration)
    samples = _samples(launch, account)
    shares = _shares(samples, ring.begin)
    context = context_of(launch.source, account.unit)
    return Pipeline(
        stages=stages,
        stages_from=depth.source,
        warps=counted.warps,
        ctas=sharing(counted.ctas / counted.sms, limit),
        grid=counted.ctas / counted.sms,
        iterations=ring.iterations,
        cycle=cycle,
        busy=busy,
        tile_B=traffic,
        waiting=shares["data_wait"] + (0.0 if ring.asynchronous else _late(shares)),
        copying=shares["copy_cost"],
        outside=(shares["epilogue"] + shares["before"]) * cycle,
        memory=_memory(launch),
        delay=ring.delay if stages > 1 else 0.0,
        asynchronous=ring.asynchronous,
        plain=ring.copies == "plain",
        compiled=ring.compiled,
        busy_pct=busy_pct,
        elapsed=counted.elapsed,
        measured_on=launch.identity.compute_capability,
        residency=places,
        code=steps_of(context, launch.source, ring, stages, counted.ctas, samples),
        evidence=depth.evidence,
    )


def sharing(ctas: float, limit: int) -> float:
    """CTAs that share an SM, of ``ctas`` per SM in all: where they all run at once, those of the
    fullest SM, which ends last."""
    return max(1.0, float(math.ceil(ctas)) if ctas <= limit else float(limit))


def _samples(launch: Launch, account: BubbleAccount) -> list[tuple[int, str, float]]:
    """(row, class, share) of the time of warps that hold something up: not of those that wait for
    others at their end. Samples are split among classes as in the account, but count in full also
    where they coincide with a busy unit."""
    busy = account.parts["tensor_busy"] + account.parts["unit_busy"]
    table = classified(launch.source, account.unit, sm_load(launch, busy))
    ended = launch.source["opcode"].to_numpy()[table["row"].to_numpy()] == "EXIT"
    counted = table[(table["part"] != "aside") & ~ended]
    shares = counted["samples"] / float(counted["samples"].sum())
    return list(zip(counted["row"].tolist(), counted["part"].tolist(), shares.tolist(), strict=True))


def _shares(samples: Sequence[tuple[int, str, float]], begin: int) -> Mapping[str, float]:
    """Shares by class, and of what stands before row ``begin``."""
    shares = dict.fromkeys((*CLASSES, "before"), 0.0)
    for row, part, share in samples:
        shares[part] += share
        shares["before"] += share if row < begin else 0.0
    return shares


def _memory(launch: Launch) -> float:
    """How full the fuller one of L2 and DRAM is, of what loops reach; 0 where that is not known."""
    shares = (utilization(launch, MEMORY[name]) / 100 / roof for name, roof in REACHED.items())
    return max([0.0, *(share for share in shares if share > 0)])


def _late(samples: Mapping[str, float]) -> float:
    """The share of waits at barriers that is for warps whose data came late: that of data in all
    that delays a warp.

    Not of wgmma: its warps also meet for the products, which run meanwhile.
    """
    delays = [samples[name] for name in ("data_wait", "copy_cost", "smem_wait", "issue")]
    return samples["sync_wait"] * delays[0] / max(sum(delays), 1e-9)


def _tile_bytes(ring: Ring, traffic: float) -> float:
    """Shared memory that a tile takes: what copies bring, but no more than traffic where some of
    their lanes do not copy."""
    if not ring.tile_B > 0:
        return traffic
    return min(ring.tile_B, traffic) if ring.copies == "cp.async" and traffic > 0 else ring.tile_B


def _stage_bytes(used: float, depth: int, tile: float, copies: str) -> float:
    """Shared memory of a stage: an equal part of all where that is the tile with its padding, else
    the tile."""
    part = used / depth
    return part if copies != "tma" and tile <= part <= PADDING * tile else tile


def _product(extent: str) -> float:
    """Of the numbers in a text such as ``32,32,1``; NaN where it holds something else."""
    parts = extent.split(",")
    return float(math.prod(int(part) for part in parts)) if all(part.isdecimal() for part in parts) else math.nan


def _ceil(value: float) -> float:
    return value if math.isnan(value) else math.ceil(value)
