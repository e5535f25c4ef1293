"""The frame of a report file: what the native reader does not check.

A report is ``NVR\\0``, a little-endian u32 length with a header of that many bytes, then blocks up
to the end of the file. A block is a u32 length, a header (a protobuf message that announces how
many sources, results and range results follow, and their size in all), and these, each behind its
own u32 length. ``.ncu-repz`` is the same inside one zstd frame. The native reader opens truncated,
empty and foreign files without complaint and shows fewer launches; the walk finds every truncation
inside a block, and ``launches`` is what a reader must come back with. Flipped bits inside a message
pass. Source of the layout: the .proto files that Nsight Compute installs (``extras/FileFormat``),
and the walk over 118 public reports of ncu 2020.3 to 2025.2, which all obey it.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

from ncubble.analysis.report.messages import fields, launch_number, rules_speak
from ncubble.errors import ReportError

MAGIC = b"NVR\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LARGEST_HEADER_B = 64 << 20
"""Maximum size of the header of the file or of a block; the largest of 1777 blocks seen has 130
kB."""
LARGEST_ENTRY_B = (2 << 30) - 1
"""The largest message that protobuf allows."""
LARGEST_PLAIN_B = 16 << 30
LARGEST_RATIO = 500
"""Maximum unpacked size of a compressed report, in bytes and relative to its own size (if above 64
KiB): the 118 public ones shrink 4- to 41-fold, zeros 30 000-fold."""
_AGAIN = "copy the file again, or profile again"
_CHUNK = 1 << 20
_VERSION = re.compile(rb"(20\d\d\.\d+\.\d+)\.\d+ \(build ")
_SOURCES, _RESULTS, _SESSION, _PAYLOAD_SIZE, _RANGES = 1, 2, 3, 5, 7
"""Field numbers of a block's header."""
LOOKED_INTO_B = 16 << 20
"""Bytes of a launch that are examined; the largest of 1,195 has 2 MB."""
_SAID_LAST = {4, 5}
"""Fields of the session details that have their own blocks after the first launch, in all reports
seen."""


@dataclass(frozen=True)
class Frame:
    """What the frame says: content hash of the file as stored, its size in bytes, stored and
    uncompressed, how many launches it announces, whether what ncu writes behind the first launch is
    there, whether its launches stand there once and in the order in which they ran, whether each
    result of a rule holds a message, and the version of ncu ("" if none)."""

    sha256: str
    size: int
    plain_size: int
    launches: int
    ends: bool
    ordered: bool
    rules_speak: bool
    ncu_version: str


def check_frame(path: Path) -> Frame:
    """Walk the frame of the report at ``path`` once, hashing it on the way.

    Raises ReportError for unreadable, empty, foreign, truncated or overlong files, and for
    compression other than zstd.
    """
    try:
        with path.open("rb") as file:
            tap = _Tap(file)
            reader = _plain(path, tap)
            _walk(path, reader)
            tap.drain()
            return Frame(
                sha256=tap.hash.hexdigest(),
                size=tap.size,
                plain_size=reader.passed,
                launches=reader.launches,
                ends=reader.said >= _SAID_LAST,
                ordered=_grow(reader.numbers),
                rules_speak=reader.rules_speak,
                ncu_version=reader.version,
            )
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be read ({error.strerror or error})", "check the file and its permissions"
        ) from error


