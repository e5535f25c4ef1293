"""Rows of launches kept as columns: 100,000 rows have five million cells, and as dictionaries they
take 300 MB and seconds to make.

A column holds float64 numbers, or each distinct value once and a code for every row. A row is made
of it cell by cell when it is looked at, so rows are to be read, not kept in numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

Places = NDArray[np.int64]
SHAPE = "\0"
"""The column that says which fields a row has: no field has this name."""


@dataclass(frozen=True)
class NumberCells:
    """Floats, NaN where there is none."""

    numbers: NDArray[np.float64]

    def value(self, at: int) -> float | None:
        """The float of one row, or None."""
        number = float(self.numbers[at])
        return number if number == number else None

    def taken(self, places: Places) -> NumberCells:
        """The cells of other rows."""
        return NumberCells(self.numbers[places])

    def compact(self) -> NumberCells:
        """These cells."""
        return self

    def coded(self) -> CodedCells:
        """The same cells with each distinct number once."""
        return CodedCells.of([self.value(at) for at in range(len(self.numbers))])


@dataclass(frozen=True)
class CodedCells:
    """``codes`` into ``values``: text, numbers, truth values, None, and the JSON (bytes) of
    anything else."""

    codes: NDArray[Any]
    values: list[Any]

    @classmethod
    def of(cls, cells: Sequence[Any]) -> CodedCells:
        """Of values as rows have them."""
        if all(type(cell) is str or cell is None for cell in cells):
            stored: Sequence[Any] = cells
        else:
            stored = [
                cell if cell is None or isinstance(cell, str | int | float) else orjson.dumps(cell) for cell in cells
            ]
        keys = list(map(_key, stored))
        known = dict(zip(keys, stored, strict=True))
        place = {key: code for code, key in enumerate(known)}
        codes = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
        return cls(_narrow(codes, len(known)), list(known.values()))

    @classmethod
    def of_codes(cls, codes: Places, values: Sequence[str]) -> CodedCells:
        """Of texts by their codes, which may be there twice."""
        known = {value: code for code, value in enumerate(dict.fromkeys(values))}
        there = np.array([known[value] for value in values], np.int64)
        return cls(_narrow(there[codes] if len(codes) else codes, len(known)), list(known))

    def value(self, at: int) -> Any:
        """The value of one row. That of JSON is made anew each time."""
        value = self.values[self.codes[at]]
        return orjson.loads(value) if type(value) is bytes else value

    def taken(self, places: Places) -> CodedCells:
        """The cells of other rows."""
        return CodedCells(self.codes[places], self.values)

    def compact(self) -> CodedCells:
        """The same cells without values that no row has."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return CodedCells(_narrow(codes, len(used)), [self.values[code] for code in used.tolist()])

    def coded(self) -> CodedCells:
        """These cells."""
        return self

    def plain(self) -> list[Any]:
        """The distinct values as rows have them."""
        return [orjson.loads(value) if type(value) is bytes else value for value in self.values]


Cells = NumberCells | CodedCells


def _key(value: Any) -> Any:
    """A key that separates values that are equal in Python: 1, 1.0 and True, or 0.0 and -0.0."""
    return value if type(value) in (str, bytes) else (type(value), repr(value))


def _narrow(codes: NDArray[Any], count: int) -> NDArray[Any]:
    return codes.astype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int32, copy=False)


