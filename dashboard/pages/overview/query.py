"""Which launches a view of the overview lists, and in which order. Pure: a table and a view in, row
numbers out.

Searches run in RE2, whose time grows with the text and not with the pattern, so that no pattern can
hold the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.pages.addresses import Filter, OverviewAddress, ignored_note
from ncubble.dashboard.pages.overview.columns import SEARCHED
from ncubble.dashboard.pages.overview.table import MISSING, LaunchTable

Mask = NDArray[np.bool_]


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
    keep, notes = matching(table, address.search)
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


def matching(table: LaunchTable, search: str) -> tuple[Mask, tuple[str, ...]]:
    """Launches that match every word of ``search``, each a regular expression in which case does
    not count.

    ``^`` and ``$`` stand for begin and end of one value. A word that is no regular expression is
    looked for as text.
    """
    keep: Mask = np.ones(len(table), bool)
    plain: list[str] = []
    for word in search.split():
        try:
            keep &= _found(table, pc.match_substring_regex, word)
        except pa.ArrowInvalid:
            plain.append(word)
            keep &= _found(table, pc.match_substring, word)
    return keep, tuple(f"“{word}” is no regular expression and is looked for as plain text." for word in plain)


def prepare(table: LaunchTable) -> None:
    """Make what searches look through, before the first one."""
    for name in SEARCHED:
        _ = table.texts(name).searched


def _found(table: LaunchTable, match: Callable[..., Any], word: str) -> Mask:
    """Launches with a field of ``SEARCHED`` in which ``match`` finds a word. Each value is looked
    at once."""
    found: Mask = np.zeros(len(table), bool)
    for name in SEARCHED:
        column = table.texts(name)
        matches = match(column.searched, word, ignore_case=True).to_numpy(zero_copy_only=False).astype(bool)
        found |= np.append(matches, False)[column.codes]  # the code of a missing text is -1: the last
    return found


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
    column = table.texts(name)
    absent: Mask = column.codes == MISSING
    ranks = np.append(column.ranks, 0)[column.codes]  # the code of a missing text is -1: the last
    return ranks.astype(np.float64), absent


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


_NUMBERS: dict[str, Callable[[NDArray[np.float64], float], Mask]] = {
    "equals": lambda values, wanted: values == wanted,
    "notEqual": lambda values, wanted: ~np.isnan(values) & (values != wanted),
    "greaterThan": lambda values, wanted: values > wanted,
    "greaterThanOrEqual": lambda values, wanted: values >= wanted,
    "lessThan": lambda values, wanted: values < wanted,
    "lessThanOrEqual": lambda values, wanted: values <= wanted,
}


def _number_test(table: LaunchTable, name: str, condition: Filter) -> Mask:
    values, how = table.numbers(name), condition["type"]
    if how in ("blank", "notBlank"):
        blank: Mask = np.isnan(values)
        return blank if how == "blank" else ~blank
    if how == "inRange":
        within: Mask = (values >= condition["filter"]) & (values <= condition["filterTo"])
        return within
    return _NUMBERS[how](values, float(condition["filter"]))


_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, wanted: wanted in text,
    "notContains": lambda text, wanted: wanted not in text,
    "equals": lambda text, wanted: text == wanted,
    "notEqual": lambda text, wanted: text != wanted,
    "startsWith": lambda text, wanted: text.startswith(wanted),
    "endsWith": lambda text, wanted: text.endswith(wanted),
}


def _text_test(table: LaunchTable, name: str, condition: Filter) -> Mask:
    column, how = table.texts(name), condition["type"]
    absent: Mask = column.codes == MISSING
    if how in ("blank", "notBlank"):
        return absent if how == "blank" else ~absent
    test, wanted = _TEXTS[how], str(condition["filter"]).casefold()
    # Each value is tested once; the code of a missing text is -1: the last.
    answers = [test(text.casefold(), wanted) for text in column.values]
    passed: Mask = np.array([*answers, how in ("notContains", "notEqual")], bool)[column.codes]
    return passed


REMEMBERED = 32


def remembered(table: LaunchTable, address: OverviewAddress) -> Selection:
    """``select``, remembered with the table, so that scrolling through a result does not search
    again."""
    key = (address.selecting(), address.dropped)
    known = table.selected.get(key)
    if known is None:
        known = table.selected[key] = select(table, address)
        for old in list(table.selected)[:-REMEMBERED]:
            table.selected.pop(old, None)
    selection: Selection = known
    return selection
