"""Changes single instructions of compiled machine code (sm_70 to sm_90), keeping registers,
schedule and addresses.

An instruction is 16 bytes, two little-endian words. Of the high word, bits 41 to 44 are the stall
count, 45 yields, 46 to 48 and 49 to 51 name the scoreboards that it sets (7: none), 52 to 57 those
that it waits for, 58 to 61 reuse operands. The layout is not documented by NVIDIA; it was derived
from nvdisasm and checked by measurements (docs/ablation.md).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ncubble.errors import ReportError
from ncubble.sass.elf import architecture, sections
from ncubble.sass.shortening import SIZE, ImmovableError, shortened

MOVABLE = 90
"""Compute capability whose branches are known."""
SLACK = 11
"""The largest stall count that an instruction may have with the yield bit set: nvdisasm calls 12 to
15 undefined then."""
_WORDS = struct.Struct("<QQ")
_STALL, _SCOREBOARDS = 0xF << 41, 0x3F << 46
_GUARD = 0xF << 12
_OPCODE = 0xFFF
_NOP = 0x918
_TRUE_LOW, _TRUE_HIGH = 0x000000FFFF00020C, 0x0000000003F02070  # ISETP.EQ.U32.AND Pn, PT, RZ, RZ, PT
_TRUE_STALL = 13  # the latency of a predicate: its readers waited for a scoreboard that is no longer set
_EXPECT_ONLY = 0x300400  # SYNCS.ARRIVE.TRANS64 to SYNCS.ARRIVE.TRANS64.RED.A0TR: expects bytes without an arrival
_NO_BYTES = 0xFF << 32  # the register that holds their number becomes RZ
_PREDICATE = re.compile(r"\bP(\d)\b")
_KNOWN = {"EXIT": 0x94D, "NOP": _NOP}
"""Opcodes with a single encoding, used to check that text and code match. Others have more
encodings than the available builds show."""
_CODES = frozenset(_KNOWN.values())


@dataclass(frozen=True)
class Code:
    """One function's instructions: a cubin, where in it they stand (bytes), and the offset of each
    row of its listing (``pcs``), which may leave out an instruction that nothing reaches."""

    cubin: bytes
    offset: int
    size: int
    pcs: tuple[int, ...]
    name: str = ""

    @classmethod
    def of(cls, cubin: bytes, function: str, pcs: Iterable[int]) -> Code:
        """The code of ``function`` (its mangled name); raises ReportError if there is none."""
        try:
            code = next((part for part in sections(cubin) if part.name == f".text.{function}"), None)
        except ValueError as error:
            raise ReportError("the machine code is not a cubin, or is truncated", "record the launch again") from error
        if code is not None:
            return cls(cubin, code.offset, code.size, tuple(pcs), code.name)
        raise ReportError(f"the machine code has no function {function}", "record the launch again")

    def check(self, sass: Iterable[str]) -> None:
        """Raise ReportError unless ``sass``, the text of each instruction in order, matches this
        code."""
        texts = list(sass)
        if not self.pcs:
            raise ReportError("the report has no instructions", "profile with the default sets")
        if len(texts) != len(self.pcs):
            message = f"the text has {len(texts)} instructions, the machine code {len(self.pcs)}"
            raise ReportError(message, "record the launch again")
        for row, text in enumerate(texts):
            opcode = re.split(r"[. ;]", re.sub(r"^@!?U?P[0-9T]+\s+", "", text), maxsplit=1)[0]
            inside = self.pcs[row] + SIZE <= self.size
            code = self.words(row)[0] & _OPCODE if inside else None
            if not inside or _KNOWN.get(opcode) != (code if code in _CODES else None):
                raise ReportError(f"instruction {row} ({text}) is not in the machine code", "record the launch again")

    def words(self, row: int) -> tuple[int, int]:
        """Low and high word of the instruction in ``row``."""
        low, high = _WORDS.unpack_from(self.cubin, self.offset + self.pcs[row])
        return low, high

    def patched(self, changes: Mapping[int, tuple[int, int]]) -> bytes:
        """The whole cubin with changed words at some rows."""
        data = bytearray(self.cubin)
        for row, words in changes.items():
            _WORDS.pack_into(data, self.offset + self.pcs[row], *words)
        return bytes(data)

    def shortened(self, changes: Mapping[int, tuple[int, int]], sass: Sequence[str]) -> bytes:
        """Like ``patched``, but removes the NOPs among the changes. Raises ImmovableError if the
        code cannot be moved."""
        if (chip := architecture(self.cubin)) != MOVABLE:
            raise ImmovableError(f"branches of sm_{chip} are not known")
        texts = [""] * (self.size // SIZE)
        for pc, text in zip(self.pcs, sass, strict=True):
            texts[pc // SIZE] = text
        if any(part.size and part.name in (f".rel{self.name}", f".rela{self.name}") for part in sections(self.cubin)):
            raise ImmovableError("the loader writes addresses into the code")
        gone = {self.pcs[row] // SIZE for row, (low, _) in changes.items() if low & _OPCODE == _NOP}
        data, end = bytearray(self.patched(changes)), self.offset + self.size
        data[self.offset : end] = shortened(bytes(data[self.offset : end]), texts, gone)
        return bytes(data)

    def without(self, rows: Iterable[int], sass: list[str]) -> dict[int, tuple[int, int]]:
        """Changes that disable ``rows``: a check of an mbarrier passes at once, anything else is a
        NOP that stalls as long and waits for the same scoreboards."""
        return {
            row: _passes(*self.words(row), sass[row]) if "SYNCS.PHASECHK" in sass[row] else _nop(*self.words(row))
            for row in rows
        }

    def expecting(self, rows: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Changes that turn arrivals which announce bytes into announcements alone: a barrier whose
        waits are gone is not arrived at too often then."""
        return {row: (self.words(row)[0], self.words(row)[1] | _EXPECT_ONLY) for row in rows}

    def announcing_nothing(self, rows: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Changes that let arrivals announce no bytes: a barrier waits for arrivals alone then."""
        return {row: (self.words(row)[0] | _NO_BYTES, self.words(row)[1]) for row in rows}

    def delayed(self, rows: Iterable[int], stall: int = SLACK) -> dict[int, tuple[int, int]]:
        """Changes that raise the stall count of ``rows`` to ``stall`` cycles; the program stays
        right."""
        changes = {}
        for row in rows:
            low, high = self.words(row)
            if (high & _STALL) >> 41 < stall:
                changes[row] = (low, high & ~_STALL | stall << 41)
        return changes


def _nop(low: int, high: int) -> tuple[int, int]:
    return _NOP | low & _GUARD, high & (0x1FFFF << 41) | _SCOREBOARDS


def _passes(low: int, high: int, sass: str) -> tuple[int, int]:
    """An instruction that sets the predicate of a check to true."""
    predicate = _PREDICATE.search(sass.partition("SYNCS")[2])
    if predicate is None:
        return _nop(low, high)
    control = high & (0x3F << 52) | _SCOREBOARDS | _TRUE_STALL << 41
    return _TRUE_LOW | low & _GUARD, _TRUE_HIGH | int(predicate[1]) << 17 | control
