"""The columns of the table of launches, for its filters, its search and its downloads; a
snapshot of the store's rows; and which of them a view lists in which order.

Numbers are float64 with NaN for what was not collected. The rows themselves are not copied.
"""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ncubble.analysis.launches.losses import Codes, LaunchColumns
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.remembered import Remembered
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.data.texts import Mask, Texts
from ncubble.dashboard.pages.addresses import Filter, OverviewAddress, ignored_note
from ncubble.records import typed

PARAMETER = re.compile(r"(parameters|dims)\.([A-Za-z_]\w{0,39})")
"""Fields of parameters and dimensions: names that are no plain words get no column."""
MOST_PARAMETERS = 40


class TableColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column: a record of ``columns.toml``, or one of a parameter. ``kind``: ``time`` is ns in
    rows, ``account`` parts of elapsed time.

    ``metric`` is ncu's own name of what is shown, where there is one; ``shown`` whether the table
    shows it unless asked otherwise; ``renderer`` a component of ``assets/grid.js``; ``hover`` the
    field that a tooltip shows.
    """

    field: str
    name: str
    kind: Literal["text", "number", "percent", "time", "bytes", "account"]
    tip: str
    unit: str = ""
    metric: str = ""
    shown: bool = False
    width: int = 0
    flex: int = 0
    renderer: str = ""
    hover: str = ""

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, sorted largest first."""
        return self.kind not in ("text", "account")

    @property
    def explained(self) -> str:
        """The text of the header's tooltip: meaning, unit, and ncu's name."""
        unit = f" Unit: {self.unit}." if self.unit else ""
        return f"{self.tip}.{unit}{f' ncu: {self.metric}' if self.metric else ''}"


_TEXT = files("ncubble.dashboard.pages.overview").joinpath("columns.toml").read_text("utf-8")
COLUMNS = tuple(typed({"field": field, **column}, TableColumn) for field, column in tomllib.loads(_TEXT).items())


def of_parameters(rows: Sequence[Mapping[str, Any]]) -> tuple[TableColumn, ...]:
    """A column for each parameter and dimension that a row names, at most ``MOST_PARAMETERS``, most
    common first.

    Numeric where every value is a number.
    """
    seen: dict[str, int] = {}
    words: set[str] = set()
    for group in ("parameters", "dims"):
        codes, values = LaunchRows.of(rows).coded(group)
        for known, count in zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True):
            for name, value in (known or {}).items() if count else ():
                field = f"{group}.{name}"
                seen[field] = seen.get(field, 0) + count
                if isinstance(value, bool) or not isinstance(value, int | float):
                    words.add(field)
    common = sorted((field for field in seen if PARAMETER.fullmatch(field)), key=lambda field: (-seen[field], field))
    return tuple(_parameter(field, field in words) for field in common[:MOST_PARAMETERS])


def _parameter(field: str, is_text: bool) -> TableColumn:
    group, name = field.split(".", 1)
    what = "Parameter of the run" if group == "parameters" else "Dimension of the problem"
    return TableColumn(field, name, "text" if is_text else "number", f"{what}: {name}", width=90)


def value_of(row: Mapping[str, Any], field: str) -> Any:
    """The value of a column in a row; None where the row lacks it."""
    group, _, name = field.partition(".")
    if name:
        return (row.get(group) or {}).get(name)
    return row.get(field)


# --- A snapshot ---

Row = Mapping[str, Any]
T = TypeVar("T")
REMEMBERED = 32


