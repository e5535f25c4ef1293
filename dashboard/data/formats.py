"""What a file is, told by its first bytes: a report of Nsight Compute, or something else that
people take for one."""

from __future__ import annotations

from ncubble.analysis.report.container import MAGIC, ZSTD_MAGIC

HEAD_B = 64
"""Bytes from the start of a file that tell what it is."""
_UNPACK = "unpack it, and add the .ncu-rep files in it"
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (
        b"NVIDIA Tegra Profiler Report",
        "a report of Nsight Systems",
        "profile with Nsight Compute: ncubble profile -- CMD",
    ),
    (b"SQLite format 3\0", "an SQLite database", "add the .ncu-rep file that Nsight Compute wrote"),
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"PK\x03\x04", "a zip archive", _UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"\x7fELF", "a program or a cubin", "profile it: ncubble profile -- CMD"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"),
    (b"==PROF==", "the text output of ncu", "let ncu write a report: ncu -o report …"),
    (b"<", "a text with markup, perhaps the page of a download", "download the file itself"),
    (b"{", "a JSON text", "add the report.ncu-rep that lies beside it"),
    (b'"ID"', "a CSV export of ncu", "add the .ncu-rep file that it was exported from"),
)


def suffix_of(head: bytes) -> str:
    """``.ncu-rep`` or ``.ncu-repz`` by the first bytes of a file; empty where no report begins like
    this."""
    if head.startswith(MAGIC):
        return ".ncu-rep"
    return ".ncu-repz" if head.startswith(ZSTD_MAGIC) else ""


def foreign(head: bytes) -> tuple[str, str]:
    """Of a file that begins like no report: why it is refused, and what to do instead."""
    for start, what, remedy in _FOREIGN:
        if head.startswith(start):
            return f"not a report of Nsight Compute but {what}", remedy
    what = "not a report of Nsight Compute" if head else "an empty file"
    return what, "add a .ncu-rep file, or one compressed with zstd (.ncu-repz)"
