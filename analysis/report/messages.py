"""Protobuf messages, read without their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VARINT, BYTES = 0, 2
"""Wire types."""
_FIXED_B = {1: 8, 5: 4}


def members(message: bytes) -> tuple[dict[int, int], dict[int, bytes]]:
    """The integers of a protobuf message and its texts and messages, by their numbers; ValueError
    or IndexError where it is none."""
    found: tuple[dict[int, int], dict[int, bytes]] = {}, {}
    for field, _, value in fields_of(message):
        found[not isinstance(value, int)][field] = value
    return found


def fields_of(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field of a protobuf message: an integer, or bytes. Raises
    ValueError or IndexError where it is none."""
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        field, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = varint(message, at)
            yield field, wire, value
            continue
        if wire == BYTES:
            size, at = varint(message, at)
        elif wire in _FIXED_B:
            size = _FIXED_B[wire]
        else:
            raise ValueError(f"wire type {wire}")
        at += size
        if at > end:
            raise ValueError("a field ends after its message")
        yield field, wire, message[at - size : at]


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends. Raises as ``fields_of``."""
    value = message[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for shift in range(7, 70, 7):
        at += 1
        byte = message[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise ValueError("a number of more than ten bytes")
