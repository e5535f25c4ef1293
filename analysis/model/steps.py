"""The steps of a ``wgmma`` loop, read from its code, with the work between them from samples."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd

from ncubble.analysis.account.stalls import CodeContext
from ncubble.analysis.model.ring import Ring
from ncubble.analysis.model.simulation import COMMIT, COPY, DRAIN, MEET, PRODUCT, WAIT, WORK, LoopStep
from ncubble.sass.opcodes import is_wgmma

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
        for part, share in own[row].items():
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
