"""Sweeps among launches: groups that differ in one parameter, or one dimension of the problem, and
in nothing else.

Pure functions over the rows of the overview (``rows.launch_row``). Nothing has to declare a sweep:
launches of one kernel on one GPU whose other coordinates agree form a series, wherever they were
recorded. A run of the catalog, or of a program that writes facts of its launches, names parameters
and shape. Of any other launch the arguments of its template are the parameters, with its block; the
threads of all CTAs stand for its shape. Of launches alike in all coordinates but of different code,
as an edited kernel has, those of the fastest code stand for the value.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from ncubble.analysis.account.parts import COARSE
from ncubble.text.values import device_of, gpu_names, number

Row = Mapping[str, Any]
Pair = tuple[str, str]
PARAMETER, GEOMETRY, SHAPE, CODE = "parameter", "launch", "shape", "code"
LONGEST = 60
"""Maximum length of a shown name or value; longer ones end in a hash to stay distinct."""
LONG_ARGUMENT = 32
"""Longer template arguments are types, not varied values."""
MOST_ARGUMENTS = 24
"""A template with more arguments than this counts as a single coordinate."""
ALPHA = 0.05
"""Differences with a larger corrected p-value may be chance."""
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")
_CAST = re.compile(r"^\((?:unsigned )?(?:int|bool|long|short|char)\)(?=-?\d)")
_EXTENT = re.compile(r"grid ([\d,]+) × block ([\d,]+)")
_KINDS = (PARAMETER, GEOMETRY, SHAPE)

# --- Coordinates of a launch ---


class Coordinate(NamedTuple):
    """``kind``: a parameter of the kernel or its template, how it was launched, a dimension of its
    problem, or another code, which is told apart and never swept."""

    kind: str
    name: str
    value: str


Places = tuple[Coordinate, ...]


def coordinates(row: Row) -> Places:
    """The coordinates of one launch, each name once, in order of kind and name."""
    parameters, dims = row.get("parameters") or {}, row.get("dims") or {}
    if parameters or dims:
        places = [Coordinate(PARAMETER, _text(name), _text(value)) for name, value in parameters.items()]
        for name, value in dims.items():
            places.append(Coordinate(SHAPE, _text(name) + " (shape)" * (name in parameters), _text(value)))
    else:
        places = [*_template(row), *_geometry(row)]
    return tuple(sorted({place.name: place for place in places}.values()))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]} {sha256(text.encode()).hexdigest()[:8]}"


def _alike(places: Places) -> Coordinate | None:
    """All dimensions as one, ``k=m=n``, where there are several and they are equal; else None."""
    shape = [place for place in places if place.kind == SHAPE]
    if len(shape) < 2 or len({place.value for place in shape}) > 1:
        return None
    return Coordinate(SHAPE, "=".join(place.name for place in shape), shape[0].value)


def _template(row: Row) -> list[Coordinate]:
    arguments = template_arguments(str(row.get("demangled") or ""), str(row.get("kernel") or ""))
    if len(arguments) > MOST_ARGUMENTS:
        return [Coordinate(CODE, "template", _text(", ".join(arguments)))]
    return [
        Coordinate(CODE if len(argument) > LONG_ARGUMENT else PARAMETER, f"template argument {index}", _text(argument))
        for index, argument in enumerate(arguments, 1)
    ]


def template_arguments(demangled: str, kernel: str) -> list[str]:
    """``["128", "float"]`` of ``void space::gemm<(int)128, float>(float*)`` for the kernel
    ``gemm``; else empty."""
    at = demangled.find(f"{kernel}<") if kernel else -1
    if at < 0:
        return []
    arguments, depth, start = [], 0, at + len(kernel) + 1
    for index in range(start, len(demangled)):
        sign = demangled[index]
        if depth == 0 and sign in ",>":
            arguments.append(_CAST.sub("", demangled[start:index].strip()))
            start = index + 1
            if sign == ">":
                return arguments
        depth += (sign in "<([") - (sign in ">)]")
    return []


def _geometry(row: Row) -> list[Coordinate]:
    """The block, and the threads of all CTAs: blocks of other sizes that do the same work in all
    are a sweep."""
    extents = _EXTENT.fullmatch(str(row.get("shape") or ""))
    if extents is None:
        return []
    grid, block = ([int(part) for part in extents[index].split(",") if part] for index in (1, 2))
    while len(block) > 1 and block[-1] == 1:
        block.pop()
    size = _text("x".join(str(part) for part in block))
    threads = _text(math.prod(grid) * math.prod(block))
    return [Coordinate(GEOMETRY, "block", size), Coordinate(SHAPE, "total threads", threads)]


# --- Values of a parameter ---


def as_number(value: str) -> float | None:
    """The number that a value is; None for what is none, such as ``128x64``."""
    return float(value) if _NUMBER.fullmatch(value) else None


def ordered(values: Iterable[str]) -> list[str]:
    """Distinct values: numbers by size, then texts, in which digits count as numbers (``64x64``
    before ``128x64``)."""
    return sorted(set(values), key=_rank)


def _rank(value: str) -> tuple[bool, float, list[tuple[bool, float, str]]]:
    at = as_number(value)
    words = [word[:15] for word in re.split(r"(\d+)", value) if word]
    return at is None, at or 0.0, [(not w.isdecimal(), float(w) if w.isdecimal() else 0.0, w) for w in words]


def logarithmic(values: Sequence[str]) -> bool:
    """Whether values are drawn on a logarithmic axis: all positive, and far apart or three or more
    powers of two."""
    at = [as_number(value) or 0.0 for value in values]
    if min(at, default=0.0) <= 0:
        return False
    doubled = len(at) > 2 and all(math.log2(value).is_integer() for value in at) and max(at) >= 4 * min(at)
    return doubled or max(at) >= 16 * min(at)


# --- Points, series, sweeps ---


class PointSpread(NamedTuple):
    """Mean, least and most of one quantity over the ``n`` launches that hold it."""

    mean: float
    low: float
    high: float
    n: int

    def over(self, whole: float) -> PointSpread:
        """In another unit: all three divided."""
        return PointSpread(self.mean / whole, self.low / whole, self.high / whole, self.n)


@dataclass(frozen=True)
class SweepPoint:
    """The launches at one value of the swept parameter; ``at`` is None where that is no number."""

    value: str
    at: float | None
    rows: tuple[Row, ...]

    def spread(self, name: str) -> PointSpread | None:
        """Of the rows' member ``name``; None where no launch holds it."""
        known = self.known(name)
        return PointSpread(self.mean(name), min(known), max(known), len(known)) if known else None

    def known(self, name: str) -> list[float]:
        """The rows' member ``name``, of those that hold it."""
        return [value for row in self.rows if (value := number(row.get(name))) is not None]

    def mean(self, name: str) -> float:
        """Of the rows' member ``name``; NaN where no launch holds it."""
        known = self.known(name)
        return math.fsum(known) / len(known) if known else math.nan

    @cached_property
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


