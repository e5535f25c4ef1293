"""What a prediction of depth rests on, read off one launch: a few numbers, and the steps of its
loop, if ``wgmma`` works there."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from ncubble.analysis.account.account import MIN_SAMPLES, BubbleAccount
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.code import CodeContext
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.rings import Ring
from ncubble.analysis.account.stalls import CLASSES
from ncubble.analysis.account.units import MEMORY
from ncubble.analysis.model.simulation import COMMIT, COPY, DRAIN, MEET, PRODUCT, WAIT, WORK, LoopStep
from ncubble.analysis.report.report import Launch, once_per_launch
from ncubble.sass.opcodes import is_wgmma

PADDING = 1.35
"""Maximum shared memory of a stage relative to the bytes copied into it: rows may be padded against
conflicts."""
LEAST_ITERATIONS = 2.0
UNIT_B = 128
"""Shared memory is allocated in multiples of this (CUDA occupancy calculator, compute capability
7.0 on)."""
REACHED = {"l2": 0.7, "dram": 0.92}
"""Shares of peak bandwidth: of L2 for pipelined loops (training launches of the truth), of DRAM for
plain copies."""
RAN = 0.05
"""An instruction with at least this share of the waits' executions is part of the loop: one of 8
warps copies for all by TMA."""
SEPARATE = ("copy_cost", "smem_wait")
"""Work that is a step of its own: between two steps other groups may take their turn."""
WAITS = ("data_wait", "sync_wait", "unit")
"""Samples of these classes must be reproduced by the simulation."""
GROUP = 4
"""Warps of a group: ``wgmma`` is issued by four."""
_DRAIN = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x([0-9a-f]+)")


@dataclass(frozen=True)
class LoopSteps:
    """``steps`` of an iteration; ``groups``, ``ahead``, ``pending`` and ``own_shares`` as in
    ``SimulatedLoop``; ``ends`` is the work outside the loop, as a share of a CTA's time, as amounts
    of ``steps`` are."""

    steps: tuple[LoopStep, ...]
    groups: int
    ahead: int
    pending: int
    own_shares: bool
    ends: float


@dataclass(frozen=True)
class Residency:
    """``others`` is the number of CTAs per SM by registers, warps and the like; bytes are of shared
    memory: ``used_B`` of a CTA at depth ``stages``, ``stage_B`` of one stage, ``reserved_B`` by the
    driver per CTA."""

    stages: int
    others: int
    used_B: float  # noqa: N815
    stage_B: float  # noqa: N815
    reserved_B: float  # noqa: N815
    sm_B: float  # noqa: N815
    cta_B: float  # noqa: N815

    def shared_B(self, stages: int) -> float:  # noqa: N802
        """Shared memory of a CTA at another depth, in bytes."""
        return self.used_B + (stages - self.stages) * self.stage_B

    def ctas(self, stages: int) -> int:
        """CTAs per SM at another depth; 0 where not even one fits."""
        needed = self.shared_B(stages)
        if needed > self.cta_B:
            return 0
        rounded = math.ceil((max(0.0, needed) + self.reserved_B) / UNIT_B) * UNIT_B
        return min(self.others, int(self.sm_B // rounded)) if rounded > 0 else self.others


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


def pipeline_of(launch: Launch, stages: int | None = None) -> Pipeline | Unidentified:
    """The pipeline of one launch. The code says its present depth, else the manifest does;
    ``stages`` overrules both. Raises UsageError for a launch that is not there."""
    return _present_pipeline(launch) if stages is None else _pipeline_of(launch, stages)


@once_per_launch
def _present_pipeline(launch: Launch) -> Pipeline | Unidentified:
    """The pipeline of one launch at the depth that its code or its manifest says."""
    return _pipeline_of(launch, None)


def _pipeline_of(launch: Launch, given: int | None) -> Pipeline | Unidentified:
    found, account = evidence(launch), account_of(launch)
    stages, source, words = _depth(found, given)
    if account is None or account.unit in MEMORY:
        unit = "no utilization was collected" if account is None else f"{account.unit} is its busiest unit"
        return Unidentified(f"{unit}, but depth is only predicted for kernels bound by a pipe", stages, source)
    lacking = _lacking(found, account)
    if lacking or found.ring is None:
        return Unidentified(lacking, stages, source)
    if stages is None:
        return Unidentified(f"the present depth is unknown ({words}): set it with --stages")
    return _pipeline(found, account, found.ring, stages, source, words)


def _lacking(found: Evidence, account: BubbleAccount) -> str:
    """What the report lacks for a prediction, and the remedy; empty where it is complete."""
    positive = (found.grid, found.block, found.sms, found.active_warps, found.cycles, found.with_cta)
    if not (all(0 < value < math.inf for value in positive) and found.quantity("fill_bytes") >= 0 <= found.shared_B):
        return "counters of residency or traffic are missing: profile with the set pipeline"
    if found.ring is None:
        return "no copies from global to shared memory in code with execution counts (set source)"
    if account.weights is None or account.weights.drop(columns="aside").to_numpy().sum() < MIN_SAMPLES:
        return "too few warp samples: profile with the set source"
    if found.ring.iterations < LEAST_ITERATIONS:
        return f"its loop over tiles runs {found.ring.iterations:.1f} times per CTA: nothing to pipeline"
    return "" if account.busy_pct > 0 else "no unit was busy"


def _depth(found: Evidence, given: int | None) -> tuple[int | None, str, str]:
    """The present depth, what says so, and the evidence, with a word on a manifest that differs."""
    declared = found.declared_stages
    seen, words = (found.ring.stages, found.ring.evidence) if found.ring else (None, "")
    if seen and declared and declared != seen:
        words += f"; the manifest says {declared}"
    known = ((given, "given"), (seen, "sass"), (declared, "manifest"))
    stages, source = next(((stages, source) for stages, source in known if stages), (None, ""))
    return stages, source, words


def _pipeline(found: Evidence, account: BubbleAccount, ring: Ring, stages: int, source: str, words: str) -> Pipeline:
    traffic = found.quantity("fill_bytes") / found.grid / ring.iterations
    places = residency(found, stages, _stage_bytes(found.shared_B, stages, _tile_bytes(ring, traffic), ring))
    resident = found.active_warps / found.block
    limit = places.ctas(stages) if places else round(resident)
    per_iteration = found.sms * found.cycles / found.grid / ring.iterations
    busy = account.busy_pct / 100 * per_iteration
    # Spare warps may have exited, so fewer warps may be resident than one CTA has.
    cycle = max(busy, max(1.0, resident) * found.with_cta * per_iteration)
    samples = _samples(found)
    shares = _shares(samples, ring.begin)
    return Pipeline(
        stages=stages,
        stages_from=source,
        warps=found.block,
        ctas=sharing(found.grid / found.sms, limit),
        grid=found.grid / found.sms,
        iterations=ring.iterations,
        cycle=cycle,
        busy=busy,
        tile_B=traffic,
        waiting=shares["data_wait"] + (0.0 if ring.asynchronous else _late(shares)),
        copying=shares["copy_cost"],
        outside=(shares["epilogue"] + shares["before"]) * cycle,
        memory=max(
            [0.0, *(full for name, roof in REACHED.items() if (full := found.shares.get(name, 0.0) / 100 / roof) > 0)]
        ),
        delay=ring.delay if stages > 1 else 0.0,
        asynchronous=ring.asynchronous,
        plain=ring.copies == "plain",
        compiled=ring.compiled,
        busy_pct=account.busy_pct,
        elapsed=found.cycles,
        measured_on=found.capability,
        residency=places,
        code=steps_of(found.code, found.source, ring, stages, found.grid, samples),
        evidence=words,
    )


def sharing(ctas: float, limit: int) -> float:
    """CTAs that share an SM, of ``ctas`` per SM in all: where they all run at once, those of the
    fullest SM, which ends last."""
    return max(1.0, float(math.ceil(ctas)) if ctas <= limit else float(limit))


def _samples(found: Evidence) -> list[tuple[int, str, float]]:
    """(row, class, share) of the time of warps that hold something up: not of those that wait for
    others at their end. Samples are split among classes as in the account, but count in full also
    where they coincide with a busy unit."""
    table = found.samples
    ended = found.source["opcode"].to_numpy()[table["row"].to_numpy()] == "EXIT"
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


def _stage_bytes(used: float, depth: int, tile: float, ring: Ring) -> float:
    """Shared memory of a stage: an equal part of all where that is the tile with its padding, else
    the tile. Tiles that TMA writes or wgmma reads are swizzled, and have no padding."""
    part, padded = used / depth, ring.copies != "tma" and not ring.asynchronous
    return part if padded and tile <= part <= PADDING * tile else tile


def residency(found: Evidence, stages: int, stage_B: float) -> Residency | None:  # noqa: N803
    """Residency of one launch; None where the report lacks the limits (section ``Occupancy``)."""
    known = [limit for what, limit in found.limits.items() if limit >= 1 and what != "shared_mem"]
    if not known or math.isnan(found.sm_shared_B + found.cta_shared_B):
        return None
    reserved = found.reserved_B if found.reserved_B >= 0 else 0.0
    return Residency(stages, int(min(known)), found.shared_B, stage_B, reserved, found.sm_shared_B, found.cta_shared_B)


@dataclass
class _LoopReading:
    """Steps read so far, with products of one iteration joined up to the next drain."""

    steps: list[LoopStep] = field(default_factory=list)
    products: int = 0
    copied: bool = False
    waited: bool = False
    working_on: str = ""

    def work(self, part: str, share: float) -> None:
        """Work, joined with that before it of the same part."""
        if self.steps and self.steps[-1].kind == WORK and self.working_on == part:
            share += self.steps.pop().amount
        self.steps.append(LoopStep(WORK, share))
        self.working_on = part

    def product(self) -> None:
        """One more instruction of a product, which was handed over with the first one."""
        self.products += 1
        for at in range(len(self.steps) - 1, -1, -1):
            if self.steps[at].kind == PRODUCT:
                self.steps[at] = LoopStep(PRODUCT, self.steps[at].amount + 1)
                return
            if self.steps[at].kind != WORK:
                break
        self.steps.append(LoopStep(PRODUCT, 1))


def steps_of(
    context: CodeContext,
    source: pd.DataFrame,
    ring: Ring,
    stages: int,
    ctas: float,
    samples: Iterable[tuple[int, str, float]],
) -> LoopSteps | None:
    """The steps of the ``wgmma`` loop in which ``ring`` is used by ``ctas`` of the grid; None where
    it is none, or warps hand the pipe to each other at named barriers. ``samples`` are (row, class,
    share of all that count). Amounts of products are shares of those of an iteration."""
    if not ring.asynchronous:
        return None
    sass, executed = source["sass"].tolist(), source["executed"].tolist()
    own, ends = _work(context, ring, samples)
    most = max(executed[row] for row in ring.waits or ring.rows)
    copies = [row for row in ring.rows if row in context.loop and executed[row] >= RAN * most]
    first, last = min(copies, default=-1), max(copies, default=-1)
    if ring.copies == "plain":  # registers that are loaded first are stored, and awaited, before the last are loaded
        last = first
    reading, products = _LoopReading(), 0.0
    for row in context.loop:
        for part, share in own.get(row, {}).items():
            reading.work(part, share)
        if executed[row] < RAN * most:
            continue
        opcode = context.opcodes[row]
        if opcode.startswith("BAR.ARV"):
            return None
        if is_wgmma(opcode):
            products = max(products, executed[row])
        if _awaits(row, opcode, ring, reading):
            reading.waited = True
            reading.steps.append(LoopStep(WAIT))
        elif row in (first, last):
            reading.copied = True
            if row == first:
                reading.steps.append(LoopStep(COPY))
            if row == last:
                reading.steps.append(LoopStep(COMMIT))
        elif is_wgmma(opcode) and executed[row] >= most / 2:
            reading.product()
        elif match := _DRAIN.search(sass[row]):
            reading.steps.append(LoopStep(DRAIN, int(match[1], 16)))
        elif opcode.startswith("BAR.SYNC"):
            reading.steps.append(LoopStep(MEET))
    if not {WAIT, PRODUCT, DRAIN} <= {step.kind for step in reading.steps}:
        return None
    groups = max(1, round(products / ctas / ring.iterations / GROUP))
    return _steps(reading, groups, ring, stages, ends)


def _work(
    context: CodeContext, ring: Ring, samples: Iterable[tuple[int, str, float]]
) -> tuple[dict[int, dict[str, float]], float]:
    """Work of warps by row of the loop and part, and outside the loop in all."""
    own: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    ends = 0.0
    for row, part, share in samples:
        home = context.home[row]
        if home in context.loop and home >= ring.begin:
            if part not in WAITS:
                own[home][part if part in SEPARATE else ""] += share
        elif part not in ("data_wait", "unit"):
            ends += share
    return own, ends


def _awaits(row: int, opcode: str, ring: Ring, reading: _LoopReading) -> bool:
    """Whether a tile is awaited here: at the first wait for it, or at the first store of loaded
    registers."""
    if reading.waited:
        return False
    return row in ring.waits or (ring.copies == "plain" and reading.copied and opcode.startswith("STS"))


def _steps(reading: _LoopReading, groups: int, ring: Ring, stages: int, ends: float) -> LoopSteps:
    steps = [
        step._replace(amount=step.amount / reading.products) if step.kind == PRODUCT else step
        for step in reading.steps
        if groups > 1 or step.kind != MEET
    ]
    kinds = [step.kind for step in steps]
    last = max(at for at, kind in enumerate(kinds) if kind == DRAIN)
    left = steps[last].amount + kinds[last:].count(PRODUCT)
    if ring.copies == "plain":
        ahead = 0
    elif not reading.copied or (round(ring.preloaded) == stages and left == 0):
        ahead = stages
    else:
        ahead = stages - 1
    own_shares = ring.copies != "tma" and reading.copied
    return LoopSteps(tuple(steps), groups, ahead, math.ceil(left / kinds.count(PRODUCT)), own_shares, ends)
