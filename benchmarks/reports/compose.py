"""Make one large report out of small ones: real launches, repeated in turn, as ``ncu`` would have
written them.

    python -m benchmarks.reports.compose OUT [--launches 1000] [PATH…]

PATHs are run directories, report files or folders of them; without any, the recorded runs. All must
come from the same metric sets and version of ncu. OUT ending in ``.ncu-repz`` is compressed.

The layout, as seen in reports of ncu 2022.4 to 2025.3 (the frame:
``ncubble.analysis.report.container``): behind the header follow blocks, each a u32 length, a
``BlockHeader`` and a payload of ``PayloadSize`` bytes that holds ``NumSources`` modules and
``NumResults`` launches, each behind its u32 length. Two things span the file, and a composed one
has to mind them. *Strings*: the reader joins the string tables of all blocks, and launches name
strings by their place in the whole. So one table is written, and reports whose strings differ
cannot be mixed. *Modules*: launches name the module that holds their code by process and an id. Two
files may have both in common, so modules are numbered anew.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import zstandard

from ncubble.analysis.report.container import MAGIC
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import ROOT

NUM_SOURCES, NUM_RESULTS, STRING_TABLE, PAYLOAD_SIZE = 1, 2, 4, 5  # fields of BlockHeader
MODULE_ID = 1  # field of a module, and of the reference to it that is field 15 of a launch
SERIAL, MODULE = 2, 15  # fields of a launch
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

Fields = list[tuple[int, int, int | bytes]]
"""A protobuf message: (number, wire type, value), in order; fixed-width and length-delimited values
as bytes."""


@dataclass(frozen=True)
class Block:
    """One block: its header and the messages of its payload."""

    header: Fields
    messages: list[bytes]

    def holds(self, number: int) -> bool:
        """Whether it counts messages of this kind (``NUM_SOURCES`` or ``NUM_RESULTS``)."""
        return bool(value_of(self.header, number))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def parse(message: bytes) -> Fields:
    """The fields of a protobuf message. Raises ValueError for a wire type that proto3 does not
    have."""
    fields: Fields = []
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, size = key & 7, 0
        if kind == VARINT:
            number, at = _varint(message, at)
            fields.append((key >> 3, kind, number))
            continue
        if kind == LENGTH:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        fields.append((key >> 3, kind, message[at : at + size]))
        at += size
    return fields


def serialize(fields: Fields) -> bytes:
    """The inverse of ``parse``."""
    parts = []
    for number, kind, value in fields:
        parts.append(_as_varint(number << 3 | kind))
        if isinstance(value, int):
            parts.append(_as_varint(value))
        else:
            parts.append((_as_varint(len(value)) if kind == LENGTH else b"") + value)
    return b"".join(parts)


def value_of(fields: Fields, number: int) -> int | bytes:
    """The first field of this number; 0 where it is not there."""
    return next((value for field, _, value in fields if field == number), 0)


def replaced(fields: Fields, values: dict[int, int | bytes]) -> Fields:
    """``fields`` with other values of these numbers, where they are there."""
    return [(number, kind, values.get(number, value)) for number, kind, value in fields]


def read_blocks(data: bytes) -> tuple[bytes, list[Block]]:
    """Header and blocks of an uncompressed report. Raises ValueError for anything else."""
    if data[:4] != MAGIC:
        raise ValueError(f"not an uncompressed report: starts with {data[:4].hex()}")
    header, at = _prefixed(data, 4)
    blocks = []
    while at < len(data):
        raw, at = _prefixed(data, at)
        fields = parse(raw)
        end = at + int(value_of(fields, PAYLOAD_SIZE))
        messages = []
        while at < end:
            message, at = _prefixed(data, at)
            messages.append(message)
        blocks.append(Block(fields, messages))
    return header, blocks


def _prefixed(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


def _prefix(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def write_block(block: Block) -> bytes:
    payload = b"".join(_prefix(message) for message in block.messages)
    return _prefix(serialize(replaced(block.header, {PAYLOAD_SIZE: len(payload)}))) + payload


def plain_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().stream_reader(data).read() if path.suffix == ".ncu-repz" else data


def strings_of(blocks: Sequence[Block]) -> bytes:
    """The string tables of all blocks, as the reader joins them."""
    return b"".join(bytes(value) for one in blocks for number, _, value in one.header if number == STRING_TABLE)


class Modules:
    """Ids that are unique in the composed file, for modules whose ids are not."""

    def __init__(self) -> None:
        self.ids: dict[tuple[int, int], int] = {}

    def renumbered(self, message: bytes, file: int) -> bytes:
        fields = parse(message)
        old = int(value_of(fields, MODULE_ID))
        new = self.ids.setdefault((file, old), len(self.ids) + 1 << 32 | 1)
        return serialize(replaced(fields, {MODULE_ID: new}))

    def launch(self, message: bytes, file: int) -> Fields:
        """The fields of a launch, which names its module by the new id."""
        fields = parse(message)
        reference = value_of(fields, MODULE)
        return replaced(fields, {MODULE: self.renumbered(bytes(reference), file)}) if reference else fields


def compose(paths: Sequence[Path], launches: int) -> bytes:
    """One uncompressed report of ``launches`` launches: those of the report files ``paths``, in
    turn.

    Raises ValueError where there is no launch, or where the strings of two reports differ.
    """
    files = [read_blocks(plain_bytes(path)) for path in paths]
    modules, sources, results = Modules(), list[Block](), list[tuple[Fields, Fields]]()
    for file, (path, (_, blocks)) in enumerate(zip(paths, files, strict=True)):
        if strings_of(blocks) != strings_of(files[0][1]):
            raise ValueError(f"{path}: its strings differ from those of {paths[0]} (other metrics or version of ncu)")
        for one in blocks:
            if one.holds(NUM_SOURCES):
                sources.append(Block(one.header, [modules.renumbered(message, file) for message in one.messages]))
            elif one.holds(NUM_RESULTS):
                header = [field for field in one.header if field[0] != STRING_TABLE]
                header = replaced(header, {NUM_RESULTS: 1})
                results += [(header, modules.launch(message, file)) for message in one.messages]
    if not results:
        raise ValueError(f"no launch in {', '.join(map(str, paths)) or 'no report'}")
    start, first = files[0]
    opening, *closing = [write_block(one) for one in first if not one.messages]
    turn = islice(cycle(results), launches)
    composed = [write_launch(*one, number, strings_of(first)) for number, one in enumerate(turn)]
    return b"".join([MAGIC, _prefix(start), opening, *map(write_block, sources), *composed, *closing])


def write_launch(header: Fields, launch: Fields, number: int, strings: bytes) -> bytes:
    """A block with one launch; the first of all brings the strings."""
    tables: Fields = [(STRING_TABLE, LENGTH, b"" if number else strings)]
    return write_block(Block([*tables, *header], [serialize(replaced(launch, {SERIAL: number + 1}))]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Make one large report out of small ones")
    parser.add_argument("out", type=Path)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--launches", type=int, default=1000)
    given = parser.parse_args()
    data = compose([Run.load(path).report for path in find_runs(given.paths)], given.launches)
    packed = zstandard.compress(data) if given.out.suffix == ".ncu-repz" else data
    given.out.write_bytes(packed)
    print(f"{given.out}: {given.launches} launches, {len(packed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
