"""What the code of a pipelined loop tells of its ring of buffers: depth, iterations, and when a
copy starts.

Read off SASS and execution counts. A ring of S buffers that ``cp.async`` fills is S - 1 tiles
ahead: as many are copied before the loop, and the wait in it leaves S - 2 tiles pending (CUDA C++
Programming Guide, asynchronous data copies). A ring that TMA fills is full before the loop begins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.account.stalls import UNIT_OPCODES
from ncubble.sass.bystanders import homes
from ncubble.sass.opcodes import is_wgmma, role, width_bytes
from ncubble.sass.slices import staged_through_registers

LOOP = 0.5
"""Share of the most frequent copy's executions from which on an instruction counts as part of the
loop."""
BULK = ("UTMALDG", "UBLKCP")
_PENDING = re.compile(r"DEPBAR\.LE SB\d+, 0x([0-9a-f]+)")
_LANES = 32


@dataclass(frozen=True)
class Ring:
    """The loop over tiles. ``copies`` is ``tma``, ``cp.async`` or ``plain``.

    ``iterations`` are per CTA, one for each tile that the loop waits for. ``preloaded`` counts
    tiles that are copied before the loop; ``pending`` is the number of tiles that the wait leaves
    on their way (None where no wait says). ``delay`` is the share of an iteration's products that
    warps issue between the wait for a tile and the mean copy of a later one. ``asynchronous`` says
    whether products run while warps go on (wgmma). ``tile_B`` are the bytes that copies of one
    iteration bring, by their number and width; NaN where that does not say. ``compiled`` says
    whether the copies were written by a compiler of Python, which may build another loop for
    another depth. ``begin`` is the row where the loop begins.
    """

    copies: str
    iterations: float
    preloaded: float
    pending: float | None
    delay: float
    asynchronous: bool
    tile_B: float  # noqa: N815
    compiled: bool
    begin: int


def ring_of(source: pd.DataFrame, ctas: float, warps: float, unit: str = "tensor") -> Ring | None:
    """The ring of one launch from its ``source`` frame; ``warps`` per CTA. None without copies in a
    loop, or where executions were not counted."""
    code = _Code(source, unit)
    copies = code.copies()
    if copies is None or not ctas > 0:
        return None
    kind, rows = copies
    most = code.executed[rows].max()
    inside = [row for row in rows if code.executed[row] >= LOOP * most]
    threads = ctas if kind == "tma" else ctas * warps
    waits = code.waits(most)
    if kind == "tma":
        iterations = code.executed[rows].sum() / len(inside) / threads
    else:
        iterations = max([most, *(code.executed[row] for row in waits)]) / threads
    outside = sum(code.executed[row] for row in rows if code.executed[row] < LOOP * most)
    groups = code.groups(inside) if kind == "cp.async" else 0
    several = len(waits) if groups and waits and groups % len(waits) == 0 else 1  # tiles of K and of V, in attention
    copied = sum(width_bytes(code.opcodes[row]) for row in inside) * _LANES * warps
    return Ring(
        kind,
        float(iterations) * several,
        float(outside / len(inside) / threads) * several,
        code.pending(waits, groups // several),
        0.0 if code.asynchronous else code.delay(waits, inside),
        code.asynchronous,
        copied / several if kind == "cp.async" else math.nan,
        str(source["file"].iloc[inside[0]]).endswith(".py"),
        code.begin(waits or inside),
    )


class _Code:
    """Instructions of one kernel with their roles and executions."""

    def __init__(self, source: pd.DataFrame, unit: str) -> None:
        own = UNIT_OPCODES.get(unit, ())
        self.opcodes: list[str] = source["opcode"].tolist()
        self.sass: list[str] = source["sass"].tolist()
        self.executed = np.nan_to_num(source["executed"].to_numpy(dtype=float))
        self.roles = ["mma" if op.startswith(own) and own else role(op) for op in self.opcodes]
        self.home = homes(self.sass, self.opcodes)
        self.asynchronous = any(is_wgmma(op) for op in self.opcodes)

    def copies(self) -> tuple[str, list[int]] | None:
        """Kind and rows of the copies from global to shared memory that ran."""
        ran = [row for row in range(len(self.opcodes)) if self.executed[row] > 0]
        for kind, prefixes in (("tma", BULK), ("cp.async", ("LDGSTS",))):
            if rows := [row for row in ran if self.opcodes[row].startswith(prefixes)]:
                return kind, rows
        staged = staged_through_registers(self.sass, self.roles)
        rows = [row for row in ran if staged[row] and self.roles[row] == "load_global"]
        return ("plain", rows) if rows else None

    def waits(self, most: float) -> list[int]:
        """Waits for copies in the loop, without the repetitions of them that stand behind the
        code."""
        return [
            row
            for row, name in enumerate(self.roles)
            if name == "copy_wait" and self.home[row] == row and self.executed[row] >= LOOP * most
        ]

    def begin(self, rows: Sequence[int]) -> int:
        """The first row that runs as often as ``rows``, as far as it can be told."""
        return int((self.executed >= LOOP * max(self.executed[row] for row in rows)).argmax())

    def groups(self, inside: Sequence[int]) -> int:
        """Groups of copies that an iteration commits; a tile may be several."""
        floor = LOOP * max(self.executed[row] for row in inside)
        return sum(op == "LDGDEPBAR" and self.executed[row] >= floor for row, op in enumerate(self.opcodes))

    def pending(self, waits: Sequence[int], groups: int) -> float | None:
        """Tiles of so many groups that are on their way when the wait ends."""
        matches = [match for row in waits if (match := _PENDING.search(self.sass[row]))]
        return int(matches[-1][1], 16) / groups if matches and groups else None

    def delay(self, waits: Sequence[int], inside: Sequence[int]) -> float:
        """Products from the last wait of the loop on, around to each copy: their mean share of all
        in an iteration."""
        if not waits:
            return 0.0
        products = np.where([name == "mma" for name in self.roles], self.executed, 0.0)
        products[products < LOOP * max(self.executed[row] for row in inside)] = 0.0
        if not products.sum() > 0:
            return 0.0
        before = np.concatenate(([0.0], np.cumsum(products))) / products.sum()
        return float(np.mean([(before[row] - before[waits[-1]]) % 1.0 for row in inside]))


def depth_of(ring: Ring, shared_B: float, tile_B: float) -> tuple[int | None, str]:  # noqa: N803
    """Stages of a ring, and the evidence in words; None where the code does not say.

    ``shared_B`` is the shared memory of a CTA, ``tile_B`` what an iteration brings, both in bytes.
    """
    ahead = round(ring.preloaded)
    if ring.copies == "plain":
        return 1, "loads through registers, without a ring"
    if ring.copies == "cp.async":
        if ring.pending is not None and ahead > ring.pending + 2:  # copies of something else stand before the loop, too
            return round(ring.pending) + 2, f"tiles that may be pending at the wait: {ring.pending:.0f}"
        if not ahead and not ring.pending:
            return 1, "no tile is copied ahead"
        return max(ahead, round(ring.pending or 0)) + 1, f"tiles copied before the loop: {ahead}"
    fits = math.floor(shared_B / tile_B) if tile_B > 0 else 0
    if 0 < ahead <= fits + 1:
        depth = fits if fits == ahead + 1 else ahead
        return depth, f"tiles copied before the loop: {ahead}; tiles that fit the CTA's shared memory: {fits}"
    return None, "its copies do not show how many tiles the ring holds"
