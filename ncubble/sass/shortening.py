"""Takes NOPs out of machine code (sm_75 to sm_90): what stands behind them moves up, and branches
are aimed anew.

A NOP in place of an instruction keeps its issue slot; only shorter code shows what the slot costs.
Distances that fixed latencies may rely on are kept: the instruction before a gap stalls for what
the gap stalled, up to the longest such latency, and the one behind it waits for the scoreboards
that the gap waited for. A NOP that a branch leads to stays.

Where a branch leads is its distance from the branch's end in units of 4 bytes, in bits 16 to 23
and 34 to 81 (of BSSY in bits 34 to 63). NVIDIA does not document this; it was read off cuobjdump.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

SIZE = 16
LONGEST = 15
"""Cycles that cover every fixed latency: that of a predicate for a branch is 13."""
_MOST_YIELDING = 11  # stall counts of 12 to 15 are undefined with the yield bit set
_WORDS = struct.Struct("<QQ")
_STALL, _YIELD, _WAITS, _NO_SCOREBOARDS = 0xF << 41, 1 << 45, 0x3F << 52, 0x3F << 46
_NOP = 0x918 | 7 << 12
_BSSY, _CALL, _MOVE = 0x945, 0x944, 0x802
_NO_WAITS = 0x9C5  # WARPGROUP.DEPBAR: nvdisasm refuses it with scoreboards to wait for
_RELATIVE = (0x947, 0x348, _CALL, 0x950)  # BRA of all kinds, WARPSYNC.COLLECTIVE, CALL.REL, RET.REL
_UNKNOWN = re.compile(r"\b(BRX|BRXU|JMP|JMX|JMXU|CALL\.ABS|RET\.ABS|LEPC)\b")
_TARGET = re.compile(r"\b0x([0-9a-f]+)$")
_SETUP = 64  # instructions before a call in which its return address is put into a register


class ImmovableError(Exception):
    """The code holds addresses that are not understood."""


@dataclass(frozen=True)
class _Instruction:
    low: int
    high: int
    text: str

    @property
    def stall(self) -> int:
        return (self.high & _STALL) >> 41

    def stalling(self, cycles: int) -> _Instruction:
        return replace(self, high=self.high & ~_STALL | cycles << 41)

    @property
    def most_stall(self) -> int:
        return _MOST_YIELDING if self.high & _YIELD else LONGEST

    @property
    def distance(self) -> int | None:
        """Instructions from its end to where it leads; None where it leads nowhere."""
        if self.low & 0xFFF == _BSSY:
            return _signed(self.low >> 34, 30) * 4 // SIZE
        if self.low & 0xFFF in _RELATIVE:
            upper = self.low >> 34 | (self.high & 0x3FFFF) << 30
            return _signed(self.low >> 16 & 0xFF | upper << 8, 56) * 4 // SIZE
        return None

    def leading(self, distance: int) -> _Instruction:
        """The same, leading elsewhere."""
        units = distance * SIZE // 4
        if self.low & 0xFFF == _BSSY:
            return replace(self, low=self.low & (1 << 34) - 1 | (units & (1 << 30) - 1) << 34)
        upper = units >> 8 & (1 << 48) - 1
        low = self.low & (1 << 34) - 1 & ~(0xFF << 16) | (units & 0xFF) << 16 | (upper & (1 << 30) - 1) << 34
        return replace(self, low=low, high=self.high & ~0x3FFFF | upper >> 30)


def shortened(code: bytes, texts: Sequence[str], gone: Collection[int]) -> bytes:
    """``code`` of one function without the NOPs at the positions ``gone``; NOPs behind its end fill
    it up. ``texts`` are those of its instructions, "" where not known.

    Raises ImmovableError where an address in the code is not understood.
    """
    words = _WORDS.iter_unpack(code[: len(texts) * SIZE])
    whole = [_Instruction(low, high, text) for (low, high), text in zip(words, texts, strict=True)]
    targets = _targets(whole)
    short = _closed(whole, set(gone) - set(targets.values()))
    origins = [number for number, _ in short]
    place = [bisect_left(origins, number) for number in range(len(whole) + 1)]
    short = [(number, _aimed(made, targets.get(number), at, place)) for at, (number, made) in enumerate(short)]
    for number, call in ((number, made) for number, made in enumerate(whole) if made.low & 0xFFF == _CALL):
        _return_to(short, place, call, number + 1)
    data = b"".join(_WORDS.pack(made.low, made.high) for _, made in short)
    return data + _WORDS.pack(_NOP, _NO_SCOREBOARDS) * (len(whole) - len(short)) + code[len(whole) * SIZE :]


def _targets(whole: Sequence[_Instruction]) -> dict[int, int]:
    """Where each branch leads, by position. The texts name addresses, which must all be as far from
    these as the function's own address is."""
    targets, bases = {}, set()
    for number, made in enumerate(whole):
        if _UNKNOWN.search(made.text):
            raise ImmovableError(made.text)
        if (distance := made.distance) is None:
            continue
        targets[number] = number + 1 + distance
        if match := _TARGET.search(made.text):
            bases.add(int(match[1], 16) - targets[number] * SIZE)
    if len(bases) > 1 or any(not 0 <= target <= len(whole) for target in targets.values()):
        raise ImmovableError("branches lead elsewhere than their texts say")
    return targets


def _closed(whole: Sequence[_Instruction], gone: Collection[int]) -> list[tuple[int, _Instruction]]:
    """What stays, with its old position. Where the instruction before a gap cannot stall long
    enough, or the one behind it cannot wait, a NOP of the gap stays."""
    short: list[tuple[int, _Instruction]] = []
    stalled = waits = 0
    for number, made in enumerate(whole):
        if number in gone:
            stalled, waits = stalled + made.stall, waits | made.high & _WAITS
            continue
        left = _stall_before(short, stalled)
        stays = waits if made.low & 0xFFF == _NO_WAITS else 0
        if left or stays:
            short.append((number - 1, _Instruction(_NOP, _NO_SCOREBOARDS | stays, "NOP").stalling(max(1, left))))
        short.append((number, replace(made, high=made.high | waits & ~stays)))
        stalled = waits = 0
    return short


def _stall_before(short: list[tuple[int, _Instruction]], cycles: int) -> int:
    """Let the last instruction stall for a gap of so many ``cycles``; what of them is left."""
    if not cycles or not short:
        return 0
    number, last = short[-1]
    wanted = min(last.stall + cycles, LONGEST)
    now = max(last.stall, min(wanted, last.most_stall))
    short[-1] = number, last.stalling(now)
    return wanted - now


def _aimed(made: _Instruction, target: int | None, at: int, place: Sequence[int]) -> _Instruction:
    return made if target is None else made.leading(place[target] - at - 1)


def _return_to(short: list[tuple[int, _Instruction]], place: Sequence[int], call: _Instruction, behind: int) -> None:
    """Put the new address behind a call into the register that held the old one."""
    end = place[behind]
    for at in range(max(0, end - _SETUP), end):
        number, made = short[at]
        if made.low & 0xFFF == _MOVE and made.low >> 32 == behind * SIZE:
            short[at] = number, replace(made, low=made.low & 0xFFFFFFFF | end * SIZE << 32)
            return
    raise ImmovableError(f"{call.text}: no return address was found")


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
