"""The launches as columns: a snapshot of the store's rows that filters, sorts and searches in
milliseconds.

Text columns hold each value once and a code per launch; numbers are float64 with NaN for what was
not collected. The rows themselves are not copied.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ncubble.analysis.launches.columns import Codes, LaunchColumns
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.overview.columns import COLUMNS, TableColumn, of_parameters

Row = Mapping[str, Any]
MISSING = -1
"""The code of a text that was not collected."""


@dataclass(frozen=True)
class TextColumn:
    """Text of every launch: ``values`` without repetition, ``codes`` into them, ``ranks`` in
    alphabetical order."""

    values: list[str]
    codes: NDArray[np.int32]
    ranks: NDArray[np.int32]

    @cached_property
    def searched(self) -> Any:
        """``values`` as a pyarrow array, each on one line."""
        return pa.array([value.replace("\n", " ") for value in self.values], pa.large_string())


@dataclass
class LaunchTable:
    """A snapshot: ``rows`` as the store gave them, ``columns`` that can be asked for, by field;
    ``selected`` holds answers of ``query.remembered``, ``common`` rows of groups (``listing``),
    which are made under ``making``.

    Columns are built when they are first asked for; two threads that do so at once build the same.
    """

    rows: LaunchRows
    columns: dict[str, TableColumn] = field(default_factory=dict)
    selected: dict[Any, Any] = field(default_factory=dict)
    common: dict[bytes, Row] = field(default_factory=dict)
    making: threading.RLock = field(default_factory=threading.RLock)
    _numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    _texts: dict[str, TextColumn] = field(default_factory=dict)
    _places: dict[str, int] | None = None
    _groups: dict[str, Codes] = field(default_factory=dict)
    _losses: LaunchColumns | None = None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> LaunchTable:
        """The table of ``rows`` of ``rows.launch_row``."""
        packed = LaunchRows.of(rows)
        return cls(packed, {column.field: column for column in (*COLUMNS, *of_parameters(packed))})

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers of a column, NaN where not collected."""
        if name not in self._numbers:
            if "." in name:
                codes, values = self._coded(name)
                self._numbers[name] = np.array(list(map(_float, values)))[codes]
            else:
                self._numbers[name] = self.rows.numbers(name)
        return self._numbers[name]

    def texts(self, name: str) -> TextColumn:
        """The texts of a column."""
        if name not in self._texts:
            self._texts[name] = _encoded(*self._coded(name))
        return self._texts[name]

    def _coded(self, name: str) -> tuple[Codes, list[Any]]:
        """A code for each row, and the values of a column by their codes: those of a field, or of a
        member of it (``field.member``)."""
        group, _, member = name.partition(".")
        codes, values = self.rows.coded(group)
        return codes, [(value or {}).get(member) for value in values] if member else values

    def groups(self, by: str) -> Codes:
        """Per launch, a code of the group that it belongs to."""
        if by not in self._groups:
            self._groups[by] = self.rows.combined(GROUPED[by])[0]
        return self._groups[by]

    def losses(self) -> LaunchColumns:
        """Times, losses and accounts of all launches."""
        if self._losses is None:
            self._losses = LaunchColumns.of_rows(self.rows)
        return self._losses

    def place(self, launch_id: str) -> int | None:
        """The index of a launch by its id, or None."""
        if self._places is None:
            self._places = {own: at for at, own in enumerate(self.rows.cells("id"))}
        return self._places.get(launch_id)


_KERNEL = ("name", "device", "unit")
GROUPED = {
    "kernel": _KERNEL,
    "problem": (*_KERNEL, "path", "report", "parameters", "dims"),
    "rank": ("program", "kernel", "grid", "block", "rank_order"),
}
"""Fields that launches of one group have in common: kernel, GPU and counted unit; by ``problem``
also report, parameters and problem, as ``ncubble report`` groups them; by ``rank`` what makes them
the same launch of one program, as ``ncubble report --by-rank`` matches them."""


def group_key(row: Row, by: str) -> tuple[str, ...]:
    """The values of ``GROUPED`` as text."""
    return tuple(str(row.get(name)) for name in GROUPED[by])


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _encoded(given: Codes, values: Sequence[Any]) -> TextColumn:
    known: dict[str, int] = {}
    missing = (None, "")
    there = [MISSING if value in missing else known.setdefault(str(value), len(known)) for value in values]
    codes = np.array(there, np.int32)[given]
    order = sorted(known, key=lambda text: (text.casefold(), text))
    ranks = np.empty(len(order), np.int32)
    ranks[[known[text] for text in order]] = np.arange(len(order), dtype=np.int32)
    return TextColumn(list(known), codes, ranks)


_tables = Remembered(LaunchTable.of)


def table_of(store: ReportStore) -> LaunchTable:
    """The newest table of ``store``, built once for all pages and requests."""
    return _tables.of(store)
