"""Steps in a series of means: where its level moved for good, by how much, and how surely.

The model is a regression: the level of each *setup* (a GPU, its driver, the profiler) plus steps,
columns that are 0 before a check and 1 from it on, plus impulses for single odd checks (J. L.
Castle, J. A. Doornik, D. F. Hendry and F. Pretis, Econometrics 3(2), 2015,
doi:10.3390/econometrics3020240). With one setup the test of one step is the t test of the checks
before against those after. A step that coincides with a new setup cannot be told from it, and is
not searched; where two GPUs take turns, both tell of the kernel.

Search: the step, impulse or pair of steps (a level that came and went) that explains most is taken
while chance would explain it with less than ``ALPHA``, after Bonferroni over all places; places are
moved to the best while others stand; what no longer holds is dropped. The variance is that of the
checks around the model, and never below what their own repeats say of a mean. The shift between
starts of a process or machine is in it: it is learned from the series itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr, stdtrit

ALPHA = 0.01
"""Bound on the probability of each kind of false addition to a series without steps.
``benchmarks/gate/trend.py`` prints the resulting rate: 0 to 2 % of series show a false step."""
MOST_STEPS = 20
LEAST_POINTS = 4
_TELLING = 1.0 - 1e-9
"""Least information of a step, n m / (n + m): that of two checks against two."""
_ROUNDS = 10
_BESIDE = 4
"""Checks on either side with which a check is compared, to find outliers."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class LevelStep:
    """The level moves by ``change`` (± ``error``, one standard error) at ``index``, the first check
    of the new one.

    ``p_value``: chance of such a step anywhere in a series without any. The true place lies in
    ``first .. last`` with 95 %. ``half_width``: of the 95 % interval of ``change``.
    """

    index: int
    change: float
    error: float
    half_width: float
    p_value: float
    first: int
    last: int


@dataclass(frozen=True)
class Steps:
    """All ``steps`` in order, the single ``odd`` checks, and the ``fitted`` value of every check
    without the latter."""

    steps: tuple[LevelStep, ...]
    odd: tuple[int, ...]
    fitted: tuple[float, ...]


def find_steps(
    values: Sequence[float],
    variances: Sequence[float] = (),
    setups: Sequence[int] = (),
    alpha: float = ALPHA,
) -> Steps:
    """The steps of finite ``values``, oldest first. See the module's docstring.

    ``variances``: of each value by its own repeats, NaN where unknown. ``setups``: equal numbers
    for checks that one machine and tool chain made. Fewer than ``LEAST_POINTS`` values have no
    steps.
    """
    y = np.asarray(values, dtype=float)
    machines = np.asarray(setups or np.zeros(len(y)), dtype=int)
    search = _Search(y, _floor(y, variances), machines, alpha)
    chosen = search.grown(frozenset())
    if near := _near_steps(search) | _far_off(search):
        other = search.grown(search.pruned(search.settled(search.pruned(chosen | near))))
        chosen = max(chosen, other, key=len)
    return search.told(chosen)