@dataclass
class LaunchTable:
    """A snapshot: ``rows`` as the store gave them, ``columns`` that can be asked for, by field;
    ``common`` holds rows of groups (``listing``), which are made under ``making``.

    Columns are built when they are first asked for; two threads that do so at once build the same.
    """

    rows: LaunchRows
    columns: dict[str, TableColumn] = field(default_factory=dict)
    common: dict[bytes, Row] = field(default_factory=dict)
    making: threading.RLock = field(default_factory=threading.RLock)
    answers: dict[Any, Any] = field(default_factory=dict)
    _groups: dict[str, Codes] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> LaunchTable:
        """The table of ``rows`` of ``rows.launch_row``."""
        packed = LaunchRows.of(rows)
        return cls(packed, {column.field: column for column in (*COLUMNS, *of_parameters(packed))})

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers of a column, NaN where not collected."""
        if "." not in name:
            return self.rows.numbers(name)
        codes, values = self.texts.coded(name)
        return np.array([float(value) if isinstance(value, int | float) else np.nan for value in values])[codes]

    def groups(self, by: str) -> Codes:
        """Per launch, a code of the group that it belongs to."""
        if by not in self._groups:
            self._groups[by] = self.rows.combined(GROUPED[by])[0]
        return self._groups[by]

    @cached_property
    def texts(self) -> Texts:
        """Texts of all launches."""
        return Texts(self.rows)

    @cached_property
    def losses(self) -> LaunchColumns:
        """Times, losses and accounts of all launches."""
        return LaunchColumns.of_rows(self.rows)

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each launch by its id."""
        return {own: at for at, own in enumerate(self.rows.cells("id"))}

    def remembered(self, key: Any, answer: Callable[[], T]) -> T:
        """What ``answer`` returns for a view, so that scrolling through a result does not search
        again; the last ``REMEMBERED`` of all views."""
        with self.making:  # what prepares the first page and who asks for it come at once
            if key not in self.answers:
                self.answers[key] = answer()
                for old in list(self.answers)[:-REMEMBERED]:
                    self.answers.pop(old, None)
            known: T = self.answers[key]
            return known


_KERNEL = ("name", "device", "unit")
GROUPED = {
    "kernel": _KERNEL,
    "problem": (*_KERNEL, "path", "report", "parameters", "dims"),
    "rank": ("program", "kernel", "grid", "block", "rank_order"),
}
"""Fields that launches of one group have in common: kernel, GPU and counted unit; by ``problem``
also report, parameters and problem, as ``ncubble report`` groups them; by ``rank`` what makes them
the same launch of one program."""


def group_key(row: Row, by: str) -> tuple[str, ...]:
    """The values of ``GROUPED`` as text."""
    return tuple(str(row.get(name)) for name in GROUPED[by])


_tables = Remembered(LaunchTable.of)


def table_of(store: ReportStore) -> LaunchTable:
    """The newest table of ``store``, built once for all pages and requests."""
    return _tables.of(store)


# --- What a view lists ---


@dataclass(frozen=True)
class Selection:
    """Numbers of the rows that are listed, in order, and what a reader must know of how the request
    was read."""

    indices: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.indices)

    def rows(self, table: LaunchTable, start: int = 0, end: int | None = None) -> LaunchRows:
        """The rows from ``start`` up to, not including, ``end``."""
        return table.rows.at(self.indices[max(start, 0) : end])


def select(table: LaunchTable, address: OverviewAddress) -> Selection:
    """The launches that a view lists. Parts of it that do not fit the table are ignored, and
    said."""
    keep, notes = table.texts.matching(address.search)
    unknown: list[str] = []
    for name, model in address.filters.items():
        passed = _filtered(table, name, model)
        if passed is None:
            unknown.append("filter")
        else:
            keep &= passed
    known = order(table, address)
    unknown += ["sort order"] * (len(address.sort) - len(known))
    indices = np.flatnonzero(keep)
    if known:
        indices = indices[_order(table, indices, known)]
    return Selection(indices, (*address.notes(), *notes, *ignored_note(unknown)))


def order(table: LaunchTable, address: OverviewAddress) -> list[tuple[str, bool]]:
    """Fields by which a view sorts, and whether the largest come first: those that the table has;
    by rank, launches whose ranks lie furthest apart come first."""
    sortable = {name for name, column in table.columns.items() if column.kind != "account"}
    asked = [(name, down) for name, down in address.sort if name in sortable]
    return asked or [("rank_spread_pct", True)] * (address.group == "rank")


