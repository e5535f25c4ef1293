"""Which instruction a ``short_scoreboard`` stall waits for: the nearest one whose result or operand is still in use."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from ncubble.analysis.slices import operands

SHARED = ("LDS", "STS", "ATOMS")
SHORT_LATENCY: tuple[str, ...] = (
    *SHARED,
    "MUFU",
    "SHFL",
    "LDC",
    "S2R",
    "S2UR",
    "R2UR",
    "I2F",
    "F2I",
    "F2F",
    "FRND",
    "I2I",
    "FLO",
    "POPC",
)
SHORT_LATENCY += ("BREV", "VOTE", "MATCH", "REDUX", "SYNCS", "MOVM", "CS2R", "R2B", "B2R")
"""Prefixes of what passes the MIO queue but not L1TEX, or the XU pipe (Nsight Compute, kernel profiling guide: warp
stall reasons)."""


class ShortProducers:
    """Instructions of short variable latency in one kernel, by the registers and predicates that they hold."""

    def __init__(self, sass: Sequence[str], opcodes: Sequence[str], loop: range) -> None:
        self.sass, self.loop = sass, loop
        self.writes: defaultdict[str, list[int]] = defaultdict(list)
        self.reads: defaultdict[str, list[int]] = defaultdict(list)
        for i, opcode in enumerate(opcodes):
            if opcode.startswith(SHORT_LATENCY):
                wrote, read = operands(sass[i])
                for table, names in ((self.writes, wrote), (self.reads, read)):
                    for name in names:
                        table[name].append(i)

    def of(self, row: int) -> int | None:
        """The nearest before ``row``, once around the loop, whose result ``row`` reads or overwrites, or whose operand
        it overwrites; None if there is none."""
        writes, reads = operands(self.sass[row])
        held = [self.writes[name] for name in writes | reads if name in self.writes]
        held += [self.reads[name] for name in writes if name in self.reads]
        stretches = [range(row)]
        if row in self.loop:
            stretches = [range(self.loop.start, row), range(row, self.loop.stop), range(self.loop.start)]
        for stretch in stretches:
            before = [positions[bisect_left(positions, stretch.stop) - 1] for positions in held if positions]
            found = [i for i in before if i in stretch]
            if found:
                return max(found)
        return None
