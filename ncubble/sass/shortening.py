"""Removes NOPs from machine code of sm_90: later instructions move up, and branches are adjusted.

A NOP in place of an instruction keeps its issue slot; only shorter code shows what the slot costs.
Distances that fixed latencies may rely on are kept: the instruction before a gap stalls for what
the gap stalled, up to the longest such latency, and the one behind it waits for the scoreboards
that the gap waited for. Where either is part of another path (a branch before the gap, a branch
target behind it), a NOP of the gap does so instead.

Where a branch leads is its distance from the branch's end in units of 4 bytes, in bits 16 to 23 and
34 to 81 (of BSSY in bits 34 to 63). NVIDIA does not document this; it was derived from cuobjdump.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

SIZE = 16
LONGEST, AFTER_MMA = 15, 24
"""Cycles that cover fixed latencies: a predicate for a branch takes 13; a reader of the result of
``mma.sync`` comes 24 cycles after it."""
_MOST_YIELDING = 11  # stall counts of 12 to 15 are undefined with the yield bit set
_WORDS = struct.Struct("<QQ")
_STALL, _YIELD, _WAITS, _NO_SCOREBOARDS = 0xF << 41, 1 << 45, 0x3F << 52, 0x3F << 46
_NOP = 0x918 | 7 << 12
_BSSY, _CALL, _MOVE = 0x945, 0x944, 0x802
_NO_WAITS = 0x9C5  # WARPGROUP.DEPBAR: nvdisasm rejects it with scoreboards to wait for
_RELATIVE = (0x947, 0x547, 0x348, _CALL, 0x950)  # BRA, BRA.U, WARPSYNC.COLLECTIVE, CALL.REL, RET.REL
_UNKNOWN = (  # CALL, LEPC, JMP, BRX, RPCMOV and their kinds
    *(0x343, 0x344, 0x34E, 0x357, 0x54A, 0x74A, 0x943, 0x949, 0x94A),
    *(0x94C, 0x94E, 0x957, 0x958, 0x959, 0xB43, 0xB4A, 0xB57, 0xD57),
)
_GOES = re.compile(r"^(@!?U?P\w+ +)?(BRA|BRX|BSSY|CALL|RET|JM|LEPC|WARPSYNC\.COLL|RPCMOV|BMOV\S* ATEXIT)")
_TARGET = re.compile(r"\b0x([0-9a-f]+)$")
_MMA = re.compile(r"^(@!?U?P\w+ +)?[HIDQ]MMA")
CALL_WINDOW = 64
"""Instructions before a call to search for the load of its return address."""


class ImmovableError(Exception):
    """The code contains addresses that are not understood."""


@dataclass(frozen=True)
class _Instruction:
    low: int
    high: int
    text: str

    @property
    def name(self) -> str:
        """The mnemonic, if the text is known."""
        return re.sub(r"^@\S+\s+", "", self.text).split(" ")[0] or f"opcode {self.low & 0xFFF:#x}"

    @property
    def stall(self) -> int:
        return (self.high & _STALL) >> 41

    def with_stall(self, cycles: int) -> _Instruction:
        return replace(self, high=self.high & ~_STALL | cycles << 41)

    @property
    def most_stall(self) -> int:
        return _MOST_YIELDING if self.high & _YIELD else LONGEST

    @property
    def distance(self) -> int | None:
        """Distance to its target in instructions, from its end; None if it has no target."""
        if self.low & 0xFFF == _BSSY:
            return _signed(self.low >> 34, 30) * 4 // SIZE
        if self.low & 0xFFF in _RELATIVE:
            upper = self.low >> 34 | (self.high & 0x3FFFF) << 30
            return _signed(self.low >> 16 & 0xFF | upper << 8, 56) * 4 // SIZE
        return None

    def with_distance(self, distance: int) -> _Instruction:
        """The same instruction with another target."""
        units = distance * SIZE // 4
        if self.low & 0xFFF == _BSSY:
            return replace(self, low=self.low & (1 << 34) - 1 | (units & (1 << 30) - 1) << 34)
        upper = units >> 8 & (1 << 48) - 1
        low = self.low & (1 << 34) - 1 & ~(0xFF << 16) | (units & 0xFF) << 16 | (upper & (1 << 30) - 1) << 34
        return replace(self, low=low, high=self.high & ~0x3FFFF | upper >> 30)


def shortened(code: bytes, texts: Sequence[str], gone: Collection[int]) -> bytes:
    """``code`` of one function without the NOPs at the positions ``gone``; NOPs behind its end fill
    it up. ``texts`` are those of its instructions, "" where not known.

    Raises ImmovableError if an address in the code is not understood.
    """
    words = _WORDS.iter_unpack(code[: len(texts) * SIZE])
    whole = [_Instruction(low, high, text) for (low, high), text in zip(words, texts, strict=True)]
    targets = _targets(whole)
    short = _without_gaps(whole, set(gone) - set(targets.values()), set(targets.values()))
    origins = [number for number, _ in short]
    places = [bisect_left(origins, number) for number in range(len(whole) + 1)]
    short = [
        (number, instruction.with_distance(places[targets[number]] - at - 1) if number in targets else instruction)
        for at, (number, instruction) in enumerate(short)
    ]
    for number, instruction in enumerate(whole):
        if instruction.low & 0xFFF == _CALL:
            _fix_return_address(short, places, number + 1)
    data = b"".join(_WORDS.pack(instruction.low, instruction.high) for _, instruction in short)
    return data + _WORDS.pack(_NOP, _NO_SCOREBOARDS) * (len(whole) - len(short)) + code[len(whole) * SIZE :]


def _targets(whole: Sequence[_Instruction]) -> dict[int, int]:
    """Where each branch leads, by position. The texts name addresses, which must all be as far from
    these as the function's own address is."""
    targets, bases = {}, set()
    for number, instruction in enumerate(whole):
        distance = instruction.distance
        if instruction.low & 0xFFF in _UNKNOWN or (distance is None and _GOES.match(instruction.text)):
            raise ImmovableError(f"the code computes addresses ({instruction.name})")
        if distance is None:
            continue
        targets[number] = number + 1 + distance
        if match := _TARGET.search(instruction.text):
            bases.add(int(match[1], 16) - targets[number] * SIZE)
    if len(bases) > 1 or any(not 0 <= target <= len(whole) for target in targets.values()):
        raise ImmovableError("its branch targets do not match their texts")
    return targets


