"""Addresses of the Ranks page: ``/ranks?program=ID&launch=NUMBER``. Anything that is not this is left out."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

PATH = "/ranks"
LONGEST = 1024
"""Characters of a query that are read."""
_ID = re.compile(r"[0-9a-f]{12}")
_NUMBER = re.compile(r"\d{1,7}")


@dataclass(frozen=True)
class Asked:
    """A program by its id, and one of its launches by its place in the list of all; None for the one that matters."""

    program: str = ""
    launch: int | None = None

    def href(self) -> str:
        """The address of this."""
        query = {"program": self.program} if self.program else {}
        if self.launch is not None:
            query["launch"] = str(self.launch)
        return f"{PATH}?{urlencode(query)}" if query else PATH


def id_of(program: str) -> str:
    """The id of a program by its name, which is a path and stands in no address."""
    return hashlib.sha256(program.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])
    program, launch = (query.get(name, [""])[-1] for name in ("program", "launch"))
    number = int(launch) if _NUMBER.fullmatch(launch) and launch.isascii() else None
    return Asked(program if _ID.fullmatch(program) else "", number)
