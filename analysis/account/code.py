"""The code of one kernel: what each instruction does, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from ncubble.sass.buffers import NEAR, awaited
from ncubble.sass.bystanders import Bystanders, homes
from ncubble.sass.opcodes import is_asynchronous, role
from ncubble.sass.producers import CopyOperands, ShortProducers
from ncubble.sass.slices import serving, staged_through_registers

UNIT_OPCODES = {"fma": ("FFMA", "FMUL", "FADD"), "fp64": ("DFMA", "DMUL", "DADD"), "xu": ("MUFU",)}
REMEMBERED = 16
"""Maximum kernels whose code is cached, for all launches and parts of the analysis."""
LOOKBACK = 12
"""Instructions to search backwards for the barrier, shared load or copy wait of a stall."""


def context_of(source: pd.DataFrame, unit: str = "tensor") -> CodeContext:
    """What stands around each instruction of ``source``. Instructions of a bounding FMA, FP64 or XU
    pipe take the place of the MMA. Launches of the same code share it: do not write to it."""
    code = tuple(source["opcode"].tolist()), tuple(source["sass"].tolist())
    roles, home = _roles_and_homes(*code, unit)
    apart = any(opcode.startswith("UTC") for opcode in code[0])
    return _context(*code, unit, main_loop(roles, source["executed"].to_numpy(dtype=float), home, apart))


@lru_cache(maxsize=REMEMBERED)
def _roles_and_homes(opcodes: tuple[str, ...], sass: tuple[str, ...], unit: str) -> tuple[list[str], list[int]]:
    own = UNIT_OPCODES.get(unit, ())
    named = zip(opcodes, sass, strict=True)
    return ["mma" if op.startswith(own) else _role(op, text) for op, text in named], homes(sass, opcodes)


@lru_cache(maxsize=REMEMBERED)
def _context(opcodes: tuple[str, ...], sass: tuple[str, ...], unit: str, loop: range) -> CodeContext:
    return CodeContext(opcodes, sass, *_roles_and_homes(opcodes, sass, unit), loop)


def _role(opcode: str, sass: str) -> str:
    """``@!PT LDS RZ, [RZ]``, which never runs, is put before LDGSTS by the compiler, and queues up
    like it."""
    return "copy" if opcode == "LDS" and sass.startswith("@!PT") else role(opcode)


class CodeContext:
    """What stands around each instruction of one kernel. ``home``: as of ``homes``; ``loop``: as of
    ``main_loop``; ``staged``: tiles on their way through registers; ``classes``: what
    ``stalls.class_of`` said already."""

    def __init__(
        self, opcodes: Sequence[str], sass: Sequence[str], roles: list[str], home: list[int], loop: range
    ) -> None:
        self.opcodes, self.sass, self.roles, self.home, self.loop = list(opcodes), sass, roles, home, loop
        mma = [i for i, name in enumerate(roles) if name == "mma"]
        self.last_mma = mma[-1] if mma else None
        self.shared_loads = "load_shared" in roles
        self.staged = staged_through_registers(sass, roles)
        self.is_copy = self._copies()
        self.short = ShortProducers(sass, self.opcodes, self.loop)
        self.copied = CopyOperands(sass, self.opcodes, self.loop)
        self.aside = Bystanders(sass, self.opcodes, roles, self.staged)
        self.after_loop = self._epilogue()
        self.awaited = awaited(sass, self.opcodes)
        self.classes: dict[tuple[str, int], str] = {}

    def _copies(self) -> list[bool]:
        """Copy instructions, plain staging included, with the arithmetic that serves only them."""
        targets = [
            name in ("copy", "copy_wait") or staged for name, staged in zip(self.roles, self.staged, strict=True)
        ]
        candidates = [
            name == "other" and not op.startswith(("BRA", "EXIT", "CALL", "RET", "NOP"))
            for name, op in zip(self.roles, self.opcodes, strict=True)
        ]
        serves = serving(self.sass, targets, candidates, self.loop)
        return [target or served for target, served in zip(targets, serves, strict=True)]

    def _epilogue(self) -> list[bool]:
        """Instructions behind the last MMA, from there to the last global store of the same warps:
        those of other roles stand behind their end. What goes back to tensor memory is no result
        yet (attention rescales its sums between MMAs)."""
        stores = [i for i, name in enumerate(self.roles) if name == "store_global"]
        if self.last_mma is None:
            return [False] * len(self.roles)
        edge = max(self.last_mma, self.loop.stop - 1)
        stop = next((end for end in self.aside.ends if end > edge and any(edge < i < end for i in stores)), None)
        last = max((i for i in stores if i > edge and (stop is None or i < stop)), default=-1)
        rescaled = [i for i in range(edge, last) if self.opcodes[i].startswith("STTM")]
        edge = max([edge, *rescaled])
        return [edge < home <= last for home in self.home]

    def before(self, row: int, wanted: tuple[str, ...]) -> str:
        """The nearest role of ``wanted`` at or before ``row`` within the look-back; "" if none."""
        for i in range(row, max(-1, row - LOOKBACK - 1), -1):
            if self.roles[i] in wanted:
                return self.roles[i]
        return ""

    @cached_property
    def stretch(self) -> range:
        """From the first MMA of the loop to the last MMA, or wait for MMAs, in it; empty without
        MMAs."""
        mma = [i for i in self.loop if self.roles[i] == "mma"]
        if not mma:
            return range(0)
        return range(mma[0], max(i for i in self.loop if self.roles[i] in ("mma", "mma_wait")) + 1)

    @property
    def asynchronous(self) -> bool:
        """Whether the MMAs of the loop run beside the warp that issued them."""
        return any(is_asynchronous(self.opcodes[i]) for i in self.stretch)

    @cached_property
    def in_phases(self) -> bool:
        """Whether a barrier of the CTA stands in the loop, and none within the stretch of MMAs."""
        bars = [i for i in self.loop if self.opcodes[i].startswith("BAR")]
        stretch = self.stretch
        return bool(stretch) and bool(bars) and not any(i in stretch for i in bars)

    def place(self, row: int, part: str) -> str:
        """``before`` the MMAs of an iteration (their operands included), ``among`` them, or
        ``outside`` the loop."""
        home, stretch = self.home[row], self.stretch
        if home not in self.loop:
            return "outside"
        if home == stretch.start and part != "unit":
            return "before"
        return "among" if home in stretch else "before"

    @cached_property
    def copies_before(self) -> range:
        """Rows of the loop behind its first LDGSTS, as long as no MMA comes between; empty
        without."""
        copies = [i for i in self.loop if self.opcodes[i].startswith("LDGSTS") and i < self.stretch.start]
        return range(copies[0] + 1, self.stretch.start + 1) if copies else range(0)

    def awaits(self, row: int) -> str:
        """What completes the mbarrier that ``row`` waits for, as of ``buffers.awaited``; empty
        where it waits for none, or that is not known."""
        home = self.home[row]
        check = home if home in self.awaited else self.short.of(home) if self.awaited else None
        return "" if check is None else self.awaited.get(check, "")

    def drains(self, row: int) -> bool:
        """Whether a wait at ``row`` comes after copies with no MMA in between: they have only just
        been issued."""
        for i in (*range(row, self.loop.start - 1, -1), *range(self.loop.stop - 1, row, -1)):
            if self.roles[i] == "mma":
                return False
            if self.opcodes[i].startswith("LDGSTS"):
                return True
        return False


def main_loop(roles: list[str], executed: np.ndarray, home: list[int], apart: bool = False) -> range:
    """Index range of the instructions that run as often as the busiest MMA (or, without MMAs, as
    the busiest instruction). Repetitions of waits, which stand behind the code, do not belong to
    it, however often they run; nor do loops of other warps, where MMAs are ``apart``."""
    if not len(executed) or np.isnan(executed).all():
        return range(len(roles))
    mma = np.array([name == "mma" for name in roles])
    top = np.nanmax(executed[mma]) if mma.any() and not np.isnan(executed[mma]).all() else np.nanmax(executed)
    inside = np.flatnonzero((executed >= 0.5 * top) & (np.asarray(home) == np.arange(len(home))))
    if apart and mma.any() and len(inside):
        busiest = int(np.nanargmax(np.where(mma, executed, -1.0)))
        near = np.split(inside, np.flatnonzero(np.diff(inside) > NEAR) + 1)
        inside = next((part for part in near if part[0] <= busiest <= part[-1]), inside)
    return range(int(inside[0]), int(inside[-1]) + 1) if len(inside) else range(len(roles))
