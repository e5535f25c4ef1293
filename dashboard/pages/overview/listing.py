"""What the page shows of a view: its rows, which are launches or groups of them that open, and the
words above the table. A table and an address in, rows and words out.

Groups are kernels or, as ``ncubble report`` makes them, kernels at one problem in one report. Small
groups share a row, which opens, too. A group of one launch is shown as that launch.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from ncubble.analysis.diagnosis.groups import folded
from ncubble.analysis.launches.losses import SUMS, Codes, Floats, common_row, headline, kinds_of, means, share_pct, sums
from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.report.launch_key import telling_dims
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.table import (
    LaunchTable,
    Row,
    Selection,
    group_key,
    order,
    remembered,
    sort_values,
)
from ncubble.dashboard.ui.components import aria, counted, near
from ncubble.text.values import duration, fixed

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
    return table.remembered(("rows", address.grouping(), address.dropped), lambda: _listing(table, address))


def _listing(table: LaunchTable, address: OverviewAddress) -> RowList:
    selection = remembered(table, address)
    chosen = selection.indices
    total = float(np.nansum(table.losses.of("duration_ns")[chosen]))
    if address.group == "none":
        return RowList(selection, address.group, _Singles(chosen), len(chosen), chosen, total)
    _, codes = np.unique(table.groups(address.group)[chosen], return_inverse=True)
    count = int(codes.max()) + 1 if len(codes) else 0
    members = np.split(chosen[np.argsort(codes, kind="stable")], np.cumsum(np.bincount(codes, minlength=count))[:-1])
    times = np.nan_to_num(sums(table.losses.of("duration_ns")[chosen], codes, count))
    ranks = _ranks(table, address, chosen, codes, count)
    tensor = np.bincount(codes, table.losses.tensor[chosen], count) > 0
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
    kernel = table.losses.kernel
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
    losses, sort = table.losses, order(table, address)
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
        common = common_row(rows, kinds, table.losses, launches)
        table.common[key] = {**common, "detail": group_words(rows, kinds, runs)}
    return table.common[key]


def _without_verdict(row: Row) -> dict[str, Any]:
    """Kernels that share a row share no verdict."""
    mixed = ["busy", "unit", "account", "measured", "cause", "cause_key", "cause_pct", "change", "at", "tensor"]
    mixed += ["bubble", "bubble_key", "bubble_pct", "judged"]
    return {**row, **dict.fromkeys(mixed), "several": list(dict.fromkeys([*row["several"], *mixed]))}


# --- The second line of a row: what tells it apart from others ---

MOST_VALUES, MOST_NAMES = 3, 5
"""Values that are named of a parameter, and parameters of a group."""


def launch_words(row: Row) -> str:
    """Parameters or geometry of a launch, and its run where that says more."""
    label, run, shape = (str(row.get(name) or "") for name in ("label", "report", "shape"))
    known = {row.get("name"), row.get("kernel"), *label.split(), *shape.split()}
    return " · ".join(part for part in (label, run if set(run.split()) - known else "") if part)


def member_words(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Two lines for each launch of a group: parameters and problem as far as not all have them, or
    its number; and its run and number, with its path where another has the same two lines."""
    details = telling_dims([0] * len(rows), [_pairs(row) for row in rows])
    numbers = [f"launch {row['launch']}" for row in rows]
    lines = [
        (words or number, f"{row['report']} · {number}" if words else str(row["report"]))
        for row, words, number in zip(rows, details, numbers, strict=True)
    ]
    count = Counter(lines)
    return [
        (first, second if count[first, second] == 1 else f"{near(row['path'])} · {number}")
        for row, (first, second), number in zip(rows, lines, numbers, strict=True)
    ]


def group_words(rows: Sequence[Row], kinds: Sequence[Row], runs: int) -> str:
    """How many runs the launches of a group are of, and in which parameters they differ; ``kinds``
    and ``runs`` as ``kinds_of`` gives them."""
    seen: dict[tuple[str, Any], None] = {}
    for row in kinds:
        for group in ("parameters", "dims"):
            seen |= dict.fromkeys(_hashable(row.get(group) or {}))
    values: dict[str, dict[Any, None]] = {}
    for name, value in seen:
        values.setdefault(name, {})[value] = None
    if not values:
        grids = LaunchRows.of(rows).distinct("grid")
        values = {"grid": dict.fromkeys(str(grid) for grid in grids if grid)}
    differ = [_values(name, list(found)) for name, found in values.items() if len(found) > 1]
    more = [f"and {len(differ) - MOST_NAMES} more"] if len(differ) > MOST_NAMES else []
    parts = [counted(runs, "run")] if runs > 1 else []
    return " · ".join([*([] if differ else [str(rows[0]["label"] or "")]), *parts, *differ[:MOST_NAMES], *more])


