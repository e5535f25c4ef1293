"""Machine code is told from its trimmings."""

import struct

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import code_hash


def elf(**contents):
    """An ELF file with these sections; ``__`` in a name stands for a dot."""
    names = [".shstrtab", *(name.replace("__", ".") for name in contents)]
    table = b"\0" + b"\0".join(name.encode() for name in names) + b"\0"
    parts, heads, place = [], [], 64
    for name, data in zip(names, [table, *contents.values()], strict=True):
        heads.append(struct.pack("<IIQQQQIIQQ", table.index(name.encode()), 1, 0, 0, place, len(data), 0, 0, 0, 0))
        parts.append(data)
        place += len(data)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, place)
    struct.pack_into("<HHH", head, 0x3A, 64, len(heads), 0)
    return bytes(head) + b"".join(parts) + b"".join(heads)


def test_paths_and_lines_are_no_machine_code():
    one = elf(__text__gemm=b"code", __nv__constant0=b"c", __debug_line=b"/a/gemm.cu")
    assert code_hash(one) == code_hash(
        elf(__text__gemm=b"code", __nv__constant0=b"c", __debug_line=b"/elsewhere/gemm.cu", __note=b"x")
    )
    for other in (
        elf(__text__gemm=b"cope", __nv__constant0=b"c"),
        elf(__text__gemm=b"code", __nv__constant0=b"d"),
        elf(__text__gemm=b"codec", __nv__constant0=b""),
    ):
        assert code_hash(one) != code_hash(other)


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"MZ" * 99, elf(__debug_line=b"x"), elf(__text=b"x")[:70]])
def test_what_is_no_cubin_is_refused(data):
    with pytest.raises(UsageError):
        code_hash(data)
