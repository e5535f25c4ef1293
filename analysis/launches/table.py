"""Launches as an Arrow table: 100,000 rows have five million cells, and as dictionaries they take
300 MB and seconds to make.

Rows are built cell by cell on access: read them, but do not store many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any, cast, overload

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

Row = Mapping[str, Any]
Places = NDArray[np.int64]
_TEXT = pa.dictionary(pa.int32(), pa.string())
_JSON = b"json"
TEXTS = (
    *("id", "kernel", "name", "demangled", "label", "shape", "device", "gpu", "unit", "cause", "cause_key"),
    *("change", "at", "bubble", "bubble_key", "grid", "block", "compute_capability", "ncu_version", "nvtx"),
    *("flops_from", "report", "path", "program", "code"),
)
NUMBERS = (
    *("duration_ns", "busy", "tensor", "dram", "cause_pct", "bubble_pct", "recoverable_ns", "cycles", "clock_ghz"),
    *("registers", "smem_B", "ctas", "waves", "occupancy", "occupancy_limit", "tflops", "dram_gbs", "intensity"),
    "rank_spread_pct",
)
"""Times in ns, shares in percent, clocks in GHz, speeds in TFLOP/s and GB/s."""
COUNTS = ("launch", "rank", "rank_order")
NESTED = ("account", "measured", "parameters", "dims", "roofs")
"""JSON: shares of parts in display order, and what the run names."""
SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in TEXTS),
        *((name, pa.float64()) for name in NUMBERS),
        *((name, pa.int64()) for name in COUNTS),
        *(pa.field(name, _TEXT, metadata={_JSON: b""}) for name in NESTED),
    ]
)


class LaunchRow(Mapping[str, Any]):
    """One row. Equal to a dictionary of the same."""

    __slots__ = ("_at", "_rows")

    def __init__(self, rows: _Columns, at: int) -> None:
        self._rows, self._at = rows, at

    def __getitem__(self, name: str) -> Any:
        return self._rows[name](self._at)

    def __iter__(self) -> Iterator[str]:
        return iter(SCHEMA.names)

    def __len__(self) -> int:
        return len(SCHEMA.names)

    def __or__(self, more: Row) -> dict[str, Any]:
        return {**self, **more}

    def __repr__(self) -> str:
        return repr(dict(self))


class _Columns(dict[str, Callable[[int], Any]]):
    """The cells of each column of a table, by place, made ready when the first is read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__()
        self.table = table
        self.coded: dict[str, tuple[Places, list[Any]]] = {}

    def __missing__(self, name: str) -> Callable[[int], Any]:
        if SCHEMA.field(name).type != _TEXT:
            values = self.table[name].to_pylist()

            def cell(at: int) -> Any:
                return values[at]
        else:
            codes, values = self.codes(name)
            if name in NESTED:  # made anew each time: whoever gets one may change it

                def cell(at: int) -> Any:
                    value = values[codes[at]]
                    return None if value is None else orjson.loads(value)
            else:

                def cell(at: int) -> Any:
                    return values[codes[at]]

        self[name] = cell
        return cell

    def codes(self, name: str) -> tuple[Places, list[Any]]:
        """A code for each row, and the values by their codes, the last of which is None."""
        if name not in self.coded:
            column = self.table[name].combine_chunks()
            if column.type != _TEXT:
                column = column.dictionary_encode()
            codes = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
            self.coded[name] = codes, [*column.dictionary.to_pylist(), None]
        return self.coded[name]


