"""Which rows the table shows: launches, or groups of them that open. Pure: a table and a view in,
rows out.

Groups are kernels or, as ``ncubble report`` makes them, kernels at one problem in one report. Small
groups share a row, which opens, too. A group of one launch is shown as that launch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncubble.analysis.diagnosis.groups import folded
from ncubble.analysis.launches.columns import SUMS, Codes, Floats, means, share_pct, sums
from ncubble.analysis.launches.common_row import common_row, kinds_of
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.query import REMEMBERED, Selection, order, remembered, sort_values
from ncubble.dashboard.pages.overview.table import LaunchTable, Row, group_key
from ncubble.dashboard.pages.overview.telling import (
    group_words,
    launch_words,
    member_words,
    rank_member_words,
    rank_words,
    small_words,
)

MOST_COMMON = 2000
"""Rows of groups that are remembered."""
SMALL = "small"
"""The row of small groups."""


@dataclass(frozen=True)
class RowEntry:
    """A row: the launches that it stands for, as places in the table, and how deep it is indented.

    ``kind``: ``launch``, ``group`` or ``small``. ``detail``: its two lines, where they depend on
    its neighbours."""

    launches: Codes
    depth: int = 0
    kind: str = "launch"
    open: bool = False
    name: str = ""
    detail: tuple[str, str] | None = None


@dataclass
class RowList:
    """What a view lists: ``entries`` are its rows, ``groups`` how many kernels or problems there
    are; ``launches`` all that are listed, in the order of the rows."""

    selection: Selection
    by: str
    entries: Sequence[RowEntry]
    groups: int
    launches: Codes
    total_ns: float
    words: dict[str, str] = field(default_factory=dict)
    _made: dict[int, Row] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def rows(self, table: LaunchTable, start: int, end: int) -> list[Row]:
        """Rows ``start`` up to, not including, ``end``."""
        return [self._row(table, place) for place in range(start, min(end, len(self.entries)))]

    def _row(self, table: LaunchTable, place: int) -> Row:
        if place not in self._made:
            self._made[place] = _row(table, self.entries[place], self.by, self.total_ns)
        return self._made[place]


def listing(table: LaunchTable, address: OverviewAddress) -> RowList:
    """What a view lists, remembered with the table."""
    key = ("rows", address.grouping(), address.dropped)
    with table.making:  # what prepares the first page and who asks for it come at once
        if key not in table.selected:
            table.selected[key] = _listing(table, address)
            for old in list(table.selected)[:-REMEMBERED]:
                table.selected.pop(old, None)
        found: RowList = table.selected[key]
        return found


def _listing(table: LaunchTable, address: OverviewAddress) -> RowList:
    selection = remembered(table, address)
    chosen = selection.indices
    total = float(np.nansum(table.losses().of("duration_ns")[chosen]))
    if address.group == "none":
        return RowList(selection, address.group, _Singles(chosen), len(chosen), chosen, total)
    _, codes = np.unique(table.groups(address.group)[chosen], return_inverse=True)
    count = int(codes.max()) + 1 if len(codes) else 0
    members = np.split(chosen[np.argsort(codes, kind="stable")], np.cumsum(np.bincount(codes, minlength=count))[:-1])
    times = np.nan_to_num(sums(table.losses().of("duration_ns")[chosen], codes, count))
    ranks = _ranks(table, address, chosen, codes, count)
    tensor = np.bincount(codes, table.losses().tensor[chosen], count) > 0
    small = folded(times.tolist(), tensor.tolist())
    shown, rest = [place for place in ranks if place not in small], [place for place in ranks if place in small]
    entries = _entries(table, address, [members[place] for place in shown], 0)
    if rest:
        together = np.concatenate([members[place] for place in rest])
        is_open = SMALL in address.open
        words = _small_name(table, [members[place] for place in shown], [members[place] for place in rest])
        entries.append(RowEntry(together, 0, "small", is_open, words))
        entries += _entries(table, address, [members[place] for place in rest], 1) if is_open else []
    launches = np.concatenate([members[place] for place in (*shown, *rest)]) if count else chosen
    return RowList(selection, address.group, entries, count, launches, total)


def _small_name(table: LaunchTable, shown: Sequence[Codes], small: Sequence[Codes]) -> str:
    """How many kernels share a row, and how many rows of kernels that have one above, too: on
    another GPU, or of another problem."""
    kernel = table.losses().kernel
    above = {kernel[launches[0]] for launches in shown}
    names = [kernel[launches[0]] for launches in small]
    new, again = len(set(names) - above), sum(name in above for name in names)
    kernels = [f"{new:,} more kernel{'' if new == 1 else 's'}"] if new else []
    return " and ".join([*kernels, *([f"{again:,} more of those above"] if again else [])])


class _Singles(Sequence[RowEntry]):
    """A row for each launch, made when it is asked for."""

    def __init__(self, chosen: Codes) -> None:
        self._chosen = chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, place: Any) -> Any:
        return RowEntry(self._chosen[place : place + 1])


def _entries(table: LaunchTable, address: OverviewAddress, groups: Sequence[Codes], depth: int) -> list[RowEntry]:
    entries = []
    for launches in groups:
        if len(launches) == 1:
            entries.append(RowEntry(launches, depth))
            continue
        is_open = bool(address.open) and group_name(table.rows[launches[0]], address.group) in address.open
        entries.append(RowEntry(launches, depth, "group", is_open))
        if is_open:
            rows = table.rows.at(launches)
            detail = rank_member_words(rows) if address.group == "rank" else member_words(rows)
            entries += [
                RowEntry(launches[place : place + 1], depth + 1, detail=words) for place, words in enumerate(detail)
            ]
    return entries


def group_name(row: Row, by: str) -> str:
    """The name of a group in an address: a hash of what its launches have in common."""
    return hashlib.blake2b(repr((by, *group_key(row, by))).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _ranks(table: LaunchTable, address: OverviewAddress, chosen: Codes, codes: Codes, count: int) -> list[int]:
    """The groups in their order: by what the view sorts by, else those of the tensor pipe first,
    then by recoverable time, then by time."""
    losses, sort = table.losses(), order(table, address)
    time, lost = (losses.of(name)[chosen] for name in SUMS[:2])

    def of_groups(values: Floats, name: str) -> Floats:
        return sums(values, codes, count) if name in SUMS else means(values, time, codes, count)

    if not sort:
        tensor = np.bincount(codes, losses.tensor[chosen], count)
        largest = [-np.nan_to_num(sums(values, codes, count)) for values in (time, lost)]
        return [int(place) for place in np.lexsort((*largest, tensor == 0))]
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # where the first launch of each group stands
    keys: list[Any] = [first]
    for name, down in reversed(sort):
        values, missing = sort_values(table, name)
        if table.columns[name].numeric:
            common = of_groups(np.where(missing, np.nan, values)[chosen], name)
            values, missing = np.nan_to_num(common), np.isnan(common)
        else:
            values, missing = values[chosen][first], missing[chosen][first]
        keys += [-values if down else values, missing]
    return [int(place) for place in np.lexsort(keys)]


def _row(table: LaunchTable, entry: RowEntry, by: str, total_ns: float) -> Row:
    """What the browser is sent of an entry: a launch's own row, or a common one."""
    first = table.rows[entry.launches[0]]
    if entry.kind == "launch":
        title, detail = entry.detail or (None, launch_words(first))
        made = {**first, "title": title, "detail": detail, "group": None}
    elif entry.kind == "small":
        named = {"id": SMALL, "group": SMALL, "name": entry.name}
        made = {**_without_verdict(_common(table, entry.launches)), **named, "detail": small_words(len(entry.launches))}
    else:
        name = group_name(first, by)
        made = {**_common(table, entry.launches), "id": f"g-{name}", "group": name}
        if by == "rank":
            made["detail"] = rank_words(table.rows.at(entry.launches)) or made["detail"]
    return {**made, "depth": entry.depth, "open": entry.open, "time_pct": share_pct(made.get("duration_ns"), total_ns)}


def _common(table: LaunchTable, launches: Codes) -> Row:
    """The row of a group, remembered for as long as the table: another order changes nothing of
    it."""
    key = hashlib.blake2b(np.sort(launches).tobytes(), digest_size=16).digest()
    if key not in table.common:
        if len(table.common) >= MOST_COMMON:
            table.common.clear()
        rows = table.rows.at(launches)
        kinds, runs = kinds_of(rows)
        common = common_row(rows, kinds, table.losses(), launches)
        table.common[key] = {**common, "detail": group_words(rows, kinds, runs)}
    return table.common[key]


def _without_verdict(row: Row) -> dict[str, Any]:
    """Kernels that share a row share no verdict."""
    mixed = ["busy", "unit", "account", "measured", "cause", "cause_key", "cause_pct", "disease", "at", "tensor"]
    mixed += ["bubble", "bubble_key", "bubble_pct", "judged"]
    return {**row, **dict.fromkeys(mixed), "several": list(dict.fromkeys([*row["several"], *mixed]))}