class _Tap:
    """A raw file that hashes and counts what is read through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.hash.update(data)
        self.size += len(data)
        return data

    def drain(self) -> None:
        while self.read(_CHUNK):
            pass


def _plain(path: Path, tap: _Tap) -> _FrameReader:
    """The uncompressed bytes of the report, told by its name as the native reader does."""
    if path.suffix != ".ncu-repz":
        return _FrameReader(path, tap)
    import zstandard

    head = os.pread(tap.file.fileno(), 4, 0)
    if not head:
        raise ReportError(f"{path}: empty", _AGAIN)
    if head != ZSTD_MAGIC:
        raise ReportError(
            f"{path}: not compressed with zstd",
            (
                "compress the report with `zstd report.ncu-rep -o report.ncu-repz`, or rename an "
                "uncompressed one to .ncu-rep"
            ),
        )
    largest = min(LARGEST_PLAIN_B, LARGEST_RATIO * max(path.stat().st_size, 64 << 10))
    stream = zstandard.ZstdDecompressor().stream_reader(tap, read_across_frames=False)  # type: ignore[arg-type]
    return _FrameReader(path, stream, largest)


class _FrameReader:
    """Exact reads and skips over a stream, remembering the first version string that passes by."""

    def __init__(self, path: Path, stream: object, largest: int | None = None) -> None:
        self.path, self.stream, self.version, self.passed, self.launches = path, stream, "", 0, 0
        self.said: set[int] = set()
        self.numbers: list[int] = []
        self.rules_speak = True
        self.largest = largest or LARGEST_PLAIN_B

    def some(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end."""
        parts: list[bytes] = []
        while size and (data := self.stream.read(min(size, _CHUNK))):  # type: ignore[attr-defined]
            parts.append(data)
            size -= len(data)
            self._count(len(data))
        return b"".join(parts)

    def exactly(self, size: int, what: str) -> bytes:
        """``size`` bytes; raises ReportError where the file ends before."""
        data = self.some(size)
        if len(data) < size:
            raise self.truncated(f"{what} lacks {size - len(data)} of its {size} bytes")
        return data

    def skip(self, size: int, what: str) -> None:
        """Pass over ``size`` bytes; raises ReportError where the file ends before."""
        missing, tail = size, b""
        while missing and (data := self.stream.read(min(missing, _CHUNK))):  # type: ignore[attr-defined]
            missing -= len(data)
            self._count(len(data))
            self.look(tail + data)
            tail = data[-64:]
        if missing:
            raise self.truncated(f"{what} lacks {missing} of its {size} bytes")

    def look(self, data: bytes) -> None:
        """Remember the version of ncu if it is written in ``data``."""
        if not self.version and (match := _VERSION.search(data)):
            self.version = match.group(1).decode()

    def truncated(self, why: str) -> ReportError:
        return ReportError(f"{self.path}: truncated, {why}", _AGAIN)

    def _count(self, size: int) -> None:
        self.passed += size
        if self.passed > self.largest:
            raise ReportError(f"{self.path}: unpacks to more than {self.largest:,} bytes, which no report does", _AGAIN)


def _walk(path: Path, reader: _FrameReader) -> None:
    try:
        _walk_blocks(path, reader)
    except ReportError:
        raise
    except Exception as error:
        if type(error).__module__.startswith("zstandard"):
            raise ReportError(f"{path}: damaged compression ({error})", _AGAIN) from error
        raise


def _walk_blocks(path: Path, reader: _FrameReader) -> None:
    """Every block up to the end of the file."""
    magic = reader.some(4)
    if not magic:
        raise ReportError(f"{path}: empty" + (" or truncated" if path.suffix == ".ncu-repz" else " file"), _AGAIN)
    if magic == ZSTD_MAGIC:
        raise ReportError(f"{path}: compressed with zstd, not a plain report", f"rename it: {path.stem}.ncu-repz")
    if magic != MAGIC:
        raise ReportError(
            f"{path}: not an Nsight Compute report", "use a file written by `ncu` or `ncubble profile` (.ncu-rep)"
        )
    size = _u32(reader.exactly(4, "the header"))
    if size > LARGEST_HEADER_B:
        raise ReportError(f"{path}: damaged, its header claims {size} bytes", _AGAIN)
    reader.exactly(size, "the header")
    blocks = 0
    while length := reader.some(4):
        if len(length) < 4:
            raise reader.truncated(f"inside the length of block {blocks}")
        _walk_block(path, reader, _u32(length), f"block {blocks}")
        blocks += 1
    if not blocks:
        raise reader.truncated("nothing follows the header")


def _walk_block(path: Path, reader: _FrameReader, size: int, name: str) -> None:
    """One block behind its length."""
    if not 0 < size <= LARGEST_HEADER_B:
        raise ReportError(f"{path}: damaged, the header of {name} claims {size} bytes", _AGAIN)
    header = reader.exactly(size, name)
    reader.look(header)
    try:
        numbers, messages = fields(header)
        reader.said.update(*fields(messages.get(_SESSION, b"")))
    except (IndexError, ValueError) as error:
        raise ReportError(
            f"{path}: damaged, the header of {name} is not a protobuf message ({error})", _AGAIN
        ) from error
    sources, results = numbers.get(_SOURCES, 0), numbers.get(_RESULTS, 0) + numbers.get(_RANGES, 0)
    left = numbers.get(_PAYLOAD_SIZE, 0)
    for index in range(sources + results):
        entry = _u32(reader.exactly(4, name)) if left >= 4 else left
        left -= 4 + entry
        if left < 0 or not 0 < entry <= LARGEST_ENTRY_B:
            wrong = f"an entry of {entry} bytes" if left >= 0 else "its entries are longer than it announces"
            raise ReportError(f"{path}: damaged, {name}: {wrong}", _AGAIN)
        launch = reader.exactly(min(entry, LOOKED_INTO_B) if index >= sources else 0, name)
        reader.look(launch)
        reader.numbers += launch_number(launch)
        reader.rules_speak &= rules_speak(launch)
        reader.skip(entry - len(launch), name)
    if left:
        raise ReportError(f"{path}: damaged, {name} announces {left} bytes more than its entries have", _AGAIN)
    reader.launches += results


def _grow(numbers: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


def _u32(data: bytes) -> int:
    return int(struct.unpack("<I", data)[0])
