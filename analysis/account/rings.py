"""What the code of a pipelined loop tells of its rings of buffers: depth, fills, and when a copy
starts.

Read off SASS and execution counts. A ring of S buffers that ``cp.async`` fills is S - 1 tiles
ahead: as many are committed before the loop, and the wait in it leaves S - 2 tiles pending (CUDA
C++ Programming Guide, asynchronous data copies). Warps that wait for mbarriers say nothing of the
kind; what tells then is the counter of buffers, or the array of mbarriers (``sass.buffers``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from ncubble.analysis.account.code import context_of
from ncubble.sass.buffers import EXPECT, address, barriers, counted, offset
from ncubble.sass.bystanders import AHEAD
from ncubble.sass.opcodes import is_asynchronous, width_bytes
from ncubble.sass.slices import operands

LOOP = 0.5
"""An instruction with at least this share of the most frequent copy's executions counts as part of
the loop."""
BULK = ("UTMALDG", "UBLKCP")
COMMITS = ("LDGDEPBAR", "ARRIVES.LDGSTSBAR")
_PENDING = re.compile(r"DEPBAR\.LE SB\d+, 0x([0-9a-f]+)")
_BYTES = re.compile(r"MOV\S* \S+, (?:U?RZ, U?RZ, )?0x([0-9a-f]+)$")
_LANES = 32


@dataclass(frozen=True)
class Ring:
    """Buffers that a loop fills in turn. ``copies`` is ``tma``, ``cp.async`` or ``plain``.

    ``stages`` counts the buffers, None where the code does not say; ``evidence`` says in words what
    does. ``iterations`` are fills per CTA. ``preloaded`` counts tiles that are copied before the
    loop; ``pending`` is the number of tiles that the wait leaves on their way (None where no wait
    says). ``delay`` is the share of an iteration's products that warps issue between the wait for a
    tile and the mean copy of a later one. ``asynchronous`` says whether products run while warps go
    on (wgmma, tcgen05). ``tile_B`` are the bytes that one fill brings to a CTA; NaN where the code
    does not say. ``compiled`` says whether the copies were written by a compiler of Python, which
    may build another loop for another depth. ``rows`` are the copies in the loop, ``waits`` the
    waits for them, and ``begin`` is the row where the loop begins.
    """

    copies: str
    stages: int | None
    evidence: str
    iterations: float
    preloaded: float
    pending: float | None
    delay: float
    asynchronous: bool
    tile_B: float  # noqa: N815
    compiled: bool
    begin: int
    rows: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()


def rings_of(source: pd.DataFrame, ctas: float, warps: float, unit: str = "tensor") -> list[Ring]:
    """The rings of one launch from its ``source`` frame; ``warps`` per CTA. Several where tiles go
    to mbarriers of their own, as those of K and of V. Empty without copies in a loop, or where
    executions were not counted."""
    if not (ctas > 0 and warps > 0) or source.empty:
        return []
    code = _Code(source, unit)
    if rows := code.ran(BULK):
        return _bulk(code, rows, ctas, warps)
    if rows := code.ran(("LDGSTS",)):
        return [_async(code, rows, ctas * warps, warps)]
    rows = [row for row in code.ran() if code.staged[row]]
    return [_plain(code, rows, ctas * warps, warps)] if any(code.roles[row] == "load_global" for row in rows) else []


def together(rings: Sequence[Ring]) -> Ring | None:
    """Rings that a loop fills side by side, as one whose tile is a tile of each, and as deep as the
    shallowest; None without rings. Rings that are filled more seldom count by their bytes alone."""
    if len(rings) < 2:
        return rings[0] if rings else None
    most = max(rings, key=lambda ring: ring.iterations)
    deep = [ring for ring in rings if ring.stages is not None and ring.iterations >= LOOP * most.iterations]
    least = min(deep, key=lambda ring: ring.stages or 0, default=most)
    return replace(
        most,
        stages=least.stages,
        evidence=f"{least.evidence} ({len(rings)} parallel rings)",
        tile_B=sum(ring.tile_B * ring.iterations for ring in rings) / most.iterations,
        rows=tuple(sorted(row for ring in rings for row in ring.rows)),
        waits=tuple(sorted({row for ring in rings for row in ring.waits})),
    )


class _Code:
    """Instructions of one kernel with their roles and executions."""

    def __init__(self, source: pd.DataFrame, unit: str) -> None:
        context = context_of(source, unit)
        self.files, self.executed = source["file"], np.nan_to_num(source["executed"].to_numpy(dtype=float))
        self.opcodes, self.sass, self.roles, self.home = context.opcodes, context.sass, context.roles, context.home
        self.staged = context.staged
        self.asynchronous = any(map(is_asynchronous, self.opcodes))

    def ran(self, prefixes: str | tuple[str, ...] = "") -> list[int]:
        """Rows of such opcodes that ran."""
        return [row for row, op in enumerate(self.opcodes) if self.executed[row] > 0 and op.startswith(prefixes)]

    def frequent(self, rows: Sequence[int], most: float | None = None) -> list[int]:
        """Those that run in the loop, which goes around ``most`` times, or as often as the most
        frequent of them."""
        floor = LOOP * (max((self.executed[row] for row in rows), default=0.0) if most is None else most)
        return [row for row in rows if self.executed[row] >= floor]

    def waits(self, most: float) -> list[int]:
        """Waits for copies in the loop, without the repetitions of them that stand behind the
        code."""
        waits = [row for row, name in enumerate(self.roles) if name == "copy_wait" and self.home[row] == row]
        return self.frequent(waits, most)

    def runs(self, rows: Sequence[int]) -> float:
        """Executions of all of them together."""
        return float(sum(self.executed[row] for row in rows))

    def counter(self, rows: Sequence[int]) -> int | None:
        """The number of buffers by the counter that gives ``rows`` their addresses; None where no
        counter, or several, do."""
        numbers = counted(self.sass, self.executed.tolist(), frozenset(rows))
        return numbers.pop() if len(numbers) == 1 else None

    def offset(self, row: int) -> int:
        """The constant part of a row's first address, in bytes."""
        return offset(self.sass, row)

    def pending(self, waits: Sequence[int], groups: int) -> float | None:
        """Tiles of so many groups that are on their way when the wait ends."""
        matches = [match for row in waits if (match := _PENDING.search(self.sass[row]))]
        return int(matches[-1][1], 16) / groups if matches and groups else None

    def expected_bytes(self, row: int) -> float:
        """What an mbarrier is told to expect by ``row``; NaN where no constant is."""
        register = self.sass[row].rstrip(" ;").rpartition(", ")[2]
        writer = next((text for text in reversed(self.sass[:row]) if register in operands(text)[0]), "")
        match = _BYTES.search(writer.rstrip(" ;"))
        return float(int(match[1], 16)) if match else math.nan

    def begin(self, rows: Sequence[int]) -> int:
        """The first row that runs as often as ``rows``, as far as it can be told."""
        return int((self.executed >= LOOP * max(self.executed[row] for row in rows)).argmax())

    def delay(self, waits: Sequence[int], inside: Sequence[int]) -> float:
        """Products from the last wait of the loop on, around to each copy: their mean share of all
        in an iteration. 0 where warps do not wait for products."""
        if not waits or self.asynchronous:
            return 0.0
        products = np.where([name == "mma" for name in self.roles], self.executed, 0.0)
        products[products < LOOP * max(self.executed[row] for row in inside)] = 0.0
        if not products.sum() > 0:
            return 0.0
        before = np.concatenate(([0.0], np.cumsum(products))) / products.sum()
        return float(np.mean([(before[row] - before[waits[-1]]) % 1.0 for row in inside]))

    def ring(
        self, copies: str, depth: tuple[int | None, str], fills: tuple[float, float], pending: float | None,
        tile: float, inside: Sequence[int], waits: Sequence[int],
    ) -> Ring:  # fmt: skip
        """The ring of the copies ``inside`` the loop; ``fills`` of a CTA in all, and before the
        loop."""
        return Ring(
            copies, *depth, *fills, pending, self.delay(waits, inside), self.asynchronous, tile,
            str(self.files.iloc[inside[0]]).endswith(".py"), self.begin(waits or inside), tuple(inside), tuple(waits),
        )  # fmt: skip