class LaunchRows(Sequence[LaunchRow]):
    """Rows in an order: those of ``table`` at ``places``."""

    def __init__(self, table: pa.Table, places: Places | None = None, columns: _Columns | None = None) -> None:
        self.table = table
        self.places: Places = np.arange(len(table)) if places is None else places
        self._columns = _Columns(table) if columns is None else columns  # one without cells yet is falsy

    @classmethod
    def of(cls, rows: Sequence[Row]) -> LaunchRows:
        """``rows`` as a table; fields that they lack are None. Raises an exception for values of
        other types, or beyond 64 bits."""
        if isinstance(rows, LaunchRows):
            return rows
        return cls(pa.table([_column(field, [row.get(field.name) for row in rows]) for field in SCHEMA], SCHEMA))

    @classmethod
    def joined(cls, parts: Iterable[LaunchRows]) -> LaunchRows:
        """All rows of ``parts``, one behind the other."""
        runs = [list(same) for _, same in groupby(parts, lambda part: id(part.table))]
        whole = [cls(same[0].table, np.concatenate([part.places for part in same])).whole().table for same in runs]
        if len(whole) == 1:
            return cls(whole[0])
        return cls(pa.concat_tables([*whole, cls.of([]).table]).unify_dictionaries().combine_chunks())

    def whole(self) -> LaunchRows:
        """The same rows as a table of their own, in this order."""
        if len(self.places) == len(self.table) and bool((self.places == np.arange(len(self.places))).all()):
            return self
        return LaunchRows(self.table.take(self.places))

    def at(self, places: Places | slice) -> LaunchRows:
        """The rows at ``places`` of these."""
        return LaunchRows(self.table, self.places[places], self._columns)

    def with_column(self, name: str, values: Sequence[Any]) -> LaunchRows:
        """These rows, which are ``whole``, with other values of a field."""
        field = SCHEMA.field(name)
        return LaunchRows(self.table.set_column(SCHEMA.get_field_index(name), field, _column(field, values)))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> LaunchRow: ...
    @overload
    def __getitem__(self, place: slice) -> LaunchRows: ...
    def __getitem__(self, place: int | slice) -> LaunchRow | LaunchRows:
        return self.at(place) if isinstance(place, slice) else LaunchRow(self._columns, int(self.places[place]))

    def __iter__(self) -> Iterator[LaunchRow]:
        return map(LaunchRow, repeat(self._columns), self.places.tolist())

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Sequence) and len(self) == len(other)
        return same and all(left == right for left, right in zip(self, cast("Sequence[Row]", other), strict=True))

    __hash__ = None  # type: ignore[assignment]

    def cells(self, name: str) -> list[Any]:
        """A field of each row."""
        return list(map(self._columns[name], self.places.tolist()))

    def picked(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Some fields of each row: faster than the rows where many are read."""
        return [dict(zip(names, values, strict=True)) for values in zip(*map(self.cells, names), strict=True)]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers of a field, NaN where there is none."""
        values: NDArray[np.float64] = self.table[name].to_numpy().astype(np.float64)
        return values[self.places]

    def coded(self, name: str) -> tuple[Places, list[Any]]:
        """A code for each row, and the values of a field by their codes, also such as no row has:
        None is the last."""
        codes, values = self._columns.codes(name)
        decode = name in NESTED
        return codes[self.places], [orjson.loads(value) if decode and value else value for value in values]

    def combined(self, names: Sequence[str]) -> tuple[Places, Places]:
        """A code for each row by the values of several fields, in the order in which they first
        come, and where each comes first."""
        code = np.zeros(len(self), np.int64)
        for name in names:
            codes, values = self._columns.codes(name)
            code = np.unique(code * len(values) + codes[self.places], return_inverse=True)[1]
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks[code] if len(code) else code, first[order]

    def distinct(self, name: str) -> list[Any]:
        """The values of a field in the order in which they first come, each once."""
        _, first = self.combined((name,))
        return self.at(first).cells(name)

    def differs(self, name: str) -> bool:
        """Whether a field has several values."""
        codes = self._columns.codes(name)[0][self.places]
        return bool((codes != codes[0]).any())


def _column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    if field.type != _TEXT:
        return pa.array(values, field.type)
    if field.metadata:
        values = [None if value is None else orjson.dumps(value).decode() for value in values]
    return pa.array(values, pa.string()).dictionary_encode()
