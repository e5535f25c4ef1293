"""Number of buffers of a ring, from machine code alone: counters that return to zero, and arrays of
mbarriers.

A loop that walks around a ring of S buffers adds 1 to the number of the buffer and puts 0 in its
place at S, unless the compiler made a remainder or constants of it. An mbarrier stands for each
buffer, initialised before the loop, as a rule together with others of the same buffer. Which
mbarrier an instruction means is known by its place in shared memory, as far as constants make it
up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ncubble.sass.slices import RegisterUses, operands

MOST = 32
"""Maximum buffers of a ring: counters with larger limits count something else."""
NEAR = 48
"""Maximum distance between instructions of a loop, e.g. across a branch that few warps take."""
SAME_LOOP = 0.5
"""An instruction with at least this share of another's executions belongs to the same loop."""
STRIDES = range(8, 72, 8)
"""Maximum bytes between the mbarriers of neighbouring buffers; others may lie in between."""
_COMPARE = re.compile(r"ISETP\.(NE|EQ|GT|GE|LT|LE)(?:\.U32)?\.AND (U?P\d), U?PT, (U?R\d+), 0x([0-9a-f]+), U?PT")
EXPECT = "SYNCS.ARRIVE.TRANS64"
"""Opcode that arrives at an mbarrier and announces bytes, before TMA copies them."""
_TERM = re.compile(r"(-?0x[0-9a-f]+)$|(U?R\d+)(?:\.reuse)?$")
_SUMS = re.compile(r"(?:U?IADD3?|VIADD)$")
_LAST_TERM = re.compile(r"U?LEA$|U?MOV$|R2UR$|U?PRMT$|IMAD(?:\.U32|\.MOV\.U32)?$")
"""Of these the last operand is the address, or its base: an index may come before it."""
_STEPS = 12
"""Maximum instructions that make up an address."""
RESERVED_B = 1024
"""Shared memory before a kernel's own. A place in it is one whose base is not known."""


def address(sass: str) -> str:
    """The first address of an instruction, without brackets; empty where it has none."""
    _, _, rest = sass.partition("[")
    return rest.partition("]")[0]


def offset(sass: Sequence[str], row: int) -> int:
    """The constant part of the first address of an instruction, in bytes; with that of its
    registers."""
    return _total(sass, row, address(sass[row]).split("+"), _STEPS)


def _total(sass: Sequence[str], row: int, terms: Iterable[str], steps: int) -> int:
    """The sum of constants and registers at ``row``; 0 for what is neither."""
    matches = [match for term in terms if (match := _TERM.match(term.strip()))]
    return sum(int(match[1], 16) if match[1] else _constant(sass, row, match[2], steps) for match in matches)


def _writer(sass: Sequence[str], row: int, register: str) -> int | None:
    """The last instruction before ``row`` that writes ``register``."""
    return next((at for at in range(row - 1, -1, -1) if register in operands(sass[at])[0]), None)


def _constant(sass: Sequence[str], row: int, register: str, steps: int) -> int:
    """The constant part of a register before ``row``, by the instructions that last wrote it. One
    that adds to the register itself, and nothing before it writes, walks along a ring."""
    writer = _writer(sass, row, register)
    if writer is None or not steps:
        return 0
    if register in operands(sass[writer])[1] and _writer(sass, writer, register) is None:
        return 0
    text = re.sub(r"^@\S+\s+", "", sass[writer].rstrip(" ;"))
    mnemonic, _, rest = text.partition(" ")
    terms = [term for term in rest.split(", ")[1:] if _TERM.match(term)]
    if _LAST_TERM.match(mnemonic):
        terms = terms[1:2] if mnemonic.endswith("LEA") else terms[-1:]
    elif not _SUMS.match(mnemonic):
        terms = []
    return _total(sass, writer, terms, steps - 1)


