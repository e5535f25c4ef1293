"""Rows of launches kept as columns: 100,000 rows have five million cells, and as dictionaries they
take 300 MB and seconds to make.

Rows are built cell by cell on access: read them, but do not store many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.analysis.launches.cells import Cells, CodedCells, NumberCells, Places, concatenated, no_cells, packed_cells

SHAPE = "\0"
"""The column that says which fields a row has: no field has this name."""


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
            columns[name] = packed_cells([row.get(name) for row in rows])
        return cls(columns, np.arange(len(rows)))

    @classmethod
    def joined(cls, parts: Iterable[Sequence[Mapping[str, Any]]]) -> PackedRows:
        """All rows of ``parts``, one behind the other."""
        packed = [part.whole() for part in _runs(parts)]
        if len(packed) == 1:
            return packed[0]
        columns: dict[str, Cells] = {}
        for name in dict.fromkeys(name for part in packed for name in part.columns):
            columns[name] = concatenated([part.columns.get(name) or no_cells(len(part)) for part in packed])
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
        cells = self.columns.get(name) or no_cells(self._height())
        return list(map(cells.value, self.places.tolist()))

    def picked(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Some fields of each row, None where it lacks them: faster than the rows where many are
        read."""
        return [dict(zip(names, values, strict=True)) for values in zip(*map(self.cells, names), strict=True)]

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
        return (self.columns.get(name) or no_cells(self._height())).taken(self.places).coded()

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


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
