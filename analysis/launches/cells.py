"""Cells of one column of launches: float64 numbers, or each distinct value once and a code for
every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

Places = NDArray[np.int64]


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


def packed_cells(cells: list[Any]) -> Cells:
    """Cells of the values of a field: numbers if all that there are are floats."""
    if all(type(cell) is float or cell is None for cell in cells) and any(cell is not None for cell in cells):
        return NumberCells(np.array(cells, np.float64))
    return CodedCells.of(cells)


def no_cells(count: int) -> CodedCells:
    """``count`` cells without a value."""
    return CodedCells(np.zeros(count, np.uint8), [None])


def concatenated(parts: Sequence[Cells]) -> Cells:
    """The cells of all ``parts``, one behind the other."""
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
