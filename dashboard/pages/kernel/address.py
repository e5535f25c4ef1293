"""The state of a kernel page in its address: ``/kernel/KEY/LAUNCH?range=12.5,80&show=metrics&metric=tensor``.

What a browser asks for is checked: what is too long, no number or unknown is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs

LONGEST = 2048
"""Characters of a query that are read."""
LONGEST_FIND = 100
_RANGE = re.compile(r"(-?\d{1,12}(?:\.\d{1,6})?),(-?\d{1,12}(?:\.\d{1,6})?)")


@dataclass(frozen=True)
class Asked:
    """``range_us`` is the stretch of the timeline that is shown, in µs from its start (None: all); ``metrics`` says
    whether the table of metrics is open, ``find`` what is searched in it."""

    range_us: tuple[float, float] | None = None
    metrics: bool = False
    find: str = ""


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])
    find = query.get("metric", [""])[0][:LONGEST_FIND]
    return Asked(_range(query.get("range", [""])[0]), query.get("show") == ["metrics"] or bool(find), find)


def _range(text: str) -> tuple[float, float] | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    start, end = float(found[1]), float(found[2])
    return (start, end) if end > start else None
