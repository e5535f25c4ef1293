"""Which part of the account each warp sample belongs to: by stall reason and opcode context, never by the reason alone.

A sample's instruction is the one the warp could not issue, so the cause stands before it: the wait for ``cp.async``
shows as ``long_scoreboard`` after DEPBAR, the wait for ``wgmma`` as ``barrier`` after WARPGROUP.DEPBAR, BAR.SYNC
several instructions after itself (PC samples on an H200). Classes are the parts of the account, and ``unit``: issuing
to, or waiting for, the bounding unit itself (the MMA of a matrix kernel).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ncubble.analysis.opcodes import role
from ncubble.analysis.producers import SHARED, ShortProducers
from ncubble.analysis.slices import serving, staged_through_registers

CLASSES = ("unit", "data_wait", "copy_cost", "smem_wait", "sync_wait", "issue", "epilogue", "other")
UNIT_OPCODES = {"fma": ("FFMA", "FMUL", "FADD"), "fp64": ("DFMA", "DMUL", "DADD"), "xu": ("MUFU",)}
LOOKBACK = 12
"""Instructions to look back for the barrier, shared load or copy wait that a stall belongs to."""
_FRONT_END = ("no_instructions", "imc_miss", "misc", "sleeping")
_NOT_REASONS = ("launch", "pc", "sass", "opcode", "file", "line", "samples", "executed")


def reasons_of(source: pd.DataFrame) -> list[str]:
    """The stall-reason columns of a source frame."""
    return [column for column in source.columns if column not in _NOT_REASONS]


def classify(source: pd.DataFrame, unit: str = "tensor") -> pd.DataFrame:
    """Samples of one launch per instruction (rows as in ``source``) and class (columns ``CLASSES``).

    ``unit`` is the bounding unit. Instructions of a bounding FMA, FP64 or XU pipe take the place of the MMA.
    """
    roles = [
        "mma" if opcode.startswith(UNIT_OPCODES.get(unit, ())) else role(opcode) for opcode in source["opcode"].tolist()
    ]
    context = _Context(source, roles)
    table = np.zeros((len(source), len(CLASSES)))
    for reason in reasons_of(source):
        counts = source[reason].to_numpy(dtype=float)
        for row in np.flatnonzero(counts > 0):
            table[row, CLASSES.index(_class_of(reason, int(row), context))] += counts[row]
    return pd.DataFrame(table, columns=list(CLASSES), index=source.index)


class _Context:
    """What stands around each instruction of one kernel."""

    def __init__(self, source: pd.DataFrame, roles: list[str]) -> None:
        self.roles = roles
        self.opcodes = source["opcode"].tolist()
        mma = [i for i, name in enumerate(roles) if name == "mma"]
        executed = source["executed"].to_numpy(dtype=float)
        self.loop = _main_loop(roles, executed)
        self.last_mma = mma[-1] if mma else None
        self.shared_loads = "load_shared" in roles
        self.is_copy = self._copies(source["sass"].tolist())
        self.short = ShortProducers(source["sass"].tolist(), self.opcodes, self.loop)
        self.after_loop = self._epilogue()

    def _copies(self, sass: list[str]) -> list[bool]:
        """Copy instructions, plain staging included, with the arithmetic that serves only them."""
        staging = staged_through_registers(sass, self.roles)
        targets = [name in ("copy", "copy_wait") or staged for name, staged in zip(self.roles, staging, strict=True)]
        candidates = [
            name == "other" and not op.startswith(("BRA", "EXIT", "CALL", "RET", "NOP"))
            for name, op in zip(self.roles, self.opcodes, strict=True)
        ]
        serves = serving(sass, targets, candidates, self.loop)
        return [target or served for target, served in zip(targets, serves, strict=True)]

    def _epilogue(self) -> list[bool]:
        """Instructions behind the last MMA, from there to the last global store."""
        stores = [i for i, name in enumerate(self.roles) if name == "store_global"]
        if self.last_mma is None or not stores:
            return [False] * len(self.roles)
        edge = max(self.last_mma, self.loop.stop - 1)
        return [edge < i <= stores[-1] for i in range(len(self.roles))]

    def before(self, row: int, wanted: tuple[str, ...]) -> str:
        """The nearest role of ``wanted`` at or before ``row`` within the look-back; "" if none."""
        for i in range(row, max(-1, row - LOOKBACK - 1), -1):
            if self.roles[i] in wanted:
                return self.roles[i]
        return ""

    def feeds_producer(self, row: int) -> bool:
        """Whether a wait on an mbarrier stands before a TMA load, not before an MMA: a producer that waits for a free
        slot."""
        for i in range(row, min(len(self.roles), row + 4 * LOOKBACK)):
            if self.opcodes[i].startswith(("UTMALDG", "UBLKCP")):
                return True
            if self.roles[i] in ("mma", "load_shared"):
                return False
        return False


def _main_loop(roles: list[str], executed: np.ndarray) -> range:
    """Index range of the instructions that run as often as the busiest MMA (or, without MMAs, as the busiest
    instruction)."""
    if not len(executed) or np.isnan(executed).all():
        return range(len(roles))
    mma = np.array([name == "mma" for name in roles])
    top = np.nanmax(executed[mma]) if mma.any() and not np.isnan(executed[mma]).all() else np.nanmax(executed)
    inside = np.flatnonzero(executed >= 0.5 * top)
    return range(int(inside[0]), int(inside[-1]) + 1) if len(inside) else range(len(roles))


def _class_of(reason: str, row: int, context: _Context) -> str:
    role_here = context.roles[row]
    if context.after_loop[row] and role_here != "mma":
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
        return _mbarrier_wait(row, context)
    if context.is_copy[row]:
        return "copy_cost"
    return {"barrier": "sync_wait", "store_global": "epilogue"}.get(role_here, "issue")


def _mbarrier_wait(row: int, context: _Context) -> str:
    """A wait for an asynchronous copy; a producer that waits for a free slot is ahead of the MMA and no bubble."""
    return "unit" if context.feeds_producer(row) else "data_wait"


def _waiting(reason: str, row: int, context: _Context) -> str:
    if reason in ("gmma", "warpgroup_arrive"):
        return "unit"
    if reason in ("membar", "drain"):
        return "sync_wait" if reason == "membar" else "epilogue"
    if reason == "barrier":
        return "unit" if context.before(row, ("barrier", "mma_wait")) == "mma_wait" else "sync_wait"
    if reason == "short_scoreboard":
        return _short_wait(row, context)
    if context.before(row, ("local",)) == "local" and not context.before(row, ("load_global", "copy_wait")):
        return "issue"
    return _mbarrier_wait(row, context) if context.before(row, ("copy_wait",)) else "data_wait"


def _short_wait(row: int, context: _Context) -> str:
    """By what produces the operand: shared memory, an mbarrier, the bounding XU pipe itself, or other short latency."""
    if context.before(row, ("copy_wait",)) and context.feeds_producer(row):
        return "unit"
    producer = context.short.of(row)
    if producer is None:
        return "smem_wait" if context.shared_loads else "issue"
    if context.roles[producer] == "copy_wait":
        return _mbarrier_wait(producer, context)
    if context.roles[producer] == "mma":
        return "unit"
    return "smem_wait" if context.opcodes[producer].startswith(SHARED) else "issue"


def _throttled(row: int, context: _Context) -> str:
    """A full queue between the warp and the memory units: whose instruction could not enter it."""
    here = context.roles[row]
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
