"""Damage to a report file, at random and repeatable: mutant ``number`` of a seed is the same bytes
every time.

Kinds: ``truncate`` (cut anywhere), ``cut`` (cut exactly between two blocks), ``flip`` (1 to 1000
changed bytes), ``zero`` (a stretch of zeros), ``splice`` (the head of one report and the tail of
another), ``magic`` (another first word).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zstandard

FLIPS = {1: 5, 3: 4, 10: 4, 30: 2, 100: 2, 300: 1, 1000: 1}
"""Changed bytes of a flip and their weight: few flipped bytes are the hard case."""
KINDS = {"truncate": 3, "cut": 1, "flip": 12, "zero": 3, "splice": 2, "magic": 1}
PACKED_SHARE = 0.15


@dataclass(frozen=True)
class Mutant:
    """Damaged bytes. ``source`` is the index of the intact report; ``flips`` the changed bytes of a
    flip, else 0; ``packed`` whether the zstd form (without its optional checksum) was damaged
    instead of the plain one."""

    number: int
    source: int
    kind: str
    flips: int
    packed: bool
    data: bytes
    where: str = ""

    @property
    def name(self) -> str:
        """The file name, in which ncubble reads whether the bytes are compressed."""
        return f"mutant-{self.number:06d}.ncu-rep{'z' if self.packed else ''}"


def mutant(number: int, seed: int, sources: Sequence[bytes]) -> Mutant:
    """Mutant ``number`` of ``seed`` of one of ``sources`` (plain report files); differs from it in
    one byte at least."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311
    while True:
        source = rng.randrange(len(sources))
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        flips = rng.choices(list(FLIPS), list(FLIPS.values()))[0] if kind == "flip" else 0
        packed = kind != "cut" and rng.random() < PACKED_SHARE
        data = zstandard.compress(sources[source]) if packed else sources[source]
        damaged = flip(data, rng, flips) if kind == "flip" else DAMAGE[kind](data, rng, sources)
        if damaged != data:
            return Mutant(number, source, kind, flips, packed, damaged)


def mutants(numbers: range, seed: int, sources: Sequence[bytes]) -> list[Mutant]:
    """The mutants of these numbers; of those that are equal byte for byte, the last only."""
    return list({one.data: one for one in (mutant(number, seed, sources) for number in numbers)}.values())


def flip(data: bytes, rng: random.Random, count: int) -> bytes:
    """``count`` bytes anywhere become others."""
    changed = bytearray(data)
    for place in rng.sample(range(len(changed)), min(count, len(changed))):
        changed[place] ^= rng.randrange(1, 256)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def cut(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: rng.choice(borders(data)[:-1])]


def borders(data: bytes) -> list[int]:
    """Where the length-prefixed pieces of a plain report end, the header among them; the last is
    the file's size."""
    place, found = 4, []
    while place < len(data):
        place += 4 + int(struct.unpack_from("<I", data, place)[0])
        found.append(place)
    return found


def zero(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start, size = rng.randrange(len(data)), rng.choice((16, 256, 4096, 65536))
    return data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]


def splice(data: bytes, rng: random.Random, sources: Sequence[bytes]) -> bytes:
    other = rng.choice(sources)
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def magic(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return rng.randbytes(4) + data[4:]


DAMAGE: dict[str, Callable[[bytes, random.Random, Sequence[bytes]], bytes]] = {
    "truncate": truncate,
    "cut": cut,
    "zero": zero,
    "splice": splice,
    "magic": magic,
}
