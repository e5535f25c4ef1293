"""Addresses of the Sweep page:
``/sweep?kernel=gemm_ws&x=stages&gpu=H200&fix=tile_n=128&y=cycles&from=KEY/NUMBER``, with
``&range=AXIS=LOW~HIGH`` for each range marked on an axis of the parallel coordinates.

Names and values come out of reports: they are only ever compared with others, and shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ncubble.dashboard.pages.address_codec import LAUNCH_ID, Address, QueryParameter, choice, matching, text

LONGEST_TEXT = 512
MOST_FIXED = 16
YS = ("time", "cycles", "time-best", "cycles-best")
"""Quantity drawn beside utilization; ``-best``: as a multiple of the best value of each series."""
Pairs = tuple[tuple[str, str], ...]
Ranges = tuple[tuple[str, float, float], ...]
_NUMBER = r"(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)"
_RANGE = re.compile(f"(.+)={_NUMBER}~{_NUMBER}", re.DOTALL)


def _pairs(texts: Sequence[str]) -> tuple[Pairs, int]:
    """``name=value`` each; a name once."""
    split = (given.partition("=") for given in texts if len(given) <= LONGEST_TEXT)
    values = {name: value for name, sign, value in split if name and sign}
    return tuple(values.items())[:MOST_FIXED], len(texts) - len(values)


def _ranges(texts: Sequence[str]) -> tuple[Ranges, int]:
    """``axis=low~high`` each; an axis once."""
    given = (_RANGE.fullmatch(each) for each in texts if len(each) <= LONGEST_TEXT)
    ranges = {each[1]: (float(each[2]), float(each[3])) for each in given if each}
    kept = tuple((name, *ends) for name, ends in ranges.items() if ends[0] < ends[1])[:MOST_FIXED]
    return kept, len(texts) - len(kept)


def _range_texts(kept: Ranges) -> list[str]:
    return [f"{name}={low:.6f}~{high:.6f}" for name, low, high in kept]


_RANGES = QueryParameter("range", _ranges, _range_texts)
_FIXED = QueryParameter("fix", _pairs, lambda pairs: [f"{name}={value}" for name, value in pairs])


@dataclass(frozen=True)
class SweepAddress(Address):
    """An empty ``kernel`` or ``parameter`` stands for none, an empty ``gpu`` for any.

    ``fixed`` are coordinates that drawn series must have, ``start`` is the launch that depths are
    predicted from, ``ranges`` are (axis, low, high) marked on parallel coordinates.
    """

    PATH: ClassVar[str] = "/sweep"
    kernel: str = text("kernel", LONGEST_TEXT, cut=False)
    parameter: str = text("x", LONGEST_TEXT, cut=False)
    gpu: str = text("gpu", LONGEST_TEXT, cut=False)
    fixed: Pairs = field(default=(), metadata={"parameter": _FIXED})
    y: str = choice("y", YS)
    start: str = matching("from", LAUNCH_ID)
    ranges: Ranges = field(default=(), metadata={"parameter": _RANGES})

    def fixing(self, name: str, value: str | None) -> str:
        """The address with one coordinate fixed at ``value``, or free where that is None."""
        others = tuple(pair for pair in self.fixed if pair[0] != name)
        return self.href(fixed=others if value is None else (*others, (name, value)))
