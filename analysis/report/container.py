"""The frame of a report file: what the native reader does not check.

A report is ``NVR\\0``, a little-endian u32 length with a header of that many bytes, then blocks up
to the end of the file. A block is a u32 length, a header (a protobuf message that announces how
many sources, results and range results follow, and their size in all), and these, each behind its
own u32 length. ``.ncu-repz`` is the same inside one zstd frame. The native reader opens truncated,
empty and foreign files without complaint and shows fewer launches; the walk finds every truncation
inside a block, and ``launches`` is what a reader must come back with. Flipped bits inside a message
pass. Source of the layout: the .proto files that Nsight Compute installs (``extras/FileFormat``),
and the walk over 118 public reports of ncu 2020.3 to 2025.2, which all obey it.

Frames are remembered, so that a large report is not hashed again each time it is opened. A file
counts as the one that was seen while device, inode, size and both time stamps are the same. A time
stamp may be as coarse as two seconds, so a file that changed less than ``SETTLED_S`` ago is not
remembered at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ncubble.analysis.report.messages import BYTES, fields_of, members, varint
from ncubble.errors import ReportError
from ncubble.store import cache_root, recall, remember

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
LOOKED_INTO_B = 16 << 20
"""Bytes of a launch that are examined; the largest of 1,195 has 2 MB."""
MOST_FIELDS = 1 << 16
"""Maximum fields of a launch that are examined, so that random bytes cost no time. The 1,195
launches at hand have up to 2,364."""
SETTLED_S = 3.0
_AGAIN = "copy the file again, or profile again"
_CHUNK = 1 << 20
_VERSION = re.compile(rb"(20\d\d\.\d+\.\d+)\.\d+ \(build ")
_SOURCES, _RESULTS, _SESSION, _NAMES, _PAYLOAD_SIZE, _RANGES = 1, 2, 3, 4, 5, 7
"""Field numbers of a block's header."""
_SAID_LAST = {4, 5}
"""Fields of the session details that have their own blocks after the first launch, in all reports
seen."""
_RULE, _BODY, _MESSAGE = 19, 3, 1
"""Field numbers: a rule of Nsight in a launch, its body, and a message of it. A rule without
messages has no body. All 3,813 rules of 118 public reports and of the recordings have this form."""
_METRIC, _NAME, _VALUE, _INSTANCE = 13, 1, 2, 3
"""Field numbers: a metric in a launch, its name (in a table of the file), value, and instances."""
_FACTS = {1, 2, 5, 6, 7, 10, 11}
"""Field numbers of what a launch has once: process, number, names, grid and block."""
_OF_TWO_SECTIONS = "gpu__time_duration.sum"
"""ncu 2025.1 keeps the durations of two passes, 1.7 % apart at most in nine reports."""
SMALL_METRIC_B = 1 << 10
"""Larger metrics have hundreds of instances, behind which a second value is not looked for: their
sums are compared with their instances."""

Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Frame:
    """What the frame says: content hash of the file as stored, its size in bytes, stored and
    uncompressed, how many launches it announces, whether what ncu writes behind the first launch is
    there, whether the launches of each thread stand there once and in the order in which they ran,
    whether each result of a rule holds a message, and the version of ncu ("" if none)."""

    sha256: str
    size: int
    plain_size: int
    launches: int
    ends: bool
    ordered: bool
    rules_speak: bool
    ncu_version: str


@dataclass(frozen=True)
class Source:
    """A report file that passed the frame check, and what its file looked like then."""

    path: Path
    frame: Frame
    signature: Signature

    @classmethod
    def of(cls, path: Path) -> Source:
        """The file at ``path``, whose frame may be remembered; raises ReportError as
        ``check_frame`` does."""
        signature = signature_of(path)
        key = f"{_walk_hash()} {signature[:2]} {path.suffix}"
        place = cache_root() / "seen" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        known = recall(place)
        if known and known["signature"] == list(signature):
            return cls(path, Frame(**known["frame"]), signature)
        source = cls(path, check_frame(path), signature)
        source.check_unchanged()
        if time.time_ns() - max(signature[3:]) > SETTLED_S * 1e9:
            remember(place, {"signature": signature, "frame": asdict(source.frame)})
        return source

    def check_unchanged(self) -> None:
        """Raises ReportError where the file is no longer the one with this signature."""
        if signature_of(self.path) != self.signature:
            message = f"{self.path}: changed while it was being read"
            raise ReportError(message, "repeat the command when the file is complete")


def signature_of(path: Path) -> Signature:
    """Device, inode, size and time stamps (ns) of a file. Raises ReportError where it cannot be
    asked."""
    try:
        status = path.stat()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", "check the path") from error
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@cache
def _walk_hash() -> str:
    """A hash of how files are walked: what was seen in another way is looked at again."""
    home = files("ncubble.analysis.report")
    return hashlib.sha256(b"".join((home / name).read_bytes() for name in ("container.py", "messages.py"))).hexdigest()


