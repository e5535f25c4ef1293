"""Damage to the structure of a report: one protobuf field, or one piece of the file, is changed and
all lengths around it are corrected, so that the frame of the file stays whole.

A draw: in one of ten, a piece of the file (block, source, result) is dropped, doubled or swapped
with another. Else a *path* (the field numbers from the piece down) is drawn from all paths of the
report, each equally likely, however often it occurs; then one field at this path; then one of the
operations that its kind allows:

    drop, double   the field is missing, or there twice
    swap           it changes places with the payload of another field of the same message
    renumber       its payload stands under a number that its message does not use
    retype         its payload has another wire type
    huge           a number becomes 2**64 - 1 (fixed ones: all bits set)
    number         a number becomes another of the same size: nothing else in the file may tell it
    empty, nul     a text or packed field is empty; or has a NUL in its middle
    garble         a text or packed field becomes random bytes of the same length

Which bytes are a message is guessed, as in any reader without the schema: they parse as one, to the
last byte, and are not printable text.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.reports.mutations import Mutant

T = TypeVar("T")
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PIECES_SHARE = 0.1
LARGEST_NUMBER = 4096
"""Of a field. Larger ones are taken for text that happens to parse."""
_SOURCES, _RESULTS, _PAYLOAD_SIZE, _RANGES = 1, 2, 5, 7


@dataclass(eq=False)
class Field:
    """One field of a message. ``payload``: its bytes without number, type and length; ``inner``:
    its fields, if it is a message."""

    number: int
    wire: int
    payload: bytes
    inner: list[Field] = field(default_factory=list)
    outer: Field | None = None

    def encoded(self, changes: Changes) -> bytes:
        payload = encoded(self.inner, changes) if self.inner else self.payload
        key = varint(self.number << 3 | self.wire)
        return key + (varint(len(payload)) if self.wire == BYTES else b"") + payload


Changes = dict[Field, list[Field]]
"""What stands in place of a field: nothing, it twice, another."""


@dataclass(frozen=True)
class Report:
    """The pieces of a report: its header as stored, and its blocks, each the fields of its own
    header and those of its entries (sources, results, ranges)."""

    head: bytes
    blocks: list[tuple[list[Field], list[list[Field]]]]
    paths: dict[str, list[Field]]


def parse(data: bytes) -> Report:
    """The pieces of a plain report file; ValueError where it is none."""
    (size,) = struct.unpack_from("<I", data, 4)
    at, blocks, paths = 8 + size, [], defaultdict(list)
    head = data[:at]
    while at < len(data):
        header, at = _piece(data, at)
        fields = message(header)
        counts = {f.number: _value(f) for f in fields if f.wire == VARINT}
        entries = []
        names = [(_SOURCES, "source"), (_RESULTS, "result"), (_RANGES, "range")]
        for name in [name for number, name in names for _ in range(counts.get(number, 0))]:
            entry, at = _piece(data, at)
            entries.append(message(entry))
            _collect(entries[-1], name, paths)
        _collect(fields, "block", paths)
        blocks.append((fields, entries))
    return Report(head, blocks, dict(paths))


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size], at + 4 + size


def _collect(fields: Sequence[Field], above: str, paths: dict[str, list[Field]]) -> None:
    for f in fields:
        path = f"{above}.{f.number}"
        paths[path].append(f)
        _collect(f.inner, path, paths)


def message(data: bytes, outer: Field | None = None) -> list[Field]:
    """The fields of a message; ValueError where ``data`` is none."""
    fields, at = [], 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if not 0 < number <= LARGEST_NUMBER:
            raise ValueError(f"field {number}")
        if wire == VARINT:
            _, end = _read_varint(data, at)
        elif wire == BYTES:
            size, at = _read_varint(data, at)
            end = at + size
        elif wire in (FIXED32, FIXED64):
            end = at + (4 if wire == FIXED32 else 8)
        else:
            raise ValueError(f"wire type {wire}")
        if end > len(data):
            raise ValueError("a field ends behind its message")
        fields.append(_field(number, wire, data[at:end], outer))
        at = end
    return fields


def _field(number: int, wire: int, payload: bytes, outer: Field | None) -> Field:
    made = Field(number, wire, payload, outer=outer)
    if wire == BYTES and payload and not _is_text(payload):
        try:
            made.inner = message(payload, made)
        except (ValueError, IndexError):
            made.inner = []
    return made


def _is_text(payload: bytes) -> bool:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter in "\n\r\t" for letter in text)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _value(f: Field) -> int:
    return _read_varint(f.payload, 0)[0]


def varint(value: int) -> bytes:
    """``value`` as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encoded(fields: Sequence[Field], changes: Changes) -> bytes:
    """The message of ``fields``, with ``changes`` at any depth."""
    return b"".join(new.encoded(changes) for f in fields for new in changes.get(f, [f]))


def written(report: Report, changes: Changes) -> bytes:
    """The report file with ``changes``: lengths and sizes are those of what it holds."""
    touched = {above for f in changes for above in _chain(f)}
    parts = [report.head]
    for header, entries in report.blocks:
        bodies = [encoded(entry, changes) for entry in entries]
        payload = b"".join(struct.pack("<I", len(body)) + body for body in bodies)
        size = next((f for f in header if f.number == _PAYLOAD_SIZE), None)
        corrected = dict(changes)
        if size is not None and size not in touched:
            corrected[size] = [Field(size.number, VARINT, varint(len(payload)))]
        start = encoded(header, corrected)
        parts += [struct.pack("<I", len(start)), start, payload]
    return b"".join(parts)


