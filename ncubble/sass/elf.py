"""Sections of a cubin, which is an ELF file of 64 bits, little-endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NO_CONTENT = 8  # SHT_NOBITS takes no space in the file
_PARAMETER = 0x04, 0x17  # EIFMT_SVAL, a value of any size, and EIATTR_KPARAM_INFO


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
            raise ValueError("it has different first bytes")
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


def architecture(cubin: bytes) -> int:
    """The compute capability that a cubin was built for, as in ``sm_90``. Its flags hold it, from
    the second byte on since the eighth version of the format; 0 where they are cut off."""
    if len(cubin) < 0x34:
        return 0
    (flags,) = struct.unpack_from("<I", cubin, 0x30)
    return int(flags >> (8 if cubin[8] >= 8 else 0) & 0xFF)


def parameter_sizes(cubin: bytes, kernel: str) -> list[int]:
    """Bytes of each argument of a kernel, in order; empty for one that takes or says none. Raises
    ValueError as ``sections`` does."""
    sizes: dict[int, int] = {}
    for part in sections(cubin):
        at, end = part.offset, part.offset + part.size
        while part.name == f".nv.info.{kernel}" and at + 4 <= end:
            form, attribute, size = struct.unpack_from("<BBH", cubin, at)
            if (form, attribute) == _PARAMETER and at + 16 <= end:
                _, place, _, facts = struct.unpack_from("<IHHI", cubin, at + 4)
                sizes[place] = facts >> 18
            at += 4 + (size if form == _PARAMETER[0] else 0)
    return [sizes[place] for place in sorted(sizes)]


def _text(elf: bytes, start: int) -> str:
    return elf[start : elf.index(b"\0", start)].decode()