def check_frame(path: Path) -> Frame:
    """Walk the frame of the report at ``path`` once, hashing it on the way.

    Raises ReportError for unreadable, empty, foreign, truncated or overlong files, and for
    compression other than zstd.
    """
    try:
        with path.open("rb") as file:
            tap = _Tap(file)
            reader = _plain(path, tap)
            try:
                reader.walk()
            except Exception as error:
                if not type(error).__module__.startswith("zstandard"):
                    raise
                raise ReportError(f"{path}: damaged compression ({error})", _AGAIN) from error
            while tap.read(_CHUNK):
                pass
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror or error})"
        raise ReportError(message, "check the file and its permissions") from error
    return Frame(
        sha256=tap.hash.hexdigest(),
        size=tap.size,
        plain_size=reader.passed,
        launches=reader.launches,
        ends=reader.said >= _SAID_LAST,
        ordered=reader.ordered,
        rules_speak=reader.rules_speak,
        ncu_version=reader.version,
    )


class _Tap:
    """A raw file that hashes and counts what is read through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.hash.update(data)
        self.size += len(data)
        return data


def _plain(path: Path, tap: _Tap) -> _FrameReader:
    """The uncompressed bytes of the report, told by its name as the native reader does."""
    if path.suffix != ".ncu-repz":
        return _FrameReader(path, tap, LARGEST_PLAIN_B)
    import zstandard

    head = os.pread(tap.file.fileno(), 4, 0)
    if not head:
        raise ReportError(f"{path}: empty", _AGAIN)
    if head != ZSTD_MAGIC:
        remedy = "compress the report with `zstd report.ncu-rep -o report.ncu-repz`, or rename an uncompressed one to "
        raise ReportError(f"{path}: not compressed with zstd", f"{remedy}.ncu-rep")
    largest = min(LARGEST_PLAIN_B, LARGEST_RATIO * max(path.stat().st_size, 64 << 10))
    stream = zstandard.ZstdDecompressor().stream_reader(tap, read_across_frames=False)  # type: ignore[arg-type]
    return _FrameReader(path, stream, largest)


class _FrameReader:
    """Walks the blocks of a report, remembering the first version string that passes by and what
    the launches say."""

    def __init__(self, path: Path, stream: Any, largest: int) -> None:
        self.path, self.stream, self.largest = path, stream, largest
        self.version, self.passed, self.launches, self.rules_speak = "", 0, 0, True
        self.said: set[int] = set()
        self.names: list[str] = []  # of metrics, by their number
        self.ordered = True
        self.last: dict[int, int] = {}  # of each thread: processes count their launches on their own

    def walk(self) -> None:
        """Every block up to the end of the file."""
        path, magic = self.path, b"".join(self._chunks(4))
        if not magic:
            raise ReportError(f"{path}: empty" + (" or truncated" if path.suffix == ".ncu-repz" else " file"), _AGAIN)
        if magic == ZSTD_MAGIC:
            message = f"{path}: compressed with zstd, not a plain report"
            raise ReportError(message, f"rename it: {path.stem}.ncu-repz")
        if magic != MAGIC:
            remedy = "use a file written by `ncu` or `ncubble profile` (.ncu-rep)"
            raise ReportError(f"{path}: not an Nsight Compute report", remedy)
        size = _u32(self._exactly(4, "the header"))
        if size > LARGEST_HEADER_B:
            raise ReportError(f"{path}: damaged, its header claims {size} bytes", _AGAIN)
        self._exactly(size, "the header")
        blocks = 0
        while length := b"".join(self._chunks(4)):
            if len(length) < 4:
                raise self._truncated(f"inside the length of block {blocks}")
            self._walk_block(_u32(length), f"block {blocks}")
            blocks += 1
        if not blocks:
            raise self._truncated("nothing follows the header")

    def _walk_block(self, size: int, name: str) -> None:
        """One block behind its length."""
        if not 0 < size <= LARGEST_HEADER_B:
            raise ReportError(f"{self.path}: damaged, the header of {name} claims {size} bytes", _AGAIN)
        header = self._exactly(size, name)
        self._look(header)
        try:
            numbers, messages = members(header)
            self.said.update(*members(messages.get(_SESSION, b"")))
            with suppress(IndexError, ValueError):
                self.names += [text.decode() for _, wire, text in fields_of(messages.get(_NAMES, b"")) if wire == BYTES]
        except (IndexError, ValueError) as error:
            message = f"{self.path}: damaged, the header of {name} is not a protobuf message ({error})"
            raise ReportError(message, _AGAIN) from error
        sources, results = numbers.get(_SOURCES, 0), numbers.get(_RESULTS, 0) + numbers.get(_RANGES, 0)
        left = numbers.get(_PAYLOAD_SIZE, 0)
        for index in range(sources + results):
            entry = _u32(self._exactly(4, name)) if left >= 4 else left
            left -= 4 + entry
            if left < 0 or not 0 < entry <= LARGEST_ENTRY_B:
                wrong = f"an entry of {entry} bytes" if left >= 0 else "its entries are longer than it announces"
                raise ReportError(f"{self.path}: damaged, {name}: {wrong}", _AGAIN)
            launch = self._exactly(min(entry, LOOKED_INTO_B) if index >= sources else 0, name)
            self._look(launch)
            if number := launch_number(launch):
                thread, order = number
                self.ordered &= self.last.get(thread, -1) < order
                self.last[thread] = order
            self.rules_speak &= rules_speak(launch)
            if twice := repeated(launch, self.names):
                raise ReportError(f"{self.path}: damaged, a launch in {name} has {twice}", _AGAIN)
            self._skip(entry - len(launch), name)
        if left:
            raise ReportError(f"{self.path}: damaged, {name} announces {left} bytes more than its entries have", _AGAIN)
        self.launches += results

    def _chunks(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes in pieces, fewer only at the end."""
        while size and (data := self.stream.read(min(size, _CHUNK))):
            size -= len(data)
            self.passed += len(data)
            if self.passed > self.largest:
                message = f"{self.path}: unpacks to more than {self.largest:,} bytes, which no report does"
                raise ReportError(message, _AGAIN)
            yield data

    def _exactly(self, size: int, what: str) -> bytes:
        """``size`` bytes; raises ReportError where the file ends before."""
        data = b"".join(self._chunks(size))
        if len(data) < size:
            raise self._truncated(f"{what} lacks {size - len(data)} of its {size} bytes")
        return data

    def _skip(self, size: int, what: str) -> None:
        """Pass over ``size`` bytes; raises ReportError where the file ends before."""
        missing, tail = size, b""
        for data in self._chunks(size):
            missing -= len(data)
            self._look(tail + data)
            tail = data[-64:]
        if missing:
            raise self._truncated(f"{what} lacks {missing} of its {size} bytes")

    def _look(self, data: bytes) -> None:
        """Remember the version of ncu if it is written in ``data``."""
        if not self.version and (match := _VERSION.search(data)):
            self.version = match.group(1).decode()

    def _truncated(self, why: str) -> ReportError:
        return ReportError(f"{self.path}: truncated, {why}", _AGAIN)


