"""Addresses of the Checks page: ``/checks?kernel=…&gpu=…&metric=…&axis=order&q=…``, all of them optional.

What a browser asks for is checked: anything that is no name of a kernel, GPU model or metric is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

PATH = "/checks"
LONGEST = 2048
"""Characters of a query that are read."""
LONGEST_SEARCH = 100
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 120
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Asked:
    """What an address asks for: the names of a kernel and a GPU model as in ``checks_model``, a metric, a search text.

    ``even`` draws checks in their order at even distances instead of by time.
    """

    kernel: str = ""
    gpu: str = ""
    metric: str = ""
    even: bool = False
    search: str = ""

    def href(self, **changes: str | bool) -> str:
        """The address of the same page with some of this changed."""
        new = replace(self, **changes)  # type: ignore[arg-type]
        axis = "order" if new.even else ""
        named = {"kernel": new.kernel, "gpu": new.gpu, "metric": new.metric, "axis": axis, "q": new.search}
        query = urlencode({name: value for name, value in named.items() if value})
        return f"{PATH}?{query}" if query else PATH


def asked(search: str | None) -> Asked:
    """Read the query of an address, with or without its question mark."""
    query = parse_qs((search or "").removeprefix("?")[:LONGEST])

    def one(name: str, allowed: re.Pattern[str]) -> str:
        value = query.get(name, [""])[-1]
        return value if len(value) <= _LONGEST_NAME and allowed.fullmatch(value) else ""

    text = query.get("q", [""])[-1][:LONGEST_SEARCH]
    return Asked(
        one("kernel", NAME), one("gpu", NAME), one("metric", _METRIC), query.get("axis") == ["order"], text.strip()
    )
