"""Launches of one kernel on one GPU by all coordinates in which they differ, and by what was
measured: the lines of a figure of parallel coordinates. Pure functions over the rows of the
overview.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ncubble.analysis.account.parts import WORK
from ncubble.analysis.sweeps.coordinates import CODE, SHAPE, Coordinate, alike
from ncubble.analysis.sweeps.model import Pair, Row, SweepPoint, configurations, ordered

MOST_LINES = 300
"""Maximum configurations drawn; a figure with more would be unreadable."""
MOST_COORDINATES = 8
MOST_PARTS = 3
LACKING = "none"
"""Value of a coordinate that a launch lacks."""
BUSY, TIME, CYCLES = "busy", "time", "cycles"
_MEMBERS = {TIME: "duration_ns", CYCLES: "cycles"}
Configuration = tuple[dict[str, str], SweepPoint]
"""Coordinates of launches that agree in all of them, and these launches."""


@dataclass(frozen=True)
class ParallelAxis:
    """One axis, and where each line crosses it.

    ``ticks`` are the values of a coordinate in order, which stand at 0, 1, 2, …; a measured axis
    has none. ``at`` of a measured axis: percent, ns (``time``) or cycles.
    """

    name: str
    at: tuple[float, ...]
    ticks: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most of ``at``; where these are equal, as much room on both sides."""
        low, high = min(self.at), max(self.at)
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def share(self, value: float) -> float:
        """How far up the axis a value stands, from 0 to 1."""
        low, high = self.ends
        return (value - low) / (high - low)


@dataclass(frozen=True)
class ParallelCoordinates:
    """Axes and ``lines``, the fastest configuration first.

    ``color`` is the name of the axis that colours lines. ``lacking`` configurations miss a
    measurement, ``beyond`` are more than ``MOST_LINES``; ``left_out`` names coordinates that have
    no axis.
    """

    axes: tuple[ParallelAxis, ...]
    lines: tuple[SweepPoint, ...]
    color: str
    lacking: int
    beyond: int
    left_out: tuple[str, ...]

    def tones(self, steps: int) -> list[int]:
        """The tone of each line among ``steps``, from the best (0) to the worst of ``color``."""
        axis = next(axis for axis in self.axes if axis.name == self.color)
        shares = (axis.share(at) for at in axis.at)
        return [min(int(steps * (1 - share if self.color == BUSY else share)), steps - 1) for share in shares]


def parallel_coordinates(
    rows: Iterable[Row], fixed: Iterable[Pair] = (), took: str = TIME, first: str = "", busy: str = BUSY
) -> ParallelCoordinates | None:
    """The launches of ``rows``, of one kernel on one GPU, that have all ``fixed`` coordinates; None
    where they differ in fewer than two coordinates or too little was measured.

    ``took`` is ``time`` or ``cycles``; the axis of the coordinate ``first`` comes first; ``busy``
    names the member of rows that holds the busy share.
    """
    kept = _kept(rows, set(fixed))
    names = _differing([values for values, _ in kept], first)
    measured = _measured([point for _, point in kept], {took: _MEMBERS[took], BUSY: busy})
    color = next((axis for axis in measured if axis.name in (took, BUSY)), None)
    if len(names) < 2 or color is None:
        return None
    whole = [line for line in range(len(kept)) if not any(math.isnan(axis.at[line]) for axis in measured)]
    sign = -1 if color.name == BUSY else 1
    drawn = sorted(whole, key=lambda line: sign * color.at[line])[:MOST_LINES]
    if len(drawn) < 2:
        return None
    coordinates = [_axis(name, [kept[line][0].get(name, LACKING) for line in drawn]) for name in names]
    measurements = [replace(axis, at=tuple(axis.at[line] for line in drawn)) for axis in measured]
    return ParallelCoordinates(
        (*coordinates[:MOST_COORDINATES], *measurements),
        tuple(kept[line][1] for line in drawn),
        color.name,
        len(kept) - len(whole),
        len(whole) - len(drawn),
        tuple(names[MOST_COORDINATES:]),
    )


def _kept(rows: Iterable[Row], fixed: set[Pair]) -> list[Configuration]:
    """The configurations with all ``fixed`` coordinates; where the dimensions of each are equal,
    they are one coordinate."""
    by_places = [pair for held in configurations(rows).values() for pair in held.items()]
    by_places = [(places, held) for places, held in by_places if fixed <= {(p.name, p.value) for p in places}]
    joined = all(alike(places) for places, _ in by_places)
    return [(_values(places, joined), SweepPoint("", None, tuple(held))) for places, held in by_places]


def _values(places: Sequence[Coordinate], joined: bool) -> dict[str, str]:
    together = alike(places) if joined else None
    values = {place.name: place.value for place in places if place.kind not in ((SHAPE, CODE) if together else (CODE,))}
    return values | ({together.name: together.value} if together else {})


def _differing(configurations: Sequence[dict[str, str]], first: str) -> list[str]:
    """Names of the coordinates of which there are several values."""
    names = dict.fromkeys(name for values in configurations for name in values)
    several = [name for name in names if len({values.get(name) for values in configurations}) > 1]
    return sorted(several, key=lambda name: name != first)


def _axis(name: str, values: Sequence[str]) -> ParallelAxis:
    ticks = ordered(values)
    place = {value: float(at) for at, value in enumerate(ticks)}
    return ParallelAxis(name, tuple(place[value] for value in values), tuple(ticks))


def _measured(points: Sequence[SweepPoint], members: Mapping[str, str]) -> list[ParallelAxis]:
    """Busy share, time or cycles, and the largest parts of the account: those that at least half of
    the points have; NaN for the others."""
    columns = {name: [_mean(point, member) for point in points] for name, member in members.items()}
    accounts = [point.account()[0] for point in points]
    known = [account for account in accounts if account]
    lost = dict.fromkeys(part for account in known for part in account if part not in WORK)
    means = {part: fmean(account.get(part, 0.0) for account in known) for part in lost}
    for part in sorted(means, key=means.__getitem__, reverse=True)[:MOST_PARTS]:
        columns[part] = [account.get(part, 0.0) if account else math.nan for account in accounts]
    kept = {name: at for name, at in columns.items() if sum(map(math.isnan, at)) <= len(at) / 2}
    return [ParallelAxis(name, tuple(at)) for name, at in kept.items()]


def _mean(point: SweepPoint, member: str) -> float:
    spread = point.spread(member)
    return spread.mean if spread else math.nan
