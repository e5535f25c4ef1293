"""The bubble account as the gate keeps it: its parts in every repeat, and the lines that hold them.
Pure.

Percentages are of elapsed SM cycles. What moved between two of these: ``moves``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ncubble.records import Number, Percentage

FINEST_PCT = 0.2
"""Places below this percent of elapsed cycles are dropped."""
MOST_PLACES = 40
LONGEST = 120
"""Maximum length of a place's text."""


@dataclass(frozen=True)
class CodePlace:
    """A line, or an instruction where there are no lines, and the percent of elapsed cycles of one
    part that it holds.

    ``file`` is a base name, empty where the report has no line information; ``text`` is the source
    line, or with ``sass`` the heaviest instruction, where the report carries no source. ``below``
    is the text of the line above where the file has the same text more than once, else empty.
    """

    part: str
    file: str
    line: int | None
    text: str
    pct: Number
    sass: bool = False
    below: str = ""

    @property
    def kin(self) -> tuple[str, str, str]:
        """Equal for places that may be the same before and after a change: it stays when lines
        above come or go, and when registers change."""
        if not self.sass:
            return self.part, self.file, self.text
        return self.part, self.file, str(self.line) if self.line else opcode(self.text)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Tells places of the same kin apart as far as what stands above them does."""
        return *self.kin, self.below


@dataclass(frozen=True)
class LaunchAccount:
    """The account of one launch: ``parts`` sum to 100; ``merged`` names the finer parts that a
    coarse one stands for; ``places``, largest first; ``unit`` is the one whose idle time the parts
    split.

    ``overlap`` says by which rule waits that coincide with a busy unit were taken out
    (``account/overlap.py``): ``asynchronous`` MMAs, ``phases`` of the CTA, or empty for neither.
    """

    parts: Mapping[str, float]
    places: tuple[CodePlace, ...] = ()
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = ""
    overlap: str = ""


@dataclass(frozen=True)
class Account:
    """The accounts of repeats. ``parts`` has one value per launch, None where that launch has no
    account, or one that splits time otherwise; ``places`` are means over the launches that have
    one, largest first."""

    parts: Mapping[str, tuple[Percentage | None, ...]]
    places: tuple[CodePlace, ...] = ()
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = ""
    overlap: str = ""

    @property
    def launches(self) -> int:
        """How many launches have an account."""
        return max((len(self.known(part)) for part in self.parts), default=0)

    @property
    def means(self) -> dict[str, float]:
        """The mean of every part over the launches that have an account."""
        return {part: math.fsum(known) / len(known) for part in self.parts if (known := self.known(part))}

    def known(self, part: str) -> list[float]:
        """The values of one part, without the launches that have none; empty for a part that is not
        there."""
        return [value for value in self.parts.get(part, ()) if value is not None]

    def to_json(self) -> dict[str, Any]:
        """A plain object for a baseline file, rounded to 3 decimals; ``baseline.reading`` reads
        it."""
        parts = {
            part: [None if value is None else round(value, 3) for value in values]
            for part, values in self.parts.items()
        }
        merged = {"merged": {coarse: list(finer) for coarse, finer in self.merged.items()}} if self.merged else {}
        rules = {"unit": self.unit, "overlap": self.overlap}
        return {**rules, "parts": parts, **merged, "places": [_place_json(place) for place in self.places]}


def gather(launches: Sequence[LaunchAccount | None]) -> Account | None:
    """The accounts of repeats as one; None where no launch has an account.

    Launches that were profiled with other metrics may split time otherwise, or count against
    another unit. Those that split it finest are taken, if they are two at least, and the others
    have no values.
    """
    alike: dict[tuple[str, frozenset[str]], list[LaunchAccount]] = {}
    for account in launches:
        if account is not None:
            alike.setdefault(_split(account), []).append(account)
    if not alike:
        return None
    finest = max(alike, key=lambda split: (len(alike[split]) > 1, -len(split[1]), len(alike[split])))
    taken = alike[finest]
    parts = [account.parts if account is not None and _split(account) == finest else None for account in launches]
    names = dict.fromkeys(name for account in taken for name in account.parts)
    values = {
        name: tuple(None if account is None else float(account.get(name, 0.0)) for account in parts) for name in names
    }
    kept = [place for place in mean_places([account.places for account in taken]) if place.pct >= FINEST_PCT]
    return Account(values, tuple(kept[:MOST_PLACES]), dict(taken[0].merged), finest[0], taken[0].overlap)


def _split(account: LaunchAccount) -> tuple[str, frozenset[str]]:
    """Equal for accounts whose parts mean the same."""
    return account.unit, frozenset(f"{coarse}:{name}" for coarse, finer in account.merged.items() for name in finer)


def mean_places(launches: Sequence[Iterable[CodePlace]]) -> list[CodePlace]:
    """Places of the same key averaged over ``launches``, largest first; the heaviest gives the
    line."""
    heaviest: dict[tuple[str, str, str, str], CodePlace] = {}
    total: dict[tuple[str, str, str, str], float] = {}
    for place in (place for places in launches for place in places):
        known = heaviest.get(place.key)
        heaviest[place.key] = place if known is None or place.pct > known.pct else known
        total[place.key] = total.get(place.key, 0.0) + place.pct
    mean = [replace(place, pct=total[key] / len(launches)) for key, place in heaviest.items()]
    return sorted(mean, key=lambda place: (-place.pct, place.key))


def opcode(sass: str) -> str:
    """``LDG.E`` of ``@!P0 LDG.E R4, desc[UR4][R2.64]``; empty of an empty text."""
    words = sass.split()[1:] if sass.startswith("@") else sass.split()
    return words[0].rstrip(";") if words else ""


def _place_json(place: CodePlace) -> dict[str, Any]:
    where = {"file": place.file, "line": place.line} if place.file else {}
    text = {"sass" if place.sass else "text": place.text}
    below = {"below": place.below} if place.below else {}
    return {"part": place.part, **where, **text, **below, "pct": round(place.pct, 3)}
