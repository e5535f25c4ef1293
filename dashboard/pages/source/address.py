"""Addresses of the Source page: ``/source/KEY/LAUNCH?file=…&line=…&pc=…&by=…&op=…``, a place in the code and a cause.

What a browser asks for is checked: what is too long or no number is left out. A file is a name that the report lists;
it is compared with those names in the browser, and never opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

PATH = "/source"
LONGEST = 8192
"""Characters of a query that are read."""
_FILE = 2048
_FIND = 200
_NAME = re.compile(r"[a-z0-9_.]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Asked:
    """The state of the page. ``pc`` counts bytes as in the source frame, ``line`` from 1; None where nothing is chosen.

    ``by`` names what the heat counts: ``samples``, a stall reason, or a part of the account; ``op`` keeps the
    instructions of one class (``opcodes.role``); ``only`` hides rows without such samples; ``follow`` scrolls to what
    the pointer rests on; ``find`` is what is searched for.
    """

    file: str = ""
    line: int | None = None
    pc: int | None = None
    by: str = "samples"
    op: str = ""
    only: bool = False
    follow: bool = False
    find: str = ""


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])
    one = {name: values[0] for name, values in query.items()}
    return Asked(
        file=one.get("file", "") if len(one.get("file", "")) <= _FILE else "",
        line=_number(one.get("line")),
        pc=_number(one.get("pc")),
        by=_name(one.get("by")) or "samples",
        op=_name(one.get("op")),
        only=one.get("only") == "1",
        follow=one.get("follow") == "1",
        find=one.get("find", "")[:_FIND],
    )


def href(
    key: str, launch: int, *, pc: int | None = None, file: str = "", line: int | None = None, by: str = "", op: str = ""
) -> str:
    """The address of a place in the code of one launch; ``key`` is the report's, its first 16 digits are used."""
    given = {"file": file[:_FILE], "line": line, "pc": pc, "by": by, "op": op}
    query = urlencode({name: value for name, value in given.items() if value not in (None, "")}, safe="/,:")
    return f"{PATH}/{key[:16]}/{launch}{f'?{query}' if query else ''}"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _name(text: str | None) -> str:
    return text if text is not None and _NAME.fullmatch(text) else ""
