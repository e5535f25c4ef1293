"""Addresses of the Source page: ``/source/KEY/LAUNCH?file=…&line=…&pc=…&by=…&op=…``, a place in the
code and a cause.

A file is a name that the report lists; it is compared with those names in the browser, and never
opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import Address, flag, matching, number, text

_NAME = "[a-z0-9_.]{1,64}"


@dataclass(frozen=True)
class SourceAddress(Address):
    """The state of the page. ``pc`` counts bytes as in the source frame, ``line`` from 1; None
    where nothing is chosen.

    ``by`` names what the heat counts: ``samples``, a stall reason, or a part of the account; ``op``
    keeps the instructions of one class (``opcodes.role``); ``only`` hides rows without such
    samples; ``follow`` scrolls to what the pointer rests on; ``find`` is what is searched for.
    """

    PATH: ClassVar[str] = "/source"
    LONGEST: ClassVar[int] = 8192
    file: str = text("file", 2048, cut=False)
    line: int | None = number("line", digits=12)
    pc: int | None = number("pc", digits=12)
    by: str = matching("by", _NAME, "samples")
    op: str = matching("op", _NAME)
    only: bool = flag("only")
    follow: bool = flag("follow")
    find: str = text("find", 200)