def _chain(f: Field | None) -> Iterator[Field]:
    while f is not None:
        yield f
        f = f.outer


def mutant(number: int, seed: int, sources: Sequence[bytes], reports: Sequence[Report]) -> Mutant:
    """Mutant ``number`` of ``seed`` of one of ``sources``; differs from it in one byte at least."""
    rng = random.Random(f"structure/{seed}/{number}")  # noqa: S311
    while True:
        source = rng.randrange(len(sources))
        kind, where, data = _damaged(reports[source], rng)
        if data != sources[source]:
            return Mutant(number, source, kind, 0, False, data, where)


def mutants(numbers: range, seed: int, sources: Sequence[bytes]) -> list[Mutant]:
    """The mutants of these numbers; of those that are equal byte for byte, the last only."""
    reports = [parse(data) for data in sources]
    return list({one.data: one for one in (mutant(n, seed, sources, reports) for n in numbers)}.values())


def _damaged(report: Report, rng: random.Random) -> tuple[str, str, bytes]:
    if rng.random() < PIECES_SHARE:
        return _moved(report, rng)
    path = rng.choice(list(report.paths))
    f = rng.choice(report.paths[path])
    kind = rng.choice([name for name, suits in OPERATIONS.items() if suits(f)])
    return kind, path, written(report, _changes(kind, f, report, rng))


def _moved(report: Report, rng: random.Random) -> tuple[str, str, bytes]:
    """The report with a block, or an entry of a block, dropped, doubled or swapped. Counts in the
    header of the block follow."""
    kind = rng.choice(("drop", "double", "swap"))
    block = rng.randrange(len(report.blocks))
    header, entries = report.blocks[block]
    if not entries or rng.random() < 0.5:
        blocks = _rearranged(report.blocks, block, kind, rng)
        return kind, "a block", written(Report(report.head, blocks, {}), {})
    at = rng.randrange(len(entries))
    counted = {f.number: _value(f) for f in header if f.number in (_SOURCES, _RESULTS, _RANGES)}
    name = next(n for n in (_SOURCES, _RESULTS, _RANGES) if at < sum(counted.get(m, 0) for m in range(n + 1)))
    more = {"drop": -1, "double": 1, "swap": 0}[kind]
    changes = {f: [Field(f.number, VARINT, varint(_value(f) + more))] for f in header if f.number == name and more}
    blocks = list(report.blocks)
    blocks[block] = header, _rearranged(entries, at, kind, rng)
    return kind, "an entry of a block", written(Report(report.head, blocks, {}), changes)


def _rearranged(items: Sequence[T], at: int, kind: str, rng: random.Random) -> list[T]:
    new = list(items)
    if kind == "drop":
        del new[at]
    elif kind == "double":
        new.insert(at, new[at])
    else:
        other = rng.randrange(len(new))
        new[at], new[other] = new[other], new[at]
    return new


def _is_number(f: Field) -> bool:
    return f.wire != BYTES


def _is_leaf(f: Field) -> bool:
    return f.wire == BYTES and not f.inner and bool(f.payload)


OPERATIONS: dict[str, Callable[[Field], bool]] = {
    "drop": lambda f: True,
    "double": lambda f: True,
    "swap": lambda f: True,
    "renumber": lambda f: True,
    "retype": lambda f: True,
    "huge": _is_number,
    "number": _is_number,
    "empty": lambda f: f.wire == BYTES and bool(f.payload),
    "nul": _is_leaf,
    "garble": _is_leaf,
}
"""The operations, and the fields that they suit."""


def _changes(kind: str, f: Field, report: Report, rng: random.Random) -> Changes:
    if kind == "drop":
        return {f: []}
    if kind == "double":
        return {f: [f, f]}
    if kind == "swap":
        other = rng.choice(_siblings(f, report))
        return {f: [_like(f, other)], other: [_like(other, f)]}
    if kind == "renumber":
        used = {sibling.number for sibling in _siblings(f, report)}
        return {f: [Field(rng.choice(sorted({*range(1, 64)} - used)), f.wire, f.payload, f.inner)]}
    if kind == "retype":
        return {f: [_retyped(f, rng)]}
    return {f: [Field(f.number, f.wire, _payload(kind, f, rng))]}


def _siblings(f: Field, report: Report) -> list[Field]:
    if f.outer:
        return f.outer.inner
    tops = [part for header, entries in report.blocks for part in (header, *entries)]
    return next(fields for fields in tops if any(each is f for each in fields))


def _like(place: Field, content: Field) -> Field:
    """``content`` under the number of ``place``."""
    return Field(place.number, content.wire, content.payload, content.inner)


def _retyped(f: Field, rng: random.Random) -> Field:
    wire = rng.choice([wire for wire in (VARINT, FIXED64, BYTES, FIXED32) if wire != f.wire])
    payload = f.payload
    if wire == VARINT:
        payload = varint(int.from_bytes(payload[:8], "little"))
    elif wire != BYTES:
        size = 8 if wire == FIXED64 else 4
        payload = payload[:size].ljust(size, b"\0")
    return Field(f.number, wire, payload)


def _payload(kind: str, f: Field, rng: random.Random) -> bytes:
    size = len(f.payload)
    if kind == "huge":
        return varint(2**64 - 1) if f.wire == VARINT else b"\xff" * size
    if kind == "number":
        return varint(rng.randrange(1 << 7 * (size - 1), 1 << 7 * size)) if f.wire == VARINT else rng.randbytes(size)
    if kind == "empty":
        return b""
    return f.payload[: size // 2] + b"\0" + f.payload[size // 2 :] if kind == "nul" else rng.randbytes(size)
