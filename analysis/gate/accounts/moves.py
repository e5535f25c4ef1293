"""What grew between two accounts, and at which line. Pure.

Growth is in percent of the cycles before: what a part takes of the launches after, times how many
times as long they take, less what it took before. So the growth of all parts sums to that of the
cycles, and a part that takes as long as before has not moved, however much longer the whole takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ncubble.analysis.account.folding import folded, merged_by_any
from ncubble.analysis.account.parts import WORK
from ncubble.analysis.gate.accounts.account import Account, CodePlace

NOTHING = 0.2
"""More work is named as the cause only if no other part grew by this many points."""


@dataclass(frozen=True)
class Move:
    """How much a part grew (fell: below 0), in percent of the cycles before, and the place that
    grew most within it, as it is now, with its own growth as ``pct``; None where the part has no
    places, or none of them grew."""

    part: str
    points: float
    place: CodePlace | None = None

    @property
    def file(self) -> str:
        """Base name of the file of the place; empty where none is known."""
        return self.place.file if self.place else ""

    @property
    def line(self) -> int | None:
        """Line of the place, as it is now."""
        return self.place.line if self.place else None


def moves(before: Account, after: Account, cycles_ratio: float) -> tuple[Move, ...]:
    """All parts by their growth, largest first; ``cycles_ratio`` is the cycles after over those
    before.

    A busy unit comes behind all other parts that grew: with the work unchanged its share falls or
    stays. It comes first where nothing else grew, as then the work itself did. Parts that only one
    side splits are merged. Empty where the ratio is no positive number, or the accounts are
    ``incomparable``.
    """
    if not 0 < cycles_ratio < math.inf or incomparable(before, after):
        return ()
    merged = merged_by_any((before.merged, after.merged))
    then, now = (folded(side.means, merged) for side in (before, after))
    grown = {part: now.get(part, 0.0) * cycles_ratio - then.get(part, 0.0) for part in {**then, **now}}
    work_only = all(points <= NOTHING for part, points in grown.items() if part not in WORK)
    where = _grown_most(before.places, after.places, cycles_ratio)
    unsorted = [Move(part, points, where.get(part)) for part, points in grown.items()]
    return tuple(sorted(unsorted, key=lambda move: (_rank(move, work_only), -move.points)))


def incomparable(before: Account, after: Account) -> str:
    """Why parts of a name do not mean the same on both sides; empty where they do."""
    if not before.unit or not after.unit or before.unit == after.unit:
        return ""
    return (
        f"the baseline's account counts idle time of its busiest unit, {before.unit}; the current "
        f"account that of {after.unit}"
    )


def doubtful(before: Account, after: Account) -> str:
    """Why the split of idle time is less certain than usual; empty where it is not.

    A change that puts a kernel under another rule of overlap, such as a barrier that leaves the
    stretch of MMAs, changes which waits are counted, so that a part may grow or shrink by the rule
    alone.
    """
    if not before.unit or before.overlap == after.overlap:
        return ""
    return (
        "the parts are less certain than usual: the baseline used another rule for waits that "
        f"coincide with a busy unit ({before.overlap or 'none'}) than now ({after.overlap or 'none'})"
    )


def _rank(move: Move, work_only: bool) -> int:
    if move.points <= 0:
        return 2
    return int(move.part in WORK and not work_only)


def _grown_most(before: Iterable[CodePlace], after: Iterable[CodePlace], cycles_ratio: float) -> dict[str, CodePlace]:
    """For each part the place that grew most, where one grew."""
    best: dict[str, CodePlace] = {}
    for place, then in _partners(list(before), list(after)):
        grown = replace(place, pct=place.pct * cycles_ratio - then)
        if grown.pct > 0 and (place.part not in best or grown.pct > best[place.part].pct):
            best[place.part] = grown
    return best


def _partners(before: list[CodePlace], after: list[CodePlace]) -> Iterator[tuple[CodePlace, float]]:
    """Each place of ``after`` with the percent that it held before: by its key, else as the nearest
    of its kin that is left; by file and line alone where one side carries no source."""
    by_line = any(place.sass and place.line for place in (*before, *after))
    was, now = ([_by_line(place) if by_line else place for place in side] for side in (before, after))
    left = {place.key: place for place in was}
    pairs = [(place, known, left.pop(known.key, None)) for place, known in zip(after, now, strict=True)]
    for place, known, then in pairs:
        if then is None:
            kin = [candidate for candidate in left.values() if candidate.kin == known.kin]
            nearest = min(kin, key=lambda candidate: abs((candidate.line or 0) - (place.line or 0)), default=None)
            then = left.pop(nearest.key) if nearest else None
        yield place, then.pct if then else 0.0


def _by_line(place: CodePlace) -> CodePlace:
    return replace(place, sass=True, below="") if place.line else place


def sentence(move: Move) -> str:
    """A move in words, as for a terminal: ``data_wait grew by 23.4 points of the baseline's time,
    most at gemm.cu:191 `loop_sync();` (+23.3)``."""
    verb = "grew" if move.points >= 0 else "fell"
    words = f"{move.part} {verb} by {abs(move.points):.1f} points of the baseline's time"
    if move.part in WORK and move.points > 0:
        return f"the work itself grew: {words}"
    if move.place is None or move.points <= 0:
        return words
    return f"{words}, most at {spot(move.place)} ({move.place.pct:+.1f})"


def spot(place: CodePlace) -> str:
    """``gemm.cu:191 `loop_sync();` ``: where a place is, and what stands there."""
    text = place.text.replace("`", "'")
    where = f"{place.file}:{place.line} " if place.file and place.line else ""
    return f"{where}`{text}`"
