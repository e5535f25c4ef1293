"""Rows of launches in few bytes, and back in little time and memory: 100,000 launches have five
million cells, and most texts among them are the same.

A packed row is the number of its shape, its texts, and its other values. A ``Shape`` says once for
many rows which columns there are, in which order, and what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

Row = dict[str, Any]
Packed = tuple[int, list[str], list[Any]]
TEXT, PAIRS, OTHER = "t", "p", "o"
"""What a cell holds: text; a list of lists of a name and a value, of which none is there twice
(packed as an object, whose names need no space); anything else."""


@dataclass(frozen=True)
class Shape:
    """Names of the columns of a row, in their order, and what each holds."""

    names: tuple[str, ...]
    kinds: str
    _order: Callable[[Sequence[Any]], Any] = field(init=False, repr=False, compare=False)
    _pairs: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        texts = [at for at, kind in enumerate(self.kinds) if kind == TEXT]
        others = [at for at, kind in enumerate(self.kinds) if kind != TEXT]
        packed = {at: place for place, at in enumerate([*texts, *others])}
        places = [packed[at] for at in range(len(self.names))]
        object.__setattr__(self, "_order", itemgetter(*places) if len(places) > 1 else list)
        object.__setattr__(self, "_pairs", tuple(i for i, at in enumerate(others) if self.kinds[at] == PAIRS))

    @classmethod
    def of(cls, row: Row) -> Shape:
        """The shape of a row."""
        return cls(tuple(row), "".join(map(_kind, row.values())))

    def packed(self, row: Row) -> tuple[list[str], list[Any]]:
        """Texts and other values of a row of this shape."""
        cells = [*zip(self.kinds, row.values(), strict=True)]
        others = [dict(value) if kind == PAIRS else value for kind, value in cells if kind != TEXT]
        return [value for kind, value in cells if kind == TEXT], others

    def unpacked(self, texts: list[str], others: list[Any], share: Callable[[str, str], str]) -> Row:
        """The row; ``share(text, text)`` gives the text that stands for all equal ones. Writes to
        ``others``."""
        for at in self._pairs:
            others[at] = list(map(list, others[at].items()))
        return dict(zip(self.names, self._order([*map(share, texts, texts), *others]), strict=True))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list) and all(_is_pair(one) for one in value):
        return PAIRS if len({one[0] for one in value}) == len(value) > 0 else OTHER
    return OTHER


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


class Packing:
    """Packs rows one after the other; ``shapes`` are those that came up."""

    def __init__(self) -> None:
        self._numbers: dict[Shape, int] = {}

    @property
    def shapes(self) -> list[tuple[tuple[str, ...], str]]:
        """Names and kinds of all shapes, by their numbers."""
        return [(shape.names, shape.kinds) for shape in self._numbers]

    def pack(self, rows: Iterable[Row]) -> list[Packed]:
        """Rows as JSON can take them."""
        found = [(Shape.of(row), row) for row in rows]
        return [(self._numbers.setdefault(shape, len(self._numbers)), *shape.packed(row)) for shape, row in found]


class Unpacking:
    """Unpacks rows of ``shapes`` (``Packing.shapes``) one after the other."""

    def __init__(self, shapes: Iterable[tuple[Sequence[str], str]]) -> None:
        self._shapes = [Shape(tuple(names), kinds) for names, kinds in shapes]
        self._words: dict[str, str] = {}

    def unpack(self, packed: Iterable[Packed]) -> tuple[Row, ...]:
        """The rows, which share equal texts."""
        share = self._words.setdefault
        return tuple(self._shapes[number].unpacked(texts, others, share) for number, texts, others in packed)
