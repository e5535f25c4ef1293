"""Reads what ``bubble_probe.cuh`` recorded: one or more dumps, one after the other. Anything may be
in such a file.

A dump: ``bubbles2``, eight digits with the length of a JSON object, the object, 64 bytes for each
warp, and for each warp ``marks`` marks of 8 bytes: the clock (32 low bits), and a word with tag (6
bits), kind (2) and index (24).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.errors import ReportError

MAGIC = b"bubbles2"
LARGEST_B = 4 << 30
WARP = np.dtype(
    [
        ("begin_ns", "<u8"),
        ("begin_clock", "<u8"),
        ("end_ns", "<u8"),
        ("end_clock", "<u8"),
        ("sm", "<u4"),
        ("cta", "<u4"),
        ("warp", "<u4"),
        ("role", "<u4"),
        ("marks", "<u4"),
        ("launch", "<u4"),
        ("spare", "<u4", (2,)),
    ]
)
MARK = np.dtype([("clock", "<u4"), ("word", "<u4")])
STEP, BEGIN, END = 1, 2, 3
"""Kinds of marks: replace the current region, interrupt it, or end and resume it."""
_REMEDY = "record it again"


@dataclass(frozen=True)
class Dump:
    """What one recording holds: ``warps`` (of ``WARP``) and ``marks`` (of ``MARK``, a row for each
    warp).

    ``started``: warps that asked for a slot on a recorded SM.
    """

    warps: np.ndarray
    marks: np.ndarray
    started: int
    tags: tuple[str, ...]
    roles: tuple[str, ...]


def read_dumps(path: Path) -> list[Dump]:
    """The dumps of a file; raises ReportError naming it and what is wrong."""
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 30} GB", "record fewer SMs")
        data = path.read_bytes()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", _REMEDY) from error
    return parse_dumps(data, str(path))


def parse_dumps(data: bytes, origin: str) -> list[Dump]:
    """The dumps of ``data``; raises ReportError naming ``origin``."""
    dumps = []
    view = memoryview(data)
    while view:
        dump, view = _parse(view, origin)
        dumps.append(dump)
    if not dumps:
        raise ReportError(f"{origin}: has no recording", _REMEDY)
    return dumps


def _parse(view: memoryview, origin: str) -> tuple[Dump, memoryview]:
    head = bytes(view[:16])
    if head[:8] != MAGIC or not head[8:].isdigit() or len(head) < 16:
        raise ReportError(f"{origin}: not a recording of the probe", _REMEDY)
    length = int(head[8:])
    description = _description(bytes(view[16 : 16 + length]), origin)
    rest = view[16 + length :]
    count, depth = description["warps"], description["marks"]
    size = count * (WARP.itemsize + depth * MARK.itemsize)
    if len(rest) < size:
        raise ReportError(f"{origin}: is shorter than its {count} warps", _REMEDY)
    warps = np.frombuffer(rest[: count * WARP.itemsize], dtype=WARP)
    marks = np.frombuffer(rest[count * WARP.itemsize : size], dtype=MARK).reshape(count, depth)
    dump = Dump(warps, marks, description["started"], tuple(description["tags"]), tuple(description["roles"]))
    return dump, rest[size:]


def _description(text: bytes, origin: str) -> dict[str, Any]:
    try:
        description = json.loads(text)
        numbers = [description[name] for name in ("warps", "marks", "started", "slots")]
        names = [*description["tags"], *description["roles"]]
        right = all(type(number) is int and 0 <= number < 1 << 32 for number in numbers) and description["marks"] > 1
        right = right and all(isinstance(name, str) and len(name) <= 80 for name in names) and len(names) < 1000
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"{origin}: its description is not readable", _REMEDY) from error
    if not right or description["warps"] > min(description["started"], description["slots"]):
        raise ReportError(f"{origin}: its description is invalid", _REMEDY)
    return dict(description)