def _bulk(code: _Code, rows: Sequence[int], ctas: float, warps: float) -> list[Ring]:
    """A ring for each array of mbarriers that TMA arrives at."""
    expects = [row for row in code.ran(EXPECT) if code.opcodes[row] == EXPECT]
    inside = code.frequent(expects)
    waits = code.waits(code.executed[inside or rows].max())
    if not inside:  # copies of different fills cannot be distinguished
        copies = code.frequent(rows)
        fills = code.runs(rows) / len(copies) / ctas, (code.runs(rows) - code.runs(copies)) / len(copies) / ctas
        return [code.ring("tma", _by_counter(code, code.ran("SYNCS")), fills, None, math.nan, copies, waits)]
    initialised = [code.offset(row) for row in code.ran("SYNCS.EXCH")]
    full = {code.offset(row) for row in inside}
    empty = {code.offset(row) for row in waits if code.opcodes[row].startswith("SYNCS")} - full
    rings = []
    for array, known in _arrays(initialised, full, empty):
        others = full.union(empty, initialised).difference(array)
        own = [row for row in expects if code.offset(row) not in others]
        often = code.frequent(own)
        copies = [row for expect in often for row in _behind(expect, rows, expects)]
        mine = [row for row in waits if code.offset(row) in array]
        depth = (len(array), f"mbarriers of full buffers: {len(array)}") if known else _by_counter(code, [*own, *mine])
        # If a warp's elected thread copies under a predicate, all warps execute the copy.
        threads = ctas * warps if all(code.sass[row].startswith("@") for row in copies) else ctas
        runs = float(code.executed[mine].max()) if mine and threads != ctas else code.runs(own)
        fills = runs / threads, (code.runs(own) - code.runs(often)) / threads
        if copies:
            rings.append(code.ring("tma", depth, fills, None, code.expected_bytes(own[-1]), copies, mine or waits))
    return rings


