"""The launches as columns: a snapshot of the store's rows that filters, sorts and searches in
milliseconds.

Text columns hold each value once and a code per launch; numbers are float64 with NaN for what was
not collected. The rows themselves are not copied.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ncubble.analysis.launches.columns import Codes, LaunchColumns, coded
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.overview.columns import COLUMNS, SEARCHED, TableColumn, of_parameters, value_of

Row = dict[str, Any]
MISSING = -1
"""The code of a text that was not collected."""


@dataclass(frozen=True)
class TextColumn:
    """Text of every launch: ``values`` without repetition, ``codes`` into them, ``ranks`` in
    alphabetical order."""

    values: list[str]
    codes: NDArray[np.int32]
    ranks: NDArray[np.int32]


@dataclass
class LaunchTable:
    """A snapshot: ``rows`` as the store gave them, ``columns`` that can be asked for, by field;
    ``selected`` holds answers of ``query.remembered``, ``common`` rows of groups (``listing``).

    Columns are built when they are first asked for; two threads that do so at once build the same.
    """

    rows: Sequence[Row]
    version: int = 0
    columns: dict[str, TableColumn] = field(default_factory=dict)
    selected: dict[Any, Any] = field(default_factory=dict)
    common: dict[bytes, Row] = field(default_factory=dict)
    _numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    _texts: dict[str, TextColumn] = field(default_factory=dict)
    _groups: dict[str, Codes] = field(default_factory=dict)
    _losses: LaunchColumns | None = None
    _searched: Any = None
    _places: dict[str, int] | None = None

    @classmethod
    def of(cls, rows: Sequence[Row], version: int = 0) -> LaunchTable:
        """The table of ``rows`` of ``rows.launch_row``."""
        return cls(rows, version, {column.field: column for column in (*COLUMNS, *of_parameters(rows))})

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers of a column, NaN where not collected."""
        if name not in self._numbers:
            values = (value_of(row, name) for row in self.rows)
            self._numbers[name] = np.fromiter((_float(value) for value in values), np.float64, len(self.rows))
        return self._numbers[name]

    def texts(self, name: str) -> TextColumn:
        """The texts of a column."""
        if name not in self._texts:
            self._texts[name] = _encoded([value_of(row, name) for row in self.rows])
        return self._texts[name]

    def searched(self) -> Any:
        """Per launch, everything that the search looks through: one field a line (a pyarrow array
        of strings)."""
        if self._searched is None:
            self._searched = pa.array([_joined(row) for row in self.rows], pa.large_string())
        return self._searched

    def groups(self, by: str) -> Codes:
        """Per launch, a code of the group that it belongs to."""
        if by not in self._groups:
            keys = map(_kernel_of, self.rows) if by == "kernel" else (group_key(row, by) for row in self.rows)
            self._groups[by] = coded(list(keys))[0]
        return self._groups[by]

    def losses(self) -> LaunchColumns:
        """Times, losses and accounts of all launches."""
        if self._losses is None:
            self._losses = LaunchColumns.of_rows(self.rows)
        return self._losses

    def place(self, launch_id: str) -> int | None:
        """The index of a launch by its id, or None."""
        if self._places is None:
            self._places = {row["id"]: index for index, row in enumerate(self.rows)}
        return self._places.get(launch_id)


_kernel_of = itemgetter("name", "device", "unit")


def group_key(row: Row, by: str) -> tuple[Any, ...]:
    """What launches of one group have in common: kernel, GPU and counted unit; by ``problem`` also
    report, parameters and problem, as ``ncubble report`` groups them."""
    if by == "kernel":
        kernel: tuple[Any, ...] = _kernel_of(row)
        return kernel
    parameters, dims = (tuple(map(str, (row.get(name) or {}).items())) for name in ("parameters", "dims"))
    return row["name"], row["device"], row["unit"], row["path"], row["report"], parameters, dims


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _joined(row: Row) -> str:
    return "\n".join(str(value).replace("\n", " ") for name in SEARCHED if (value := row.get(name)))


def _encoded(values: list[Any]) -> TextColumn:
    known: dict[str, int] = {}
    missing = (None, "")
    codes = [MISSING if value in missing else known.setdefault(str(value), len(known)) for value in values]
    order = sorted(known, key=lambda text: (text.casefold(), text))
    ranks = np.empty(len(order), np.int32)
    ranks[[known[text] for text in order]] = np.arange(len(order), dtype=np.int32)
    return TextColumn(list(known), np.array(codes, np.int32), ranks)


STALE_S = 0.5
"""While reports are read, a table is shown for this long, or ten times what building it took,
before a new one."""


class Snapshots:
    """The newest table of one store. Thread-safe: it is built once, and others wait for it."""

    def __init__(self, store: ReportStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._table = LaunchTable.of([], -1)
        self._due = 0.0

    def table(self) -> LaunchTable:
        """The launches as they are now; while reports are being read, as they were moments ago."""
        with self._lock:
            progress, start = self._store.progress(), time.monotonic()
            if not progress.finished and start < self._due:
                return self._table
            rows = self._store.rows()
            if rows is not self._table.rows:  # the store gives the same list until there is something new
                self._table = LaunchTable.of(rows, progress.version)
                ended = time.monotonic()
                self._due = ended + max(STALE_S, 10 * (ended - start)) if rows else 0.0
            return self._table


_SHARED: dict[int, tuple[ReportStore, Snapshots]] = {}
_GUARD = threading.Lock()


def table_of(store: ReportStore) -> LaunchTable:
    """The newest table of ``store``, built once per version for all pages and requests."""
    with _GUARD:
        held = _SHARED.get(id(store))
        if held is None or held[0] is not store:
            held = _SHARED[id(store)] = store, Snapshots(store)
            while len(_SHARED) > 4:  # several stores live in tests only
                _SHARED.pop(next(iter(_SHARED)))
    return held[1].table()