class PackedRow(Mapping[str, Any]):
    """One row. Equal to a dictionary of the same."""

    __slots__ = ("_at", "_columns")

    def __init__(self, columns: Mapping[str, Cells], at: int) -> None:
        self._columns, self._at = columns, at

    def __getitem__(self, name: str) -> Any:
        return self._columns[name].value(self._at)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field; ``default`` where no row has it."""
        column = self._columns.get(name)
        return default if column is None else column.value(self._at)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        names: list[str] = self._columns[SHAPE].value(self._at)  # type: ignore[assignment]
        return names

    def __or__(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **more}

    def __repr__(self) -> str:
        return repr(dict(self))


class PackedRows(Sequence[PackedRow]):
    """Rows in an order: those of ``columns`` at ``places``."""

    def __init__(self, columns: Mapping[str, Cells], places: Places) -> None:
        self.columns, self.places = columns, places

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> PackedRows:
        """``rows`` as PackedRows."""
        if isinstance(rows, PackedRows):
            return rows
        shapes = list(map(tuple, rows))
        columns: dict[str, Cells] = {SHAPE: CodedCells.of(shapes)}
        for name in dict.fromkeys(name for shape in dict.fromkeys(shapes) for name in shape):
            columns[name] = _packed([row.get(name) for row in rows])
        return cls(columns, np.arange(len(rows)))

    @classmethod
    def joined(cls, parts: Iterable[Sequence[Mapping[str, Any]]]) -> PackedRows:
        """All rows of ``parts``, one behind the other."""
        packed = [part.whole() for part in _runs(parts)]
        if len(packed) == 1:
            return packed[0]
        columns: dict[str, Cells] = {}
        for name in dict.fromkeys(name for part in packed for name in part.columns):
            columns[name] = _concatenated([part.columns.get(name) or _none(len(part)) for part in packed])
        return cls(columns, np.arange(sum(map(len, packed))))

    def whole(self) -> PackedRows:
        """The same rows with columns of their own, in this order."""
        if len(self.places) == self._height() and bool((self.places == np.arange(len(self.places))).all()):
            return self
        return PackedRows(
            {name: cells.taken(self.places).compact() for name, cells in self.columns.items()}, np.arange(len(self))
        )

    def _height(self) -> int:
        shape = self.columns[SHAPE]
        return len(shape.codes) if isinstance(shape, CodedCells) else 0

    def at(self, places: Places | slice) -> PackedRows:
        """The rows at ``places`` of these."""
        return PackedRows(self.columns, self.places[places])

    def with_column(self, name: str, cells: CodedCells) -> PackedRows:
        """These rows, of which every one has a field ``name`` with other ``cells``; they must be
        ``whole``."""
        return PackedRows({**self.columns, name: cells}, self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.at(place)
        return PackedRow(self.columns, int(self.places[place]))

    def __iter__(self) -> Iterator[PackedRow]:
        return map(PackedRow, repeat(self.columns), self.places.tolist())

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Sequence) and len(self) == len(other)
        return same and all(left == right for left, right in zip(self, other, strict=True))  # type: ignore[call-overload]

    __hash__ = None  # type: ignore[assignment]

    def cells(self, name: str) -> list[Any]:
        """A field of each row; None where rows lack it."""
        cells = self.columns.get(name) or _none(self._height())
        return list(map(cells.value, self.places.tolist()))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers of a field; NaN if missing or not a number."""
        cells = self.columns.get(name)
        if isinstance(cells, NumberCells):
            return cells.numbers[self.places]
        codes, values = self.coded(name)
        return np.array([_number(value) for value in values], np.float64)[codes]

    def coded(self, name: str) -> tuple[Places, list[Any]]:
        """A code for each row, and the values of a field by their codes, also such as no row has;
        None where rows lack it."""
        cells = self._coded(name)
        return cells.codes.astype(np.int64), cells.plain()

    def _coded(self, name: str) -> CodedCells:
        return (self.columns.get(name) or _none(self._height())).taken(self.places).coded()

    def combined(self, names: Sequence[str]) -> tuple[Places, Places]:
        """A code for each row by the values of several fields, in the order in which they first
        come, and where each comes first."""
        code = np.zeros(len(self), np.int64)
        for name in names:
            cells = self._coded(name)
            code = np.unique(code * len(cells.values) + cells.codes, return_inverse=True)[1]
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks[code] if len(code) else code, first[order]

    def distinct(self, name: str) -> list[Any]:
        """The values of a field in the order in which they first come, each once."""
        cells = self._coded(name)
        first = np.unique(cells.codes, return_index=True)[1]
        return [cells.value(at) for at in np.sort(first).tolist()]

    def differs(self, name: str) -> bool:
        """Whether a field has several values."""
        cells = self.columns[name]
        if isinstance(cells, NumberCells):
            numbers = cells.numbers[self.places]
            return not bool((np.isnan(numbers) if np.isnan(numbers[0]) else numbers == numbers[0]).all())
        codes = cells.codes[self.places]
        return bool((codes != codes[0]).any())


def _runs(parts: Iterable[Sequence[Mapping[str, Any]]]) -> list[PackedRows]:
    """Parts as few packed ones: neighbours in the same columns, or not packed, come together."""
    found: list[tuple[Mapping[str, Cells] | None, list[Any]]] = []
    for part in parts:
        columns = part.columns if isinstance(part, PackedRows) else None
        if not found or found[-1][0] is not columns:
            found.append((columns, []))
        found[-1][1].append(part)
    packed = [
        PackedRows.of([row for part in same for row in part])
        if columns is None
        else PackedRows(columns, np.concatenate([part.places for part in same]))
        for columns, same in found
    ]
    return packed or [PackedRows.of([])]


def _packed(cells: list[Any]) -> Cells:
    if all(type(cell) is float or cell is None for cell in cells) and any(cell is not None for cell in cells):
        return NumberCells(np.array(cells, np.float64))
    return CodedCells.of(cells)


def _none(count: int) -> CodedCells:
    return CodedCells(np.zeros(count, np.uint8), [None])


def _concatenated(parts: Sequence[Cells]) -> Cells:
    if any(isinstance(part, NumberCells) for part in parts):  # numbers stay numbers beside rows that have none
        parts = [_without_numbers(part) if isinstance(part, CodedCells) else part for part in parts]
    if all(isinstance(part, NumberCells) for part in parts):
        return NumberCells(np.concatenate([part.numbers for part in parts if isinstance(part, NumberCells)]))
    known: dict[Any, int] = {}
    values: list[Any] = []
    codes = []
    for part in (part.coded() for part in parts):
        for value in part.values:
            if known.setdefault(_key(value), len(values)) == len(values):
                values.append(value)
        there = np.array([known[_key(value)] for value in part.values], np.int64)
        codes.append(there[part.codes] if len(part.codes) else part.codes)
    return CodedCells(_narrow(np.concatenate(codes), len(values)), values)


def _without_numbers(cells: CodedCells) -> Cells:
    """``cells`` as numbers if all are None."""
    empty = all(value is None for value in cells.values)
    return NumberCells(np.full(len(cells.codes), np.nan)) if empty else cells


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
