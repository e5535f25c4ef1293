"""A change of a kernel: what to alter, what it gains, and how (docs/changes.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PREDICTED, MEASURED, UNKNOWN = "predicted", "measured", "unknown"
NONE, BYTES = "none", "bytes"
LEAST_PCT = 3.0
"""A smaller gain is not promised: so much is the noise of predictions."""
KINDS: dict[str, str] = {
    "stages": "stages",
    "warps": "warps",
    "tile_m": "tile rows",
    "tile_n": "tile columns",
    "tile_k": "tile depth",
    "cta_order": "order of CTAs",
    "ctas": "number of CTAs",
    "copies": "copies",
    "vectors": "width of loads",
    "shared_layout": "shared layout",
    "epilogue": "epilogue",
    "barriers": "barriers",
    "registers": "registers",
    "conversion": "conversion",
    BYTES: "bytes moved",
    "path": "MMA path",
    "reuse": "reuse",
    "local_memory": "local memory",
    "atomics": "atomics",
    "precision": "precision",
    "build": "build",
    NONE: "none",
}
"""Kinds of changes, with their words for a table."""
TOLD_WHOLE = ("build", "local_memory", "atomics", "precision")
"""Kinds that act on more than a part of the account: their text says on what."""
TRITON = {
    "stages": "num_stages",
    "warps": "num_warps",
    "tile_m": "BLOCK_M",
    "tile_n": "BLOCK_N",
    "tile_k": "BLOCK_K",
    "cta_order": "GROUP_SIZE_M",
    "ctas": "the grid or SPLIT_K",
}
"""What a change is called in Triton, for the kinds that its language offers; names of constants are
the usual ones."""
PART_OF_KIND = {
    "stages": "data_wait",
    "warps": "issue",
    "tile_m": "copy_cost",
    "tile_n": "copy_cost",
    "tile_k": "sync_wait",
    "cta_order": "data_wait",
}
"""The part that a change acts on where no rule has said more."""
ORDERS = (1, 4, 8, 16)
"""Heights of groups of tiles that share columns in L2."""
ALONG = 0.5
"""Fraction of the other idle time's proportional share that vanishes with a part."""
KEPT = 0.5
"""Fraction of a part's own share that other parts may take over once it is removed (strongest
overlaps of the ablations)."""

_ORDER = re.compile(r"group(_?size)?(_?m)?", re.IGNORECASE)
_CTAS = re.compile(r"split|num_?(sms?|ctas|programs)", re.IGNORECASE)
_TILE = re.compile(
    r"(?:block|blk|tile)(?:_?size)?_?([mnkqdstv]?)\d?|b([mnkqdstv])\d?|(chunk)(?:_?size)?", re.IGNORECASE
)
_OF_TILE = {"m": "tile_m", "q": "tile_m", "t": "tile_m", "n": "tile_n", "v": "tile_n", "k": "tile_k", "d": "tile_k"}


@dataclass(frozen=True)
class Gain:
    """In percent of kernel time: expected, least, most."""

    expected: float
    low: float
    high: float

    def at_most(self, limit: float) -> Gain:
        """The same, where no more than ``limit`` can be had: less of it may be."""
        low = self.low if self.expected <= limit else min(self.low, KEPT * limit)
        return Gain(min(self.expected, limit), low, min(self.high, limit))


def gain_of(pct: float, idle_pct: float) -> Gain:
    """The gain from removing a part of ``pct`` of kernel time, out of ``idle_pct`` that is idle in
    all: parts are not independent, so it is the mean of two cases, that nothing else goes along, or
    that all other idle time shrinks in proportion."""
    others = max(0.0, idle_pct - pct)
    along = others * pct / idle_pct if idle_pct > 0 else 0.0
    return Gain(pct + ALONG * along, KEPT * pct, pct + along)


@dataclass(frozen=True, kw_only=True)
class Change:
    """``before`` and ``after`` are values, factors in words (``twice``), or None where the report
    does not say. ``part``: the part of the account that it acts on. ``gain_pct`` of kernel time
    with an interval of 80 %, None where it is not known. ``basis``: ``predicted``, ``measured`` or
    ``unknown``. ``blocked``: what makes it impossible, empty where nothing is known to."""

    kind: str
    before: int | str | None = None
    after: int | str | None = None
    text: str = ""
    part: str | None = None
    gain_pct: float | None = None
    low: float | None = None
    high: float | None = None
    basis: str = UNKNOWN
    blocked: str = ""

    @property
    def known(self) -> bool:
        """Whether its gain is known."""
        return self.gain_pct is not None

    def to_json(self) -> dict[str, Any]:
        """One element of ``changes``."""
        return {
            "kind": self.kind,
            "from": self.before,
            "to": self.after,
            "text": self.text,
            "part": self.part,
            "gain_pct": self.gain_pct,
            "low": self.low,
            "high": self.high,
            "basis": self.basis,
            "blocked": self.blocked,
        }

    @classmethod
    def members_of(cls, told: dict[str, Any]) -> dict[str, Any]:
        """The fields of an element of ``changes``."""
        renamed = {"from": "before", "to": "after"}
        return {renamed.get(name, name): value for name, value in told.items()}


def places(changes: Sequence[Change]) -> list[int]:
    """The place of each change, from 1; predictions that are less than ``LEAST_PCT`` apart share
    one, as they cannot be told apart.

    >>> some = [Change(kind="warps", gain_pct=gain, basis=PREDICTED) for gain in (20.0, 18.0, 11.0)]
    >>> places([*some, Change(kind="cta_order")])
    [1, 1, 3, 4]
    """
    made: list[int] = []
    first: Change | None = None
    for number, change in enumerate(changes, 1):
        tied = first and not change.blocked and {first.basis, change.basis} == {PREDICTED}
        if tied and first and (first.gain_pct or 0.0) - (change.gain_pct or 0.0) < LEAST_PCT:
            made.append(made[-1])
        else:
            made.append(number)
            first = change
    return made


def value_of(after: int | str | None, before: int | str | None) -> int | str | None:
    """A value, where it was given as a factor (``twice``, ``half``) of the one before."""
    factor = {"twice": 2.0, "half": 0.5}.get(str(after))
    return int(before * factor) if factor and isinstance(before, int) else after


def kind_of_constant(name: str, value: int) -> str:
    """The kind of change that a constant of a Triton kernel makes, by its name; empty for what is
    no tile, group or split.

    >>> [kind_of_constant(name, 16) for name in ("BLOCK_SIZE_M", "BK", "GROUP_M", "SPLIT_K", "DIM")]
    ['tile_m', 'tile_k', 'cta_order', 'ctas', '']
    """
    if _CTAS.match(name):
        return "ctas"
    if _ORDER.fullmatch(name) and value <= 2 * max(ORDERS):
        return "cta_order"
    match = _TILE.fullmatch(name)
    if match is None or value < 2 or value & (value - 1):
        return ""
    return "tile_m" if match[3] else _OF_TILE.get((match[1] or match[2] or "").lower(), "tile_n")
