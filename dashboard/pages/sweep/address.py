"""Addresses of the Sweep page: ``/sweep?kernel=gemm_ws&x=stages&gpu=H200&fix=tile_n=128&y=cycles&from=KEY/NUMBER``.

What a browser asks for is checked for size and form; whether the store holds it is for the page to say. Names and
values come out of reports: they are only ever compared with others, and shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlencode

PATH = "/sweep"
LONGEST, LONGEST_TEXT = 4096, 512
"""Characters of a query, and of one name or value in it, that are read."""
MOST_FIXED = 16
YS = ("time", "cycles", "time-best", "cycles-best")
"""What is drawn beside utilization; ``-best``: as a multiple of the best value of each series."""
_LAUNCH = re.compile(r"[0-9a-f]{8,64}/\d{1,9}")


@dataclass(frozen=True)
class Wanted:
    """What an address asks for; an empty ``kernel`` or ``parameter`` stands for none, an empty ``gpu`` for any.

    ``fixed`` are coordinates that drawn series must have, ``start`` is the launch that depths are predicted from.
    """

    kernel: str = ""
    parameter: str = ""
    gpu: str = ""
    fixed: tuple[tuple[str, str], ...] = ()
    y: str = YS[0]
    start: str = ""

    def href(self, **changes: Any) -> str:
        """The address of the same view, with changes by member."""
        one = replace(self, **changes)
        query = [("kernel", one.kernel), ("x", one.parameter), ("gpu", one.gpu)]
        query += [("fix", f"{name}={value}") for name, value in one.fixed]
        query += [("y", one.y if one.y != YS[0] else ""), ("from", one.start)]
        return f"{PATH}?{urlencode([(name, value) for name, value in query if value], safe='/')}"

    def fixing(self, name: str, value: str | None) -> str:
        """The address with one coordinate fixed at ``value``, or free where that is None."""
        others = tuple(pair for pair in self.fixed if pair[0] != name)
        return self.href(fixed=others if value is None else (*others, (name, value)))


def wanted(search: str | None) -> Wanted:
    """Read the query of an address, with or without its question mark; what has no sense in it is left out."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])

    def first(name: str) -> str:
        text = query.get(name, [""])[0]
        return text if len(text) <= LONGEST_TEXT else ""

    y, start = first("y"), first("from")
    return Wanted(
        kernel=first("kernel"),
        parameter=first("x"),
        gpu=first("gpu"),
        fixed=_pairs(query.get("fix", [])),
        y=y if y in YS else YS[0],
        start=start if _LAUNCH.fullmatch(start) else "",
    )


def _pairs(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``name=value`` each; a name once."""
    split = (text.partition("=") for text in texts if len(text) <= LONGEST_TEXT)
    found = {name: value for name, sign, value in split if name and sign}
    return tuple(found.items())[:MOST_FIXED]
