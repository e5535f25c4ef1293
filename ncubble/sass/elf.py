"""Sections of a cubin, which is an ELF file of 64 bits, little-endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NO_CONTENT = 8  # SHT_NOBITS takes no space in the file


@dataclass(frozen=True)
class ElfSection:
    """A section: its name, and where its content stands in the file (bytes)."""

    name: str
    offset: int
    size: int


def sections(elf: bytes) -> list[ElfSection]:
    """All sections; those without content in the file have size 0. Raises ValueError for what is no
    such file, or is cut off."""
    try:
        if elf[:6] != b"\x7fELF\x02\x01":
            raise ValueError("its first bytes are others")
        (start,) = struct.unpack_from("<Q", elf, 0x28)
        size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
        heads = [struct.unpack_from("<IIQQQQ", elf, start + number * size) for number in range(count)]
        texts = heads[names][4]
        return [
            ElfSection(_text(elf, texts + name), offset, 0 if kind == _NO_CONTENT else length)
            for name, kind, _, _, offset, length in heads
        ]
    except (IndexError, OverflowError, struct.error) as error:
        raise ValueError(str(error)) from error


def _text(elf: bytes, start: int) -> str:
    return elf[start : elf.index(b"\0", start)].decode()
