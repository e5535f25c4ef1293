"""Finds waits that delay nothing, from SASS alone: of warps that run ahead, come behind, or have no
work left.

A warp-specialized kernel always has such warps, whatever bounds it. A producer waits for a free
slot once the ring is full; a storer waits for results that the computing warps make, so that their
own waits name the cause; and warps without a role stand at the last barrier from start to end (in a
GEMM of three warpgroups on an H200, three of the producer's four warps: a quarter of all samples).
Their samples are unrelated to the unit's idle time.

The compiler puts the repetition of a wait on an mbarrier behind the end of the code, where nothing
around it tells what it waits for: ``homes`` leads from there to the wait itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from ncubble.sass.slices import operands, stored

AHEAD = 48
"""Instructions to look ahead for the code after a wait."""
_TARGET = re.compile(r"\bBRA\s.*?(0x[0-9a-f]+)")
_TO_THE_END = ("CCTL", "NOP", "EXIT", "BSYNC", "WARPSYNC")


def homes(sass: Sequence[str], opcodes: Sequence[str]) -> list[int]:
    """For each instruction its own index; for the repetition of an mbarrier wait the index of the
    wait's branch.

    Wait and repetition branch to the same place: the check that is repeated.
    """
    home_of = list(range(len(sass)))
    first: dict[str, int] = {}
    for i, opcode in enumerate(opcodes):
        target = _TARGET.search(sass[i]) if opcode.startswith("BRA") else None
        if target is None:
            continue
        home = first.setdefault(target[1], i)
        if home == i or i < 2 or not opcodes[i - 1].startswith("SYNCS.PHASECHK"):
            continue
        begin = i - 1
        while opcodes[begin - 1].startswith(("YIELD", "NANOSLEEP", "SYNCS.PHASECHK")):
            begin -= 1
        behind = i + 1 < len(sass) and opcodes[i + 1].startswith("BRA")
        home_of[begin : i + 1 + behind] = [home] * (i + 1 + behind - begin)
    return home_of


class Bystanders:
    """Waits of one kernel that delay nothing, by the code that follows them."""

    def __init__(
        self, sass: Sequence[str], opcodes: Sequence[str], roles: Sequence[str], staged: Sequence[bool]
    ) -> None:
        self.sass, self.opcodes = sass, opcodes
        self.roles = [name if self._runs(i) else "other" for i, name in enumerate(roles)]
        self.ends = [i for i, text in enumerate(sass) if opcodes[i] == "EXIT" and not text.startswith("@")]
        self._copying: dict[int, bool] = {}
        self.computes = any(role == "store_shared" and not copy for role, copy in zip(roles, staged, strict=True))

    def _runs(self, row: int) -> bool:
        """``@!PT LDS RZ, [RZ]`` stands around ``cp.async`` and never runs."""
        return not self.sass[row].startswith("@!PT")

    def ahead(self, row: int) -> bool:
        """Whether a wait on an mbarrier stands before a TMA load, or in code that only copies: a
        producer that waits for a free slot."""
        for i in range(row, min(self._end(row), row + AHEAD)):
            if self.opcodes[i].startswith(("UTMALDG", "UBLKCP")):
                return True
            if self.roles[i] in ("mma", "load_shared"):
                return False
        return self.only_copies(row)

    def behind(self, row: int) -> bool:
        """Whether a wait stands before shared loads that go to global memory unchanged, in a kernel
        whose other warps compute what is in shared memory: a storer. Without computation, it is a
        copy that waits for its data."""
        if not self.computes:
            return False
        loaded: set[str] = set()
        for i in range(row, min(self._end(row), row + AHEAD)):
            if self.roles[i] == "load_shared":
                loaded |= operands(self.sass[i])[0]
            elif self.roles[i] == "store_global":
                return bool(loaded) and stored(self.sass[i]) <= loaded
            elif self.roles[i] in ("mma", "store_shared"):
                return False
            else:
                loaded -= operands(self.sass[i])[0]
        return False

    def finished(self, row: int) -> bool:
        """Whether only the end of the kernel follows: the warp has no work left."""
        for i in range(row + 1, len(self.roles)):
            if self.opcodes[i] == "EXIT":
                return not self.sass[i].startswith("@")
            if not self.opcodes[i].startswith(_TO_THE_END):
                return False
        return False

    def _end(self, row: int) -> int:
        """Where the warps that run ``row`` end at the latest: behind it stands the code of other
        roles."""
        end = bisect_left(self.ends, row)
        return self.ends[end] if end < len(self.ends) else len(self.roles)

    def only_copies(self, row: int) -> bool:
        """Whether the code around ``row``, between two ends of the kernel, copies with ``cp.async``
        and does nothing else with tiles."""
        end = bisect_left(self.ends, row)
        if end not in self._copying:
            around = range(self.ends[end - 1] + 1 if end else 0, self._end(row))
            self._copying[end] = any(self.opcodes[i].startswith("LDGSTS") for i in around) and not any(
                self.roles[i] in ("mma", "load_shared", "store_global") for i in around
            )
        return self._copying[end]
