"""Addresses of the overview: search, sort order, filters, groups, columns, figure, baseline and
unit of time.

Unknown parts are dropped and counted. A field that no launch has is dropped later, by what knows
the launches (``query``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ncubble.dashboard.pages.address_codec import LAUNCH_ID, Address, QueryParameter, choice, matching, text

LONGEST_TEXT = 200
MOST_SORTS, MOST_FILTERS, MOST_COLUMNS, MOST_CONDITIONS = 6, 20, 80, 4
FIGURES = ("utilization", "roofline")
GROUPINGS = ("kernel", "problem", "none")
"""What shares a row: launches of a kernel, those of a kernel at one problem in one report, as
``ncubble report`` groups them, or none."""
MOST_OPEN = 60
TIMES = ("auto", "ns", "us", "ms")
TEXT_TYPES = ("contains", "notContains", "equals", "notEqual", "startsWith", "endsWith", "blank", "notBlank")
NUMBER_TYPES = (
    "equals",
    "notEqual",
    "greaterThan",
    "greaterThanOrEqual",
    "lessThan",
    "lessThanOrEqual",
    "inRange",
    "blank",
    "notBlank",
)
_FIELD = re.compile(r"[A-Za-z_]\w{0,39}(\.[A-Za-z_]\w{0,39})?")
_GROUP = re.compile(r"[0-9a-f]{12}|small")
_DROPPED = {"filters": "filter", "sort": "sort order"}
Filter = dict[str, Any]
Sort = tuple[tuple[str, bool], ...]


def ignored_note(dropped: Sequence[str]) -> tuple[str, ...]:
    """One sentence for what was left out of a request; nothing where nothing was."""
    if not dropped:
        return ()
    words = [f"{dropped.count(what)} {what}{'s' if dropped.count(what) > 1 else ''}" for what in dict.fromkeys(dropped)]
    return (
        f"{' and '.join(words)} of this address cannot be read and {'is' if len(dropped) == 1 else 'are'} ignored.",
    )


def _sort(texts: Sequence[str]) -> tuple[Sort, int]:
    parts = [part for part in texts[-1].split(",") if part]
    known = [part for part in parts if _FIELD.fullmatch(part.removeprefix("-"))]
    sort = {part.removeprefix("-"): part.startswith("-") for part in known}
    return tuple(sort.items())[:MOST_SORTS], len(parts) - len(known)


def _columns(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    columns = dict.fromkeys(name for name in texts[-1].split(",") if _FIELD.fullmatch(name))
    return tuple(columns)[:MOST_COLUMNS], 0


def _open(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    groups = dict.fromkeys(name for name in texts[-1].split(",") if _GROUP.fullmatch(name))
    return tuple(groups)[-MOST_OPEN:], 0


def _filters(texts: Sequence[str]) -> tuple[dict[str, Filter], int]:
    """The sound parts of a filter model, and how many are not."""
    given: Any = None
    with suppress(ValueError, RecursionError):
        given = json.loads(texts[-1])
    if not isinstance(given, dict):
        return {}, 1
    sound = {name: model for name, part in given.items() if _FIELD.fullmatch(name) and (model := _model(part))}
    kept = dict(list(sound.items())[:MOST_FILTERS])
    return kept, len(given) - len(kept)


def _model(given: Any) -> Filter | None:
    """The filter of one column: a condition, or several that are joined; None where it is not
    sound."""
    conditions = given.get("conditions") if isinstance(given, dict) else None
    if conditions is None:
        return _condition(given)
    if not isinstance(conditions, list) or given.get("operator") not in ("AND", "OR"):
        return None
    sound = [condition for part in conditions[: MOST_CONDITIONS + 1] if (condition := _condition(part))]
    if not len(sound) == len(conditions) <= MOST_CONDITIONS or not sound:
        return None
    return {"filterType": sound[0]["filterType"], "operator": given["operator"], "conditions": sound}


def _condition(given: Any) -> Filter | None:
    kind, how, wanted = (
        given.get(name) if isinstance(given, dict) else None for name in ("filterType", "type", "filter")
    )
    if kind not in ("text", "number") or how not in (TEXT_TYPES if kind == "text" else NUMBER_TYPES):
        return None
    condition = {"filterType": kind, "type": how}
    if how in ("blank", "notBlank"):
        return condition
    if kind == "text":
        return condition | {"filter": wanted[:LONGEST_TEXT]} if isinstance(wanted, str) and wanted else None
    numbers = {"filter": wanted} | ({"filterTo": given.get("filterTo")} if how == "inRange" else {})
    return condition | numbers if all(map(_is_number, numbers.values())) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


_SORT = QueryParameter("sort", _sort, lambda sort: [",".join(("-" if down else "") + name for name, down in sort)])
_FILTERS = QueryParameter(
    "filters", _filters, lambda model: [json.dumps(model, separators=(",", ":")) if model else ""]
)
_OPEN = QueryParameter("open", _open, lambda groups: [",".join(groups)])
_COLUMNS = QueryParameter("columns", _columns, lambda names: [",".join(names)])


@dataclass(frozen=True)
class OverviewAddress(Address):
    """``sort`` holds (field, largest first) in order of weight. ``filters`` is a filter model of AG
    Grid with parts that are known to be sound; ``columns`` is empty for the usual ones; ``open``
    names groups whose launches are listed, ``small`` the row of small ones."""

    PATH: ClassVar[str] = "/"
    LONGEST: ClassVar[int] = 16_384
    search: str = text("q", LONGEST_TEXT)
    sort: Sort = field(default=(), metadata={"parameter": _SORT})
    filters: Mapping[str, Filter] = field(default_factory=dict, metadata={"parameter": _FILTERS})
    columns: tuple[str, ...] = field(default=(), metadata={"parameter": _COLUMNS})
    figure: str = choice("figure", FIGURES)
    pin: str = matching("pin", LAUNCH_ID)
    time: str = choice("time", TIMES)
    group: str = choice("group", GROUPINGS)
    open: tuple[str, ...] = field(default=(), metadata={"parameter": _OPEN})
    dropped: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """A sentence about what was left out of the address, if anything was."""
        return ignored_note([_DROPPED[name] for name in sorted(self.dropped)])

    def selecting(self) -> str:
        """What decides which launches are listed and in which order: a key for remembered
        results."""
        return OverviewAddress(self.search, self.sort, self.filters).query()

    def grouping(self) -> str:
        """What decides which rows are listed: ``selecting``, and how launches share rows."""
        return OverviewAddress(self.search, self.sort, self.filters, group=self.group, open=self.open).query()