def _near_steps(search: _Search) -> frozenset[int]:
    """Steps that parts of the series show, where none stands out in the whole."""
    p_values: dict[int, float] = {}
    for length in (12, 24, 48, 96):
        for start in range(0, search.n - length + 1, length // 2) if length < search.n else ():
            part = search.part(slice(start, start + length))
            for step in part.told(part.grown(frozenset())).steps:
                p_values[start + step.index] = min(step.p_value, p_values.get(start + step.index, 1.0))
    kept: list[int] = []
    for place in sorted(p_values, key=lambda place: p_values[place])[:MOST_STEPS]:
        if all(abs(place - other) > 1 for other in kept):
            kept.append(place)
    return frozenset(kept)


def _far_off(search: _Search) -> frozenset[int]:
    """Impulses of checks far off their neighbours, which may hide each other."""
    if search.n < 2 * _BESIDE:
        return frozenset()
    rest = np.zeros(search.n)
    for place in range(search.n):
        beside = np.arange(max(place - _BESIDE, 0), min(place + _BESIDE + 1, search.n))
        beside = beside[(beside != place) & (search.setups[beside] == search.setups[place])]
        rest[place] = search.y[place] - np.median(search.y[beside]) if beside.size >= 2 else 0.0
    usual = 1.4826 * float(np.median(np.abs(rest)))
    far = np.flatnonzero(np.abs(rest) > 4 * max(usual, float(np.sqrt(search.floor))))
    return frozenset(int(search.n + place) for place in far) if len(far) <= search.n // 4 else frozenset()


def _floor(y: Array, variances: Sequence[float]) -> float:
    """The least variance of a value: what repeats say on average, and the digits of a double."""
    known = np.asarray([variance for variance in variances if np.isfinite(variance)], dtype=float)
    digits = (1e-9 * float(np.max(np.abs(y), initial=0.0))) ** 2
    return max(float(known.mean()) if known.size else 0.0, digits, 1e-300)


@dataclass(frozen=True)
class _Left:
    """What the model does not explain: of the columns, with their ``information`` and their
    ``products`` with the rest of the values; the ``squares`` of the latter, and its degrees of
    freedom."""

    columns: Array
    information: Array
    products: Array
    squares: float
    df: int


class _Search:
    """Columns are numbered: 0 .. n - 1 the step that begins at that check (0 is none), n .. 2 n - 1
    the impulses."""

    def __init__(self, y: Array, floor: float, setups: NDArray[Any], alpha: float) -> None:
        self.y, self.floor, self.alpha, self.n = y, floor, alpha, len(y)
        places = np.arange(self.n)
        self.columns = np.hstack([(places[:, None] >= places[None, :]).astype(float), np.eye(self.n)])
        self.setups = setups
        self.known: dict[tuple[frozenset[int], bool], _Left] = {}
        self.base = (setups[:, None] == np.unique(setups)[None, :]).astype(float)

    def part(self, places: slice) -> _Search:
        """The same search over some of the checks alone."""
        return _Search(self.y[places], self.floor, self.setups[places], self.alpha)

    def grown(self, chosen: frozenset[int]) -> frozenset[int]:
        """``chosen`` with everything that can be added to it beyond chance."""
        seen: set[frozenset[int]] = set()
        while self.n >= LEAST_POINTS and chosen not in seen and sum(column < self.n for column in chosen) < MOST_STEPS:
            seen.add(chosen)
            chosen = self.pruned(self.settled(chosen | self.best_addition(chosen)))
        return chosen

    def left(self, chosen: frozenset[int], impulses: bool = True) -> _Left:
        """What ``chosen`` leaves; without ``impulses`` of the steps alone, in half the time.

        The last ones are remembered: settling, pruning and telling ask for the same.
        """
        key = (chosen, impulses)
        if key not in self.known:
            while len(self.known) > 2 * MOST_STEPS:
                del self.known[next(iter(self.known))]
            self.known[key] = self._left(chosen, impulses)
        return self.known[key]

    def _left(self, chosen: frozenset[int], impulses: bool) -> _Left:
        model = np.hstack([self.base, self.columns[:, sorted(chosen)]])
        basis = np.linalg.qr(model)[0] if model.size else model
        columns = self.columns if impulses else self.columns[:, : self.n]
        columns = columns - basis @ (basis.T @ columns)
        rest = self.y - basis @ (basis.T @ self.y)
        information = np.einsum("ij,ij->j", columns, columns)
        return _Left(columns, information, columns.T @ rest, float(rest @ rest), self.n - model.shape[1])

    def _usable(self, left: _Left) -> tuple[NDArray[Any], NDArray[Any]]:
        """The steps, and the impulses, of which enough is left to be told from the model."""
        steps = np.flatnonzero(left.information[: self.n] >= _TELLING)
        impulses = self.n + np.flatnonzero(left.information[self.n :] >= 0.5)
        return steps, impulses

    def best_addition(self, chosen: frozenset[int]) -> frozenset[int]:
        """The step, impulse or pair of steps that explains most beyond chance, if any."""
        left = self.left(chosen)
        steps, impulses = self._usable(left)
        additions = [addition for kind in (steps, impulses) if (addition := self._single(left, kind))]
        additions = [addition for addition in additions if addition[0] <= self.alpha]
        if not additions and (pair := self._pair(left, steps)) and pair[0] <= self.alpha:
            additions = [pair]
        return min(additions, key=lambda addition: addition[0])[2] if additions else frozenset()

    def _single(self, left: _Left, places: NDArray[Any]) -> tuple[float, float, frozenset[int]] | None:
        """(p, what it explains, column) of the best of ``places``."""
        if not places.size or left.df < 2:
            return None
        gains = left.products[places] ** 2 / left.information[places]
        best = int(np.argmax(gains))
        p = self._chance(gains[best], left) * len(places)
        return min(p, 1.0), float(gains[best]), frozenset([int(places[best])])

    def _chance(self, gain: float, left: _Left) -> float:
        """Chance that a column which is known beforehand explains ``gain`` of the squares."""
        variance = max((left.squares - gain) / (left.df - 1), self.floor)
        return float(2 * stdtr(left.df - 1, -np.sqrt(max(gain, 0.0) / variance)))

    def _pair(self, left: _Left, steps: NDArray[Any]) -> tuple[float, float, frozenset[int]] | None:
        if len(steps) < 2 or left.df < 4:
            return None
        columns, b = left.columns[:, steps], left.products[steps]
        gram = columns.T @ columns
        own = np.diag(gram)
        telling = own[:, None] - gram**2 / own[None, :]
        allowed = np.triu((telling >= _TELLING) & (telling.T >= _TELLING), 1)
        if not allowed.any():
            return None
        determinant = np.where(allowed, own[:, None] * own[None, :] - gram**2, 1.0)
        cross = b[:, None] * b[None, :] * gram
        gains = np.where(allowed, (b[:, None] ** 2 * own[None, :] + b[None, :] ** 2 * own[:, None] - 2 * cross), 0.0)
        gains = gains / determinant
        i, j = np.unravel_index(int(np.argmax(gains)), gains.shape)
        gain, df = float(gains[i, j]), left.df - 2
        variance = max((left.squares - gain) / df, self.floor)
        p = float(fdtrc(2, df, gain / 2 / variance)) * int(allowed.sum())
        return min(p, 1.0), gain, frozenset([int(steps[i]), int(steps[j])])

    def settled(self, chosen: frozenset[int]) -> frozenset[int]:
        """``chosen`` with every step moved to its best place while the others stand."""
        for _ in range(_ROUNDS):
            before = chosen
            for column in sorted(place for place in chosen if place < self.n):
                others = chosen - {column}
                left = self.left(others, impulses=False)
                best = self._single(left, self._usable(left)[0])
                chosen = others | best[2] if best else chosen
            if chosen == before:
                break
        return chosen

    def pruned(self, chosen: frozenset[int]) -> frozenset[int]:
        """``chosen`` without what chance explains beside the others, the weakest first."""
        while chosen:
            chances = {column: self._chance_of(column, chosen) for column in chosen}
            weakest = max(chances, key=lambda column: (chances[column], column))
            if chances[weakest] <= self.alpha:
                break
            chosen -= {weakest}
        return chosen

    def _chance_of(self, column: int, chosen: frozenset[int]) -> float:
        left = self.left(chosen - {column}, impulses=column >= self.n)
        places = self._usable(left)[0 if column < self.n else 1]
        if left.df < 2 or column not in places:
            return 1.0
        gain = float(left.products[column] ** 2 / left.information[column])
        return min(self._chance(gain, left) * len(places), 1.0)

    def told(self, chosen: frozenset[int]) -> Steps:
        """The result in the words of this module."""
        steps = tuple(self._step(column, chosen) for column in sorted(chosen) if column < self.n)
        odd = sorted(column for column in chosen if column >= self.n)
        model = np.hstack([self.base, self.columns[:, sorted(chosen)]])
        weights = np.linalg.lstsq(model, self.y, rcond=None)[0] if self.n else np.zeros(0)
        fitted = self.y if not self.n else model @ weights
        for column in odd:
            fitted = fitted - weights[self.base.shape[1] + sorted(chosen).index(column)] * self.columns[:, column]
        return Steps(steps, tuple(column - self.n for column in odd), tuple(fitted.tolist()))

    def _step(self, column: int, chosen: frozenset[int]) -> LevelStep:
        left = self.left(chosen - {column}, impulses=False)
        information = float(left.information[column])
        change = float(left.products[column]) / information
        gain = float(left.products[column] * change)
        variance = max((left.squares - gain) / (left.df - 1), self.floor)
        error = float(np.sqrt(variance / information))
        wide = float(stdtrit(left.df - 1, 0.975))
        near = self._near(column, left, gain - wide**2 * variance)
        return LevelStep(column, change, error, wide * error, self._chance_of(column, chosen), near[0], near[1])

    def _near(self, column: int, left: _Left, least: float) -> tuple[int, int]:
        """The connected places around ``column`` that explain at least ``least``."""
        steps = set(self._usable(left)[0].tolist())
        explains = {step: float(left.products[step] ** 2 / left.information[step]) for step in steps}
        first = last = column
        while explains.get(first - 1, -np.inf) >= least:
            first -= 1
        while explains.get(last + 1, -np.inf) >= least:
            last += 1
        return first, last
