"""The instructions of a kernel from its disassembly alone, for launches without a profile.

Columns are those of a report's ``source``. What a profile counts is not known here: ``samples`` is
0, and ``executed`` is an estimate from the loops of the code, which are the back edges of its flow
(an edge to a block that every path to its source goes through). It ranks instructions as execution
counts do: those of the innermost loops around the unit's instructions most, those of other loops
less, straight code 1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from ncubble.analysis.account.stalls import UNIT_OPCODES
from ncubble.errors import ReportError
from ncubble.sass.opcodes import role

TRIPS, ASIDE = 16.0, 0.4
"""Assumed iterations of a loop, and the weight of loops other than the unit's: fewer warps run a
producer's loops."""
UNIT_SHARE = 0.25
"""A kernel without MMAs is bound by a pipe of ``UNIT_OPCODES`` if at least this share of the
instructions in its innermost loops use that pipe."""
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+)")
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(?!\.text\.)([.$\w][^\s:]*):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_REFERENCE = re.compile(r"`\(([^)\s]+)\)")
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_ADDRESS = re.compile(r"\b0x([0-9a-f]+)$")
_LEAVES = ("EXIT", "RET", "BRA", "BRX", "JMP", "KILL")


def listing(text: str, function: str) -> pd.DataFrame:
    """The instructions of ``function`` (its mangled name) in ``text``, which ``nvdisasm -c -g``
    printed: pc, sass, opcode, file, line, samples, executed. Raises ReportError where it has
    none."""
    rows, labels = _read(text.splitlines(), function)
    if not rows:
        raise ReportError(f"the disassembly has no function {function}", "record the launch again")
    frame = pd.DataFrame(rows, columns=["pc", "sass", "file", "line"])
    frame["sass"] = [_REFERENCE.sub(lambda at: f"{labels.get(at[1], 0):#x}", sass) for sass in frame["sass"]]
    frame["sass"] = frame["sass"].str.replace(".reuse", "", regex=False)
    frame["opcode"] = [_GUARD.sub("", sass).split(" ")[0] for sass in frame["sass"]]
    frame["samples"] = 0.0
    frame["executed"] = estimated_counts(frame)
    return frame[["pc", "sass", "opcode", "file", "line", "samples", "executed"]]


def _read(lines: Sequence[str], function: str) -> tuple[list[tuple[int, str, str, float]], dict[str, int]]:
    """Rows of ``function`` (pc, text, file, line), and where its labels stand."""
    rows: list[tuple[int, str, str, float]] = []
    labels: dict[str, int] = {}
    pending: list[str] = []
    inside, place = False, ("", float("nan"))
    for line in lines:
        if section := _SECTION.match(line):
            inside, place = section[1].strip('"') == function, ("", float("nan"))
        elif not inside:
            continue
        elif at := _PLACE.match(line):
            place = at[1], float(at[2])
        elif label := _LABEL.match(line):
            pending.append(label[1])
        elif instruction := _INSTRUCTION.match(line):
            pc = int(instruction[1], 16)
            labels |= dict.fromkeys(pending, pc)
            pending.clear()
            rows.append((pc, instruction[2], *place))
    end = rows[-1][0] + 16 if rows else 0
    return rows, labels | dict.fromkeys(pending, end)


def unit_of(source: pd.DataFrame) -> str:
    """The unit that the code is for: ``tensor`` where it has MMAs, else the pipe of
    ``UNIT_OPCODES`` with the largest share of the innermost loops, if it is ``UNIT_SHARE``; else
    empty."""
    if "mma" in {role(opcode) for opcode in source["opcode"]}:
        return "tensor"
    inner = source.loc[source["executed"] >= source["executed"].max() * 0.99, "opcode"]
    shares = {unit: float(inner.str.startswith(codes).mean()) for unit, codes in UNIT_OPCODES.items()}
    unit = max(shares, key=lambda name: shares[name])
    return unit if shares[unit] >= UNIT_SHARE else ""


