"""Addresses of the Compare page: ``/compare?launch=KEY/NUMBER&launch=…``, first A, that others are held against.

What a browser asks for is checked: anything that is not the address of a launch is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

PATH = "/compare"
MOST = 8
"""Sides beyond this many fit no figure."""
LONGEST = 4096
"""Characters of a query that are read."""
_LAUNCH = re.compile(r"[0-9a-f]{8,64}/\d{1,9}")


@dataclass(frozen=True)
class Asked:
    """What an address asks for: ids of launches, without repetition; whether timelines are drawn on a common length.

    ``dropped`` counts ids beyond ``MOST`` and texts that are no ids.
    """

    launches: tuple[str, ...]
    relative: bool = False
    dropped: int = 0

    def href(self, launches: Sequence[str] | None = None, relative: bool | None = None) -> str:
        """The address of the same page with other launches, or another axis."""
        chosen = self.launches if launches is None else launches
        common = self.relative if relative is None else relative
        query = [("launch", one) for one in chosen] + ([("axis", "relative")] if common else [])
        return f"{PATH}?{urlencode(query, safe='/')}"


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    text = (search or "").removeprefix("?")[:LONGEST]
    query = parse_qs(text)
    given = query.get("launch", [])
    known = list(dict.fromkeys(one for one in given if _LAUNCH.fullmatch(one)))
    strange = sum(1 for one in given if not _LAUNCH.fullmatch(one))
    return Asked(tuple(known[:MOST]), query.get("axis") == ["relative"], strange + max(0, len(known) - MOST))
