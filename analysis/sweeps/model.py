"""Sweeps among launches: groups that differ in one parameter, or one dimension of the problem, and
in nothing else.

Pure functions over the rows of the overview (``rows.launch_row``). Nothing has to declare a sweep:
launches of one kernel on one GPU whose other coordinates agree form a series, wherever they were
recorded.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ncubble.analysis.account.parts import COARSE
from ncubble.analysis.sweeps.coordinates import (
    CODE,
    GEOMETRY,
    PARAMETER,
    SHAPE,
    Coordinate,
    alike,
    coordinates,
    source_of,
)
from ncubble.text.values import device_of, gpu_names, number

Row = Mapping[str, Any]
Pair = tuple[str, str]
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")
_KINDS = (PARAMETER, GEOMETRY, SHAPE)


@dataclass(frozen=True)
class PointSpread:
    """Mean, least and most of one quantity over the ``n`` launches that hold it."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class SweepPoint:
    """The launches at one value of the swept parameter; ``at`` is None where that is no number."""

    value: str
    at: float | None
    rows: tuple[Row, ...]

    def spread(self, name: str) -> PointSpread | None:
        """Of the rows' member ``name``; None where no launch holds it."""
        known = [value for row in self.rows if (value := number(row.get(name))) is not None]
        return PointSpread(math.fsum(known) / len(known), min(known), max(known), len(known)) if known else None

    def account(self) -> tuple[dict[str, float], int]:
        """(percent by part, mean over launches, number of these launches): those whose idle time is
        split, if any."""
        accounts = [dict(row["account"]) for row in self.rows if row.get("account")]
        split = [account for account in accounts if not any(part in account for part in COARSE)] or accounts
        parts = dict.fromkeys(part for account in split for part in account)
        means = {part: math.fsum(account.get(part, 0.0) for account in split) / len(split) for part in parts}
        return means, len(split)

    def typical(self) -> Row:
        """The launch that stands for this value: of those with a split account, if any, the one in
        the middle."""
        split = [row for row in self.rows if is_split(row)] or list(self.rows)
        return sorted(split, key=lambda row: number(row.get("duration_ns")) or math.inf)[(len(split) - 1) // 2]


@dataclass(frozen=True)
class SweepSeries:
    """Points of one parameter, in order, with all other coordinates ``fixed`` (by name)."""

    fixed: tuple[Pair, ...]
    points: tuple[SweepPoint, ...]

    @property
    def launches(self) -> int:
        """Over all points."""
        return sum(len(point.rows) for point in self.points)

    def ends(self) -> tuple[SweepPoint, SweepPoint, str] | None:
        """(best, worst, what of): the points with the least and most mean time, or cycles where
        time is not known."""
        for name in ("duration_ns", "cycles"):
            known = [(spread.mean, index) for index, point in enumerate(self.points) if (spread := point.spread(name))]
            if len(known) > 1:
                return self.points[min(known)[1]], self.points[max(known)[1]], name
        return None

    @cached_property
    def ratio(self) -> float:
        """Time at the worst value as a multiple of that at the best; 1 where it is not known."""
        if (ends := self.ends()) is None:
            return 1.0
        best, worst = (point.spread(ends[2]) for point in ends[:2])
        return worst.mean / best.mean if best and worst and best.mean > 0 else 1.0


@dataclass(frozen=True)
class Sweep:
    """All series in which one parameter of a kernel varies on one GPU; ``kind`` as in
    ``Coordinate``.

    ``gpu`` is its full name; ``gpu_shown`` the short one, where no other GPU with a sweep shares
    that.
    """

    kernel: str
    gpu: str
    parameter: str
    kind: str
    series: tuple[SweepSeries, ...]
    gpu_shown: str = ""

    @property
    def launches(self) -> int:
        """Over all series."""
        return sum(series.launches for series in self.series)

    def values(self) -> list[str]:
        """The values of the parameter in any series, in order."""
        return ordered(point.value for series in self.series for point in series.points)

    @cached_property
    def ratio(self) -> float:
        """The largest of its series."""
        return max(series.ratio for series in self.series)

    def varying(self) -> dict[str, list[str]]:
        """Other coordinates in which its series differ, with their values; those that some series
        lack are ``""``."""
        names = dict.fromkeys(name for series in self.series for name, _ in series.fixed)
        values_of = {name: ordered({dict(series.fixed).get(name, "") for series in self.series}) for name in names}
        return {name: values for name, values in values_of.items() if len(values) > 1}

    def narrowed(self, fixed: Iterable[Pair]) -> Sweep:
        """Only the series that have all of these coordinates."""
        wanted = set(fixed)
        kept = tuple(series for series in self.series if wanted <= set(series.fixed))
        return replace(self, series=kept)

    def busy(self, _: SweepSeries, point: SweepPoint) -> PointSpread | None:
        """Busy share of ``unit`` in percent. That of the tensor pipe is what was counted, else the
        account's."""
        return point.spread("tensor" if self.unit() == "tensor" else "busy")

    def names(self) -> list[str]:
        """What tells each series from the others, in words; the kernel's name where there is one
        series."""
        telling = self.varying()
        if not telling:
            return [self.kernel for _ in self.series]
        return [
            " ".join(f"{name}={value}" for name, value in series.fixed if name in telling) for series in self.series
        ]

    def unit(self) -> str:
        """The unit whose busy share is shown: the tensor pipe if it is that of any launch, else
        theirs if they agree, else empty: that of each launch."""
        units = {str(row["unit"]) for row in self._rows() if row.get("unit")}
        if "tensor" in units:
            return "tensor"
        return units.pop() if len(units) == 1 else ""

    def _rows(self) -> Iterator[Row]:
        return (row for series in self.series for point in series.points for row in point.rows)


def timed(y: str, series: SweepSeries, point: SweepPoint) -> PointSpread | None:
    """Time in ns or elapsed cycles at a point, or as a multiple of the best of its series
    (``-best``)."""
    name = "duration_ns" if y.startswith("time") else "cycles"
    spread = point.spread(name)
    if spread is None or not y.endswith("-best"):
        return spread
    best = min((other_spread.mean for other in series.points if (other_spread := other.spread(name))), default=0.0)
    return PointSpread(spread.mean / best, spread.low / best, spread.high / best, spread.n) if best > 0 else None


def is_split(row: Row) -> bool:
    """Whether the account of a launch says what its idle time is."""
    parts = [part for part, _ in row.get("account") or []]
    return bool(parts) and not any(part in COARSE for part in parts)


def as_number(value: str) -> float | None:
    """The number that a value is; None for what is none, such as ``128x64``."""
    return float(value) if _NUMBER.fullmatch(value) else None


def ordered(values: Iterable[str]) -> list[str]:
    """Distinct values: numbers by size, then texts, in which digits count as numbers (``64x64``
    before ``128x64``)."""
    return sorted(set(values), key=_rank)


def _rank(value: str) -> tuple[bool, float, list[tuple[bool, float, str]]]:
    at = as_number(value)
    words = [(not word.isdecimal(), float(word) if word.isdecimal() else 0.0, word) for word in _pieces(value)]
    return at is None, at or 0.0, words


def _pieces(value: str) -> list[str]:
    return [word[:15] for word in re.split(r"(\d+)", value) if word]


def logarithmic(values: Sequence[str]) -> bool:
    """Whether values are drawn on a logarithmic axis: all positive, and far apart or three or more
    powers of two."""
    at = [as_number(value) for value in values]
    known = [value for value in at if value is not None and value > 0]
    if len(known) < len(at) or not known:
        return False
    doubled = len(known) > 2 and all(math.log2(value).is_integer() for value in known) and max(known) >= 4 * min(known)
    return doubled or max(known) >= 16 * min(known)


def sweeps(rows: Sequence[Row]) -> list[Sweep]:
    """All sweeps among ``rows``: those of parameters before those of shapes, each kind by how much
    time is at stake."""
    groups: defaultdict[tuple[str, str, str, str], dict[tuple[Pair, ...], list[tuple[str, list[Row]]]]]
    groups = defaultdict(dict)
    for (kernel, gpu), places_of in configurations(rows).items():
        for places, held in places_of.items():
            for kind, name, value, rest in _places(places):
                groups[kernel, gpu, name, kind].setdefault(rest, []).append((value, held))
    swept, names = [], gpu_names({gpu for _, gpu, _, _ in groups})
    for (kernel, gpu, name, kind), by_rest in groups.items():
        series = [_series(rest, held) for rest, held in by_rest.items() if len(held) > 1]
        if series:
            series.sort(key=lambda each: (-len(each.points), [_rank(value) for _, value in each.fixed]))
            swept.append(Sweep(kernel, gpu, name, kind, tuple(series), names[gpu]))
    return sorted(swept, key=lambda sweep: (_KINDS.index(sweep.kind), -sweep.ratio, sweep.kernel))


def configurations(rows: Iterable[Row]) -> dict[Pair, dict[tuple[Coordinate, ...], list[Row]]]:
    """Launches of a kernel on a GPU that agree in all coordinates, by these; launches without
    numbers are left out."""
    known: dict[str, tuple[Coordinate, ...]] = {}
    by_kernel: defaultdict[Pair, dict[tuple[Coordinate, ...], list[Row]]] = defaultdict(dict)
    for row in rows:
        kernel, gpu = str(row.get("kernel") or ""), device_of(row)
        if kernel and any(number(row.get(name)) is not None for name in ("duration_ns", "cycles", "busy")):
            source = source_of(row)
            if source not in known:
                known[source] = coordinates(row)
            by_kernel[kernel, gpu].setdefault(known[source], []).append(row)
    return by_kernel


def _places(places: Sequence[Coordinate]) -> Iterator[tuple[str, str, str, tuple[Pair, ...]]]:
    """(kind, name, value, all other coordinates) for each coordinate that may be swept, and for all
    dimensions at once where they are equal."""
    pairs = tuple((place.name, place.value) for place in places)
    for index, place in enumerate(places):
        if place.kind != CODE:
            yield place.kind, place.name, place.value, pairs[:index] + pairs[index + 1 :]
    if (together := alike(places)) is not None:
        rest = tuple((place.name, place.value) for place in places if place.kind != SHAPE)
        yield SHAPE, together.name, together.value, rest


def _series(rest: tuple[Pair, ...], held: Sequence[tuple[str, list[Row]]]) -> SweepSeries:
    by_value = {value: tuple(rows) for value, rows in held}
    return SweepSeries(rest, tuple(SweepPoint(key, as_number(key), by_value[key]) for key in ordered(by_value)))
