"""Columns of the raw tables while a report is read: eight bytes a number, four a repeated word, no
object per row."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED = re.compile(r"launch__|device__|profiler__|.*\.")
"""Names of what ncu always gives a value or series: counters with their roll-up, and facts of
launch and device. Derived values and links may have none."""


class Column(ABC):
    """Rows of one kind, appended one by one or many at once."""

    @abstractmethod
    def append(self, cell: Any) -> None:
        """One more row."""

    def extend(self, cells: Iterable[Any]) -> None:
        """One more row for each of ``cells``."""
        for cell in cells:
            self.append(cell)

    def repeat(self, cell: Any, count: int) -> None:
        """``count`` more rows of the same."""
        self.extend(repeat(cell, count))

    @abstractmethod
    def to_arrow(self) -> pa.Array:
        """All rows; the column takes no more then."""


class _Words(Column):
    """Text that repeats itself: codes into a vocabulary."""

    def __init__(self) -> None:
        self._codes, self._vocabulary = array("i"), dict[str, int]()

    def append(self, cell: str) -> None:
        self._codes.append(self._vocabulary.setdefault(cell, len(self._vocabulary)))

    def repeat(self, cell: str, count: int) -> None:
        code = self._vocabulary.setdefault(cell, len(self._vocabulary))
        self._codes.extend(array("i", (code,)) * count)

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        return pa.DictionaryArray.from_arrays(_plain(self._codes), pa.array(list(self._vocabulary), pa.string()))


class _Numbers(Column):
    """Numbers of one type code."""

    def __init__(self, kind: str) -> None:
        self._values: array[Any] = array(kind)

    def append(self, cell: float) -> None:
        self._values.append(cell)

    def extend(self, cells: Iterable[float]) -> None:
        self._values.extend(cells)

    def repeat(self, cell: float, count: int) -> None:
        self._values.extend(array(self._values.typecode, (cell,)) * count)

    def to_arrow(self) -> pa.Array:
        return _plain(self._values)


class _Objects(Column):
    """Anything that Arrow can make a ``kind`` of, None included; for tables of few rows."""

    def __init__(self, kind: str) -> None:
        self._kind, self._values = kind, list[Any]()

    def append(self, cell: Any) -> None:
        self._values.append(cell)

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(self._values, type=self._kind)


def new_column(kind: str) -> Column:
    """An empty column: ``word`` for text that repeats itself, an Arrow type, or the type code of an
    ``array``."""
    if kind == "word":
        return _Words()
    return _Objects(kind) if kind in ("string", "double") else _Numbers(kind)


def add_row(table: dict[str, Column], *cells: Any) -> None:
    """One more row of ``table``, a cell for each column in its order."""
    for column, cell in zip(table.values(), cells, strict=True):
        column.append(cell)


def _plain(values: array[Any]) -> pa.Array:
    """The numbers without a copy."""
    import pyarrow as pa

    kinds = {"d": pa.float64(), "i": pa.int32(), "q": pa.int64(), "Q": pa.uint64()}
    return pa.Array.from_buffers(kinds[values.typecode], len(values), [None, pa.py_buffer(values)])
