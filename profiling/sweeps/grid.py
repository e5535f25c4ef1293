"""The points of a sweep: axes as they are written (``stages=1:6``), and all or some points of their
grid. What a point means, and whether a kernel takes it, is not known here."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ncubble.errors import UsageError

MOST_POINTS = 100_000
"""Maximum points of a sweep: larger grids are sampled."""
_RANGE = re.compile(r"(-?\d+):(-?\d+)(?::(x?)(\d+))?")
_REMEDY = "examples: -g stages=1:6, -g k=512:8192:x2, -g tile=64,128 or -g m=n=k=2048,4096"
_TRIED = 50
"""Points that are tried for each of a sample."""

T = TypeVar("T")
Point = dict[str, str]
"""A value per varied name, as text."""


@dataclass(frozen=True)
class Axis:
    """One thing that is varied: ``names`` that have the same value at every point, and their
    ``values``."""

    names: tuple[str, ...]
    values: tuple[str, ...]


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes in the order given; raises UsageError for what is no axis, has no values, or names
    something twice."""
    axes = tuple(_axis(text) for text in texts)
    names = [name for axis in axes for name in axis.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
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
        message = f"-g {text!r} has {len(numbers)} values, at most {MOST_POINTS} are allowed"
        raise UsageError(message, "use a larger step")
    return [str(value) for value in numbers]


def _geometric(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def choose(
    axes: Sequence[Axis], sample: int | None, take: Callable[[Point], T]
) -> tuple[list[tuple[Point, T]], list[tuple[Point, str]]]:
    """The points of the sweep in the order of the grid, each with what ``take`` made of it, and
    those that it refused by raising UsageError, with the reason.

    With ``sample``, that many points that are taken, drawn at random, the same ones each time;
    fewer where there are not so many. Raises UsageError for more than ``MOST_POINTS``.
    """
    total = math.prod(len(axis.values) for axis in axes)
    if (sample or total) > MOST_POINTS:
        raise UsageError(f"{sample or total} points, at most {MOST_POINTS} are allowed", "draw some: --sample 100")
    drawn = range(total)
    if sample is not None:
        drawn = random.Random(0).sample(drawn, min(total, _TRIED * sample))  # type: ignore[assignment]  # noqa: S311
    taken: dict[int, tuple[Point, T]] = {}
    refused: list[tuple[Point, str]] = []
    for index in drawn:
        point = _at(axes, index)
        try:
            taken[index] = point, take(point)
        except UsageError as error:
            refused.append((point, error.message))
        if len(taken) == sample:
            break
    return [taken[index] for index in sorted(taken)], refused


def _at(axes: Sequence[Axis], index: int) -> Point:
    """The point with this number; the last axis varies fastest."""
    values: list[str] = []
    for axis in reversed(axes):
        index, place = divmod(index, len(axis.values))
        values.insert(0, axis.values[place])
    return {name: value for axis, value in zip(axes, values, strict=True) for name in axis.names}
