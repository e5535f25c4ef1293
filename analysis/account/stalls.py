"""Assigns each warp sample to a part of the account, by stall reason and opcode context, never by
the reason alone.

A sample's instruction is the one the warp could not issue, so the cause stands before it: the wait
for ``cp.async`` shows as ``long_scoreboard`` after DEPBAR, the wait for ``wgmma`` as ``barrier``
after WARPGROUP.DEPBAR, BAR.SYNC several instructions after itself (PC samples on an H200). Classes
are the parts of the account, and two that get no share of idle time: ``unit``, issuing to, or
waiting for, the bounding unit itself (the MMA of a matrix kernel), and ``aside``, waits of warps
that delay nothing (``bystanders``).

Classes alone do not explain idle time: a wait that coincides with a busy pipe costs nothing, and
what a warp waits for in a queue is what stands before it there. Six rules split and weight the
samples, whose sum stays (each with the experiment behind it, on kernels without one cause, on an
H200: docs/validation/README.md).

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

import numpy as np
import pandas as pd

from ncubble.analysis.account.code import CodeContext, context_of
from ncubble.analysis.account.parts import STEADY
from ncubble.analysis.report.frames import TEXT, stall_columns
from ncubble.sass.producers import SHARED

CLASSES = ("unit", "aside", *STEADY)
_SCOREBOARDS = ("long_scoreboard", "short_scoreboard")
_FRONT_END = ("no_instructions", "imc_miss", "misc", "sleeping")
QUEUES = ("mio_throttle", "lg_throttle", "short_scoreboard", "long_scoreboard")
"""Stall reasons of warps that wait for the load/store unit, in classes ``copy_cost`` and
``smem_wait``."""
FULL_FROM, FULL = 0.7, 0.9
"""Load of a unit from which queues before it are partly, and then entirely, caused by it."""
LEAST_IDLE = 0.05
MEMORY = ("copy", "load_global", "store_shared", "load_shared", "tensor_memory", "store_global")
"""Roles of instructions that queue up before the memory units."""


Entry = tuple[int, str, str, float]
"""Row, stall reason, class and samples."""


@dataclass(frozen=True)
class SmLoad:
    """Load of an SM while it has CTAs, by which samples are split and weighted, in shares of active
    cycles. ``resident``: CTAs of an SM at a time. ``busy``: the bounding unit. ``copies``,
    ``reads``: the load/store unit, by LDGSTS and by shared loads. ``data_pipe``: its data stage.
    ``boxes``: TMA, by the number of its boxes. NaN if the report lacks it."""

    resident: float = math.nan
    busy: float = math.nan
    copies: float = math.nan
    reads: float = math.nan
    data_pipe: float = math.nan
    boxes: float = math.nan

    @property
    def contended(self) -> float:
        """The load/store unit's time for the copies of a CTA, as far as the shared loads of other
        CTAs take as much."""
        return float(np.minimum(self.copies, self.reads)) * (self.resident - 1.0) / self.resident

    @property
    def copies_ahead(self) -> float:
        """Of the time that a shared load waits in a queue behind copies and loads, the copies'
        part."""
        both = self.copies + self.reads
        return self.copies / both if both > 0 else 0.0

    @property
    def reads_ahead(self) -> float:
        """Of what passes the data stage, the part of shared loads."""
        return float(np.minimum(1.0, self.reads / self.data_pipe)) if self.data_pipe > 0 else 0.0


def classified(source: pd.DataFrame, unit: str = "tensor", load: SmLoad | None = None) -> pd.DataFrame:
    """Samples of one launch by instruction (``row``, numbered as in ``source``), stall ``reason``
    and ``part``, which is one of ``CLASSES``: columns row, reason, part, samples, idle
    (``overlap``; 1 without ``load``).

    ``unit`` is the bounding unit.
    """
    context = context_of(source, unit)
    entries: list[Entry] = []
    for reason in stall_columns(source):
        counts = source[reason].to_numpy(dtype=float)
        for row in np.flatnonzero(counts > 0).tolist():
            if (key := (reason, row)) not in context.classes:
                context.classes[key] = class_of(reason, row, context)
            entries.append((row, reason, context.classes[key], counts[row]))
    return weigh(entries, context, load or SmLoad())


def classify(source: pd.DataFrame, unit: str = "tensor", load: SmLoad | None = None) -> pd.DataFrame:
    """Samples of one launch per instruction (rows as in ``source``) and class (columns
    ``CLASSES``), weighted by ``load``; without it as counted."""
    return by_instruction(classified(source, unit, load), len(source))


def by_instruction(samples: pd.DataFrame, rows: int) -> pd.DataFrame:
    """The weights of ``classified`` samples for each of so many instructions and class."""
    table = np.zeros((rows, len(CLASSES)))
    columns = np.array([CLASSES.index(part) for part in samples["part"].tolist()], dtype=int)
    np.add.at(table, (samples["row"].to_numpy(dtype=int), columns), (samples["samples"] * samples["idle"]).to_numpy())
    return pd.DataFrame(table, columns=list(CLASSES))


def class_of(reason: str, row: int, context: CodeContext) -> str:
    """The class of samples at ``row`` with this stall reason."""
    role_here, home = context.roles[row], context.home[row]
    if (reason in _SCOREBOARDS or role_here == "copy_wait" or home != row) and (awaited := context.awaits(row)):
        return _by_mbarrier(awaited, row, context)
    if not context.sass[row]:
        return "aside"  # an instruction of another function, of which the report has no code
    if context.after_loop[row] and role_here not in ("mma", "mma_wait"):
        return "epilogue"
    if reason in ("long_scoreboard", "short_scoreboard", "barrier", "gmma", "warpgroup_arrive", "membar", "drain"):
        return _waiting(reason, row, context)
    if reason in ("lg_throttle", "mio_throttle", "tex_throttle"):
        return _throttled(row, context)
    if role_here == "mma" or (role_here == "mma_wait" and reason not in _FRONT_END):
        return "unit"
    if reason in _FRONT_END:
        return "other"
    if role_here == "copy_wait":
        return mbarrier_wait(row, context)
    if context.is_copy[row]:
        return "copy_cost"
    return {"barrier": "sync_wait", "store_global": "epilogue"}.get(role_here, "issue")


def _by_mbarrier(awaited: str, row: int, context: CodeContext) -> str:
    """By what completes the mbarrier of a kernel with ``tcgen05``. One warp issues its MMAs; others
    hold the unit up only by what this one waits for, and wait for its MMAs as for all that comes
    before their turn."""
    if awaited == "copy":
        return mbarrier_wait(row, context)
    if context.home[row] not in context.loop:
        return "aside"
    return "unit" if awaited == "mma" else "sync_wait"


def mbarrier_wait(row: int, context: CodeContext) -> str:
    """A wait for an asynchronous copy, unless the warp runs ahead of the computing ones or comes
    behind them."""
    home = context.home[row]
    return "aside" if context.aside.ahead(home) or context.aside.behind(home) else "data_wait"


def _waiting(reason: str, row: int, context: CodeContext) -> str:
    if reason in ("gmma", "warpgroup_arrive"):
        return "unit"
    if reason in ("membar", "drain"):
        return "sync_wait" if reason == "membar" else "epilogue"
    if context.opcodes[row] == "EXIT":
        return "epilogue"  # stores that must have left shared memory or the registers before the warp may end
    if reason == "barrier":
        if context.roles[row] == "barrier" and context.aside.finished(row):
            return "aside"
        return "unit" if context.before(row, ("barrier", "mma_wait")) == "mma_wait" else "sync_wait"
    if reason == "short_scoreboard":
        return _short_wait(row, context)
    if context.before(row, ("local",)) == "local" and not context.before(row, ("load_global", "copy_wait")):
        return "issue"
    if context.copied.held_at(row):
        return "copy_cost"
    if _on_tensor_memory(row, context):
        return "smem_wait"
    return mbarrier_wait(row, context) if context.before(row, ("copy_wait",)) else "data_wait"


def _short_wait(row: int, context: CodeContext) -> str:
    """By what produces the operand: shared memory, an mbarrier, the bounding XU pipe itself, or
    other short latency."""
    if context.before(row, ("copy_wait",)) and context.aside.ahead(context.home[row]):
        return "aside"
    if _on_tensor_memory(row, context):
        return "smem_wait"
    producer = context.short.of(row)
    if producer is None:
        return "smem_wait" if context.shared_loads else "issue"
    if context.roles[producer] == "copy_wait":
        return mbarrier_wait(producer, context)
    if context.roles[producer] == "mma":
        return "unit"
    return "smem_wait" if context.opcodes[producer].startswith(SHARED) else "issue"


def _on_tensor_memory(row: int, context: CodeContext) -> bool:
    """Whether ``row`` waits for tensor memory: by an operand, or as the NOP that ``wait::ld``
    becomes."""
    producer = context.short.of(row)
    if producer is None and context.opcodes[row] == "NOP":
        return context.before(row, (*MEMORY, "copy_wait")) == "tensor_memory"
    return producer is not None and context.roles[producer] == "tensor_memory"


def _throttled(row: int, context: CodeContext) -> str:
    """A full queue between the warp and the memory units: whose instruction could not enter it.

    An MMA that reads shared memory takes this queue, too, and what fills it then are the MMAs
    before: HGMMAs show ``mio_throttle`` while the pipe is busy in 99 % of the cycles
    (warp-specialized GEMM, H200).
    """
    here = context.roles[row]
    if here == "mma" or context.opcodes[row].startswith("UTC"):
        return "unit"
    near = here if here != "other" else context.before(row, MEMORY)
    if near in ("load_shared", "tensor_memory"):
        return "smem_wait"
    if near == "store_global":
        return "epilogue"
    if near in ("load_global", "store_shared"):
        return "copy_cost" if context.is_copy[row] else "data_wait" if near == "load_global" else "issue"
    return "copy_cost" if near in ("copy", "copy_wait") else "issue"


def weigh(entries: list[Entry], context: CodeContext, load: SmLoad) -> pd.DataFrame:
    """``entries`` split by the rules (columns row, reason, part, samples), with a further column
    ``idle``: the share of them that coincides with an idle unit."""
    if context.stretch:
        entries = list(_split(entries, context, load))
    row, reason, part, samples = zip(*entries, strict=True) if entries else ((), (), (), ())
    table = pd.DataFrame(
        {"row": row, "reason": pd.array(reason, TEXT), "part": pd.array(part, TEXT), "samples": samples}
    )
    idle = np.ones(len(table))
    if math.isnan(load.busy + load.resident):
        return table.assign(idle=idle)
    waiting = ~table["part"].isin(("unit", "aside")).to_numpy()
    if context.asynchronous:
        homes = np.array([context.home[at] for at in row], dtype=int)
        counted = ((table["part"] != "aside") & (homes >= context.loop.start) & (homes < context.loop.stop)).to_numpy()
        order = (homes - context.stretch.start) % len(context.loop)
        behind = _behind_the_mmas(order[counted], table["samples"].to_numpy(dtype=float)[counted], context, load)
        idle[waiting & counted] = np.maximum(behind[order[waiting & counted]], LEAST_IDLE)
    elif context.in_phases:
        places = np.array(list(map(context.place, row, part)))
        among = idle_among(table, places == "among", load)
        idle[waiting & (places == "among")] = among
        at_barrier = ((table["reason"] == "barrier") & (table["part"] == "sync_wait")).to_numpy()
        idle[at_barrier & (places != "outside")] = 0.5 * (1.0 + among)
    return table.assign(idle=idle)


def _behind_the_mmas(order: np.ndarray, counts: np.ndarray, context: CodeContext, load: SmLoad) -> np.ndarray:
    """Share of each instruction's samples that lies behind the time of the CTA's own MMAs;
    instructions in their ``order`` from the first MMA of an iteration on."""
    time = np.bincount(order, counts, minlength=len(context.loop))
    covered = load.busy / load.resident * counts.sum()
    behind = np.clip(np.cumsum(time) - covered, 0.0, time)
    return np.asarray(np.divide(behind, time, out=np.ones_like(time), where=time > 0))


def idle_among(samples: pd.DataFrame, among: np.ndarray, load: SmLoad) -> float:
    """Probability that the unit is idle of the CTA's own MMAs while the CTA is among them.

    With ``q`` the probability that a CTA there keeps the unit busy, ``s`` the share of time that it
    is there, and ``W`` CTAs that are independent of each other, the unit is busy for ``1 - (1 - q
    s)^W``: solved for ``q``.
    """
    counts = samples["samples"].to_numpy(dtype=float)
    counted = (samples["part"] != "aside").to_numpy()
    there, total = counts[counted & among].sum(), counts[counted].sum()
    if there <= 0:
        return 1.0
    busy = (1.0 - (1.0 - load.busy) ** (1.0 / load.resident)) * total / there
    return float(np.clip(1.0 - busy, LEAST_IDLE, 1.0))


def _split(entries: list[Entry], context: CodeContext, load: SmLoad) -> Iterator[Entry]:
    waits = sum(entry[3] for entry in entries if entry[2] == "data_wait" and context.drains(context.home[entry[0]]))
    total = sum(entry[3] for entry in entries if entry[2] != "aside")
    drain = min(1.0, load.contended * total / waits) if waits and load.contended > 0 else 0.0
    behind, boxed = context.copies_before, _full(load.boxes)
    full = _full(load.data_pipe) if load.reads >= 0 else 0.0
    for row, reason, part, count in entries:
        home = context.home[row]
        shares = {part: 1.0}
        if part == "smem_wait" and home in behind:
            shares = {"copy_cost": load.copies_ahead, part: 1.0 - load.copies_ahead}
        elif part == "data_wait" and drain and context.drains(home):
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
