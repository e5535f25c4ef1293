"""What grew between two accounts, and at which line. Pure.

Growth is in percent of the cycles before: what a part takes of the launches after, times how many times as long they
take, less what it took before. So the growth of all parts sums to that of the cycles, and a part that takes as long as
before has not moved, however much longer the whole takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ncubble.analysis.folding import folded, merged_by_any
from ncubble.analysis.gate_account import Account, Place

BUSY = ("tensor_busy", "unit_busy")
NOTHING = 0.2
"""Points that no other part may have grown by for more work to be named as the cause."""


@dataclass(frozen=True)
class Move:
    """How much a part grew (fell: below 0), in percent of the cycles before, and the place that grew most within it, as
    it is now, with its own growth as ``pct``; None where the part has no places, or none of them grew."""

    part: str
    points: float
    place: Place | None = None


def moves(before: Account, after: Account, cycles_ratio: float) -> tuple[Move, ...]:
    """All parts by their growth, largest first; ``cycles_ratio`` is the cycles after over those before.

    A busy unit comes behind all other parts that grew: with the work unchanged its share falls or stays. It comes first
    where nothing else grew, as then the work itself did. Parts that only one side splits are merged. Empty where the
    ratio is no positive number.
    """
    if not 0 < cycles_ratio < math.inf:
        return ()
    merged = merged_by_any((before.merged, after.merged))
    then, now = (folded(side.means, merged) for side in (before, after))
    grown = {part: now.get(part, 0.0) * cycles_ratio - then.get(part, 0.0) for part in {**then, **now}}
    work_only = all(points <= NOTHING for part, points in grown.items() if part not in BUSY)
    where = _grown_most(before.places, after.places, cycles_ratio)
    found = [Move(part, points, where.get(part)) for part, points in grown.items()]
    return tuple(sorted(found, key=lambda move: (_rank(move, work_only), -move.points)))


def _rank(move: Move, work_only: bool) -> int:
    if move.points <= 0:
        return 2
    return int(move.part in BUSY and not work_only)


def _grown_most(before: Iterable[Place], after: Iterable[Place], cycles_ratio: float) -> dict[str, Place]:
    """For each part the place that grew most, where one grew."""
    then, now = list(before), list(after)
    by_line = any(place.sass and place.line for place in (*then, *now))  # one side carries no source
    known: dict[tuple[str, str, str], float] = {}
    for place in then:
        known[_key(place, by_line)] = known.get(_key(place, by_line), 0.0) + place.pct
    grown = [replace(one, pct=one.pct * cycles_ratio - known.get(_key(one, by_line), 0.0)) for one in now]
    best: dict[str, Place] = {}
    for place in grown:
        if place.pct > 0 and (place.part not in best or place.pct > best[place.part].pct):
            best[place.part] = place
    return best


def _key(place: Place, by_line: bool) -> tuple[str, str, str]:
    return (place.part, place.file, str(place.line)) if by_line and place.line else place.key


def sentence(move: Move) -> str:
    """A move in words, as for a terminal: ``data_wait grew by 23.4 points of the baseline's time, most at
    gemm.cu:191 `loop_sync();` (+23.3)``."""
    verb = "grew" if move.points >= 0 else "fell"
    said = f"{move.part} {verb} by {abs(move.points):.1f} points of the baseline's time"
    if move.part in BUSY and move.points > 0:
        return f"the work itself grew: {said}"
    if move.place is None or move.points <= 0:
        return said
    return f"{said}, most at {spot(move.place)} ({move.place.pct:+.1f})"


def spot(place: Place) -> str:
    """``gemm.cu:191 `loop_sync();` ``: where a place is, and what stands there."""
    text = place.text.replace("`", "'")
    where = f"{place.file}:{place.line} " if place.file and place.line else ""
    return f"{where}`{text}`"
