"""Protobuf messages of a report, read without their schema: fields by number, and what the bytes
of a launch tell that the native reader passes over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

MOST_FIELDS = 1 << 16
"""Maximum fields of a launch that are examined, so that random bytes cost no time. The 1,195
launches at hand have up to 2,364."""
_VARINT, _BYTES = 0, 2
_FIXED_B = {1: 8, 5: 4}
_RULE, _BODY, _MESSAGE = 19, 3, 1
"""Field numbers: a rule of Nsight in a launch, its body, and a message of it. A rule without
messages has no body. All 3,813 rules of 118 public reports and of the recordings have this form."""


def fields(message: bytes) -> tuple[dict[int, int], dict[int, bytes]]:
    """The integers of a protobuf message and its texts and messages, by their numbers; ValueError
    or IndexError where it is none."""
    numbers: dict[int, int] = {}
    messages: dict[int, bytes] = {}
    for field, _, value in _parts(message):
        if isinstance(value, int):
            numbers[field] = value
        else:
            messages[field] = value
    return numbers, messages


def launch_number(head: bytes) -> list[int]:
    """The second field of a launch, as a list of one: a number that grew from launch to launch in
    all 135 reports of several that were at hand. Empty where it is not there."""
    with suppress(IndexError, ValueError):
        at = 0
        for field in (1, 2):
            key, at = _varint(head, at)
            value, at = _varint(head, at)
            if key != field << 3:
                return []
        return [value]
    return []


def rules_speak(launch: bytes) -> bool:
    """Whether every rule of a launch that has a body holds a message in it.

    What lies behind the end of ``launch``, or is no protobuf message, is not judged: the native
    reader refuses the latter.
    """
    with suppress(IndexError, ValueError):
        parts = islice(_parts(launch), MOST_FIELDS)
        return all(wire == _BYTES and _speaks(rule) for field, wire, rule in parts if field == _RULE)
    return True


def _speaks(rule: bytes) -> bool:
    bodies = ((wire, body) for field, wire, body in islice(_parts(rule), MOST_FIELDS) if field == _BODY)
    return all(wire == _BYTES and any(_says(*part) for part in _parts(body)) for wire, body in bodies)


def _says(field: int, wire: int, message: bytes) -> bool:
    return field == _MESSAGE and wire == _BYTES and bool(message)


def _parts(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field: an integer, or bytes."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield field, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in _FIXED_B:
            size = _FIXED_B[wire]
        else:
            raise ValueError(f"wire type {wire}")
        at += size
        if at > end:
            raise ValueError("a field ends after its message")
        yield field, wire, message[at - size : at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")
