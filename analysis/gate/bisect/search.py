"""The search itself: which candidate to judge next, and which may be the first bad one. Pure.

Candidates are commits with their parents, or compilers in a row, in which each has the one before
as its parent. As with ``git bisect``, a bad candidate leaves itself and its ancestors under
suspicion, a good one clears itself and its ancestors, and the next is the one that halves the
suspects best, whatever the verdict on it.

A candidate that could not be judged stays a suspect. The next one is then chosen away from it:
neighbours of a commit that does not build mostly do not build either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Candidates:
    """What the search goes through: names, the oldest first, and the parents of each among them. No
    parent stands behind its child. The last is known to be bad."""

    order: tuple[str, ...]
    parents: Mapping[str, Sequence[str]]

    @classmethod
    def in_a_row(cls, names: Sequence[str]) -> Candidates:
        """Candidates of which each follows the one before."""
        return cls(tuple(names), {name: names[index : index + 1] for index, name in enumerate(names[1:])})

    @cached_property
    def masks(self) -> dict[str, int]:
        """For each candidate itself and its ancestors, as bits by their place in ``order``. Raises
        ValueError where a parent stands behind its child."""
        masks: dict[str, int] = {}
        for index, name in enumerate(self.order):
            mask = 1 << index
            for parent in self.parents.get(name, ()):
                if parent not in masks:
                    raise ValueError(f"{parent} is a parent of {name} but comes after it")
                mask |= masks[parent]
            masks[name] = mask
        return masks

    @property
    def steps(self) -> int:
        """Judgements needed in a row of this length, if each of them succeeds."""
        return math.ceil(math.log2(len(self.order))) if self.order else 0


@dataclass
class Search:
    """The state of a search. ``open_``: candidates that could not be judged."""

    candidates: Candidates
    suspects: int = 0
    open_: set[str] = field(default_factory=set)
    bad: str = ""

    def __post_init__(self) -> None:
        self.bad = self.candidates.order[-1]
        self.suspects = self.candidates.masks[self.bad]

    def judge(self, name: str, verdict: str) -> None:
        """Take in that ``name`` is ``good`` or ``bad``; anything else leaves it open. Raises
        KeyError for a name that is no candidate."""
        mask = self.candidates.masks[name]
        if verdict == "bad":
            self.suspects &= mask
            self.bad = name
        elif verdict == "good":
            self.suspects &= ~mask
        else:
            self.open_.add(name)

    @property
    def left(self) -> list[str]:
        """All that may be the first bad one, the oldest first; never empty."""
        return [name for index, name in enumerate(self.candidates.order) if self.suspects >> index & 1]

    def next(self) -> str | None:
        """The candidate to judge next; None where none is left that could say more."""
        suspects = self.left
        untested = [name for name in suspects if name != self.bad and name not in self.open_]
        if not untested:
            return None
        places = {name: index for index, name in enumerate(suspects)}
        open_ = [places[name] for name in suspects if name in self.open_]
        halves = {name: self._smaller_half(name, len(suspects)) for name in untested}
        return max(untested, key=lambda name: (halves[name] * _away(places[name], open_), -places[name]))

    def _smaller_half(self, name: str, number: int) -> int:
        """How many suspects one verdict or the other on ``name`` clears at least."""
        cleared = (self.candidates.masks[name] & self.suspects).bit_count()
        return min(cleared, number - cleared)


def _away(place: int, others: Collection[int]) -> int:
    """The distance to the nearest of ``others``; 1 where there are none."""
    return min((abs(place - other) for other in others), default=1)