def _arrays(initialised: Sequence[int], full: set[int], empty: set[int]) -> list[tuple[range, bool]]:
    """The arrays of mbarriers of full buffers, and whether their length is known.

    It is by their initialisation. Where a loop initialises them, arrays of full buffers that lie as
    far from each other as those of empty ones are taken to lie side by side.
    """
    left, arrays = sorted(full), []
    gaps = {after - before for side in (full, empty) for before, after in pairwise(sorted(side))}
    gap = gaps.pop() if len(gaps) == 1 and len(full) == len(empty) else 0
    while left:
        array = barriers(initialised, left[0], empty)
        arrays.append((array or range(left[0], left[0] + max(gap, 1), 8), bool(array or gap)))
        left = [at for at in left if at not in arrays[-1][0]]
    return arrays


def _behind(expect: int, copies: Sequence[int], expects: Sequence[int]) -> list[int]:
    """The copies that follow an arrival before the next does, not far behind it."""
    end = min([row for row in expects if row > expect] + [expect + AHEAD])
    return [row for row in copies if expect < row < end]


def _by_counter(code: _Code, rows: Sequence[int]) -> tuple[int | None, str]:
    """The depth by the counter that gives ``rows`` their addresses, and the evidence."""
    number = code.counter(rows)
    if number is None:
        return None, "neither mbarriers nor a counter show how many tiles the ring holds"
    return number, f"the counter of buffers returns to 0 at {number}"


def _async(code: _Code, rows: Sequence[int], threads: float, warps: float) -> Ring:
    """The ring that ``cp.async`` fills. Warps commit their copies in groups, or to mbarriers."""
    commits = code.ran(COMMITS)
    inside = code.frequent(commits or rows)
    most = max(code.executed[row] for row in inside)
    copies = code.frequent(rows, most)
    waits = code.waits(most)
    groups = sum(code.opcodes[row] == "LDGDEPBAR" for row in inside)
    several = len(waits) if groups and waits and groups % len(waits) == 0 else 1  # tiles of K and of V, in attention
    iterations = max([most, *(code.executed[row] for row in waits)]) / threads
    outside = (code.runs(commits) - code.runs(inside)) / threads / (groups // several) if groups else 0.0
    pending = code.pending(waits, groups // several)
    copied = sum(width_bytes(code.opcodes[row]) * max(1, round(code.executed[row] / most)) for row in copies)
    by_mbarrier = any(code.opcodes[row].startswith("SYNCS") for row in waits)
    depth = _by_counter(code, [*copies, *inside, *waits]) if by_mbarrier else _by_groups(outside, pending)
    fills = float(iterations) * several, float(outside)
    return code.ring("cp.async", depth, fills, pending, copied * _LANES * warps / several, copies, waits)


def _by_groups(preloaded: float, pending: float | None) -> tuple[int | None, str]:
    """The depth by the tiles that are copied ahead, and by those that the wait leaves on their
    way."""
    ahead = round(preloaded)
    if pending is not None and ahead > pending + 2:  # other copies come before the loop, too
        return round(pending) + 2, f"tiles that may be pending at the wait: {pending:.0f}"
    if not ahead and not pending:
        return 1, "no tile is copied ahead"
    return max(ahead, round(pending or 0)) + 1, f"tiles copied before the loop: {ahead}"


def _plain(code: _Code, rows: Sequence[int], threads: float, warps: float) -> Ring:
    """Tiles that travel through registers into one buffer. A store to the same address again is
    another tile, in a loop that the compiler unrolled."""
    loads = [row for row in rows if code.roles[row] == "load_global"]
    inside = code.frequent(loads)
    most = float(code.executed[inside].max())
    stores = code.frequent([row for row in rows if code.roles[row] != "load_global"], most)
    tiles = max(Counter(address(code.sass[row]) for row in stores).values(), default=1)
    ahead = (code.runs(loads) - code.runs(inside)) / len(inside) / threads
    copied = sum(width_bytes(code.opcodes[row]) for row in stores) * _LANES * warps / tiles
    meetings = len(code.frequent(code.ran("BAR.SYNC"), most))
    depth = 1, "loads through registers, without a ring"
    if 0 < meetings <= tiles:
        depth = 2, "stores of the next tile do not wait for all warps to finish this one"
    return code.ring("plain", depth, (most / threads * tiles, ahead), None, copied, inside, code.waits(most))
