"""Finds the instruction that a scoreboard stall waits for: the nearest one whose result or operand
is still in use."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from ncubble.sass.slices import operands

SHARED = ("LDS", "STS", "ATOMS")
SHORT_LATENCY: tuple[str, ...] = (
    *SHARED,
    "LDTM",
    "STTM",
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
"""Opcode prefixes of instructions that pass the MIO queue but not L1TEX, or the XU pipe (Nsight
Compute, kernel profiling guide: warp stall reasons), and of accesses to tensor memory."""


class ShortProducers:
    """Instructions of short variable latency in one kernel, by the registers and predicates that
    they hold."""

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
        """The nearest before ``row``, once around the loop, whose result ``row`` reads or
        overwrites, or whose operand it overwrites; None if there is none."""
        writes, reads = operands(self.sass[row])
        held = [self.writes[name] for name in writes | reads if name in self.writes]
        held += [self.reads[name] for name in writes if name in self.reads]
        stretches = [range(row)]
        if row in self.loop:
            stretches = [range(self.loop.start, row), range(row, self.loop.stop), range(self.loop.start)]
        for stretch in stretches:
            before = [positions[bisect_left(positions, stretch.stop) - 1] for positions in held if positions]
            inside = [i for i in before if i in stretch]
            if inside:
                return max(inside)
        return None


class CopyOperands:
    """Copies from global to shared memory (LDGSTS) in one kernel, by the registers that they read.

    A copy that stands in the queue of the load/store unit has not read its addresses yet, and
    whoever overwrites them waits for it under the name ``long_scoreboard``, as if for data: the
    wait of an address behind LDGDEPBAR in a WMMA GEMM (H200), which does not end sooner where
    nobody awaits the data.
    """

    def __init__(self, sass: Sequence[str], opcodes: Sequence[str], loop: range) -> None:
        self.sass, self.loop = sass, loop
        self.awaited = [i for i, opcode in enumerate(opcodes) if opcode.startswith(("DEPBAR", "SYNCS"))]
        self.reads: defaultdict[str, list[int]] = defaultdict(list)
        for i, opcode in enumerate(opcodes):
            if opcode.startswith("LDGSTS"):
                for name in operands(sass[i])[1]:
                    self.reads[name].append(i)

    def held_at(self, row: int) -> bool:
        """Whether ``row`` overwrites an operand of a copy before it, with no wait for copies in
        between, or is a copy itself."""
        writes, _ = operands(self.sass[row])
        before = [self.reads[name][bisect_left(self.reads[name], row) - 1] for name in writes if name in self.reads]
        nearest = max((i for i in before if i < row), default=None)
        if nearest is None:
            return False
        position = bisect_left(self.awaited, row)
        return position == 0 or self.awaited[position - 1] < nearest
