"""Rows of launches in few bytes, and back in little time and memory: 100,000 launches have five
million cells, and most texts among them are the same.

A packed row is the number of its shape, its texts, and its other values. A ``Shape`` says once for
many rows which columns there are, in which order, and what they hold. Objects (parameters, roofs)
are written once and named by their number; equal texts and objects of unpacked rows are one, so do
not write to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import orjson

Row = dict[str, Any]
Packed = tuple[int, list[str], list[Any]]
TEXT, PAIRS, OBJECT, OTHER = "t", "p", "d", "o"
"""What a cell holds: text; a list of lists of a name and a value, of which none is there twice
(packed as an object, whose names need no space); an object; anything else."""


@dataclass(frozen=True)
class Shape:
    """Names of the columns of a row, in their order, and what each holds."""

    names: tuple[str, ...]
    kinds: str
    _order: Callable[[Sequence[Any]], Any] = field(init=False, repr=False, compare=False)
    _pairs: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _objects: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        texts = [at for at, kind in enumerate(self.kinds) if kind == TEXT]
        others = [at for at, kind in enumerate(self.kinds) if kind != TEXT]
        packed = {at: place for place, at in enumerate([*texts, *others])}
        places = [packed[at] for at in range(len(self.names))]
        object.__setattr__(self, "_order", itemgetter(*places) if len(places) > 1 else list)
        for name, kind in (("_pairs", PAIRS), ("_objects", OBJECT)):
            object.__setattr__(self, name, tuple(i for i, at in enumerate(others) if self.kinds[at] == kind))

    @classmethod
    def of(cls, row: Row) -> Shape:
        """The shape of a row."""
        return cls(tuple(row), "".join(map(_kind, row.values())))

    def packed(self, row: Row, number_of: Callable[[Any], int]) -> tuple[list[str], list[Any]]:
        """Texts and other values of a row of this shape; ``number_of`` an object stands for it."""
        packed: dict[str, Callable[[Any], Any]] = {PAIRS: dict, OBJECT: number_of, OTHER: lambda value: value}
        cells = [*zip(self.kinds, row.values(), strict=True)]
        others = [packed[kind](value) for kind, value in cells if kind != TEXT]
        return [value for kind, value in cells if kind == TEXT], others

    def unpacked(
        self, texts: list[str], others: list[Any], share: Callable[[str, str], str], objects: Sequence[Any]
    ) -> Row:
        """The row; ``share(text, text)`` gives the text that stands for all equal ones. Writes to
        ``others``."""
        for at in self._pairs:
            others[at] = list(map(list, others[at].items()))
        for at in self._objects:
            others[at] = objects[others[at]]
        return dict(zip(self.names, self._order([*map(share, texts, texts), *others]), strict=True))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, dict):
        return OBJECT
    if isinstance(value, list) and all(_is_pair(one) for one in value):
        return PAIRS if len({one[0] for one in value}) == len(value) > 0 else OTHER
    return OTHER


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


class Packing:
    """Packs rows one after the other. ``objects`` are those that came up, by their numbers."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, int] = {}
        self._objects: dict[bytes, int] = {}
        self.objects: list[Any] = []

    @property
    def shapes(self) -> list[tuple[tuple[str, ...], str]]:
        """Names and kinds of all shapes that came up, by their numbers."""
        return [(shape.names, shape.kinds) for shape in self._shapes]

    def pack(self, rows: Iterable[Row]) -> list[Packed]:
        """Rows as JSON can take them."""
        found = [(Shape.of(row), row) for row in rows]
        numbered = [(self._shapes.setdefault(shape, len(self._shapes)), shape, row) for shape, row in found]
        return [(number, *shape.packed(row, self._number_of)) for number, shape, row in numbered]

    def _number_of(self, value: Any) -> int:
        key = orjson.dumps(value)
        if key not in self._objects:
            self._objects[key] = len(self.objects)
            self.objects.append(value)
        return self._objects[key]


class Unpacking:
    """Unpacks rows of ``shapes`` and ``objects`` (of a ``Packing``) one after the other."""

    def __init__(self, shapes: Iterable[tuple[Sequence[str], str]], objects: Sequence[Any]) -> None:
        self._shapes = [Shape(tuple(names), kinds) for names, kinds in shapes]
        self._objects, self._words = objects, dict[str, str]()

    def unpack(self, packed: Iterable[Packed]) -> tuple[Row, ...]:
        """The rows."""
        share, objects = self._words.setdefault, self._objects
        return tuple(self._shapes[number].unpacked(texts, others, share, objects) for number, texts, others in packed)