def rank_words(rows: LaunchRows) -> str:
    """Which ranks have a launch, the times that they took, and which is slowest; empty where fewer
    than two are known."""
    first = rows[0]
    took = [(row["duration_ns"], row["rank"]) for row in rows if None not in (row["duration_ns"], row["rank"])]
    if len(took) < 2:
        return ""
    (short, _), (long, slowest) = min(took), max(took)
    apart = f"{fixed(first['rank_spread_pct'])} % apart, slowest rank {slowest}"
    return f"{apart} · {duration(short)} to {duration(long)} · {counted(len(took), 'rank')} · #{first['rank_order']}"


def rank_member_words(rows: LaunchRows) -> list[tuple[str, str]]:
    """Two lines for each launch of a group of ranks: its rank; its run and number."""
    return [(f"rank {row['rank']}", f"{row['report']} · launch {row['launch']}") for row in rows]


def small_words(launches: int) -> str:
    """How many launches small groups have together."""
    return f"{counted(launches, 'launch', 'launches')}, less than 1 % of the time each kernel"


def _hashable(named: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Names with values, lists and what else cannot be counted as text."""
    plain = all(isinstance(value, int | float | str) for value in named.values())
    return named.items() if plain else [(name, str(value)) for name, value in named.items()]


def _pairs(row: Row) -> list[str]:
    named = [f"{name}={value}" for group in ("parameters", "dims") for name, value in (row.get(group) or {}).items()]
    geometry = [f"grid {row['grid']}", f"block {row['block']}"] if row.get("grid") else []
    nvtx = [str(row["nvtx"])] if row.get("nvtx") else []
    return [*(named or geometry), *nvtx]


def _values(name: str, values: Sequence[Any]) -> str:
    """``stages 1 to 6``, ``copy async, plain``, or how many values there are."""
    if len(values) <= MOST_VALUES:
        return f"{name} {', '.join(map(str, values))}"
    if all(isinstance(value, int) for value in values):
        return f"{name} {min(values)} to {max(values)}"
    return f"{len(values)} values of {name}"


# --- Above the table ---

PLACES = ("claim", "place", "more", "order", "matches")
"""Elements of the page that follow the table; ``assets/overview.js`` writes what an answer brings
of them."""


def head_words(table: LaunchTable, address: OverviewAddress) -> dict[str, str]:
    """The text of each of ``PLACES``, remembered with the table."""
    listed = listing(table, address)
    if not listed.words:
        found = headline(table.losses, listed.selection.indices)
        listed.words |= {
            "claim": found.claim,
            "place": found.place,
            "more": " ".join(part for part in (found.tensor, found.doubt) if part),
            "order": order_words(table, address),
            "matches": matches(listed, table, found.kernels),
        }
    return listed.words


def headline_card(table: LaunchTable, address: OverviewAddress) -> Component:
    """The loss of what is listed, in the largest letters of the page."""
    words = head_words(table, address)
    line = [
        html.Strong(words["claim"], id="headline-claim"),
        html.Span(words["place"], id="headline-place"),
    ]
    parts = [html.P(line, className="headline-line"), html.P(words["more"], id="headline-more", className="hint")]
    return html.Section(parts, className="headline", **aria(label="What the listed launches lose"))


def order_words(table: LaunchTable, address: OverviewAddress) -> str:
    """How the table is sorted."""
    sort = order(table, address)
    if not sort:
        first = "" if address.group == "none" else "kernels of the tensor pipe first, then "
        return f"{first}most recoverable idle time first"
    columns = table.columns
    ends = {True: ("largest first", "Z to A"), False: ("smallest first", "A to Z")}
    words = [f"{columns[name].name}, {ends[down][0 if columns[name].numeric else 1]}" for name, down in sort]
    return f"by {', then '.join(words)}"


def matches(listed: RowList, table: LaunchTable, kernels: int) -> str:
    """``2 kernels, 9 launches``, or how many of all are listed."""
    count, total = len(listed.selection), len(table)
    launches = counted(count, "launch", "launches") if count == total else f"{count:,} of {total:,} launches"
    return f"{counted(kernels, 'kernel')}, {launches}"
