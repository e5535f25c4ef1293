"""Addresses of the Ranks page: ``/ranks?program=ID&launch=NUMBER``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import Address, matching, number


@dataclass(frozen=True)
class RanksAddress(Address):
    """A program by its id, and one of its launches by its place in the list of all; None for the
    one that matters."""

    PATH: ClassVar[str] = "/ranks"
    LONGEST: ClassVar[int] = 1024
    program: str = matching("program", "[0-9a-f]{12}")
    launch: int | None = number("launch", digits=7)


def id_of(program: str) -> str:
    """The id of a program by its name, which is a path and stands in no address."""
    return hashlib.sha256(program.encode("utf-8", "backslashreplace")).hexdigest()[:12]