def launch_number(head: bytes) -> tuple[int, int] | None:
    """The first two fields of a launch: the thread that launched it, and a number that grew from
    launch to launch in all 135 reports of several that were at hand.

    None where they are missing.
    """
    with suppress(IndexError, ValueError):
        at, values = 0, []
        for field in (1, 2):
            key, at = varint(head, at)
            value, at = varint(head, at)
            if key != field << 3:
                return None
            values.append(value)
        return values[0], values[1]
    return None


def rules_speak(launch: bytes) -> bool:
    """Whether every rule of a launch that has a body holds a message in it.

    What lies behind the end of ``launch``, or is no protobuf message, is not judged: the native
    reader refuses the latter.
    """
    with suppress(IndexError, ValueError):
        parts = islice(fields_of(launch), MOST_FIELDS)
        return all(wire == BYTES and _speaks(rule) for field, wire, rule in parts if field == _RULE)
    return True


def repeated(launch: bytes, names: Sequence[str]) -> str:
    """What a launch holds twice, with different content, although there is one of it: a metric (by
    its number in ``names``), a value, or a fact; empty where there is none. A reader would take the
    last. Whole reports hold the metrics of some sections twice, with the same value.
    """
    seen: dict[tuple[str, int], Any] = {}
    with suppress(IndexError, ValueError):
        for field, wire, value in islice(fields_of(launch), MOST_FIELDS):
            if field == _METRIC and wire == BYTES:
                parts = fields_of(value) if len(value) <= SMALL_METRIC_B else islice(fields_of(value), 2)
                own = [(number, part) for number, _, part in parts if number != _INSTANCE]
                fields = dict(own)
                number, content = fields.get(_NAME, 0), fields.get(_VALUE)
                if not isinstance(number, int):  # of another type: the native reader refuses it
                    continue
                name = names[number] if number < len(names) else f"metric {number}"
                if len(fields) < len(own) or (isinstance(content, bytes) and len(list(fields_of(content))) > 1):
                    return f"two values of {name}"
                if name == _OF_TWO_SECTIONS:
                    continue
                item = f"different values of {name}", number
            elif field in _FACTS:
                item, content = ("different names, grids or blocks", field), value
            else:
                continue
            if content is not None and seen.setdefault(item, content) != content:
                return item[0]
    return ""


def _speaks(rule: bytes) -> bool:
    bodies = ((wire, body) for field, wire, body in islice(fields_of(rule), MOST_FIELDS) if field == _BODY)
    return all(wire == BYTES and any(_is_message(*part) for part in fields_of(body)) for wire, body in bodies)


def _is_message(field: int, wire: int, message: bytes) -> bool:
    return field == _MESSAGE and wire == BYTES and bool(message)


def _u32(data: bytes) -> int:
    return int(struct.unpack("<I", data)[0])