def _order(table: LaunchTable, indices: NDArray[np.int64], sort: list[tuple[str, bool]]) -> NDArray[np.int64]:
    """Positions within ``indices`` in sorted order: by the first field, then the next; ties keep
    the table's order.

    What was not collected comes last in both directions.
    """
    keys: list[NDArray[Any]] = []
    for name, down in sort:
        values, missing = sort_values(table, name)
        keys += [missing[indices], -values[indices] if down else values[indices]]
    return np.lexsort(keys[::-1]).astype(np.int64)


def sort_values(table: LaunchTable, name: str) -> tuple[NDArray[np.float64], Mask]:
    """Per launch a number to sort by, and whether it is missing."""
    if table.columns[name].numeric:
        numbers = table.numbers(name)
        missing: Mask = np.isnan(numbers)
        return np.where(missing, 0.0, numbers), missing
    codes, texts = table.texts.of(name)
    ranks = {text: rank for rank, text in enumerate(sorted(texts, key=lambda text: (text.casefold(), text)))}
    ranked = np.array([ranks[text] for text in texts], np.float64)[codes]
    return ranked, np.array([not text for text in texts])[codes]


def _filtered(table: LaunchTable, name: str, model: Filter) -> Mask | None:
    """The launches that pass the filter of one column; None where the table has no such column, or
    of another kind."""
    column = table.columns.get(name)
    conditions = model.get("conditions") or [model]
    kind = "number" if column is not None and column.numeric else "text"
    if column is None or column.kind == "account" or any(condition["filterType"] != kind for condition in conditions):
        return None
    test = _number_test if kind == "number" else _text_test
    passed = [test(table, name, condition) for condition in conditions]
    joined: Mask = np.logical_or.reduce(passed) if model.get("operator") == "OR" else np.logical_and.reduce(passed)
    return joined


_NUMBERS: dict[str, Callable[[NDArray[np.float64], Any, Any], Mask]] = {
    "blank": lambda values, _, __: np.isnan(values),
    "notBlank": lambda values, _, __: ~np.isnan(values),
    "equals": lambda values, wanted, _: values == wanted,
    "notEqual": lambda values, wanted, _: ~np.isnan(values) & (values != wanted),
    "greaterThan": lambda values, wanted, _: values > wanted,
    "greaterThanOrEqual": lambda values, wanted, _: values >= wanted,
    "lessThan": lambda values, wanted, _: values < wanted,
    "lessThanOrEqual": lambda values, wanted, _: values <= wanted,
    "inRange": lambda values, low, high: (values >= low) & (values <= high),
}


def _number_test(table: LaunchTable, name: str, condition: Filter) -> Mask:
    return _NUMBERS[condition["type"]](table.numbers(name), condition.get("filter"), condition.get("filterTo"))


_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "blank": lambda text, _: not text,
    "notBlank": lambda text, _: bool(text),
    "contains": lambda text, wanted: wanted in text,
    "notContains": lambda text, wanted: wanted not in text,
    "equals": lambda text, wanted: text == wanted,
    "notEqual": lambda text, wanted: text != wanted,
    "startsWith": lambda text, wanted: text.startswith(wanted),
    "endsWith": lambda text, wanted: text.endswith(wanted),
}


def _text_test(table: LaunchTable, name: str, condition: Filter) -> Mask:
    (codes, texts), how, wanted = table.texts.of(name), condition["type"], str(condition.get("filter", "")).casefold()
    passed: Mask = np.array([_TEXTS[how](text.casefold(), wanted) for text in texts], bool)[codes]
    return passed


def remembered(table: LaunchTable, address: OverviewAddress) -> Selection:
    """``select``, remembered with the table."""
    return table.remembered((address.selecting(), address.dropped), lambda: select(table, address))
