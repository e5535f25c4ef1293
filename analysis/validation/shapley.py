"""Shares of parts that overlap: the Shapley value over the sets of parts that can be taken away
together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations

Sets = Mapping[frozenset[str], float]


def orders(parts: Sequence[str], before: Collection[tuple[str, str]] = ()) -> Iterator[tuple[str, ...]]:
    """All orders of ``parts`` in which the first of each pair of ``before`` comes before the
    second."""
    for order in permutations(parts):
        place = {part: index for index, part in enumerate(order)}
        if all(place[one] < place[other] for one, other in before if one in place and other in place):
            yield order


def shapley(gone: Sets, parts: Sequence[str], before: Collection[tuple[str, str]] = ()) -> dict[str, float] | None:
    """What each part adds to ``gone``, what vanishes with a set of parts, on average over the
    ``orders``.

    The empty set vanishes nothing. The shares sum to what vanishes with all parts. None where a set
    was not measured.
    """
    total = dict.fromkeys(parts, 0.0)
    taken = list(orders(parts, before))
    for order in taken:
        removed: frozenset[str] = frozenset()
        last = 0.0
        for part in order:
            removed |= {part}
            if removed not in gone:
                return None
            total[part] += gone[removed] - last
            last = gone[removed]
    return {part: value / len(taken) for part, value in total.items()}
