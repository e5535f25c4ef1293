"""Finds instructions that only serve a copy: addresses and predicates used only by copy
instructions.

The stall reasons of a copy loop's address arithmetic say ``wait`` or ``selected`` like any other
arithmetic. It counts as a cost of copying because of where its results go, so this module follows
registers through the SASS text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

_NAME = re.compile(r"\b(U?R|U?P(?=\d\b))(\d+)(\.64)?\b")
_NO_RESULT = (
    "ST",
    "RED",
    "BRA",
    "BAR",
    "EXIT",
    "LDGSTS",
    "LDGDEPBAR",
    "DEPBAR",
    "UTMA",
    "UBLKCP",
    "MEMBAR",
    "NOP",
    "CALL",
    "RET",
)

_PREDICATE_FIRST = ("SHFL", "ATOM")
"""Their first operand is a predicate result, their second the register result."""

Names = frozenset[str]


@lru_cache(maxsize=1 << 16)
def operands(sass: str) -> tuple[Names, Names]:
    """Registers and predicates that an instruction writes and reads, pairs and quads spelled
    out."""
    guard, text = _split_guard(sass.rstrip(" ;"))
    mnemonic, _, rest = text.partition(" ")
    fields = [field.strip() for field in rest.split(",")] if rest else []
    reads = set(_names(guard, 1))
    if mnemonic.startswith(_NO_RESULT) and not mnemonic.startswith("REDUX"):
        return frozenset(), frozenset(reads.union(*(_names(field, _span(mnemonic)) for field in fields)))
    results = 1
    while results < min(len(fields), 2) and (
        re.fullmatch(r"U?P[\dT]", fields[results]) or mnemonic.startswith(_PREDICATE_FIRST)
    ):
        results += 1
    writes: set[str] = set()
    for number, field in enumerate(fields):
        if number < results and not field.startswith("["):
            writes |= _names(field, _result_span(mnemonic))
        else:
            reads |= _names(field, _operand_span(mnemonic))
    return frozenset(writes), frozenset(reads)


def _split_guard(sass: str) -> tuple[str, str]:
    if not sass.startswith("@"):
        return "", sass
    guard, _, text = sass.partition(" ")
    return guard, text.strip()


def _span(mnemonic: str) -> int:
    if mnemonic.startswith(("LDTM", "STTM")):  # .x32: of lanes of 32 bits, or of several times as many
        times = re.search(r"\.x(\d+)", mnemonic)
        lanes = re.search(r"dp(\d+)bit", mnemonic)
        return (int(times[1]) if times else 1) * max(1, int(lanes[1]) // 64 if lanes else 1)
    if mnemonic.startswith(("LDSM", "STSM")):  # this many 8x8 matrices, one register each
        return int(mnemonic[-1]) if mnemonic.endswith((".2", ".4")) else 1
    return 4 if ".128" in mnemonic else 2 if ".64" in mnemonic else 1


def _result_span(mnemonic: str) -> int:
    return 2 if mnemonic.startswith(("IMAD.WIDE", "UIMAD.WIDE")) else _span(mnemonic)


def _operand_span(mnemonic: str) -> int:
    """Registers per source operand; overestimating only makes the analysis more conservative."""
    return 4 if "MMA" in mnemonic else _result_span(mnemonic) if "WIDE" in mnemonic else 1


@lru_cache(maxsize=1 << 16)
def _names(field: str, span: int) -> Names:
    names: set[str] = set()
    several = 1 if field.startswith(("[", "desc")) else span
    for kind, number, pair in _NAME.findall(field):
        width = 1 if kind.endswith("P") else 2 if pair else several
        names.update(f"{kind}{int(number) + i}" for i in range(width))
    return frozenset(names)


def serving(sass: Sequence[str], targets: Sequence[bool], candidates: Sequence[bool], loop: range) -> list[bool]:
    """For each instruction, whether all its results go to ``targets`` or to other serving
    instructions.

    ``candidates`` says which instructions may serve (arithmetic, not memory or MMA); ``loop`` is
    the index range of the main loop, around which results are carried. Greatest fixed point: an
    induction variable that feeds itself and a copy serves.
    """
    if not any(targets):
        return [False] * len(sass)
    index = RegisterUses(sass, [operands(text) for text in sass])
    uses = [index.uses(i, loop) if candidates[i] else () for i in range(len(sass))]
    feeders: list[list[int]] = [[] for _ in sass]
    for i, users in enumerate(uses):
        for j in users:
            feeders[j].append(i)
    serves = [bool(candidates[i] and uses[i]) for i in range(len(sass))]
    while True:
        kept = _reaching(targets, _closed(targets, serves, uses, feeders), uses, feeders)
        if kept == serves:
            return serves
        serves = kept


Places = Sequence[Sequence[int]]
"""Of each instruction, those that use its results (``uses``), or whose results it uses
(``feeders``)."""


def _closed(targets: Sequence[bool], serves: Sequence[bool], uses: Places, feeders: Places) -> list[bool]:
    """Drop instructions with outside uses until none is left: the greatest fixed point."""
    kept = list(serves)
    drop = [i for i, alive in enumerate(kept) if alive and not all(targets[j] or kept[j] for j in uses[i])]
    while drop:
        i = drop.pop()
        if kept[i] and not targets[i]:
            drop.extend(feeders[i])
        kept[i] = False
    return kept


def _reaching(targets: Sequence[bool], serves: Sequence[bool], uses: Places, feeders: Places) -> list[bool]:
    """Keep what reaches a target at all: a counter that feeds only itself serves nothing."""
    reaching = [False] * len(serves)
    more = [i for i, alive in enumerate(serves) if alive and any(targets[j] for j in uses[i])]
    while more:
        i = more.pop()
        if serves[i] and not reaching[i]:
            reaching[i] = True
            more.extend(feeders[i])
    return reaching


class RegisterUses:
    """Where each register and predicate is read and where it is certainly overwritten, in order of
    the code.

    A guarded write may not happen, so what was there before lives on.
    """

    def __init__(self, sass: Sequence[str], parsed: Sequence[tuple[Names, Names]]) -> None:
        self.parsed = parsed
        self.reads: defaultdict[str, list[int]] = defaultdict(list)
        self.kills: defaultdict[str, list[int]] = defaultdict(list)
        for i, (writes, reads) in enumerate(parsed):
            for name in reads:
                self.reads[name].append(i)
            for name in () if sass[i].startswith("@") else writes:
                self.kills[name].append(i)

    def uses(self, start: int, loop: range) -> tuple[int, ...]:
        """Instructions that read a result of ``start`` before it is overwritten, once around the
        loop if it is inside."""
        stretches = [range(start + 1, len(self.parsed))]
        if start in loop:
            behind = range(loop.stop, len(self.parsed))
            stretches = [range(start + 1, loop.stop), range(loop.start, start + 1), behind]
        return tuple(sorted({i for name in self.parsed[start][0] for i in self._live(name, stretches)}))

    def _live(self, name: str, stretches: Sequence[range]) -> Iterator[int]:
        reads, kills = self.reads[name], self.kills[name]
        for stretch in stretches:
            at = bisect_left(kills, stretch.start)
            killed = at < len(kills) and kills[at] < stretch.stop
            stop = kills[at] + 1 if killed else stretch.stop  # an instruction reads before it writes
            yield from reads[bisect_left(reads, stretch.start) : bisect_left(reads, stop)]
            if killed:
                return


def staged_through_registers(sass: Sequence[str], roles: Sequence[str]) -> list[bool]:
    """For each instruction, whether it is a global load or shared store of a tile that travels
    through registers.

    A shared store stages if the register it stores was last written by a global load. Reductions
    store what they computed.
    """
    staged = [False] * len(sass)
    for i, name in enumerate(roles):
        if name != "store_shared":
            continue
        wanted = stored(sass[i])
        for j in range(i - 1, -1, -1):
            hit = wanted & operands(sass[j])[0]
            if hit and roles[j] == "load_global":
                staged[i] = staged[j] = True
            wanted = wanted - hit
            if not wanted:
                break
    return staged


def stored(sass: str) -> Names:
    """Registers whose content a store writes to memory: those behind its address."""
    _, text = _split_guard(sass.rstrip(" ;"))
    mnemonic, _, rest = text.partition(" ")
    return frozenset(_names(rest.rpartition(",")[2].strip(), _span(mnemonic)))


def chained(sass: Sequence[str], loads: Sequence[int], loop: range) -> set[int]:
    """Those of ``loads`` (rows) whose address is computed from what one of them loaded: of lists,
    and of gathers by an index."""
    index = RegisterUses(sass, [operands(text) for text in sass])
    found, wanted = set[int](), frozenset(loads)
    more, seen = list(loads), set(loads)
    while more:
        for row in index.uses(more.pop(), loop):
            if row in wanted:
                found.add(row)
            elif row not in seen and not _computes(sass[row]):
                seen.add(row)
                more.append(row)
    return found


def _computes(sass: str) -> bool:
    """Whether an instruction makes no address: arithmetic of floats, or a comparison."""
    return _split_guard(sass)[1].startswith(("F", "H", "D", "MUFU", "PLOP", "ISETP")) and "F2I" not in sass


def loaded_at_once(sass: Sequence[str], sizes: Mapping[int, int]) -> int:
    """The most bytes that a thread waits for at a time. ``sizes``: those of its loads, by row."""
    waiting: dict[int, tuple[Names, int]] = {}
    most = 0
    for row in range(min(sizes, default=0), len(sass)):
        writes, reads = operands(sass[row])
        waiting = {load: known for load, known in waiting.items() if not known[0] & reads}
        if row in sizes:
            waiting[row] = writes, sizes[row]
            most = max(most, sum(size for _, size in waiting.values()))
    return most


def multiplied(sass: Sequence[str], loads: Sequence[int], products: Sequence[int], loop: range) -> set[int]:
    """Those of ``products`` (rows of multiplications) of which both factors come from ``loads``,
    converted or not: a summand is no factor."""
    index = RegisterUses(sass, [operands(text) for text in sass])
    factors = {row: _factors(sass[row]) for row in products}
    fed = defaultdict[int, Names](frozenset)
    more, seen = list(loads), set(loads)
    while more:
        results = index.parsed[row := more.pop()][0]
        for user in index.uses(row, loop):
            if user in factors:
                fed[user] |= factors[user] & results
            elif user not in seen and not _split_guard(sass[user])[1].startswith(_ANEW):
                seen.add(user)
                more.append(user)
    return {row for row, names in fed.items() if len(names) > 1}


_ANEW = ("FADD", "FFMA", "HFMA2", "DFMA", "MUFU", "LD", "ATOM")
"""What makes another value than a converted or scaled one, or loads it."""


def _factors(sass: str) -> Names:
    """Registers of the first two operands behind the result."""
    _, text = _split_guard(sass.rstrip(" ;"))
    return frozenset().union(*(_names(field.strip(), 1) for field in text.partition(" ")[2].split(",")[1:3]))


def rewritten(sass: Sequence[str], stores: Sequence[int], loop: range) -> set[int]:
    """Those of ``stores`` (rows) behind which one of them, or they themselves around the loop,
    certainly store another value to the same address."""
    found, parsed = set[int](), [operands(text) for text in sass]
    places = {row: _split_guard(sass[row].rstrip(" ;"))[1].partition(" ")[2].rpartition(",")[0] for row in stores}
    around = loop if loop and "BRA" in sass[loop.stop - 1] else range(0)
    for row in stores:
        address, fresh = _names(places[row], 2), False
        behind = (
            [*range(row + 1, loop.stop), *range(loop.start, row + 1)] if row in around else range(row + 1, len(sass))
        )
        for at in behind:
            fresh = fresh or bool(parsed[at][0] & stored(sass[row]))
            if places.get(at) == places[row] and _split_guard(sass[at])[0] in ("", _split_guard(sass[row])[0]):
                found |= {row} if fresh or stored(sass[at]) != stored(sass[row]) else set()
                break
            if parsed[at][0] & address or (at != around.stop - 1 and _split_guard(sass[at])[1].startswith(_LEAVES)):
                break
    return found


_LEAVES = ("BRA", "BSYNC", "EXIT", "CALL", "RET", "BRX")
