"""The points of a sweep: axes as they are written (``stages=1:6``), and all, some, or well spread
ones of their grid.

Pure: what a point means, and whether a kernel takes it, is not known here.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ncubble.errors import UsageError

Method = Literal["grid", "random", "lhs"]
METHODS: tuple[str, ...] = get_args(Method)
MOST_POINTS = 100_000
"""Maximum points of a sweep: larger grids are sampled."""
_FRUITLESS = 50
"""Draws without a new point after which sampling stops."""
_RANGE = re.compile(r"(-?\d+):(-?\d+)(?::(x?)(\d+))?")
_REMEDY = "examples: -g stages=1:6, -g k=512:8192:x2, -g tile=64,128 or -g m=n=k=2048,4096"

Point = Mapping[str, str]
"""A value per varied name, as text."""


@dataclass(frozen=True)
class Axis:
    """One thing that is varied: ``names`` that have the same value at every point, and their
    ``values``."""

    names: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Sampling:
    """Which points of the grid: all of them, or ``count`` by ``random`` or ``lhs``; equal seeds
    give equal points."""

    method: Method = "grid"
    count: int | None = None
    seed: int = 0

    @classmethod
    def of(cls, method: str, count: int | None, seed: int) -> Sampling:
        """Checked; raises UsageError."""
        if method not in METHODS:
            raise UsageError(f"unknown --method {method!r}", f"use one of: {', '.join(METHODS)}")
        if method == "grid" and count is not None:
            raise UsageError(
                "--sample cannot be combined with --method grid, which takes all points", "add --method lhs"
            )
        if method != "grid" and (count is None or count < 1):
            raise UsageError(f"--method {method} needs --sample N, the number of points", "add --sample 20")
        return cls(method, count, seed)  # type: ignore[arg-type]


@dataclass
class Chosen:
    """The points that were taken, each with what ``take`` made of it, those refused with the
    reason, and notes."""

    taken: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    refused: list[tuple[dict[str, str], str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes in the order given; raises UsageError for what is no axis, has no values, or names
    something twice."""
    axes = tuple(_axis(text) for text in texts)
    names = [name for axis in axes for name in axis.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"-g: {', '.join(twice)} is varied twice", "name it once, with all its values")
    return axes


def _axis(text: str) -> Axis:
    *names, values = (piece.strip() for piece in text.split("="))
    if not names or not all(names) or not values:
        raise UsageError(f"-g {text!r} is not name=values", _REMEDY)
    every = [value for piece in values.split(",") for value in _values(piece.strip(), text)]
    return Axis(tuple(names), tuple(dict.fromkeys(every)))


def _values(piece: str, text: str) -> list[str]:
    if not piece:
        raise UsageError(f"-g {text!r} has an empty value", _REMEDY)
    match = _RANGE.fullmatch(piece)
    if match is None:
        if ":" in piece:
            raise UsageError(f"-g {text!r}: {piece!r} is not a range of integers", _REMEDY)
        return [piece]
    first, last, step = int(match[1]), int(match[2]), int(match[4] or 1)
    if last < first or step < 1 or (match[3] and (step < 2 or first < 1)):
        raise UsageError(f"-g {text!r}: the range {piece} has no values", _REMEDY)
    numbers = list(_geometric(first, last, step)) if match[3] else range(first, last + 1, step)
    if len(numbers) > MOST_POINTS:
        raise UsageError(
            f"-g {text!r} has {len(numbers)} values, at most {MOST_POINTS} are allowed", "use a larger step"
        )
    return [str(value) for value in numbers]


def _geometric(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def size(axes: Sequence[Axis]) -> int:
    """Points of the whole grid."""
    return math.prod(len(axis.values) for axis in axes)


def at(axes: Sequence[Axis], index: int) -> dict[str, str]:
    """The point with this number; the last axis varies fastest."""
    point: dict[str, str] = {}
    for axis in reversed(axes):
        index, place = divmod(index, len(axis.values))
        point |= dict.fromkeys(axis.names, axis.values[place])
    return {name: point[name] for axis in axes for name in axis.names}


def choose(axes: Sequence[Axis], sampling: Sampling, take: Callable[[Point], Any]) -> Chosen:
    """The points of the sweep in the order of the grid. ``take`` makes something of a point, or
    refuses it by raising UsageError: refused points are listed, and a sample goes on until it has
    its number of others.

    Raises UsageError for a grid of more than ``MOST_POINTS`` that is not sampled, or a larger
    sample.
    """
    total, wanted = size(axes), sampling.count if sampling.count is not None else size(axes)
    if wanted > MOST_POINTS:
        raise UsageError(f"{wanted} points, at most {MOST_POINTS} are allowed", "add --sample N --method lhs")
    chosen, seen, taken = Chosen(), set[int](), dict[int, tuple[dict[str, str], Any]]()
    for index in _candidates(axes, sampling):
        if len(taken) == wanted:
            break
        if index in seen:
            continue
        seen.add(index)
        point = at(axes, index)
        try:
            taken[index] = point, take(point)
        except UsageError as error:
            chosen.refused.append((point, error.message))
    chosen.taken = [pair for _, pair in sorted(taken.items(), key=lambda item: item[0])]
    if sampling.count is not None and len(chosen.taken) < min(wanted, total):
        chosen.notes.append(f"--sample {wanted}: only {len(chosen.taken)} allowed points were found")
    return chosen


def _candidates(axes: Sequence[Axis], sampling: Sampling) -> Iterator[int]:
    """Numbers of points in the order in which they are tried; a number may come again."""
    total = size(axes)
    if sampling.method == "grid":
        yield from range(total)
    elif total <= MOST_POINTS:
        order = list(range(total))
        random.Random(sampling.seed).shuffle(order)  # noqa: S311 - no secret
        if sampling.method == "lhs":
            yield from _spread(axes, sampling)
        yield from order
    elif sampling.method == "lhs":
        yield from _spread(axes, sampling)
    else:
        draw = random.Random(sampling.seed)  # noqa: S311 - no secret
        yield from (draw.randrange(total) for _ in range(_FRUITLESS * (sampling.count or 1)))


def _spread(axes: Sequence[Axis], sampling: Sampling) -> Iterator[int]:
    """Latin hypercubes of ``count`` points one after the other: in each, every axis is cut into
    ``count`` equal layers and each layer is hit once. Points of an axis with fewer values than
    layers coincide."""
    import numpy as np
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(d=len(axes), rng=np.random.default_rng(sampling.seed))
    for _ in range(_FRUITLESS):
        for row in sampler.random(sampling.count or 1):
            index = 0
            for axis, place in zip(axes, row, strict=True):
                index = index * len(axis.values) + min(int(place * len(axis.values)), len(axis.values) - 1)
            yield index
