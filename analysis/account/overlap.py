"""Decides which warp samples explain the unit's idle time. Classes alone do not: a wait that
coincides with a busy pipe costs nothing, and what a warp waits for in a queue is what stands before
it there.

Rules, each with the experiment behind it (kernels without one cause, H200:
docs/validation/README.md). They split and weight the samples of ``stalls.classified``; the sum of
samples stays.

1. *Asynchronous MMAs* (wgmma) run from their issue on. What a warp does, or waits for, in the time
   after coincides with them: of an iteration's samples, in program order from the first MMA, as
   large a share as the CTA's MMAs take.
2. *Phases.* Of all other kernels: where the CTA's barrier stands outside the stretch of MMAs, all
   its warps are in that stretch or out of it. A wait among the MMAs then coincides with the other
   warps' MMAs, except for the share that ``idle_among`` gives. At the barrier itself on average
   half of the warps still compute.
3. *Queue.* A shared load that is issued behind LDGSTS waits for them in the load/store unit first.
4. *Drain.* A wait for copies right behind their issue, with one buffer, is first for their passage
   through the load/store unit, as far as shared loads of other CTAs compete for it, then for the
   latency of memory. Where operands do not go through that unit (wgmma), or an SM has one CTA,
   copies pass unhindered: depth cures all of such waits.
5. *Full data stage.* Where wavefronts fill the data stage of L1, whoever waits in a queue of the
   load/store unit waits for them, be it a copy or a load.
6. *Full copy engine.* Where TMA has as many boxes as it can take, waits for its data are for its
   work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ncubble.analysis.account.sm_load import SmLoad
from ncubble.sass.opcodes import is_wgmma

QUEUES = ("mio_throttle", "lg_throttle", "short_scoreboard", "long_scoreboard")
"""Stall reasons of warps that wait for the load/store unit, in classes ``copy_cost`` and
``smem_wait``."""
FULL_FROM, FULL = 0.7, 0.9
"""Load of a unit from which queues before it are partly, and then entirely, caused by it."""
LEAST_IDLE = 0.05


@dataclass(frozen=True)
class Loop:
    """Roles of the instructions, where the main loop is, and to which row a repeated wait
    belongs."""

    roles: list[str]
    opcodes: list[str]
    rows: range
    home: list[int]

    @cached_property
    def stretch(self) -> range:
        """From the first MMA of the loop to the last MMA, or wait for MMAs, in it; empty without
        MMAs."""
        mma = [i for i in self.rows if self.roles[i] == "mma"]
        if not mma:
            return range(0)
        return range(mma[0], max(i for i in self.rows if self.roles[i] in ("mma", "mma_wait")) + 1)

    @property
    def asynchronous(self) -> bool:
        """Whether the MMAs of the loop run beside the warp that issued them."""
        return any(is_wgmma(self.opcodes[i]) or self.opcodes[i].startswith("UTC") for i in self.stretch)

    @cached_property
    def in_phases(self) -> bool:
        """Whether a barrier of the CTA stands in the loop, and none within the stretch of MMAs."""
        bars = [i for i in self.rows if self.opcodes[i].startswith("BAR")]
        stretch = self.stretch
        return bool(stretch) and bool(bars) and not any(i in stretch for i in bars)

    def place(self, row: int, part: str) -> str:
        """``before`` the MMAs of an iteration (their operands included), ``among`` them, or
        ``outside`` the loop."""
        home, stretch = self.home[row], self.stretch
        if home not in self.rows:
            return "outside"
        if home == stretch.start and part != "unit":
            return "before"
        return "among" if home in stretch else "before"

    @cached_property
    def copies_before(self) -> range:
        """Rows of the loop behind its first LDGSTS, as long as no MMA comes between; empty
        without."""
        copies = [i for i in self.rows if self.opcodes[i].startswith("LDGSTS") and i < self.stretch.start]
        return range(copies[0] + 1, self.stretch.start + 1) if copies else range(0)

    def drains(self, row: int) -> bool:
        """Whether a wait at ``row`` comes after copies with no MMA in between: they have only just
        been issued."""
        for i in (*range(row, self.rows.start - 1, -1), *range(self.rows.stop - 1, row, -1)):
            if self.roles[i] == "mma":
                return False
            if self.opcodes[i].startswith("LDGSTS"):
                return True
        return False


def weigh(samples: pd.DataFrame, loop: Loop, load: SmLoad | None) -> pd.DataFrame:
    """``samples`` (columns row, reason, part, samples) split by the rules, with a further column
    ``idle``: the share of them that coincides with an idle unit."""
    entries = list(samples.itertuples(index=False, name=None))
    if load is not None and loop.stretch:
        entries = list(_split(entries, loop, load))
    table = pd.DataFrame(entries, columns=["row", "reason", "part", "samples"])
    idle = np.ones(len(table))
    if load is not None and loop.asynchronous:
        idle = _uncovered(table, loop, load)
    elif load is not None and loop.in_phases:
        among = idle_among(table, loop, load)
        places = [loop.place(row, part) for row, part in zip(table["row"], table["part"], strict=True)]
        waiting = ~table["part"].isin(("unit", "aside"))
        idle[waiting & np.array([place == "among" for place in places], dtype=bool)] = among
        inside = np.array([place != "outside" for place in places], dtype=bool)
        idle[(table["reason"] == "barrier") & (table["part"] == "sync_wait") & inside] = 0.5 * (1.0 + among)
    return table.assign(idle=idle)


def _uncovered(samples: pd.DataFrame, loop: Loop, load: SmLoad) -> np.ndarray:
    """Share of each entry's samples that lies behind the time of the CTA's own MMAs."""
    idle = np.ones(len(samples))
    if math.isnan(load.busy) or math.isnan(load.resident):
        return idle
    homes = np.array([loop.home[row] for row in samples["row"]], dtype=int)
    counted = ((samples["part"] != "aside") & (homes >= loop.rows.start) & (homes < loop.rows.stop)).to_numpy()
    counts = np.where(counted, samples["samples"].to_numpy(dtype=float), 0.0)
    order = (homes - loop.stretch.start) % len(loop.rows)
    time = np.bincount(order[counted], counts[counted], minlength=len(loop.rows))
    covered = load.busy / load.resident * counts.sum()
    before = np.concatenate(([0.0], np.cumsum(time)[:-1]))
    behind = np.clip(before + time - covered, 0.0, time)
    share = np.divide(behind, time, out=np.ones_like(time), where=time > 0)
    waiting = counted & ~samples["part"].isin(("unit", "aside")).to_numpy()
    idle[waiting] = np.maximum(share[order[waiting]], LEAST_IDLE)
    return idle


def idle_among(samples: pd.DataFrame, loop: Loop, load: SmLoad) -> float:
    """Probability that the unit is idle of the CTA's own MMAs while the CTA is among them.

    With ``q`` the probability that a CTA there keeps the unit busy, ``s`` the share of time that it
    is there, and ``W`` CTAs that are independent of each other, the unit is busy for ``1 - (1 - q
    s)^W``: solved for ``q``.
    """
    counted = samples[samples["part"] != "aside"]
    inside = [loop.place(row, part) == "among" for row, part in zip(counted["row"], counted["part"], strict=True)]
    total = float(counted["samples"].sum())
    there = float(counted["samples"][np.array(inside, dtype=bool)].sum()) / total if total > 0 else 0.0
    if there <= 0 or math.isnan(load.busy) or math.isnan(load.resident):
        return 1.0
    busy = (1.0 - (1.0 - load.busy) ** (1.0 / load.resident)) / there
    return float(np.clip(1.0 - busy, LEAST_IDLE, 1.0))


Entry = tuple[int, str, str, float]


def _split(entries: list[Entry], loop: Loop, load: SmLoad) -> Iterator[Entry]:
    waits = sum(entry[3] for entry in entries if entry[2] == "data_wait" and loop.drains(loop.home[entry[0]]))
    total = sum(entry[3] for entry in entries if entry[2] != "aside")
    drain = min(1.0, load.contended * total / waits) if waits and load.contended > 0 else 0.0
    behind, boxed = loop.copies_before, _full(load.boxes)
    full = _full(load.data_pipe) if load.reads >= 0 else 0.0
    for row, reason, part, count in entries:
        home = loop.home[row]
        shares = {part: 1.0}
        if part == "smem_wait" and home in behind:
            shares = {"copy_cost": load.copies_ahead, part: 1.0 - load.copies_ahead}
        elif part == "data_wait" and drain and loop.drains(home):
            shares = {"copy_cost": drain, part: 1.0 - drain}
        elif part == "data_wait" and boxed:
            shares = {"copy_cost": boxed, part: 1.0 - boxed}
        if full and part in ("copy_cost", "smem_wait") and reason in QUEUES:
            shares = _filled(shares, full, load.reads_ahead)
        yield from ((row, reason, name, count * share) for name, share in shares.items() if share > 0)


def _full(load: float) -> float:
    """Share of a queue caused by a unit with this load, 0 to 1."""
    return float(np.clip((load - FULL_FROM) / (FULL - FULL_FROM), 0.0, 1.0)) if load > 0 else 0.0


def _filled(shares: dict[str, float], full: float, reads: float) -> dict[str, float]:
    """The shares of copies and loads, drawn towards the wavefronts of each as the data stage
    fills."""
    wanted = {"copy_cost": 1.0 - reads, "smem_wait": reads}
    return {name: (1.0 - full) * shares.get(name, 0.0) + full * wanted[name] for name in wanted}
