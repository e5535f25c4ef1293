"""Addresses of the Timelines page: ``/timelines?run=ID&from=NS&to=NS``. Anything that is not this is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

PATH = "/timelines"
LONGEST = 1024
"""Characters of a query that are read."""
_RUN = re.compile(r"[0-9a-f]{16}")
_TIME = re.compile(r"\d{1,15}")


@dataclass(frozen=True)
class Asked:
    """A run by its id, and the window in ns after its first interval, or None for all of it."""

    run: str = ""
    window: tuple[float, float] | None = None

    def href(self) -> str:
        """The address of this."""
        query = {"run": self.run} if self.run else {}
        if self.window:
            query |= {"from": f"{self.window[0]:.0f}", "to": f"{self.window[1]:.0f}"}
        return f"{PATH}?{urlencode(query)}" if query else PATH


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])
    run, low, high = (query.get(name, [""])[-1] for name in ("run", "from", "to"))
    known = bool(_TIME.fullmatch(low) and _TIME.fullmatch(high) and float(low) < float(high))
    return Asked(run if _RUN.fullmatch(run) else "", (float(low), float(high)) if known else None)