def estimated_counts(source: pd.DataFrame) -> list[float]:
    """``executed`` of each row by the loops around it. Behind the last end of the kernel stand
    repetitions of waits and rare paths, which count as straight code."""
    opcodes = [str(opcode) for opcode in source["opcode"]]
    sass = [str(text) for text in source["sass"]]
    starts, follows = _flow([int(pc) for pc in source["pc"]], sass, opcodes)
    block_of = [bisect_right(starts, row) - 1 for row in range(len(opcodes))]
    loops = _loops(follows)
    depth = Counter(block for loop in loops for block in loop)
    work = {block for block, opcode in zip(block_of, opcodes, strict=True) if role(opcode) == "mma"}
    top = max((depth[block] for block in work or depth), default=0)
    main = {block for loop in loops if _is_around(loop, work, depth, top) for block in loop}
    end = max((row for row, text in enumerate(sass) if text.startswith("EXIT")), default=len(sass))
    return [
        1.0 if row > end or not depth[block] else _weight(depth[block], block in main, top)
        for row, block in enumerate(block_of)
    ]


def _weight(depth: int, main: bool, top: int) -> float:
    return float(TRIPS**depth) if main else max(1.0, ASIDE * TRIPS ** min(depth, top))


def _is_around(loop: frozenset[int], work: set[int], depth: Mapping[int, int], top: int) -> bool:
    """Whether it is an innermost loop around the unit's instructions; without these, any innermost
    one."""
    return min(depth[block] for block in loop) == top and (not work or not work.isdisjoint(loop))


def _flow(pcs: Sequence[int], sass: Sequence[str], opcodes: Sequence[str]) -> tuple[list[int], list[list[int]]]:
    """First row of each block, and the blocks that may follow it. Calls are taken to return."""
    row_of = {pc: row for row, pc in enumerate(pcs)}
    leads = {row: _target(sass[row], row_of) for row, opcode in enumerate(opcodes) if opcode.startswith("BRA")}
    ends = [row for row, opcode in enumerate(opcodes) if opcode.startswith(_LEAVES)]
    starts = sorted(
        {0, *(row + 1 for row in ends if row + 1 < len(pcs)), *(t for t in leads.values() if t is not None)}
    )
    number = {start: block for block, start in enumerate(starts)}
    follows: list[list[int]] = []
    for block in range(len(starts)):
        last = (starts[block + 1] if block + 1 < len(starts) else len(pcs)) - 1
        leaves = opcodes[last].startswith(_LEAVES)
        after = [] if leaves and not _conditional(sass[last]) else [block + 1]
        target = leads.get(last)
        after += [number[target]] if target is not None else []
        follows.append([other for other in dict.fromkeys(after) if other < len(starts)])
    return starts, follows


def _conditional(text: str) -> bool:
    """Whether an instruction that leaves may also go on: it is guarded, or branches by a
    predicate of its own."""
    return bool(_GUARD.match(text)) or bool(re.search(r"\bBRA(\.\S+)?\s+!?U?P\d|BRA\.(U\.ANY|DIV|CONV)", text))


def _target(text: str, row_of: Mapping[int, int]) -> int | None:
    address = _ADDRESS.search(text)
    return row_of.get(int(address[1], 16)) if address else None


def _loops(follows: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """The blocks of each loop of a flow: loops with one head are one."""
    before: list[list[int]] = [[] for _ in follows]
    for block, after in enumerate(follows):
        for other in after:
            before[other].append(block)
    dominators = _dominators(follows, before)
    bodies: dict[int, set[int]] = {}
    for block, after in enumerate(follows):
        for head in after:
            if head in dominators.get(block, ()):
                bodies.setdefault(head, {head}).update(_reaching(block, head, before))
    return [frozenset(body) for body in bodies.values()]


def _reaching(block: int, head: int, before: Sequence[Sequence[int]]) -> set[int]:
    """Blocks from which ``block`` is reached without passing ``head``."""
    found, left = {head, block}, [block] if block != head else []
    while left:
        for other in before[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def _dominators(follows: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """For each block that is reached from the first: the blocks on every path to it."""
    order, left, seen = [], [0], {0}
    while left:
        order.append(left.pop())
        for other in follows[order[-1]]:
            if other not in seen:
                seen.add(other)
                left.append(other)
    everything = frozenset(order)
    found = dict.fromkeys(order, everything) | {0: frozenset({0})}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            sets = [found[other] for other in before[block] if other in found]
            now = frozenset.intersection(*sets) | {block}
            if now != found[block]:
                found[block], changed = now, True
    return found