def is_split(row: Row) -> bool:
    """Whether the account of a launch says what its idle time is."""
    parts = [part for part, _ in row.get("account") or []]
    return bool(parts) and not any(part in COARSE for part in parts)


@dataclass(frozen=True)
class SweepSeries:
    """Points of one parameter, in order, with all other coordinates ``fixed`` (by name)."""

    fixed: tuple[Pair, ...]
    points: tuple[SweepPoint, ...]

    @cached_property
    def ends(self) -> tuple[SweepPoint, SweepPoint, str] | None:
        """(best, worst, what of): the points with the least and most mean time, or cycles where
        time is not known."""
        for name in ("duration_ns", "cycles"):
            means = [(point.mean(name), index) for index, point in enumerate(self.points) if point.known(name)]
            if len(means) > 1:
                return self.points[min(means)[1]], self.points[max(means)[1]], name
        return None

    @cached_property
    def ratio(self) -> float:
        """Time at the worst value as a multiple of that at the best; 1 where it is not known."""
        best, worst = (point.mean(self.ends[2]) for point in self.ends[:2]) if self.ends else (1.0, 1.0)
        return worst / best if best > 0 else 1.0


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

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The launches of all series."""
        return tuple(row for series in self.series for point in series.points for row in point.rows)

    @cached_property
    def ratio(self) -> float:
        """The largest of its series."""
        return max(series.ratio for series in self.series)

    @cached_property
    def unit(self) -> str:
        """The unit whose busy share is shown: the tensor pipe if it is that of any launch, else
        theirs if they agree, else empty: that of each launch."""
        units = {str(row["unit"]) for row in self.rows if row.get("unit")}
        if "tensor" in units:
            return "tensor"
        return units.pop() if len(units) == 1 else ""

    def values(self) -> list[str]:
        """The values of the parameter in any series, in order."""
        return ordered(point.value for series in self.series for point in series.points)

    def varying(self) -> dict[str, list[str]]:
        """Other coordinates in which its series differ, with their values; those that some series
        lack are ``""``."""
        names = dict.fromkeys(name for series in self.series for name, _ in series.fixed)
        values_of = {name: ordered({dict(series.fixed).get(name, "") for series in self.series}) for name in names}
        return {name: values for name, values in values_of.items() if len(values) > 1}

    def narrowed(self, fixed: Iterable[Pair]) -> Sweep:
        """Only the series that have all of these coordinates."""
        wanted = set(fixed)
        return replace(self, series=tuple(series for series in self.series if wanted <= set(series.fixed)))

    def names(self) -> list[str]:
        """What tells each series from the others, in words; the kernel's name where there is one
        series."""
        telling = self.varying()
        words = [[f"{name}={value}" for name, value in series.fixed if name in telling] for series in self.series]
        return [" ".join(each) if telling else self.kernel for each in words]

    def busy(self, point: SweepPoint) -> PointSpread | None:
        """Busy share of ``unit`` in percent. That of the tensor pipe is what was counted, else the
        account's."""
        return point.spread("tensor" if self.unit == "tensor" else "busy")