def _without_gaps(
    whole: Sequence[_Instruction], gone: Collection[int], targets: Collection[int]
) -> list[tuple[int, _Instruction]]:
    """What stays, with its old position. Where the instruction before a gap cannot stall long
    enough, or the one behind it cannot wait, a NOP of the gap stays, too."""
    short: list[tuple[int, _Instruction]] = []
    stalled = waits = 0
    since_mma = AFTER_MMA
    for number, instruction in enumerate(whole):
        if number in gone:
            stalled, waits = stalled + instruction.stall, waits | instruction.high & _WAITS
            continue
        longest = max(LONGEST, AFTER_MMA - since_mma + (short[-1][1].stall if short else 0))
        other_path = number in targets or (bool(short) and short[-1][1].distance is not None)
        left = min(stalled, LONGEST) if other_path else _stall_before(short, stalled, longest)
        stays = waits if other_path or instruction.low & 0xFFF == _NO_WAITS else 0
        if left or stays:
            short.append((number - 1, _Instruction(_NOP, _NO_SCOREBOARDS | stays, "NOP").with_stall(max(1, left))))
        short.append((number, replace(instruction, high=instruction.high | waits & ~stays)))
        since_mma = instruction.stall if _MMA.match(instruction.text) else since_mma + stalled + instruction.stall
        stalled = waits = 0
    return short


def _stall_before(short: list[tuple[int, _Instruction]], cycles: int, longest: int) -> int:
    """Let the last instruction stall for a gap of so many ``cycles``; what of them is left."""
    if not cycles or not short:
        return 0
    number, last = short[-1]
    wanted = min(last.stall + cycles, longest)
    now = max(last.stall, min(wanted, last.most_stall))
    short[-1] = number, last.with_stall(now)
    return wanted - now


def _fix_return_address(short: list[tuple[int, _Instruction]], places: Sequence[int], behind: int) -> None:
    """Put the new address behind a call into the register that holds the old one: the last MOV of
    it before the call."""
    end = places[behind]
    for at in range(end - 1, max(0, end - CALL_WINDOW) - 1, -1):
        number, instruction = short[at]
        if instruction.low & 0xFFF == _MOVE and instruction.low >> 32 == behind * SIZE:
            short[at] = number, replace(instruction, low=instruction.low & 0xFFFFFFFF | end * SIZE << 32)
            return
    raise ImmovableError("the return address of a call was not found")


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
