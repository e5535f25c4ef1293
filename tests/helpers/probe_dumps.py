"""Recordings of the probe made up for tests: what the header would have written, with every number
known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ncubble.analysis.traces.probe import MAGIC, MARK, STEP, WARP, Recorded, decode, parse_dumps

TAGS = ("", "load", "wait_data", "wait_sync", "wait_slot", "wait_mma", "compute", "store")
ROLES = ("", "warp", "loader", "math", "storer")
Region = tuple[int, int, str, int]
STEPS: list[Region] = [(0, 100, "load", 0), (100, 400, "wait_data", 0), (400, 1000, "compute", 0)]


def warp(regions: Sequence[Region], begin: int, end: int, **more: Any) -> dict[str, Any]:
    """A warp that lives from clock ``begin`` to ``end``; regions as (begin, end, tag, index), none
    in another."""
    return {"regions": list(regions), "begin": begin, "end": end, "role": "warp", **more}


def marks_of(regions: Sequence[Region]) -> list[Region]:
    """The marks (clock, kind, tag, index) of regions, all steps; one to nothing ends what no other
    follows at once."""
    found: list[Region] = []
    for place, (begin, end, tag, index) in enumerate(regions):
        found.append((begin, STEP, tag, index))
        if place + 1 == len(regions) or regions[place + 1][0] != end:
            found.append((end, STEP, "", 0))
    return found


def dump(
    warps: Sequence[dict[str, Any]],
    depth: int = 17,
    started: int | None = None,
    ns_per_cycle: float = 0.5,
    clock_of_sm: dict[int, int] | None = None,
    **told: Any,
) -> bytes:
    """The bytes of a dump. ``clock_of_sm``: what the clock of an SM shows at %globaltimer 1000."""
    heads, marks = np.zeros(len(warps), WARP), np.zeros((len(warps), depth), MARK)
    for number, each in enumerate(warps):
        sm = each.get("sm", 0)
        zero = (clock_of_sm or {}).get(sm, 0)
        head = heads[number]
        head["begin_clock"], head["end_clock"] = each["begin"], each["end"]
        head["begin_ns"] = 1000 + int((each["begin"] - zero) * ns_per_cycle)
        head["end_ns"] = 1000 + int((each["end"] - zero) * ns_per_cycle) if each.get("ended", True) else 0
        head["sm"], head["cta"], head["warp"] = sm, each.get("cta", 0), each.get("warp", number)
        head["role"], head["launch"] = ROLES.index(each["role"]), each.get("launch", 7)
        written = each.get("marks") or marks_of(each["regions"])
        head["marks"] = min(len(written), depth - 1) if each.get("ended", True) else 0
        for place, (clock, kind, tag, index) in enumerate(written):
            word = index << 8 | kind << 6 | TAGS.index(tag)
            marks[number, min(place, depth - 1)] = (clock % 2**32, word)
    count = len(warps)
    about = {
        "slots": max(64, count),
        "marks": depth,
        "started": count if started is None else started,
        "warps": count,
        "sms": 132,
        "tags": TAGS,
        "roles": ROLES,
        **told,
    }
    text = json.dumps(about).encode()
    return MAGIC + b"%08d" % len(text) + text + heads.tobytes() + marks.tobytes()


def decoded(*dumps: bytes) -> Recorded:
    """What one file of these dumps holds."""
    return decode(parse_dumps(b"".join(dumps), "here"))


def pipeline() -> Recorded:
    """A loader that is one tile ahead of a math warp: copies of 100 cycles, of which all but the
    first hide."""
    loads = [(200 * i, 200 * i + 20, "load", i) for i in range(4)]
    steps = [(200 * i, 200 * i + 20, "wait_data", i) for i in range(1, 4)]
    work = [(200 * i + 20, 200 * i + 200, "compute", i) for i in range(1, 4)]
    math = sorted([(0, 20, "wait_data", 0), (20, 200, "compute", 0), *steps, *work])
    return decoded(dump([warp(loads, 0, 800, role="loader"), warp(math, 0, 800, role="math")], ns_per_cycle=1.0))
