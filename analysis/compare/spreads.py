"""Values of one launch over the ranks that ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class RankSpread:
    """A value over the ranks that have it; ``min_rank`` and ``max_rank`` are the first ones with
    the extremes."""

    n: int
    min: float
    median: float
    max: float
    min_rank: int
    max_rank: int


@dataclass(frozen=True)
class RankTime:
    """Duration in ns and account in percent of one rank; an empty account where there is none."""

    duration_ns: float
    account: Mapping[str, float]

    def part_ns(self, part: str) -> float:
        """The time of a part of the account."""
        return self.duration_ns * self.account.get(part, 0.0) / 100


def spread_of(values: Mapping[int, float | None]) -> RankSpread | None:
    """How a value lies over ranks; None where no rank holds it."""
    known = {rank: value for rank, value in sorted(values.items()) if value is not None}
    if not known:
        return None
    low, high = min(known, key=lambda rank: known[rank]), max(known, key=lambda rank: known[rank])
    return RankSpread(len(known), known[low], float(median(known.values())), known[high], low, high)