def sweeps(rows: Iterable[Row]) -> list[Sweep]:
    """All sweeps among ``rows``: those of parameters before those of shapes, each kind by how much
    time is at stake."""
    groups: defaultdict[tuple[str, str, str, str], dict[tuple[Pair, ...], dict[str, tuple[Row, ...]]]]
    groups = defaultdict(dict)
    for (kernel, gpu, places), held in _configurations(rows).items():
        fastest = min(held.values(), key=_time)
        for kind, name, value, rest in _swept(places):
            groups[kernel, gpu, name, kind].setdefault(rest, {})[value] = tuple(fastest)
    found, names = [], gpu_names({gpu for _, gpu, _, _ in groups})
    for (kernel, gpu, name, kind), by_rest in groups.items():
        series = [
            SweepSeries(
                rest, tuple(SweepPoint(value, as_number(value), by_value[value]) for value in ordered(by_value))
            )
            for rest, by_value in by_rest.items()
            if len(by_value) > 1
        ]
        if series:
            series.sort(key=lambda each: (-len(each.points), [_rank(value) for _, value in each.fixed]))
            found.append(Sweep(kernel, gpu, name, kind, tuple(series), names[gpu]))
    return sorted(found, key=lambda sweep: (_KINDS.index(sweep.kind), -sweep.ratio, sweep.kernel))


def _time(rows: Sequence[Row]) -> float:
    """Mean time of launches; infinite where none is known."""
    point = SweepPoint("", None, tuple(rows))
    return point.mean("duration_ns") if point.known("duration_ns") else math.inf


def _configurations(rows: Iterable[Row]) -> Mapping[tuple[str, str, Places], Mapping[str, list[Row]]]:
    """Launches by kernel, GPU and coordinates, then by code; launches without numbers are left
    out."""
    known: dict[str, Places] = {}
    configurations: defaultdict[tuple[str, str, Places], defaultdict[str, list[Row]]]
    configurations = defaultdict(lambda: defaultdict(list))
    for row in rows:
        kernel = str(row.get("kernel") or "")
        if kernel and any(number(row.get(name)) is not None for name in ("duration_ns", "cycles", "busy")):
            facts = (row.get("parameters"), row.get("dims"))
            source = str(facts if any(facts) else (kernel, row.get("demangled"), row.get("shape")))
            if source not in known:
                known[source] = coordinates(row)
            configurations[kernel, device_of(row), known[source]][str(row.get("code"))].append(row)
    return configurations


def _swept(places: Places) -> Iterator[tuple[str, str, str, tuple[Pair, ...]]]:
    """(kind, name, value, all other coordinates) for each coordinate that may be swept, and for all
    dimensions at once where they are equal."""
    pairs = tuple((place.name, place.value) for place in places)
    for index, place in enumerate(places):
        if place.kind != CODE:
            yield *place, pairs[:index] + pairs[index + 1 :]
    if together := _alike(places):
        yield *together, tuple((place.name, place.value) for place in places if place.kind != SHAPE)


# --- Noise ---


def noise_words(best: SweepPoint, worst: SweepPoint, name: str, points: int) -> str:
    """What repeats say of the difference in ``name`` between two of ``points`` points; empty where
    it is no chance, and where either point has no repeats: then nothing is tested."""
    p = p_value(best, worst, name, points)
    if p is None or p <= ALPHA:
        return ""
    among = f", corrected for the best and worst of {points} values" if points > 2 else ""
    return f", which noise alone can explain (p = {p:.2f} from the spread of the repeats{among})"


def p_value(best: SweepPoint, worst: SweepPoint, name: str, points: int) -> float | None:
    """Of no difference between the means of ``name``: Welch's test, two-sided, which takes neither
    equal variances nor a prior (B. L. Welch, Biometrika 34, 1947).

    Best and worst were picked among all ``points``, so the p-value is multiplied by the number of
    pairs they were picked from (Bonferroni), up to 1. Repeats are taken as independent and about
    normal. A difference that the test cannot see may still be there: few repeats see little. None
    where either point has fewer than two values.
    """
    from scipy.special import stdtr

    from ncubble.analysis.gate.noise import mean_sd

    first, second = best.known(name), worst.known(name)
    if len(first) < 2 or len(second) < 2:
        return None
    (mean, sd), (other, scatter) = mean_sd(first), mean_sd(second)
    left, right = sd**2 / len(first), scatter**2 / len(second)
    if left + right == 0.0:
        return 1.0 if mean == other else 0.0
    freedom = (left + right) ** 2 / (left**2 / (len(first) - 1) + right**2 / (len(second) - 1))
    p = float(2 * stdtr(freedom, -abs(mean - other) / math.sqrt(left + right)))
    return min(1.0, p * math.comb(points, 2))
