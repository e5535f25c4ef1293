"""Assigns each warp sample to a part of the account, by stall reason and opcode context, never by
the reason alone.

A sample's instruction is the one the warp could not issue, so the cause stands before it: the wait
for ``cp.async`` shows as ``long_scoreboard`` after DEPBAR, the wait for ``wgmma`` as ``barrier``
after WARPGROUP.DEPBAR, BAR.SYNC several instructions after itself (PC samples on an H200). Classes
are the parts of the account, and two that get no share of idle time: ``unit``, issuing to, or
waiting for, the bounding unit itself (the MMA of a matrix kernel), and ``aside``, waits of warps
that delay nothing (``bystanders``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from ncubble.analysis.account.overlap import Loop, weigh
from ncubble.analysis.account.parts import STEADY
from ncubble.analysis.account.sm_load import SmLoad
from ncubble.analysis.report.frames import stall_columns
from ncubble.sass.bystanders import Bystanders, homes
from ncubble.sass.opcodes import role
from ncubble.sass.producers import SHARED, CopyOperands, ShortProducers
from ncubble.sass.slices import serving, staged_through_registers

CLASSES = ("unit", "aside", *STEADY)
UNIT_OPCODES = {"fma": ("FFMA", "FMUL", "FADD"), "fp64": ("DFMA", "DMUL", "DADD"), "xu": ("MUFU",)}
REMEMBERED = 16
"""Maximum kernels whose code is cached, for all launches and parts of the analysis."""
LOOKBACK = 12
"""Instructions to search backwards for the barrier, shared load or copy wait of a stall."""
_FRONT_END = ("no_instructions", "imc_miss", "misc", "sleeping")


def classified(source: pd.DataFrame, unit: str = "tensor", load: SmLoad | None = None) -> pd.DataFrame:
    """Samples of one launch by instruction (``row``, numbered as in ``source``), stall ``reason``
    and ``part``, which is one of ``CLASSES``: columns row, reason, part, samples, idle
    (``overlap``; 1 without ``load``).

    ``unit`` is the bounding unit.
    """
    context = context_of(source, unit)
    entries: list[tuple[int, str, str, float]] = []
    for reason in stall_columns(source):
        counts = source[reason].to_numpy(dtype=float)
        rows = np.flatnonzero(counts > 0).tolist()
        entries += [(row, reason, context.class_of(reason, row), counts[row]) for row in rows]
    table = pd.DataFrame(entries, columns=["row", "reason", "part", "samples"])
    return weigh(table, Loop(context.roles, context.opcodes, context.loop, context.home), load)


def context_of(source: pd.DataFrame, unit: str = "tensor") -> CodeContext:
    """What stands around each instruction of ``source``. Instructions of a bounding FMA, FP64 or XU
    pipe take the place of the MMA. Launches of the same code share it: do not write to it."""
    code = tuple(source["opcode"].tolist()), tuple(source["sass"].tolist())
    roles, home = _roles_and_homes(*code, unit)
    return _context(*code, unit, main_loop(roles, source["executed"].to_numpy(dtype=float), home))


@lru_cache(maxsize=REMEMBERED)
def _roles_and_homes(opcodes: tuple[str, ...], sass: tuple[str, ...], unit: str) -> tuple[list[str], list[int]]:
    own = UNIT_OPCODES.get(unit, ())
    named = zip(opcodes, sass, strict=True)
    return ["mma" if op.startswith(own) else _role(op, text) for op, text in named], homes(sass, opcodes)


@lru_cache(maxsize=REMEMBERED)
def _context(opcodes: tuple[str, ...], sass: tuple[str, ...], unit: str, loop: range) -> CodeContext:
    return CodeContext(opcodes, sass, *_roles_and_homes(opcodes, sass, unit), loop)


def classify(source: pd.DataFrame, unit: str = "tensor", load: SmLoad | None = None) -> pd.DataFrame:
    """Samples of one launch per instruction (rows as in ``source``) and class (columns
    ``CLASSES``), weighted by ``load``; without it as counted."""
    long = classified(source, unit, load)
    table = np.zeros((len(source), len(CLASSES)))
    columns = np.array([CLASSES.index(part) for part in long["part"]], dtype=int)
    weights = long["samples"].to_numpy(dtype=float) * long["idle"].to_numpy(dtype=float)
    np.add.at(table, (long["row"].to_numpy(dtype=int), columns), weights)
    return pd.DataFrame(table, columns=list(CLASSES), index=source.index)


def _role(opcode: str, sass: str) -> str:
    """``@!PT LDS RZ, [RZ]``, which never runs, is put before LDGSTS by the compiler, and queues up
    like it."""
    return "copy" if opcode == "LDS" and sass.startswith("@!PT") else role(opcode)


class CodeContext:
    """What stands around each instruction of one kernel. ``home``: as of ``homes``; ``loop``: as of
    ``main_loop``."""

    def __init__(
        self, opcodes: Sequence[str], sass: Sequence[str], roles: list[str], home: list[int], loop: range
    ) -> None:
        self.opcodes, self.roles, self.home, self.loop = list(opcodes), roles, home, loop
        mma = [i for i, name in enumerate(roles) if name == "mma"]
        self.last_mma = mma[-1] if mma else None
        self.shared_loads = "load_shared" in roles
        staging = staged_through_registers(sass, roles)
        self.is_copy = self._copies(sass, staging)
        self.short = ShortProducers(sass, self.opcodes, self.loop)
        self.copied = CopyOperands(sass, self.opcodes, self.loop)
        self.aside = Bystanders(sass, self.opcodes, roles, staging)
        self.after_loop = self._epilogue()
        self._classes: dict[tuple[str, int], str] = {}

    def class_of(self, reason: str, row: int) -> str:
        """The class of samples at ``row`` with this stall reason."""
        key = reason, row
        if key not in self._classes:
            self._classes[key] = _class_of(reason, row, self)
        return self._classes[key]

    def _copies(self, sass: Sequence[str], staging: list[bool]) -> list[bool]:
        """Copy instructions, plain staging included, with the arithmetic that serves only them."""
        targets = [name in ("copy", "copy_wait") or staged for name, staged in zip(self.roles, staging, strict=True)]
        candidates = [
            name == "other" and not op.startswith(("BRA", "EXIT", "CALL", "RET", "NOP"))
            for name, op in zip(self.roles, self.opcodes, strict=True)
        ]
        serves = serving(sass, targets, candidates, self.loop)
        return [target or served for target, served in zip(targets, serves, strict=True)]

    def _epilogue(self) -> list[bool]:
        """Instructions behind the last MMA, from there to the last global store of the same warps:
        those of other roles stand behind their end."""
        stores = [i for i, name in enumerate(self.roles) if name == "store_global"]
        if self.last_mma is None:
            return [False] * len(self.roles)
        edge = max(self.last_mma, self.loop.stop - 1)
        stop = next((end for end in self.aside.ends if end > edge and any(edge < i < end for i in stores)), None)
        last = max((i for i in stores if i > edge and (stop is None or i < stop)), default=-1)
        return [edge < home <= last for home in self.home]

    def before(self, row: int, wanted: tuple[str, ...]) -> str:
        """The nearest role of ``wanted`` at or before ``row`` within the look-back; "" if none."""
        for i in range(row, max(-1, row - LOOKBACK - 1), -1):
            if self.roles[i] in wanted:
                return self.roles[i]
        return ""


def main_loop(roles: list[str], executed: np.ndarray, home: list[int]) -> range:
    """Index range of the instructions that run as often as the busiest MMA (or, without MMAs, as
    the busiest instruction). Repetitions of waits, which stand behind the code, do not belong to
    it, however often they run."""
    if not len(executed) or np.isnan(executed).all():
        return range(len(roles))
    mma = np.array([name == "mma" for name in roles])
    top = np.nanmax(executed[mma]) if mma.any() and not np.isnan(executed[mma]).all() else np.nanmax(executed)
    inside = np.flatnonzero((executed >= 0.5 * top) & (np.asarray(home) == np.arange(len(home))))
    return range(int(inside[0]), int(inside[-1]) + 1) if len(inside) else range(len(roles))


def _class_of(reason: str, row: int, context: CodeContext) -> str:
    role_here = context.roles[row]
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
    return mbarrier_wait(row, context) if context.before(row, ("copy_wait",)) else "data_wait"


def _short_wait(row: int, context: CodeContext) -> str:
    """By what produces the operand: shared memory, an mbarrier, the bounding XU pipe itself, or
    other short latency."""
    if context.before(row, ("copy_wait",)) and context.aside.ahead(context.home[row]):
        return "aside"
    producer = context.short.of(row)
    if producer is None:
        return "smem_wait" if context.shared_loads else "issue"
    if context.roles[producer] == "copy_wait":
        return mbarrier_wait(producer, context)
    if context.roles[producer] == "mma":
        return "unit"
    return "smem_wait" if context.opcodes[producer].startswith(SHARED) else "issue"


def _throttled(row: int, context: CodeContext) -> str:
    """A full queue between the warp and the memory units: whose instruction could not enter it.

    An MMA that reads shared memory takes this queue, too, and what fills it then are the MMAs
    before: HGMMAs show ``mio_throttle`` while the pipe is busy in 99 % of the cycles
    (warp-specialized GEMM, H200).
    """
    here = context.roles[row]
    if here == "mma":
        return "unit"
    near = (
        here
        if here != "other"
        else context.before(row, ("copy", "load_global", "store_shared", "load_shared", "store_global"))
    )
    if near == "load_shared":
        return "smem_wait"
    if near == "store_global":
        return "epilogue"
    if near in ("load_global", "store_shared"):
        return "copy_cost" if context.is_copy[row] else "data_wait" if near == "load_global" else "issue"
    return "copy_cost" if near in ("copy", "copy_wait") else "issue"
