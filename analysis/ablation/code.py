"""Which instructions of a kernel make up each part that can be taken away, which must stay, and the
machine code that is measured: without sets of parts, and with delays.

For launches without a profile the instructions come from the disassembly alone (``listing``).
Columns are those of a report's ``source``. What a profile counts is not known there: ``samples`` is
0, and ``executed`` is an estimate from the loops of the code, which ranks instructions as execution
counts do: those of the innermost loops around the unit's instructions most, those of other loops
less, straight code 1.

Taken away are waits, copies with the arithmetic that serves only them, barriers and shared loads of
the main loop, special functions, and what follows the loop. Everything else stays, above all what
the kernel is for (MMAs and their waits: HGMMA without WARPGROUP.DEPBAR is an illegal instruction),
branches and ends, initialization of mbarriers, and arrivals at them but those of the copies.

A word names what a variant leaves out: ``wait``, ``copy_sync``, ``all``. Without copies nothing
waits, so that ``copy`` is without waits, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations

import numpy as np
import pandas as pd

from ncubble.analysis.ablation.result import SLACK
from ncubble.analysis.account.code import UNIT_OPCODES, CodeContext, context_of
from ncubble.analysis.account.shares import ALL, EPILOGUE, LOOP, removed
from ncubble.analysis.account.stalls import mbarrier_wait
from ncubble.errors import ReportError
from ncubble.sass.opcodes import role
from ncubble.sass.patching import Code
from ncubble.sass.slices import RegisterUses, operands, serving

SPECIAL = "special"
_EXPECTING = re.compile(r"SYNCS\.ARRIVE\.TRANS64(\.RED)? ")  # also announces the bytes of a TMA load
_OFFSET = re.compile(r"\[[^\]]*?(?:\+(0x[0-9a-f]+))?\]")
_NAMED = re.compile(r"BAR\.\S+\s+(0x[1-9a-f][0-9a-f]*|U?R\d+)")
_CLOSES = ("LDGDEPBAR", "UTMACMDFLUSH")
_COPYING = ("UTMALDG", "UBLKCP", "LDGSTS", "USETMAXREG.DEALLOC")
_STEERS = ("ISETP", "R2UR", "R2P", "BRA", "BRX", "LDG", "LDS", "STG", "SYNCS", "LEA", "UTMA", "VOTE", "F2I")
_INTEGER = ("IADD", "IMAD", "VIADD", "LOP", "SHF", "MOV", "SEL", "I2F", "IABS", "IMNMX", "PRMT")
_STRAIGHT = range(0)  # no loop: the code after it
_KEPT = ("BRA", "EXIT", "CALL", "RET", "NOP", "BSSY", "BSYNC", "WARPSYNC", "SYNCS", "ELECT", "VOTE", "R2UR", "S2")

SLACK_CLASSES: dict[str, tuple[str, ...]] = {
    "tensor": ("HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA"),
    "copies": ("LDGSTS", "LDGDEPBAR", "UTMALDG", "UBLKCP", "LDG"),
    "shared memory": ("LDS", "STS"),
    "integer": ("IADD", "IMAD", "LOP", "SHF", "LEA", "ISETP", "IMNMX", "VIADD", "PRMT", "MOV", "SEL"),
    "float": ("FADD", "FMUL", "FFMA", "FMNMX", "FSETP", "FSEL", "HADD", "HFMA", "HMUL", "F2F"),
    "uniform": ("UIADD", "UIMAD", "ULOP", "USHF", "ULEA", "UISETP", "UMOV", "USEL", "R2UR"),
    "special functions": ("MUFU",),
    "barriers": ("BAR",),
}
"""Instruction classes that are delayed, by opcode prefix."""


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
    """``executed`` of each row by the loops around it: from a branch back to its target. Behind the
    last end of the kernel stand repetitions of waits and rare paths, which count as straight code.
    """
    opcodes, sass = ([str(text) for text in source[column]] for column in ("opcode", "sass"))
    end = max((row for row, text in enumerate(sass) if text.startswith("EXIT")), default=len(sass) - 1)
    row_of = {int(pc): row for row, pc in enumerate(source["pc"])}
    loops: dict[int, range] = {}
    for row in range(end + 1):
        address = _ADDRESS.search(sass[row]) if opcodes[row].startswith("BRA") else None
        head = row_of.get(int(address[1], 16)) if address else None
        if head is not None and head <= row:
            loops[head] = range(head, row + 1)  # loops with one head are one
    depth = [sum(row in body for body in loops.values()) for row in range(len(sass))]
    work = [row for row, opcode in enumerate(opcodes[: end + 1]) if role(opcode) == "mma"]
    top = max((depth[row] for row in work or range(len(sass))), default=0)
    main = {
        row
        for body in loops.values()
        if min(depth[row] for row in body) == top and (not work or any(row in body for row in work))
        for row in body
    }
    return [
        1.0 if row > end or not at else TRIPS**at if row in main else max(1.0, ASIDE * TRIPS ** min(at, top))
        for row, at in enumerate(depth)
    ]


@dataclass(frozen=True)
class RemovableParts:
    """Rows of a launch's source by part, and arrivals (``expecting``) that have to become
    expectations where waits are gone. ``free_running``: every check of an mbarrier, free slots
    included, and all arrivals that expect: for kernels that do not go on without the waits alone.
    ``bare``: copies without the arithmetic that serves them.
    ``slack``: rows of the loop by class of instructions."""

    rows: Mapping[str, tuple[int, ...]]
    expecting: tuple[int, ...] = ()
    free_running: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    bare: tuple[int, ...] = ()
    slack: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def parts_of(source: pd.DataFrame, unit: str) -> RemovableParts:
    """The parts of a kernel with this ``source`` (columns as a launch has them; its samples are not
    read), whose bounding unit is ``unit``."""
    code = _Listing(
        context_of(source, unit), [str(text) for text in source["sass"]], source["executed"].to_numpy(float)
    )
    waits, expecting = code.waits()
    copies = code.copies()
    rows = {
        "wait": waits,
        "copy": copies,
        "sync": code.barriers(),
        "smem": code.shared_loads(),
        "epilogue": code.epilogue(),
        SPECIAL: tuple(row for row in code.looped if code.opcodes[row].startswith("MUFU") and not code.steers(row)),
    }
    bare = tuple(row for row in copies if code.context.roles[row] != "other")
    present = {name: chosen for name, chosen in rows.items() if chosen}
    return RemovableParts(present, expecting, code.free_running(waits), bare, dict(code.slack()))


class _Listing:
    """The instructions of one kernel, with what stands around them."""

    def __init__(self, context: CodeContext, sass: list[str], executed: np.ndarray) -> None:
        self.context, self.sass = context, sass
        self.opcodes: list[str] = context.opcodes
        behind = (row for row, late in enumerate(context.after_loop) if late)
        # After ``end`` comes the code of warps that only copy.
        self.end = next((row for row in behind if self.opcodes[row].startswith(_COPYING)), len(sass))
        self.before = [row for row in range(len(sass)) if not context.after_loop[row] or row >= self.end]
        once = executed[0] if len(executed) else 0.0
        self.looped = [row for row in self.before if row in context.loop or executed[row] > 1.5 * once]
        self.uses = RegisterUses(sass, [operands(text) for text in sass])

    def waits(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Waits for copied data, and the arrivals at the barriers where they wait.

        An arrival that announces bytes, at the same offset, shows that a copy completes the
        barrier. Where no wait has such an arrival, all waits count that stand before computing.
        """
        expecting = self._expecting()
        waits = tuple(row for row in self.before if row < self.end and self._is_wait(row))
        offsets = {_offset(self.sass[row]) for row in expecting}
        certain = tuple(row for row in waits if not self._polls(row) or _offset(self.sass[row]) in offsets)
        if not any(self._polls(row) for row in certain):
            return waits, expecting
        own = {_offset(self.sass[row]) for row in certain}
        return certain, tuple(row for row in expecting if _offset(self.sass[row]) in own)

    def free_running(self, waits: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All checks of mbarriers with the other ``waits``, and all arrivals that expect bytes;
        none where there are no such checks.

        Who no longer waits for data may run two phases ahead of who waits for its free slots, which
        then waits for a phase that is over: a kernel hangs where nothing else holds them together.
        """
        checks = {row for row in range(len(self.sass)) if self._polls(row)}
        return (tuple(sorted(checks | set(waits))), self._expecting()) if checks & set(waits) else ((), ())

    def _expecting(self) -> tuple[int, ...]:
        return tuple(row for row, text in enumerate(self.sass) if _EXPECTING.search(text))

    def _polls(self, row: int) -> bool:
        return self.opcodes[row].startswith("SYNCS.PHASECHK")

    def _is_wait(self, row: int) -> bool:
        """Whether an instruction waits for copied data, and not for a free slot or for stores."""
        if self._polls(row):
            return mbarrier_wait(row, self.context) == "data_wait"
        if not self.opcodes[row].startswith("DEPBAR"):
            return False
        # Bulk stores are awaited the same way: by the group that was closed last.
        closed = (self.opcodes[i] for i in range(row, -1, -1))
        return next((op for op in closed if op.startswith(_CLOSES)), "").startswith("LDGDEPBAR")

    def copies(self) -> tuple[int, ...]:
        """Copies with the arithmetic that serves only them; no wait of any kind."""
        kept = ("SYNCS", "DEPBAR")
        return tuple(row for row in self.before if self.context.is_copy[row] and not self.opcodes[row].startswith(kept))

    def barriers(self) -> tuple[int, ...]:
        """Barriers of all threads in any loop, and named ones of the main loop: these wherever they
        stand, as a thread that arrives alone would be waited for."""
        rows = [row for row, opcode in enumerate(self.opcodes) if opcode.startswith("BAR.")]
        named = {row: match[1] for row in rows if (match := _NAMED.search(self.sass[row]))}
        inner = {named[row] for row in rows if row in named and row in self.context.loop}
        looped = set(self.looped)
        return tuple(row for row in rows if (named[row] in inner if row in named else row in looped))

    def shared_loads(self) -> tuple[int, ...]:
        """Loads of data for the computation, in loops. An index or a schedule is none, nor is the
        same instruction in another copy of the loop."""
        loads = [
            row
            for row in self.looped
            if self.context.roles[row] == "load_shared"
            and not self.context.is_copy[row]
            and not self.sass[row].startswith("@!PT")
        ]
        steering = {self.sass[row] for row in loads if self.steers(row)}
        return tuple(row for row in loads if self.sass[row] not in steering)

    def steers(self, row: int, depth: int = 4) -> bool:
        """Whether the results go to an address, a branch or a schedule, through integers at
        most."""
        for reader in {*self.uses.uses(row, _STRAIGHT), *self.uses.uses(row, self.context.loop)}:
            if self.opcodes[reader].startswith(_STEERS):
                return True
            if depth and self.opcodes[reader].startswith(_INTEGER) and self.steers(reader, depth - 1):
                return True
        return False

    def epilogue(self) -> tuple[int, ...]:
        """Stores behind the loop, what they wait for, and the arithmetic that serves only them; the
        code of warps that copy is none."""
        behind = [late and row < self.end for row, late in enumerate(self.context.after_loop)]
        targets = [late and self._is_result(row) for row, late in enumerate(behind)]
        if not any(targets):
            return ()
        candidates = [
            late and role == "other" and not op.startswith(_KEPT)
            for late, role, op in zip(behind, self.context.roles, self.opcodes, strict=True)
        ]
        serves = serving(self.sass, targets, candidates, self.context.loop)
        return tuple(row for row in range(len(targets)) if targets[row] or serves[row])

    def _is_result(self, row: int) -> bool:
        role, opcode = self.context.roles[row], self.opcodes[row]
        if role in ("store_global", "store_shared", "load_shared"):
            return True
        return opcode.startswith("DEPBAR") or (opcode.startswith("BAR.") and not _NAMED.search(self.sass[row]))

    def slack(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Rows of the main loop by class."""
        for name, opcodes in SLACK_CLASSES.items():
            if rows := tuple(row for row in self.context.loop if self.opcodes[row].startswith(opcodes)):
                yield name, rows


def _offset(text: str) -> str:
    """What a barrier is known by in an instruction: the offset of its address; without one,
    the kinds of registers that make the address up."""
    address = _OFFSET.search(text)
    if address is None:
        return ""
    return address[1] or re.sub(r"(U?R)(\d+|Z)", r"\1", address[0])


@dataclass(frozen=True)
class CodeVariant:
    """Changed machine code. ``rows``: instructions that are gone or delayed. ``harmless``: results
    must stay as they are."""

    name: str
    cubin: bytes
    rows: int
    harmless: bool = False


def words(parts: RemovableParts) -> list[str]:
    """Every set of parts that is measured, singles first."""
    loop = [part for part in LOOP if part in parts.rows]
    chosen = ["_".join(subset) for size in range(1, len(loop) + 1) for subset in combinations(loop, size)]
    # A set with copies always includes the waits: its name omits them.
    distinct = [word for word in chosen if not {"wait", "copy"} <= set(word.split("_"))]
    more = [EPILOGUE, ALL] if EPILOGUE in parts.rows else []
    return [*distinct, *more, *([SPECIAL] if SPECIAL in parts.rows else [])]


class Way(Enum):
    """How waits and copies are taken away."""

    PLAIN = "with the arithmetic that only serves copies"
    FREE_RUNNING = "with all other mbarrier waits"
    BARE = "copies without the arithmetic that serves them"
    ARRIVING = "bare copies; waits for them stay, and pass as soon as the copying thread arrives"

    @property
    def retried(self) -> set[str]:
        """Parts that are tried again this way, where a variant without them failed."""
        return {"wait", "copy"} if self is Way.FREE_RUNNING else {"copy"}


def without(
    code: Code, sass: Sequence[str], parts: RemovableParts, word: str, way: Way = Way.PLAIN, short: bool = False
) -> CodeVariant:
    """The code without the parts that ``word`` names: NOPs in their place or, ``short``, without
    these, too."""
    gone = {SPECIAL} if word == SPECIAL else removed(word)
    rows, expecting = dict(parts.rows), parts.expecting
    if way is Way.FREE_RUNNING:
        rows["wait"], expecting = parts.free_running
    if way in (Way.BARE, Way.ARRIVING):
        rows["copy"] = parts.bare
    if way is Way.ARRIVING and "copy" in gone:
        gone = gone - {"wait"}
    taken = [row for part in sorted(gone) for row in rows.get(part, ())]
    changes = code.without(taken, list(sass))
    if "copy" in gone:
        changes |= code.announcing_nothing(expecting) if way is Way.ARRIVING else code.without(expecting, list(sass))
    elif "wait" in gone:
        changes |= code.expecting(expecting)
    return CodeVariant(word, code.shortened(changes, sass) if short else code.patched(changes), len(changes))


def delayed(code: Code, parts: RemovableParts) -> Iterator[CodeVariant]:
    """One variant for each class of instructions whose stall counts can be raised."""
    for name, rows in parts.slack.items():
        if changes := code.delayed(rows):
            yield CodeVariant(f"{SLACK} {name}", code.patched(changes), len(changes), harmless=True)