def awaited(sass: Sequence[str], opcodes: Sequence[str]) -> dict[int, str]:
    """For each check of an mbarrier what completes it, as far as that is known: ``mma``, a ``copy``
    (bytes are announced to it), or ``warps`` that arrive, or ask for their next tile. Empty where
    no MMAs arrive at mbarriers: of ``wgmma`` they do not."""
    if not any(opcode.startswith("UTCBAR") for opcode in opcodes):
        return {}
    known: dict[str, set[int]] = {"warps": set(), "mma": set(), "copy": set()}
    next_tile = set()
    for row, opcode in enumerate(opcodes):
        if opcode.startswith("UTCBAR"):
            known["mma"].add(offset(sass, row))
        elif opcode.startswith(EXPECT):
            known["warps" if sass[row].rstrip(" ;").endswith("RZ") else "copy"].add(offset(sass, row))
        elif opcode.startswith("UGETNEXTWORKID"):  # [answer], [mbarrier]
            next_tile.add(_total(sass, row, sass[row].split("[")[-1].rstrip("]; ").split("+"), _STEPS))
    what = {at: name for name, places in known.items() for at in places} | dict.fromkeys(next_tile, "warps")
    least = RESERVED_B if max(what) >= RESERVED_B else 0
    what = {at: name for at, name in what.items() if at >= least}
    initialised = [offset(sass, row) for row, opcode in enumerate(opcodes) if opcode.startswith("SYNCS.EXCH")]
    begins = {at: name for at, name in what.items() if at - 8 not in what}
    arrays = {place: name for at, name in begins.items() for place in barriers(initialised, at, what) or ()}
    checks = {row: offset(sass, row) for row, opcode in enumerate(opcodes) if opcode.startswith("SYNCS.PHASECHK")}
    other = "warps" if any((arrays | what).get(at) == "copy" for at in checks.values()) else ""
    found = {row: (arrays | what).get(at, other) for row, at in checks.items() if at >= least}
    return {row: name for row, name in found.items() if name}


def barriers(initialised: Sequence[int], first: int, apart: Collection[int]) -> range | None:
    """Offsets of the array of mbarriers that begins at ``first``, by the order in which offsets are
    ``initialised``; it ends before any that lies ``apart``. None where ``first`` is not among
    them."""
    order = {at: number for number, at in reversed(list(enumerate(initialised)))}
    if first not in order:
        return None
    for stride in STRIDES:
        step = order.get(first + stride, -1) - order[first]
        if step >= 1:
            end = first + stride
            while order.get(end) == order[first] + (end - first) // stride * step and end not in apart:
                end += stride
            return range(first, end, stride)
    return range(first, first + 1)


def counted(sass: Sequence[str], executed: Sequence[float], targets: Collection[int]) -> set[int]:
    """Numbers at which counters return to zero that ``targets`` take their addresses from, in code
    that ran."""
    resets = [(row, number) for row in range(len(sass)) if executed[row] > 0 and (number := _reset(sass, row))]
    if not resets or not targets:
        return set()
    index = RegisterUses(sass, [operands(text) for text in sass])
    return {number for row, number in resets if _reaches(sass, index, row, _loop(executed, row), targets)}


def _reset(sass: Sequence[str], row: int) -> int:
    """The number at which ``row`` puts 0 in a counter's place; 0 where it does not.

    Either a choice between the counter and zero, or a guarded zero, by a comparison before it.
    """
    match = re.search(r"SEL (U?R\d+), (?:(U?R\d+), U?RZ|U?RZ, (U?R\d+)), !?(U?P\d)$", sass[row].rstrip(" ;"))
    if match:
        counter, guard = match[2] or match[3], match[4]
    elif match := re.match(r"@!?(U?P\d)\s+(?:U?MOV|IMAD\.MOV\.U32) (U?R\d+),(?: U?RZ,?)+$", sass[row].rstrip(" ;")):
        counter, guard = match[2], match[1]
    else:
        return 0
    for text in reversed(sass[max(0, row - NEAR) : row]):
        if guard in operands(text)[0]:
            compared = _COMPARE.search(text)
            if not compared or compared[2] != guard or counter not in (compared[3], _unmasked(sass, row, compared[3])):
                return 0
            number = int(compared[4], 16) + (compared[1] in ("GT", "LE"))
            return number if 2 <= number <= MOST else 0
    return 0


def _unmasked(sass: Sequence[str], row: int, register: str) -> str:
    """The register of which ``register`` is the lowest byte or half before ``row``; empty where it
    is not."""
    masks = (re.search(rf"LOP3\.LUT {register}, (U?R\d+), 0xff(ff)?, ", text) for text in reversed(sass[:row]))
    return next((match[1] for match in masks if match), "")


def _loop(executed: Sequence[float], row: int) -> range:
    """The rows around ``row`` that run about as often."""
    ends = []
    for step in (-1, 1):
        end = at = row
        while 0 <= at < len(executed) and abs(at - end) <= NEAR:
            end = at if executed[at] >= SAME_LOOP * executed[row] else end
            at += step
        ends.append(end)
    return range(ends[0], ends[1] + 1)


def _reaches(sass: Sequence[str], index: RegisterUses, start: int, loop: range, targets: Collection[int]) -> bool:
    """Whether a result of ``start`` goes into the first address of a target in the loop."""
    seen, left = {start}, [start]
    while left:
        row = left.pop()
        for use in index.uses(row, loop):
            if use in targets and index.parsed[row][0] & operands(f"MOV RZ, {address(sass[use])}")[1]:
                return True
            if use in loop and use not in seen and use not in targets:
                seen.add(use)
                left.append(use)
    return False
